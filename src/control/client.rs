//! The command line's end of the control socket.

use std::io;

use tokio::io::BufReader;

use super::message::{Failure, Frame, Hello, PROTOCOL, Reply, Request};
use super::socket::{connect, read_line, write_line};
use crate::paths::Paths;
use crate::store::executions::Recorded;

/// Why the daemon could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket is there, but it does not work.
    #[error("the running daemon cannot be reached: {0}")]
    Socket(#[from] io::Error),
    /// Another version is running.
    #[error("the running daemon is graph-relay {theirs}, this is {}: restart the daemon", env!("CARGO_PKG_VERSION"))]
    OtherVersion {
        /// The daemon's version.
        theirs: String,
    },
    /// It stopped in the middle.
    #[error("the daemon stopped before it answered")]
    Hangup,
}

/// Asks the running daemon, telling the events that come before the answer. None where no daemon is running.
///
/// # Errors
/// [`ClientError`]; what the daemon itself refuses is the inner [`Failure`].
pub async fn ask(
    paths: &Paths,
    request: &Request,
    tell: &(dyn Fn(Recorded) + Send + Sync),
) -> Result<Option<Result<Reply, Failure>>, ClientError> {
    let Some(stream) = connect(paths).await? else { return Ok(None) };
    let (mut reader, mut writer) = (BufReader::new(&stream), &stream);
    let hello: Hello = read_line(&mut reader).await?.ok_or(ClientError::Hangup)?;
    if hello.protocol != PROTOCOL {
        return Err(ClientError::OtherVersion { theirs: hello.version });
    }
    write_line(&mut writer, request).await?;
    loop {
        match read_line::<Frame>(&mut reader).await?.ok_or(ClientError::Hangup)? {
            Frame::Event(recorded) => tell(recorded),
            Frame::Reply(reply) => return Ok(Some(Ok(*reply))),
            Frame::Failure(failure) => return Ok(Some(Err(failure))),
        }
    }
}
