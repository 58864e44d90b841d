//! Connections on which nothing goes on: given up after a while, so that whoever opens them and says half a request, or
//! reads no answer, cannot keep them all.
//!
//! The time runs from the last answer's last byte, from the first byte of a request, and from the start. Bytes that
//! trickle in do not prolong it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};

/// Longer than any call is held without a byte (50 s) after a body that may take 30 s.
const PATIENCE: Duration = Duration::from_secs(90);

/// Accepts connections with a limit to their silence.
pub(crate) struct Patient(pub(crate) TcpListener);

impl Listener for Patient {
    type Io = Connection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        (Connection::new(stream), address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// One connection.
pub(crate) struct Connection<S> {
    stream: S,
    timer: Pin<Box<Sleep>>,
    /// Whether a request has begun since the last answer.
    is_asking: bool,
}

impl<S> Connection<S> {
    fn new(stream: S) -> Self {
        Self { stream, timer: Box::pin(sleep(PATIENCE)), is_asking: false }
    }

    /// Starts the time anew.
    fn go_on(&mut self, is_asking: bool) {
        self.is_asking = is_asking;
        self.timer.as_mut().reset(Instant::now() + PATIENCE);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buffer) {
            if !self.is_asking {
                self.go_on(true);
            }
            return Poll::Ready(read);
        }
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.go_on(false);
        Poll::Ready(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, parts));
        self.go_on(false);
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn half_a_request_is_given_up_however_slowly_it_trickles() {
        let (mut client, server) = duplex(1024);
        let mut server = Connection::new(server);
        let begun = Instant::now();
        let trickle = async {
            while client.write_all(b"x").await.is_ok() {
                sleep(Duration::from_secs(7)).await;
            }
        };
        let read = async {
            let error = loop {
                if let Err(error) = server.read_u8().await {
                    break error;
                }
            };
            drop(server);
            error
        };
        let (error, ()) = tokio::join!(read, trickle);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs() / 10, PATIENCE.as_secs() / 10);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_silent_is_given_up_and_whoever_asks_now_and_then_is_not() {
        let (mut client, server) = duplex(1024);
        let mut server = Connection::new(server);
        for _ in 0..10 {
            sleep(PATIENCE - Duration::from_secs(1)).await;
            client.write_all(b"?").await.unwrap();
            server.read_u8().await.unwrap();
            // The longest wait.
            let held = tokio::time::timeout(Duration::from_secs(50), server.read_u8()).await;
            assert!(held.is_err(), "a call that is held was cut off");
            server.write_all(b"!").await.unwrap();
            client.read_u8().await.unwrap();
        }
        assert_eq!(server.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
