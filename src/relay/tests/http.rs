//! The transport against real sockets of this machine.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use crate::relay::http::{HttpError, HttpTransport};
use crate::relay::transport::{MAX_ANSWER_BYTES, Reply, Request, Transport, TransportError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TOKEN: &str = "tok-4f1d0c";

/// A server that answers every connection as `answer` says, and keeps what it was sent.
struct Server {
    url: String,
    heard: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Server {
    async fn new<F>(answer: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::<std::sync::Mutex<Vec<String>>>::default();
        let keep = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let request = read_request(&mut socket).await;
                keep.lock().unwrap().push(request);
                tokio::spawn(answer(socket));
            }
        });
        Self { url, heard }
    }

    /// Sends one whole answer, then closes.
    async fn saying(text: impl Into<String>) -> Self {
        let text: Arc<str> = text.into().into();
        Self::new(move |mut socket| {
            let text = Arc::clone(&text);
            async move { drop(socket.write_all(text.as_bytes()).await) }
        })
        .await
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

async fn read_request(socket: &mut TcpStream) -> String {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while !text.contains("\r\n\r\n") || text.contains("content-length") && !text.ends_with('}') {
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => text += &String::from_utf8_lossy(&buffer[..count]),
        }
    }
    text
}

fn transport(url: &str) -> HttpTransport {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    HttpTransport::new(url, TOKEN).unwrap()
}

fn post() -> Request {
    let body = Some(br#"{"attempt":1}"#.to_vec());
    Request { path: "/external-assistants/x".to_owned(), body, idempotency_key: Some("complete:1".to_owned()) }
}

async fn ask(url: &str) -> Result<Reply, TransportError> {
    transport(url).send(post()).await
}

#[tokio::test]
async fn a_request_carries_token_key_and_json_and_the_answer_comes_back() {
    let server = Server::saying("HTTP/1.1 429 No\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\n{}").await;
    let reply = ask(&format!("{}/", server.url)).await.unwrap();
    let expected = Reply {
        status: 429,
        retry_after: Some(std::time::Duration::from_secs(7)),
        location: None,
        body: b"{}".to_vec(),
    };
    assert_eq!(reply, expected);
    let heard = server.heard().remove(0);
    assert!(heard.starts_with("POST /external-assistants/x HTTP/1.1\r\n"), "{heard}");
    for line in [
        format!("authorization: Bearer {TOKEN}"),
        "idempotency-key: complete:1".to_owned(),
        "content-type: application/json".to_owned(),
        "accept-encoding: gzip".to_owned(),
        concat!("user-agent: graph-relay/", env!("CARGO_PKG_VERSION")).to_owned(),
        r#"{"attempt":1}"#.to_owned(),
    ] {
        assert!(heard.contains(&line), "{line} is not in {heard}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_its_target_hears_nothing() {
    for status in [301, 302, 303, 307, 308] {
        let target = Server::saying("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let location = format!("{}/stolen", target.url);
        let answer = format!("HTTP/1.1 {status} Go\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let server = Server::saying(answer).await;
        let reply = ask(&server.url).await.unwrap();
        assert_eq!((reply.status, reply.location), (status, Some(location)));
        assert!(target.heard().is_empty(), "the owner's result went to {}", target.url);
    }
}

/// Counts what the server could send before the client hung up.
async fn send_until_refused(mut socket: TcpStream, head: &'static str, chunk: Vec<u8>, sent: Arc<AtomicUsize>) {
    drop(socket.write_all(head.as_bytes()).await);
    for _ in 0..50 * 1024 * 1024 / chunk.len() {
        if socket.write_all(&chunk).await.is_err() {
            return;
        }
        sent.fetch_add(chunk.len(), Ordering::Relaxed);
    }
}

#[tokio::test]
async fn an_answer_of_50_mb_is_cut_off_after_8_whatever_its_length_header_says() {
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: 52428800\r\n\r\n",
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", // no length at all
    ] {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let server =
            Server::new(move |socket| send_until_refused(socket, head, vec![b' '; 64 * 1024], Arc::clone(&counted)))
                .await;
        assert_eq!(ask(&server.url).await, Err(TransportError::TooLarge), "{head}");
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent < 3 * MAX_ANSWER_BYTES, "{sent} bytes were taken in");
    }
}

#[tokio::test]
async fn an_answer_at_the_limit_is_read_and_one_byte_more_is_not() {
    for (bytes, is_read) in [(MAX_ANSWER_BYTES, true), (MAX_ANSWER_BYTES + 1, false)] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
        let server = Server::saying(head + &" ".repeat(bytes)).await;
        assert_eq!(ask(&server.url).await.is_ok(), is_read, "{bytes}");
    }
}

/// 50 MB of zeros, as gzip: one stored deflate block repeated would not be small, so the block is a real bomb.
fn gzip_bomb() -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1024 * 1024];
    (0..50).for_each(|_| encoder.write_all(&zeros).unwrap());
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_small_answer_that_unfolds_to_50_mb_is_cut_off() {
    let bomb: Arc<[u8]> = gzip_bomb().into();
    assert!(bomb.len() < 100_000);
    let server = Server::new(move |mut socket| {
        let bomb = Arc::clone(&bomb);
        async move {
            let length = bomb.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n");
            drop(socket.write_all(head.as_bytes()).await);
            drop(socket.write_all(&bomb).await);
        }
    })
    .await;
    assert_eq!(ask(&server.url).await, Err(TransportError::TooLarge));
}

/// What a person reads when there is no answer, without secrets.
fn assert_is_readable(error: &TransportError, url: &str) {
    let text = error.to_string();
    assert!(text.starts_with("the hub cannot be reached: ") && text.len() < 200, "{text}");
    for shown in [text, format!("{error:?}")] {
        assert!(!shown.contains(TOKEN) && !shown.contains(url) && !shown.contains("Bearer"), "{shown}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_told_in_words() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(&url).await.unwrap_err();
    assert!(error.to_string().to_lowercase().contains("refused"), "{error}");
    assert_is_readable(&error, &url);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    let broken = [
        "",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"commands\"",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"com",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello",
        "SSH-2.0-OpenSSH_9.9\r\n",
    ];
    for text in broken {
        let server = Server::saying(text).await;
        let error = ask(&server.url).await.unwrap_err();
        assert_is_readable(&error, &server.url);
    }
}

#[tokio::test]
async fn a_token_or_url_that_cannot_be_used_is_refused_without_showing_the_token() {
    let shown = |result: Result<HttpTransport, HttpError>| {
        let error = result.err().unwrap();
        format!("{error} {error:?}")
    };
    let text = shown(HttpTransport::new("http://127.0.0.1:1", &format!("{TOKEN}\nX-Evil: 1")));
    assert!(text.contains("characters that a token cannot have") && !text.contains(TOKEN), "{text}");
    let text = shown(HttpTransport::new("not a url", TOKEN));
    assert!(text.contains("not valid") && !text.contains(TOKEN), "{text}");
}
