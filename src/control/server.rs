//! The daemon's end of the control socket.

use std::io;
use std::sync::Arc;

use interprocess::local_socket::tokio::{Listener, Stream};
use interprocess::local_socket::traits::tokio::Listener as _;
use tokio::io::{AsyncReadExt, BufReader};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::desktop::Desktop;
use super::message::{Frame, Hello, PROTOCOL, Request};
use super::socket::{listen, read_line, write_line};
use crate::paths::Paths;

/// Accepts the command line's requests.
pub struct Server {
    listener: Listener,
}

impl Server {
    /// Listens at the place where the command line of the same owner looks.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(paths: &Paths) -> io::Result<Self> {
        listen(paths).map(|listener| Self { listener })
    }

    /// Answers until the returned future is dropped. One connection's trouble is not another's.
    pub async fn serve(&self, desktop: Arc<Desktop>) -> std::convert::Infallible {
        loop {
            match self.listener.accept().await {
                Ok(stream) => {
                    let desktop = Arc::clone(&desktop);
                    tokio::spawn(async move {
                        if let Err(error) = answer(&stream, &desktop).await {
                            tracing::debug!(%error, "a control connection ended early");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a control connection could not be accepted");
                    // Out of file descriptors, most likely: accepting in a tight loop would not mend that.
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                }
            }
        }
    }
}

async fn answer(stream: &Stream, desktop: &Arc<Desktop>) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    write_line(&mut writer, &Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned() }).await?;
    let Some(request) = read_line::<Request>(&mut reader).await? else { return Ok(()) };
    let gone = CancellationToken::new();
    let (_when_dropped, mut frames) = start(Arc::clone(desktop), request, gone.clone());
    loop {
        tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) => write_line(&mut writer, &frame).await?,
                None => return Ok(()),
            },
            // The command line says nothing more: whatever comes here is the end of it.
            _ = reader.read_u8() => return Ok(()),
        }
    }
}

/// Handles the request in a task of its own, so that a run whose owner went away is cancelled and still brought to
/// its end in the history.
fn start(
    desktop: Arc<Desktop>,
    request: Request,
    gone: CancellationToken,
) -> (DropGuard, mpsc::UnboundedReceiver<Frame>) {
    let (sender, frames) = mpsc::unbounded_channel();
    let guard = gone.clone().drop_guard();
    tokio::spawn(async move {
        let tell = |recorded| {
            // Nobody may be listening any more; the history still is.
            let _ = sender.send(Frame::Event(recorded));
        };
        let last = match desktop.handle(request, &tell, &gone).await {
            Ok(reply) => Frame::Reply(Box::new(reply)),
            Err(failure) => Frame::Failure(failure),
        };
        let _ = sender.send(last);
    });
    (guard, frames)
}
