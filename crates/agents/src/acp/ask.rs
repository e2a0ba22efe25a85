//! Permission requests: what the agent asks, and which of its options an answer means.

use crate::contract::{Answer, Permission, PermissionOption};
use crate::cut;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Reads the parameters of `session/request_permission`, tolerantly.
pub(super) fn permission(request_id: String, params: &Value) -> Permission {
    let call = &params["toolCall"];
    let tool = tool_name(call);
    let title = call["title"].as_str().or(tool.as_deref()).unwrap_or("Use a tool").to_owned();
    let is_mcp = tool.as_deref().or(call["title"].as_str()).is_some_and(is_mcp);
    let kind = match call["kind"].as_str() {
        _ if is_mcp => "mcp",
        Some(kind @ ("read" | "edit" | "delete" | "move" | "search" | "execute" | "fetch" | "think")) => kind,
        _ => "other",
    };
    Permission {
        request_id,
        title: cut::text(&title, cut::LAST_TEXT),
        kind: kind.to_owned(),
        tool,
        input: cut::json(call["rawInput"].clone(), cut::SANE),
        paths: paths(call),
        options: list(&params["options"]).filter_map(option).collect(),
    }
}

/// Whether a tool's name is that of an MCP server's tool.
pub(super) fn is_mcp(name: &str) -> bool {
    name.starts_with("mcp__") || name.starts_with("mcp.")
}

/// The tool's name where an agent gives it beside the title.
pub(super) fn tool_name(call: &Value) -> Option<String> {
    let places = ["/_meta/claudeCode/toolName", "/_meta/toolName", "/rawInput/toolName", "/rawInput/tool"];
    places.iter().find_map(|place| call.pointer(place).and_then(Value::as_str)).map(str::to_owned)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn option(value: &Value) -> Option<PermissionOption> {
    let id = value["optionId"].as_str()?.to_owned();
    let label = value["name"].as_str().unwrap_or(&id).to_owned();
    Some(PermissionOption { id, label, kind: value["kind"].as_str().unwrap_or_default().to_owned() })
}

fn paths(call: &Value) -> Vec<PathBuf> {
    let located = list(&call["locations"]).chain(list(&call["content"])).filter_map(|place| place["path"].as_str());
    let named = ["path", "file_path", "filePath", "abs_path", "old_path", "new_path"];
    let given = named.iter().filter_map(|name| call["rawInput"][*name].as_str());
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in located.chain(given).map(PathBuf::from) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// The protocol's outcome for `answer`. An option is chosen by id when a person chose one that exists,
/// else by kind, the narrower one first; without a fitting one the request counts as cancelled.
pub(super) fn outcome(options: &[PermissionOption], answer: &Answer) -> Value {
    let (chosen, kinds) = match answer {
        Answer::Allow(id) => (id.as_deref(), ["allow_once", "allow_always"]),
        Answer::Deny { option_id, .. } => (option_id.as_deref(), ["reject_once", "reject_always"]),
        Answer::Cancelled => return cancelled(),
    };
    let by_id = options.iter().find(|option| Some(option.id.as_str()) == chosen && kinds.contains(&option.kind.as_str()));
    let by_kind = || kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
    match by_id.or_else(by_kind) {
        Some(option) => json!({ "outcome": { "outcome": "selected", "optionId": option.id } }),
        None => cancelled(),
    }
}

fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Vec<PermissionOption> {
        pairs.iter().map(|(id, kind)| PermissionOption { id: (*id).into(), label: (*id).into(), kind: (*kind).into() }).collect()
    }

    fn picked(options: &[PermissionOption], answer: &Answer) -> String {
        outcome(options, answer)["outcome"]["optionId"].as_str().unwrap_or("cancelled").to_owned()
    }

    fn deny(option_id: Option<&str>) -> Answer {
        Answer::Deny { reason: String::new(), option_id: option_id.map(Into::into) }
    }

    #[test]
    fn options_are_chosen_by_kind_not_by_position() {
        let all = options(&[("always", "allow_always"), ("never", "reject_always"), ("once", "allow_once"), ("no", "reject_once")]);
        assert_eq!(picked(&all, &Answer::Allow(None)), "once");
        assert_eq!(picked(&all, &Answer::Allow(Some("always".into()))), "always");
        assert_eq!(picked(&all, &deny(None)), "no");
        assert_eq!(picked(&all, &deny(Some("never"))), "never");
        assert_eq!(picked(&all, &Answer::Cancelled), "cancelled");
    }

    #[test]
    fn an_answer_never_turns_into_its_opposite() {
        let only_allow = options(&[("once", "allow_once")]);
        assert_eq!(picked(&only_allow, &deny(Some("once"))), "cancelled");
        let odd = options(&[("x", "allow_for_a_week"), ("no", "reject_once")]);
        assert_eq!(picked(&odd, &Answer::Allow(Some("no".into()))), "cancelled");
    }

    #[test]
    fn requests_are_read_tolerantly() {
        let params = json!({"toolCall": {"title": "Write", "kind": "edit", "rawInput": {"file_path": "/w/a"},
            "locations": [{"path": "/w/a"}, {"path": "/w/b"}]}, "options": [{"optionId": "o", "kind": "new_kind"}, {"bad": 1}]});
        let read = permission("1".into(), &params);
        assert_eq!((read.kind.as_str(), read.title.as_str()), ("edit", "Write"));
        assert_eq!(read.paths, [PathBuf::from("/w/a"), PathBuf::from("/w/b")]);
        assert_eq!(read.options, options(&[("o", "new_kind")]));
        assert_eq!(permission("1".into(), &Value::Null).title, "Use a tool");
        let mcp = permission("1".into(), &json!({"toolCall": {"title": "x", "_meta": {"claudeCode": {"toolName": "mcp__a__b"}}}}));
        assert_eq!((mcp.kind.as_str(), mcp.tool.as_deref()), ("mcp", Some("mcp__a__b")));
    }
}
