//! What the four APIs' writers have in common: the things that are sent, ids, texts in pieces.

use super::asked::{Api, Asked};
use super::play::Reply;
use super::scenario::Failure;
use super::{chat, gemini, messages, responses};
use serde_json::{Value, json};

/// Something that goes over the connection.
#[derive(Debug)]
pub(super) enum Sent {
    /// An event with its name, where the API names events.
    Event(Option<String>, Value),
    /// The line that ends a stream of Chat Completions.
    Done,
    /// Nothing for so many milliseconds.
    Pause(u64),
    /// The connection breaks.
    Break,
    /// Nothing until the agent hangs up.
    Hang,
}

/// Characters of a text that one event carries.
const PIECE: usize = 24;

/// A text in the pieces it is streamed in; at least one.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    if chars.is_empty() { vec![String::new()] } else { chars.chunks(PIECE).map(|piece| piece.iter().collect()).collect() }
}

/// The first half of a text, in pieces.
pub(super) fn half(text: &str) -> Vec<String> {
    let mut pieces = pieces(text);
    pieces.truncate(pieces.len().div_ceil(2));
    pieces
}

/// An id that no other answer has.
pub(super) fn id(prefix: &str) -> String {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    format!("{prefix}{:08}", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

/// The request of a path's last words, when it is one for an answer.
pub(super) fn parse(path: &str, body: &Value) -> Option<Asked> {
    if path.ends_with("/messages") {
        return Some(messages::parse(body));
    }
    if path.ends_with("/responses") {
        return Some(responses::parse(body));
    }
    if path.ends_with("/chat/completions") {
        return Some(chat::parse(body));
    }
    let (model, method) = path.rsplit('/').next()?.split_once(':')?;
    matches!(method, "generateContent" | "streamGenerateContent").then(|| gemini::parse(body, model, method == "streamGenerateContent"))
}

/// The answer as a stream.
pub(super) fn stream(asked: &Asked, reply: &Reply) -> Vec<Sent> {
    match asked.api {
        Api::Messages => messages::stream(asked, reply),
        Api::Responses => responses::stream(asked, reply),
        Api::Chat => chat::stream(asked, reply),
        Api::Gemini => gemini::stream(asked, reply),
    }
}

/// The answer as one object.
pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    match asked.api {
        Api::Messages => messages::whole(asked, reply),
        Api::Responses => responses::whole(asked, reply),
        Api::Chat => chat::whole(asked, reply),
        Api::Gemini => gemini::whole(asked, reply),
    }
}

/// An error's body.
pub(super) fn error(api: Api, failure: &Failure) -> Value {
    let message = failure.message.clone().unwrap_or_else(|| format!("a scripted error {}", failure.status));
    let usual = match (api, failure.status) {
        (Api::Gemini, 400) => "INVALID_ARGUMENT",
        (Api::Gemini, 401) => "UNAUTHENTICATED",
        (Api::Gemini, 403) => "PERMISSION_DENIED",
        (Api::Gemini, 429) => "RESOURCE_EXHAUSTED",
        (Api::Gemini, 503) => "UNAVAILABLE",
        (Api::Gemini, _) => "INTERNAL",
        (_, 400) => "invalid_request_error",
        (_, 401) => "authentication_error",
        (_, 403) => "permission_error",
        (_, 404) => "not_found_error",
        (_, 429) => "rate_limit_error",
        (_, 503 | 529) => "overloaded_error",
        _ => "api_error",
    };
    let kind = failure.kind.as_deref().unwrap_or(usual);
    let mut error = match api {
        Api::Messages => json!({ "type": kind, "message": message }),
        Api::Responses | Api::Chat => json!({ "message": message, "type": kind, "param": null, "code": kind }),
        Api::Gemini => json!({ "code": failure.status, "message": message, "status": kind }),
    };
    for (name, value) in failure.more.as_object().into_iter().flatten() {
        error[name] = value.clone();
    }
    match api {
        Api::Messages => json!({ "type": "error", "error": error, "request_id": id("req_") }),
        _ => json!({ "error": error }),
    }
}
