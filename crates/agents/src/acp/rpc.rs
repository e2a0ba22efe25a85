//! Calls to the agent without typed answers, and what their errors mean.

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::{Agent, Error, UntypedMessage, is_incoming_transport_closed};
use serde_json::Value;

/// JSON-RPC's code for "log in first" in ACP.
const AUTH_REQUIRED: i32 = -32000;
/// HTTP's code, as some agents hand it on.
const TOO_MANY_REQUESTS: i32 = 429;
const METHOD_NOT_FOUND: i32 = -32601;
/// What ACP answers to a request that was cancelled.
const REQUEST_CANCELLED: i32 = -32800;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// The agent's code; any number, agents use HTTP's too.
    pub code: i32,
    /// The agent's words, with the details it gave.
    pub text: String,
    /// The agent is gone.
    pub closed: bool,
    /// The agent says beside its words that the account's limit is the reason.
    pub limited: bool,
}

impl Failure {
    /// A failure that no answer of the agent told.
    pub fn own(text: impl Into<String>) -> Self {
        Self { code: 0, text: text.into(), closed: false, limited: false }
    }

    pub fn is_auth(&self) -> bool {
        let text = self.text.to_lowercase();
        let words = ["authentication required", "not logged in", "please log in", "invalid api key", "invalid x-api-key", "unauthorized"];
        matches!(self.code, AUTH_REQUIRED | 401) && !text.contains("limit") || words.iter().any(|word| text.contains(word))
    }

    pub fn is_unknown_method(&self) -> bool {
        self.code == METHOD_NOT_FOUND
    }

    pub fn is_cancelled(&self) -> bool {
        self.code == REQUEST_CANCELLED
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let closed = is_incoming_transport_closed(&error);
        let mut text = error.message.clone();
        if let Some(details) = error.data.as_ref().and_then(details)
            && !text.contains(&details)
        {
            let joint = if text.ends_with(['.', '!', ':']) || text.is_empty() { " " } else { ": " };
            text = format!("{text}{joint}{details}").trim_start().to_owned();
        }
        let code = error.code.into();
        let limited = code == TOO_MANY_REQUESTS || error.data.as_ref().is_some_and(|data| data["errorKind"] == "rate_limit");
        Self { code, text, closed, limited }
    }
}

/// The readable part of an error's `data`.
fn details(data: &Value) -> Option<String> {
    let text = match data {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        Value::Object(fields) => ["details", "message", "error"]
            .iter()
            .find_map(|name| fields.get(*name).and_then(Value::as_str).map(str::to_owned))
            .unwrap_or_else(|| if fields.keys().eq(["errorKind"]) { String::new() } else { data.to_string() }),
        other => other.to_string(),
    };
    Some(crate::cut::text(text.trim(), crate::cut::LAST_TEXT)).filter(|text| !text.is_empty())
}

/// Calls `method` at once; the future is its answer. Must not be waited for in a handler.
pub(super) fn call(cx: &ConnectionTo<Agent>, method: &str, params: Value) -> impl Future<Output = Result<Value, Failure>> + Send + 'static {
    let sent = UntypedMessage::new(method, params).map(|message| cx.send_request(message));
    async move { sent.map_err(Failure::from)?.block_task().await.map_err(Failure::from) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn failure(code: i32, message: &str, data: Option<Value>) -> Failure {
        Error::new(code, message).data(data).into()
    }

    #[test]
    fn details_are_added_once() {
        assert_eq!(failure(-32603, "Internal error", Some(json!({"details": "boom"}))).text, "Internal error: boom");
        assert_eq!(failure(500, "boom", Some(json!("boom"))).text, "boom");
    }

    #[test]
    fn limits_are_told_beside_the_words() {
        let limit = failure(-32603, "Internal error: 429", Some(json!({"errorKind": "rate_limit"})));
        assert!(limit.limited && limit.text == "Internal error: 429", "{limit:?}");
        assert!(failure(429, "slow down", None).limited);
        let other = failure(-32603, "Internal error: 500", Some(json!({"errorKind": "server_error"})));
        assert!(!other.limited && other.text == "Internal error: 500", "{other:?}");
    }

    #[test]
    fn logins_are_told_from_limits() {
        assert!(failure(-32000, "Authentication required", None).is_auth());
        assert!(failure(401, "no", None).is_auth());
        assert!(failure(-32603, "Internal error", Some(json!("Invalid API key"))).is_auth());
        assert!(!failure(-32000, "Usage limit reached", None).is_auth());
    }
}
