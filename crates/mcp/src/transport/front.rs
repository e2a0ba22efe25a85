//! What stands before the SDK's service: reads the body once and corrects what clients trip over.
//!
//! Malformed JSON is a JSON-RPC error; an unknown mode is refused with the choices; `initialize` with a
//! stale session id starts anew; a missing media type in `Accept` is no reason to refuse.

use super::answer::{self, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, SESSION_NOT_FOUND};
use super::direct::{Direct, Starter};
use super::early::{Held, Meanwhile};
use super::in_flight::{InFlight, Mark};
use super::{Departure, MAX_BODY, SessionStore, Timing, early, in_flight, plain};
use crate::toolset::Selection;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const SESSION_ID: &str = "mcp-session-id";

/// What the front needs to know.
#[derive(Clone)]
pub(super) struct Front {
    pub timing: Timing,
    pub manager: Arc<LocalSessionManager>,
    pub in_flight: InFlight,
    /// Counts the answers that are owed, those to who listens among them.
    pub owed: TaskTracker,
    pub store: Arc<dyn SessionStore>,
    pub starter: Starter,
}

/// The middleware before the service.
pub(super) async fn front(State(front): State<Front>, request: Request, next: Next) -> Response {
    match *request.method() {
        Method::POST => post(front, request, next).await,
        Method::GET => next.run(accepting_events(request)).await,
        Method::DELETE => delete(front, request, next).await,
        _ => next.run(request).await,
    }
}

/// The request for an event stream as the SDK wants it: whoever takes anything takes that.
fn accepting_events(mut request: Request) -> Request {
    let accepted = accepted(request.headers());
    if accepted.is_empty() || accepted.contains("*/*") || accepted.contains("text/*") {
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    }
    request
}

/// The media types that `headers` accept, in lower case.
fn accepted(headers: &HeaderMap) -> String {
    let values: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect();
    values.join(",").to_ascii_lowercase()
}

/// Ends a session: 404 for one that nobody knows, 204 else (some SDKs take 202 for a failure).
async fn delete(front: Front, request: Request, next: Next) -> Response {
    let id = request.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    if let Some(id) = id
        && !front.manager.has_session(&id.as_str().into()).await.unwrap_or(false)
        && !matches!(front.store.load(&id).await, Ok(Some(_)))
    {
        return answer::text_response(StatusCode::NOT_FOUND, "Not Found: Session not found");
    }
    let mut response = next.run(request).await;
    if response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}

async fn post(front: Front, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        return answer::text_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported Media Type: Content-Type must be application/json");
    }
    let Ok(bytes) = axum::body::to_bytes(body, MAX_BODY).await else {
        return answer::text_response(StatusCode::PAYLOAD_TOO_LARGE, "Payload Too Large: a request has at most 4 MiB");
    };
    let mut message = match read(&bytes) {
        Ok(message) => message,
        Err(refusal) => return answer::json_response(StatusCode::BAD_REQUEST, &refusal),
    };
    let id = message.get("id").cloned().unwrap_or(Value::Null);
    if let Err(error) = Selection::from_query(parts.uri.query().unwrap_or("")) {
        return answer::json_response(StatusCode::BAD_REQUEST, &answer::error(&id, INVALID_PARAMS, &error.message));
    }
    if message.get("method").and_then(Value::as_str) == Some("initialize") {
        parts.headers.remove(SESSION_ID);
    }
    call_off(&front, &parts.headers, &message);
    let mark = match mark(&front, &parts.headers, &message, &id) {
        Ok(mark) => mark,
        Err(refusal) => return answer::json_response(StatusCode::BAD_REQUEST, &refusal),
    };
    let cancelled = mark.as_ref().map(Mark::cancelled);
    let listens = message.get("method").and_then(Value::as_str) == Some("subscriptions/listen");
    let owed = (!id.is_null()).then(|| front.owed.token());
    let departed = CancellationToken::new();
    parts.extensions.insert(Departure(departed.clone()));
    let held = Held { _departure: departed.drop_guard(), _mark: mark, _owed: owed };
    let accepts = match accept(&mut parts.headers) {
        Accepts::JsonOnly if listens => {
            let refusal =
                answer::error(&id, INVALID_REQUEST, "subscriptions/listen answers with an event stream: accept text/event-stream");
            return answer::json_response(StatusCode::NOT_ACCEPTABLE, &refusal);
        }
        Accepts::Both if listens => Accepts::Streams,
        accepts => accepts,
    };
    if let Some(cancelled) = cancelled.filter(|_| accepts != Accepts::Streams)
        && let Some(call) = direct(&front, &parts.headers, &mut message).await
    {
        return called(&front, call, parts, id, cancelled, held, accepts).await;
    }
    readable(run(&front, Request::from_parts(parts, bytes.into()), next, &id, accepts, held).await, &id).await
}

/// The call in `message`, when it is one that can do without the SDK.
async fn direct(front: &Front, headers: &HeaderMap, message: &mut Value) -> Option<Direct> {
    let session = headers.get(SESSION_ID)?.to_str().ok()?;
    // One that isn't in memory is the SDK's to take up again.
    front.manager.has_session(&session.into()).await.ok().filter(|open| *open)?;
    Direct::read(headers, message, &front.starter)
}

async fn called(
    front: &Front,
    mut call: Direct,
    parts: Parts,
    id: Value,
    cancelled: CancellationToken,
    held: Held,
    accepts: Accepts,
) -> Response {
    let meanwhile = Meanwhile { id: id.clone(), every: front.timing.progress, progress: call.take_progress() };
    let answer = call.run(id, parts, cancelled);
    if accepts == Accepts::JsonOnly {
        return early::holding(answer.await, held);
    }
    early::early(Box::pin(answer), front.timing.early, meanwhile, held).await
}

