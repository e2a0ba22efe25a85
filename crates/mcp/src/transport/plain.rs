//! An answer that is there soon goes out as plain JSON: one message with its length instead of a stream that is opened,
//! written to once and closed, which costs both sides twice the writing and reading.
//!
//! Whatever takes longer, or says something before its answer, stays a stream that can be taken up again.

use super::answer;
use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::{Stream, StreamExt as _};
use http::{HeaderValue, header};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::time::Duration;

/// The event stream `response` as plain JSON when its one event is an answer and comes `within` that time; else as it is.
pub(super) async fn plain(response: Response, within: Duration) -> Response {
    if !answer::is_event_stream(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let (mut data, mut read) = (body.into_data_stream(), Vec::new());
    // What was read when the time is over belongs to the stream.
    let _ = tokio::time::timeout(within, first_event(&mut data, &mut read)).await;
    let Some(answer) = only_answer(&read) else {
        let begun = futures::stream::iter((!read.is_empty()).then(|| Ok(Bytes::from(read))));
        return Response::from_parts(parts, Body::from_stream(begun.chain(data)));
    };
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for of_streams in ["cache-control", "x-accel-buffering"] {
        parts.headers.remove(of_streams);
    }
    Response::from_parts(parts, Body::from(answer))
}

async fn first_event<E>(data: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin), read: &mut Vec<u8>) {
    while !read.windows(2).any(|two| two == b"\n\n") {
        let Some(Ok(chunk)) = data.next().await else { return };
        read.extend_from_slice(&chunk);
    }
}

/// The JSON-RPC answer in `read`, when that is one whole event and nothing else.
fn only_answer(read: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Message {
        method: Option<IgnoredAny>,
        #[serde(rename = "id")]
        _id: IgnoredAny,
    }
    let event = read.strip_suffix(b"\n\n")?;
    let mut data = event.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    let (answer, None) = (data.next()?.trim_ascii(), data.next()) else { return None };
    let message: Message = serde_json::from_slice(answer).ok()?;
    message.method.is_none().then(|| answer.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "id: 0/1\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";

    async fn body(response: Response) -> String {
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn streamed(chunks: Vec<&'static str>, open: bool) -> Response {
        let chunks = futures::stream::iter(chunks.into_iter().map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk))));
        let chunks = if open { chunks.chain(futures::stream::pending()).left_stream() } else { chunks.right_stream() };
        let mut response = Response::new(Body::from_stream(chunks));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response.headers_mut().insert("mcp-session-id", HeaderValue::from_static("s"));
        response
    }

    #[tokio::test]
    async fn one_answer_is_plain() {
        for chunks in [vec![ANSWER], vec!["id: 0/1\ndata: {\"jsonrpc\":\"2.0\",", "\"id\":1,\"result\":{}}\n", "\n"]] {
            let response = plain(streamed(chunks, true), Duration::from_secs(60)).await;
            assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
            assert_eq!(response.headers()["mcp-session-id"], "s");
            assert_eq!(body(response).await, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
        }
    }

    #[tokio::test]
    async fn all_else_stays_the_stream_it_was() {
        let progress = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n";
        let asks = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n";
        for chunks in [vec![progress, ANSWER], vec![asks], vec![": working\n\n", ANSWER], vec!["data: {\"jsonrpc\":"], vec![]] {
            let whole = chunks.concat();
            let response = plain(streamed(chunks, false), Duration::from_secs(60)).await;
            assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
            assert_eq!(body(response).await, whole);
        }
        // One that says nothing for too long.
        let response = plain(streamed(vec!["id: 0/1\n"], true), Duration::from_millis(20)).await;
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
    }
}
