//! Codex's questions whether it may do something, and the answers.

use super::shell;
use crate::contract::{Answer, Permission, PermissionOption};
use crate::cut;
use serde_json::{Value, json};
use std::path::PathBuf;

const ACCEPT: &str = "accept";
const ACCEPT_FOR_SESSION: &str = "acceptForSession";
const DECLINE: &str = "decline";

/// A question that waits for an answer.
#[derive(Debug)]
pub(super) struct Open {
    /// The id of Codex's request, as it came.
    pub id: Value,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Answered with a decision.
    Decision,
    /// An MCP server's question, or Codex's whether its tool may be called.
    Elicitation,
    /// More permissions for the turn; these were asked for.
    Profile(Value),
}

/// The question of a request, when it is one; `changes` are those of the file change it is about.
pub(super) fn asked(method: &str, id: &Value, params: &Value, changes: Option<&Value>) -> Option<(Permission, Open)> {
    let (permission, form) = match method {
        "item/commandExecution/requestApproval" => (command(params), Form::Decision),
        "item/fileChange/requestApproval" => (file_change(params, changes), Form::Decision),
        "item/permissions/requestApproval" => (profile(params), Form::Profile(params["permissions"].clone())),
        "mcpServer/elicitation/request" if is_plain(params) => (tool_call(params), Form::Elicitation),
        _ => return None,
    };
    let request_id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    Some((Permission { request_id, ..permission }, Open { id: id.clone(), form }))
}

/// Whether a yes answers it: a form with fields would need their contents, an address a browser.
fn is_plain(params: &Value) -> bool {
    let fields = params["requestedSchema"]["properties"].as_object();
    params["mode"] != "url" && fields.is_none_or(serde_json::Map::is_empty)
}

impl Open {
    /// The result that answers it.
    pub fn result(&self, answer: &Answer) -> Value {
        let for_session = matches!(answer, Answer::Allow(Some(option)) if option == ACCEPT_FOR_SESSION);
        match (&self.form, answer) {
            (Form::Decision, Answer::Allow(_)) => json!({ "decision": if for_session { ACCEPT_FOR_SESSION } else { ACCEPT } }),
            (Form::Decision, Answer::Deny { .. }) => json!({ "decision": DECLINE }),
            (Form::Decision, Answer::Cancelled) => json!({ "decision": "cancel" }),
            (Form::Elicitation, Answer::Allow(_)) if for_session => {
                json!({ "action": "accept", "content": {}, "_meta": { "persist": "session" } })
            }
            (Form::Elicitation, Answer::Allow(_)) => json!({ "action": "accept", "content": {} }),
            (Form::Elicitation, Answer::Deny { .. }) => json!({ "action": "decline" }),
            (Form::Elicitation, Answer::Cancelled) => json!({ "action": "cancel" }),
            (Form::Profile(wanted), Answer::Allow(_)) => {
                json!({ "permissions": wanted, "scope": if for_session { "session" } else { "turn" } })
            }
            (Form::Profile(_), Answer::Deny { .. } | Answer::Cancelled) => json!({ "permissions": {}, "scope": "turn" }),
        }
    }
}

fn options() -> Vec<PermissionOption> {
    let option = |id: &str, label: &str, kind: &str| PermissionOption { id: id.into(), label: label.into(), kind: kind.into() };
    vec![
        option(ACCEPT, "Allow", "allow_once"),
        option(ACCEPT_FOR_SESSION, "Allow for this session", "allow_always"),
        option(DECLINE, "Deny", "reject_once"),
    ]
}

fn permission(title: &str, kind: &str, tool: &str, input: Value, paths: Vec<PathBuf>) -> Permission {
    Permission {
        request_id: String::new(),
        title: cut::text(title, 200),
        kind: kind.into(),
        tool: Some(tool.into()),
        input: cut::json(input, cut::SANE),
        paths,
        options: options(),
    }
}

fn command(params: &Value) -> Permission {
    let line = shell::unwrapped(params["command"].as_str().unwrap_or_default());
    if !params["networkApprovalContext"].is_null() {
        let title = format!("Use the network: {} ({line})", params["networkApprovalContext"]["host"].as_str().unwrap_or("some host"));
        return permission(&title, "fetch", "network", params["networkApprovalContext"].clone(), Vec::new());
    }
    let title = match params["reason"].as_str() {
        Some(reason) => format!("{line} ({reason})"),
        None => line.clone(),
    };
    let cwd: Vec<PathBuf> = params["cwd"].as_str().map(PathBuf::from).into_iter().collect();
    permission(&title, "execute", "shell", json!({ "command": line, "reason": params["reason"] }), cwd)
}

fn file_change(params: &Value, changes: Option<&Value>) -> Permission {
    let changes: Vec<&Value> = changes.and_then(Value::as_array).into_iter().flatten().collect();
    let mut paths: Vec<PathBuf> = changes.iter().filter_map(|change| change["path"].as_str()).map(PathBuf::from).collect();
    paths.extend(changes.iter().filter_map(|change| change["kind"]["move_path"].as_str()).map(PathBuf::from));
    paths.extend(params["grantRoot"].as_str().map(PathBuf::from));
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let title = if names.is_empty() { "Change files".to_owned() } else { format!("Change {}", names.join(", ")) };
    let input = json!({ "changes": changes, "reason": params["reason"], "grant_root": params["grantRoot"] });
    permission(&title, "edit", "apply_patch", input, paths)
}

fn profile(params: &Value) -> Permission {
    let wanted = &params["permissions"];
    let files = &wanted["fileSystem"];
    let listed = ["read", "write"].iter().filter_map(|key| files[*key].as_array()).flatten().filter_map(Value::as_str);
    let entries = files["entries"].as_array().into_iter().flatten().filter_map(|entry| entry["path"]["path"].as_str());
    let paths: Vec<PathBuf> = listed.chain(entries).map(PathBuf::from).collect();
    // Places that aren't plain paths can't be judged by where they are.
    let special = files["entries"].as_array().into_iter().flatten().any(|entry| entry["path"]["path"].is_null());
    let kind = match (wanted["network"]["enabled"] == true, special) {
        (true, _) => "fetch",
        (false, true) => "other",
        (false, false) => "edit",
    };
    let reason = params["reason"].as_str().unwrap_or("more permissions");
    permission(&format!("Get permissions for this turn: {reason}"), kind, "request_permissions", wanted.clone(), paths)
}

fn tool_call(params: &Value) -> Permission {
    let server = params["serverName"].as_str().unwrap_or_default();
    let meta = &params["_meta"];
    let tool = match meta["tool_name"].as_str() {
        Some(tool) => format!("mcp__{server}__{tool}"),
        None => format!("mcp__{server}"),
    };
    permission(params["message"].as_str().unwrap_or(&tool), "mcp", &tool, meta["tool_params"].clone(), Vec::new())
}
