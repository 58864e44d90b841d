//! The local socket itself: a Unix socket in the relay's private folder, or a named pipe on Windows.

use std::io;

use interprocess::local_socket::tokio::{Listener, Stream};
use interprocess::local_socket::traits::tokio::Stream as _;
use interprocess::local_socket::{ListenerOptions, Name};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::paths::Paths;

/// The longest line either side accepts: a script is at most 512 KB, a result has no limit of its own, and JSON
/// escapes can double both.
const MAX_LINE: u64 = 256 * 1024 * 1024;

#[cfg(unix)]
fn name(paths: &Paths) -> io::Result<Name<'static>> {
    use interprocess::local_socket::{GenericFilePath, ToFsName};
    paths.socket().to_fs_name::<GenericFilePath>()
}

#[cfg(windows)]
fn name(paths: &Paths) -> io::Result<Name<'static>> {
    use interprocess::local_socket::{GenericNamespaced, ToNsName};
    use sha2::{Digest, Sha256};
    // Pipes live in one namespace for the whole machine: the folder's path tells relays apart.
    let digest = hex::encode(Sha256::digest(paths.socket().as_os_str().as_encoded_bytes()));
    format!("graph-relay-{}", &digest[..32]).to_ns_name::<GenericNamespaced>()
}

/// Listens. The caller holds the database's lock, so a socket that is there already belongs to nobody.
pub(super) fn listen(paths: &Paths) -> io::Result<Listener> {
    #[cfg(unix)]
    match std::fs::remove_file(paths.socket()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let options = ListenerOptions::new().name(name(paths)?);
    #[cfg(target_os = "linux")]
    let options = interprocess::os::unix::local_socket::ListenerOptionsExt::mode(options, 0o600);
    let listener = options.create_tokio()?;
    // Elsewhere a socket cannot be born private; the folder around it is.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(paths.socket(), std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(listener)
}

/// Connects; none where nobody listens.
pub(super) async fn connect(paths: &Paths) -> io::Result<Option<Stream>> {
    match Stream::connect(name(paths)?).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads one line; none at the end of the stream.
pub(super) async fn read_line<T: DeserializeOwned>(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    reader.take(MAX_LINE).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&line).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes one line.
pub(super) async fn write_line<T: Serialize>(writer: &mut (impl AsyncWrite + Unpin), value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    writer.flush().await
}
