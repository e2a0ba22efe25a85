//! JSON-RPC errors as HTTP answers, for faults that the SDK would answer with plain text.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

/// Invalid JSON.
pub(super) const PARSE_ERROR: i64 = -32_700;
/// Valid JSON that is no request.
pub(super) const INVALID_REQUEST: i64 = -32_600;
/// A request whose parameters don't fit.
pub(super) const INVALID_PARAMS: i64 = -32_602;
/// A fault of the server.
pub(super) const INTERNAL_ERROR: i64 = -32_603;

/// A session id that nobody knows; what the SDKs of others send too.
pub(super) const SESSION_NOT_FOUND: i64 = -32_001;

/// A JSON-RPC error object.
pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// An HTTP answer with `body` as JSON.
pub(super) fn json_response(status: StatusCode, body: &Value) -> Response {
    json_body(status, Body::from(body.to_string()))
}

fn json_body(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The same, of text that was already written.
pub(super) fn json_text(status: StatusCode, body: Result<Vec<u8>, serde_json::Error>) -> Response {
    match body {
        Ok(body) => json_body(status, Body::from(body)),
        Err(error) => json_response(StatusCode::INTERNAL_SERVER_ERROR, &self::error(&Value::Null, INTERNAL_ERROR, &error.to_string())),
    }
}

/// A plain answer with one line of text.
pub(super) fn text_response(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Whether `headers` announce an event stream.
pub(super) fn is_event_stream(headers: &http::HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).is_some_and(|v| v.starts_with("text/event-stream"))
}
