//! Answers and errors as MCP results: structured, and the same as compact text.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};
use taskyard_domain::{Class, Error};

/// Clients cut or spill texts beyond this many bytes.
pub const TEXT_BUDGET: usize = 10_000;

/// The result of a call.
pub fn result(outcome: Result<Value, Error>) -> CallToolResult {
    match outcome {
        Ok(answer) => success(answer),
        Err(error) => failure(&error),
    }
}

fn success(answer: Value) -> CallToolResult {
    let text = answer.to_string();
    if text.len() > TEXT_BUDGET {
        tracing::debug!(bytes = text.len(), "an answer is beyond the text budget of most clients");
    }
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(answer);
    result
}

fn failure(error: &Error) -> CallToolResult {
    let answer = json!({ "error": error });
    let mut result = CallToolResult::error(vec![ContentBlock::text(answer.to_string())]);
    result.structured_content = Some(answer);
    result
}

/// The HTTP status that fits an error's class.
pub fn status(class: Class) -> http::StatusCode {
    use http::StatusCode as S;
    match class {
        Class::InvalidArgument => S::BAD_REQUEST,
        Class::NotFound => S::NOT_FOUND,
        Class::Conflict | Class::AlreadyClaimed => S::CONFLICT,
        Class::Forbidden => S::FORBIDDEN,
        Class::FailedPrecondition => S::PRECONDITION_FAILED,
        Class::ResourceExhausted => S::TOO_MANY_REQUESTS,
        Class::Unavailable => S::SERVICE_UNAVAILABLE,
        Class::Internal => S::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_whole_in_both_forms() {
        let error =
            Error::conflict("two files conflict").with_field("task_id").with_details(json!({ "files": ["a"] })).with_hint("merge by hand");
        let result = failure(&error);
        let structured = result.structured_content.unwrap();
        assert_eq!(result.is_error, Some(true));
        assert_eq!(structured["error"]["code"], "CONFLICT");
        assert_eq!(structured["error"]["details"]["files"], json!(["a"]));
        let text = serde_json::to_value(&result.content).unwrap()[0]["text"].as_str().unwrap().to_owned();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), structured);
    }
}
