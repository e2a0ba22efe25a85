//! Claude's questions whether a tool may be used, and the answers.

use super::tools;
use crate::contract::{Answer, Permission, PermissionOption};
use crate::cut;
use serde_json::{Value, json};
use std::path::PathBuf;

const ALLOW: &str = "allow";
const ALLOW_ALWAYS: &str = "allow-for-this-session";
const DENY: &str = "deny";

/// The request as the engine sees it.
pub(super) fn asked(id: &str, request: &Value) -> Permission {
    let tool = request["tool_name"].as_str().unwrap_or_default();
    let input = &request["input"];
    let mut paths = tools::paths(input);
    if let Some(blocked) = request["blocked_path"].as_str().map(PathBuf::from).filter(|path| !paths.contains(path)) {
        paths.push(blocked);
    }
    let option = |id: &str, label: &str, kind: &str| PermissionOption { id: id.into(), label: label.into(), kind: kind.into() };
    let mut options = vec![option(ALLOW, "Allow", "allow_once"), option(DENY, "Deny", "reject_once")];
    if !suggestions(request).is_empty() {
        options.insert(1, option(ALLOW_ALWAYS, "Allow for this session", "allow_always"));
    }
    Permission {
        request_id: id.into(),
        title: tools::title(tool, input),
        kind: tools::kind(tool).into(),
        tool: Some(tool.into()),
        input: cut::json(input.clone(), cut::SANE),
        paths,
        options,
    }
}

/// The answer to `request`.
pub(super) fn response(id: &str, request: &Value, answer: &Answer) -> Value {
    let decision = match answer {
        Answer::Allow(option) if option.as_deref() == Some(ALLOW_ALWAYS) => {
            json!({ "behavior": "allow", "updatedInput": request["input"], "updatedPermissions": suggestions(request) })
        }
        Answer::Allow(_) => json!({ "behavior": "allow", "updatedInput": request["input"] }),
        Answer::Deny { reason, .. } if reason.trim().is_empty() => json!({ "behavior": "deny", "message": "This was not allowed." }),
        Answer::Deny { reason, .. } => json!({ "behavior": "deny", "message": reason }),
        Answer::Cancelled => json!({ "behavior": "deny", "message": "The turn was cancelled.", "interrupt": true }),
    };
    json!({ "type": "control_response", "response": { "subtype": "success", "request_id": id, "response": decision } })
}

/// What Claude suggests to allow from now on, for this session only: what it would write into settings
/// files would end up in the worktree or in the user's home.
fn suggestions(request: &Value) -> Vec<Value> {
    let mut all = request["permission_suggestions"].as_array().cloned().unwrap_or_default();
    for suggestion in all.iter_mut().filter_map(Value::as_object_mut) {
        suggestion.insert("destination".into(), "session".into());
    }
    all
}
