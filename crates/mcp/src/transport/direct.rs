//! Calls of tools whose answer is there at once, made where the request is read.
//!
//! The SDK passes every message of a session through that session's own tasks and back, which costs more than such a
//! call itself. What goes past them is only what can do without them: a plain `tools/call` of a revision with sessions,
//! in a session that is open, of a tool that waits for nothing, whose answer may be plain JSON. All else is the SDK's,
//! and so is this when anything about it is unusual.

use super::{BriefCall, ProtocolHandler, answer};
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use rmcp::model::{CallToolResult, ErrorData, ProtocolVersion};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What starts such a call of the tool with that name; `None` where the SDK has to.
pub(super) type Starter = Arc<dyn Fn(&str) -> Option<BriefCall> + Send + Sync>;

/// The starter over `handler`.
pub(super) fn starter(handler: impl ProtocolHandler) -> Starter {
    Arc::new(move |tool| handler.brief(tool))
}

/// A call that can be made.
pub(super) struct Direct {
    begin: BriefCall,
    arguments: Map<String, Value>,
    progress: Option<Value>,
}

impl Direct {
    /// The call that `message` is, taken out of it; `None`, and `message` as it was, when it is the SDK's.
    pub(super) fn read(headers: &HeaderMap, message: &mut Value, starter: &Starter) -> Option<Self> {
        if !has_sessions(headers) || !is_plain(message) {
            return None;
        }
        let begin = starter(message["params"]["name"].as_str()?)?;
        let params = message.get_mut("params")?.as_object_mut()?;
        let progress = params.get("_meta").and_then(|meta| meta.get("progressToken")).cloned();
        let arguments = match params.remove("arguments") {
            Some(Value::Object(arguments)) => arguments,
            _ => Map::new(),
        };
        Some(Self { begin, arguments, progress })
    }

    /// Who wants to hear of progress.
    pub(super) fn take_progress(&mut self) -> Option<Value> {
        self.progress.take()
    }

    /// Makes the call, until `cancel` calls it off.
    pub(super) async fn run(self, id: Value, parts: Parts, cancel: CancellationToken) -> Response {
        let outcome = (self.begin)(self.arguments, parts, cancel).await;
        respond(&id, outcome)
    }
}

/// Whether a request with these headers is one of a revision with sessions.
fn has_sessions(headers: &HeaderMap) -> bool {
    let known = |said: &str| ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == said);
    match headers.get("mcp-protocol-version") {
        None => true,
        Some(said) => said.to_str().ok().and_then(known).is_some_and(ProtocolVersion::has_initialize),
    }
}

/// Whether `message` is a call of a tool and nothing else.
fn is_plain(message: &Value) -> bool {
    let is_id = |id: &Value| id.is_string() || id.is_i64() || id.is_u64();
    let Some(parts) = message.as_object().filter(|message| message.len() == 4) else { return false };
    let is_call = parts.get("jsonrpc").is_some_and(|version| version == "2.0")
        && parts.get("method").is_some_and(|method| method == "tools/call")
        && parts.get("id").is_some_and(is_id);
    let of_the_call = |(name, value): (&String, &Value)| match name.as_str() {
        "name" => value.is_string(),
        "arguments" => value.is_object() || value.is_null(),
        "_meta" => value.as_object().is_some_and(is_plain_meta),
        _ => false,
    };
    is_call && parts.get("params").and_then(Value::as_object).is_some_and(|params| params.iter().all(of_the_call))
}

/// Whether nothing in `meta` speaks to the protocol but the wish to hear of progress.
fn is_plain_meta(meta: &Map<String, Value>) -> bool {
    let is_token = |token: &Value| token.is_string() || token.is_i64() || token.is_u64();
    meta.get("progressToken").is_none_or(is_token) && !meta.keys().any(|key| key.starts_with("io.modelcontextprotocol/"))
}

/// The answer as the SDK would write it.
fn respond(id: &Value, outcome: Result<CallToolResult, ErrorData>) -> Response {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a Value,
        #[serde(flatten)]
        outcome: Outcome,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    enum Outcome {
        Result(CallToolResult),
        Error(ErrorData),
    }
    let outcome = match outcome {
        Ok(mut result) => {
            // Revisions with sessions don't know the field.
            result.result_type = None;
            Outcome::Result(result)
        }
        Err(error) => Outcome::Error(error),
    };
    answer::json_text(StatusCode::OK, serde_json::to_vec(&Answer { jsonrpc: "2.0", id, outcome }))
}