/// What a client calls off, where it is ours. What is the SDK's it does itself.
fn call_off(front: &Front, headers: &HeaderMap, message: &Value) {
    if message.get("method").is_some_and(|method| method == "notifications/cancelled")
        && let Some(session) = headers.get(SESSION_ID).and_then(|session| session.to_str().ok())
        && let Some(id) = message.get("params").and_then(|params| params.get("requestId"))
    {
        front.in_flight.cancel(session, id);
    }
}

/// A refusal that the SDK writes as plain text as a JSON-RPC error, with its status.
async fn readable(response: Response, id: &Value) -> Response {
    let status = response.status();
    if status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        let refusal = answer::error(id, INVALID_REQUEST, "the message is no JSON-RPC request, notification or response");
        return answer::json_response(StatusCode::BAD_REQUEST, &refusal);
    }
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !status.is_client_error() || is_json {
        return response;
    }
    let code = if status == StatusCode::NOT_FOUND { SESSION_NOT_FOUND } else { INVALID_REQUEST };
    let text = axum::body::to_bytes(response.into_body(), MAX_BODY).await.unwrap_or_default();
    answer::json_response(status, &answer::error(id, code, &String::from_utf8_lossy(&text)))
}

/// The mark of a session's request, or the error that says that its id is taken.
fn mark(front: &Front, headers: &HeaderMap, message: &Value, id: &Value) -> Result<Option<Mark>, Value> {
    let session = headers.get(SESSION_ID).and_then(|session| session.to_str().ok());
    let Some(session) = session.filter(|_| message.get("method").is_some() && !id.is_null()) else { return Ok(None) };
    let taken = || answer::error(id, INVALID_REQUEST, &in_flight::refusal(id));
    front.in_flight.enter(session, id).map(Some).ok_or_else(taken)
}

async fn run(front: &Front, request: Request, next: Next, id: &Value, accepts: Accepts, held: Held) -> Response {
    match accepts {
        Accepts::Streams | Accepts::Both => {
            let pending = Box::pin(next.run(request));
            // The handler tells of progress itself.
            let meanwhile = Meanwhile { id: id.clone(), every: front.timing.progress, progress: None };
            let response = early::early(pending, front.timing.early, meanwhile, held).await;
            if accepts == Accepts::Both { plain::plain(response, front.timing.early).await } else { response }
        }
        Accepts::JsonOnly => collapse(early::holding(next.run(request).await, held), id).await,
    }
}

/// A JSON-RPC object, or the error that says why it is none.
fn read(bytes: &[u8]) -> Result<Value, Value> {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(message @ Value::Object(_)) => Ok(message),
        Ok(Value::Array(_)) => Err(answer::error(&Value::Null, INVALID_REQUEST, "batches aren't supported: send one message per request")),
        Ok(_) => Err(answer::error(&Value::Null, INVALID_REQUEST, "a JSON-RPC message is an object")),
        Err(error) => {
            let place = format!("Parse error: the body is no JSON at line {} column {}", error.line(), error.column());
            Err(answer::error(&Value::Null, PARSE_ERROR, &place))
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    value.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// What kind of answers a client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepts {
    Both,
    Streams,
    JsonOnly,
}

/// Says what the client takes, and completes `Accept` to what the SDK insists on.
fn accept(headers: &mut HeaderMap) -> Accepts {
    let all = accepted(headers);
    let takes = |kind: &str, kinds: &str| all.is_empty() || all.contains(kind) || all.contains(kinds) || all.contains("*/*");
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    match (takes("application/json", "application/*"), takes("text/event-stream", "text/*")) {
        (true, false) => Accepts::JsonOnly,
        (false, true) => Accepts::Streams,
        // Whoever takes neither takes what most do.
        (true, true) | (false, false) => Accepts::Both,
    }
}

/// The final message of an event stream as plain JSON, for clients that take nothing else.
async fn collapse(response: Response, id: &Value) -> Response {
    if !answer::is_event_stream(response.headers()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut messages =
        text.lines().filter_map(|line| line.strip_prefix("data:")).filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let last = messages.rfind(|message| message.get("result").is_some() || message.get("error").is_some());
    let last = last.unwrap_or_else(|| answer::error(id, -32_603, "the call ended without an answer"));
    let mut response = answer::json_response(parts.status, &last);
    if let Some(session) = parts.headers.get(SESSION_ID) {
        response.headers_mut().insert(SESSION_ID, session.clone());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_is_completed() {
        for (given, expected) in [
            (None, Accepts::Both),
            (Some("*/*"), Accepts::Both),
            (Some("application/json"), Accepts::JsonOnly),
            (Some("text/event-stream"), Accepts::Streams),
            (Some("text/*"), Accepts::Streams),
            (Some("application/*"), Accepts::JsonOnly),
            (Some("application/json, text/event-stream"), Accepts::Both),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(given) = given {
                headers.insert(header::ACCEPT, HeaderValue::from_static(given));
            }
            assert_eq!(accept(&mut headers), expected, "{given:?}");
            assert_eq!(headers[header::ACCEPT], "application/json, text/event-stream");
        }
    }

    #[test]
    fn broken_json_says_where() {
        let refusal = read(b"{\"a\":").unwrap_err();
        assert_eq!(refusal["error"]["code"], PARSE_ERROR);
        assert_eq!(read(b"[]").unwrap_err()["error"]["code"], INVALID_REQUEST);
        assert_eq!(read(b"3").unwrap_err()["error"]["code"], INVALID_REQUEST);
    }
}
