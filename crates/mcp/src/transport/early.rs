//! Bytes on the wire soon: clients give up on a call whose answer has no headers yet.
//!
//! The call itself lives in the answer's body, so a client that goes away takes a reading call with it.

use super::answer;
use super::in_flight::Mark;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::response::Response;
use futures::{Stream, StreamExt};
use http::{HeaderValue, header};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;
use tokio_util::sync::DropGuard;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// What has to live as long as an answer, and does its work when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    /// Says that the caller has gone.
    pub _departure: DropGuard,
    /// Gives the request's id back; `None` outside sessions.
    pub _mark: Option<Mark>,
    /// Says that the answer is given; `None` for what needs none.
    pub _owed: Option<TaskTrackerToken>,
}

/// An answer that is on its way.
pub(super) type Pending = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Whose answer it is, and what is sent until it is there.
#[derive(Debug)]
pub(super) struct Meanwhile {
    /// The request's id.
    pub id: Value,
    /// How often something is sent.
    pub every: Duration,
    /// Who wants to hear of progress that nobody else tells.
    pub progress: Option<Value>,
}

impl Meanwhile {
    fn bytes(&self, waited: Duration) -> Bytes {
        let Some(token) = self.progress.as_ref().filter(|_| !waited.is_zero()) else { return Bytes::from_static(b": working\n\n") };
        let message = format!("still working after {} s", waited.as_secs());
        let params = json!({ "progressToken": token, "progress": waited.as_secs_f64(), "message": message });
        Bytes::from(format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })))
    }
}

/// The answer of `pending`, or after `early` an event stream that will carry it. `held` is dropped with the
/// body.
pub(super) async fn early(mut pending: Pending, early: Duration, meanwhile: Meanwhile, held: Held) -> Response {
    match tokio::time::timeout(early, &mut pending).await {
        // What is whole needs nothing held.
        Ok(response) if response.body().size_hint().exact().is_some() => response,
        Ok(response) => holding(response, held),
        Err(_) => {
            let mut response = Response::new(Body::from_stream(stream(pending, meanwhile, held)));
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
            response
        }
    }
}

/// `response` with `held` in its body.
pub(super) fn holding(response: Response, held: Held) -> Response {
    let (parts, body) = response.into_parts();
    let mut data = body.into_data_stream();
    let body = async_stream::stream! {
        let _held = held;
        while let Some(chunk) = data.next().await {
            yield chunk;
        }
    };
    Response::from_parts(parts, Body::from_stream(body))
}

fn stream(mut pending: Pending, meanwhile: Meanwhile, held: Held) -> impl Stream<Item = Result<Bytes, Infallible>> {
    async_stream::stream! {
        let _held = held;
        let mut tick = tokio::time::interval(meanwhile.every);
        let mut waited = Duration::ZERO;
        let response = loop {
            tokio::select! {
                response = &mut pending => break response,
                _ = tick.tick() => {
                    yield Ok(meanwhile.bytes(waited));
                    waited += meanwhile.every;
                }
            }
        };
        if answer::is_event_stream(response.headers()) {
            let mut data = response.into_body().into_data_stream();
            while let Some(Ok(chunk)) = data.next().await {
                yield Ok(chunk);
            }
        } else {
            let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
            yield Ok(event(&bytes, &meanwhile.id));
        }
    }
}

/// `body` as one event; a body that isn't JSON becomes a JSON-RPC error.
fn event(body: &[u8], id: &Value) -> Bytes {
    let message = match serde_json::from_slice::<Value>(body) {
        Ok(message) => message.to_string(),
        Err(_) => answer::error(id, -32_603, &String::from_utf8_lossy(body)).to_string(),
    };
    Bytes::from(format!("data: {message}\n\n"))
}
