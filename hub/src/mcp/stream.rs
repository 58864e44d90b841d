//! Keeps the stream of a slow answer alive, from its headers on.
//!
//! In the stateless era `rmcp` opens its stream only with the first message in hand, since an error may need another
//! status. A call that waits for the end of a run would be silent until then, and proxies cut what is silent. But
//! whatever decides about the status is decided in moments: a call that takes longer is being answered.
//!
//! The signs of life are sent here and not by `rmcp`, whose timer mixes two clocks and spins when tokio's is paused.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::response::Response;
use futures::{StreamExt, stream};
use http::{HeaderValue, header};

/// An answer that takes longer than this is a tool at work.
const STATUS_WITHIN: Duration = Duration::from_secs(1);
/// How often a comment is sent while there is nothing to say.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The answer itself when it comes soon, else a stream that becomes it. Dropping the stream drops the answer, and so
/// ends the call of a client that is gone.
pub(super) async fn respond(answer: impl Future<Output = Response> + Send + 'static) -> Response {
    let mut answer: Answer = Box::pin(answer);
    if let Ok(response) = tokio::time::timeout(STATUS_WITHIN, &mut answer).await {
        return if is_stream(&response) { response.map(|body| Part::of_stream(body).into_body()) } else { response };
    }
    let mut response = Response::new(Part::Waiting(answer).into_body());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn is_stream(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
}

/// What is left to send.
enum Part {
    Waiting(Answer),
    Streaming(BodyDataStream),
    Whole(Bytes),
    Done,
}

type Chunk = Result<Bytes, Infallible>;

/// A comment, which clients skip. It only ever stands between two events, since each chunk holds whole ones.
const SIGN_OF_LIFE: Bytes = Bytes::from_static(b":\n\n");

impl Part {
    fn of_stream(body: Body) -> Self {
        Self::Streaming(body.into_data_stream())
    }

    fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self, Self::next))
    }

    async fn next(self) -> Option<(Chunk, Self)> {
        match self {
            Self::Waiting(mut answer) => match tokio::time::timeout(KEEP_ALIVE, &mut answer).await {
                Ok(response) => Box::pin(Self::of(response).await.next()).await,
                Err(_) => Some((Ok(SIGN_OF_LIFE), Self::Waiting(answer))),
            },
            Self::Streaming(mut data) => match tokio::time::timeout(KEEP_ALIVE, data.next()).await {
                Ok(chunk) => Some((Ok(chunk?.ok()?), Self::Streaming(data))),
                Err(_) => Some((Ok(SIGN_OF_LIFE), Self::Streaming(data))),
            },
            Self::Whole(event) => Some((Ok(event), Self::Done)),
            Self::Done => None,
        }
    }

    /// A stream is passed on. A plain JSON message, with whatever status, becomes the one event of this stream.
    async fn of(response: Response) -> Self {
        if is_stream(&response) {
            return Self::of_stream(response.into_body());
        }
        match axum::body::to_bytes(response.into_body(), usize::MAX).await {
            Ok(message) => Self::Whole([b"data: ".as_slice(), &message, b"\n\n"].concat().into()),
            Err(_) => Self::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use axum::response::IntoResponse;
    use http::StatusCode;

    use super::*;

    async fn told(answer: impl Future<Output = Response> + Send + 'static) -> String {
        let response = respond(answer).await;
        String::from_utf8(axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_prompt_answer_is_passed_on_with_its_status() {
        let response = respond(ready(StatusCode::BAD_REQUEST.into_response())).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_is_preceded_by_signs_of_life() {
        let slow = |answer: Response| async move {
            tokio::time::sleep(Duration::from_secs(40)).await;
            answer
        };
        let stream = ([(header::CONTENT_TYPE, "text/event-stream")], "data: 1\n\n").into_response();
        assert_eq!(told(slow(stream)).await, ":\n\n:\n\ndata: 1\n\n");
        let plain = (StatusCode::NOT_FOUND, "{}").into_response();
        assert_eq!(told(slow(plain)).await, ":\n\n:\n\ndata: {}\n\n");
    }
}
