//! Permission requests: what the agent asks, and which of its options an answer means.

use crate::contract::{Answer, Permission, PermissionOption};
use crate::cut;
use serde_json::{Value, json};
use std::path::PathBuf;

/// How a patch that a tool is called with begins.
const PATCH: &str = "*** Begin Patch\n";
/// What stands before a path in a patch.
const PATCHED: &[&str] = &["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
/// Where [`super::update::Normaliser::enrich`] puts the title that a call was announced with.
pub(super) const ANNOUNCED: &str = "announcedTitle";
/// How agents that tell a command only by its title say where it runs.
const FOLDER: &str = "[current working directory ";

/// Reads the parameters of `session/request_permission`, tolerantly.
pub(super) fn permission(request_id: String, params: &Value) -> Permission {
    let call = &params["toolCall"];
    let tool = tool_name(call);
    let title = call["title"].as_str().or(tool.as_deref()).unwrap_or("Use a tool").to_owned();
    let is_mcp = tool.as_deref().or(call["title"].as_str()).is_some_and(is_mcp);
    let patched = patched(&call["rawInput"]);
    let kind = match call["kind"].as_str() {
        _ if is_mcp => "mcp",
        Some("other") | None if !patched.is_empty() => "edit",
        Some(kind @ ("read" | "edit" | "delete" | "move" | "search" | "execute" | "fetch" | "think")) => kind,
        _ => "other",
    };
    let input = if kind == "execute" { titled_command(call) } else { None };
    Permission {
        request_id,
        title: cut::text(&title, cut::LAST_TEXT),
        kind: kind.to_owned(),
        tool,
        input: input.unwrap_or_else(|| cut::json(call["rawInput"].clone(), cut::SANE)),
        paths: paths(call, patched),
        options: list(&params["options"]).filter_map(option).collect(),
    }
}

/// Whether a tool's name is that of an MCP server's tool.
pub(super) fn is_mcp(name: &str) -> bool {
    name.starts_with("mcp__") || name.starts_with("mcp.")
}

/// The tool's name where an agent gives it: beside the title, or in the titles of an MCP server's tool.
pub(super) fn tool_name(call: &Value) -> Option<String> {
    let places = ["/_meta/claudeCode/toolName", "/_meta/toolName", "/rawInput/toolName", "/rawInput/tool"];
    let beside = places.iter().find_map(|place| call.pointer(place).and_then(Value::as_str)).map(str::to_owned);
    // A command's title is whatever the model says; that of a tool without a kind is the agent's.
    let by_agent = matches!(call["kind"].as_str(), None | Some("other"));
    beside.or_else(|| call["title"].as_str().filter(|_| by_agent).and_then(|title| server_tool(title, call[ANNOUNCED].as_str())))
}

/// `mcp__SERVER__TOOL` for a title such as `add_task (taskyard MCP Server)`, perhaps with arguments behind it, or for
/// `add_task` of a call that was announced as `taskyard-add_task`.
fn server_tool(title: &str, announced: Option<&str>) -> Option<String> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let titled = || {
        let (tool, rest) = title.split_once(" (")?;
        let (server, behind) = rest.split_once(" MCP Server)")?;
        (behind.is_empty() || behind.starts_with(':')).then_some((server, tool))
    };
    let joined = || Some((announced?.strip_suffix(title)?.strip_suffix('-')?, title));
    let (server, tool) = titled().or_else(joined)?;
    (is_name(server) && is_name(tool)).then(|| format!("mcp__{server}__{tool}"))
}

/// The arguments of a command that an agent tells by its title alone, with the folder it says it runs in.
fn titled_command(call: &Value) -> Option<Value> {
    let title = call["title"].as_str().filter(|title| call["rawInput"].is_null() && title.len() <= cut::SANE)?;
    let mut texts = list(&call["content"]).filter_map(|part| part["content"]["text"].as_str());
    let (folder, _) = texts.find_map(|text| text.strip_prefix(FOLDER)?.split_once(']'))?;
    Some(json!({ "command": title, "cwd": folder }))
}

/// The paths in a patch that is the call's argument; none of one that isn't understood to its end.
fn patched(input: &Value) -> Vec<&str> {
    let texts = [input.as_str(), input["input"].as_str(), input["patch"].as_str()];
    let Some(patch) = texts.into_iter().flatten().find(|text| text.starts_with(PATCH)) else { return Vec::new() };
    let mut paths = Vec::new();
    for line in patch.lines().map(str::trim).filter(|line| line.starts_with("***")) {
        match PATCHED.iter().find_map(|mark| line.strip_prefix(mark)) {
            Some(path) => paths.push(path.trim()),
            None if ["*** Begin Patch", "*** End Patch", "*** End of File"].contains(&line) => {}
            None => return Vec::new(),
        }
    }
    paths
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn option(value: &Value) -> Option<PermissionOption> {
    let id = value["optionId"].as_str()?.to_owned();
    let label = value["name"].as_str().unwrap_or(&id).to_owned();
    Some(PermissionOption { id, label, kind: value["kind"].as_str().unwrap_or_default().to_owned() })
}

fn paths(call: &Value, patched: Vec<&str>) -> Vec<PathBuf> {
    let located = list(&call["locations"]).chain(list(&call["content"])).filter_map(|place| place["path"].as_str());
    let named = ["path", "file_path", "filePath", "filepath", "fileName", "abs_path", "old_path", "new_path"];
    let given = named.iter().filter_map(|name| call["rawInput"][*name].as_str());
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in located.chain(given).chain(patched).map(PathBuf::from) {
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

    fn asked(call: Value) -> Permission {
        permission("1".into(), &json!({ "toolCall": call }))
    }

    #[test]
    fn tools_of_servers_are_told_by_titles_but_never_by_a_commands() {
        let tool = |call: Value| asked(call).tool;
        let own = Some("mcp__taskyard__add_task".to_owned());
        assert_eq!(tool(json!({"title": "add_task (taskyard MCP Server)", "kind": "other"})), own);
        assert_eq!(tool(json!({"title": "add_task (taskyard MCP Server): {\"title\":\"x\"}", "kind": "other"})), own);
        assert_eq!(tool(json!({"title": "add_task", "kind": "other", "announcedTitle": "taskyard-add_task"})), own);
        assert_eq!(asked(json!({"title": "add_task (taskyard MCP Server)", "kind": "other"})).kind, "mcp");
        for (title, kind, announced) in [
            ("add_task (taskyard MCP Server)", "execute", "x"),
            ("rm -rf x (taskyard MCP Server)", "other", "x"),
            ("add_task (taskyard MCP Server) && rm x", "other", "x"),
            ("add_task", "execute", "taskyard-add_task"),
            ("add_task", "other", "add_task"),
            ("", "other", "taskyard-"),
        ] {
            assert_eq!(tool(json!({"title": title, "kind": kind, "announcedTitle": announced})), None, "{title}");
        }
        assert_eq!(tool(json!({"title": "x", "kind": "other", "announcedTitle": "taskyard-evil-x"})), Some("mcp__taskyard-evil__x".into()));
    }

    #[test]
    fn a_command_told_by_its_title_is_read_only_with_its_folder() {
        let place = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        let call = |text: &str| asked(json!({"title": "git push", "kind": "execute", "content": place(text)})).input;
        assert_eq!(call("[current working directory /w] (Push it)"), json!({"command": "git push", "cwd": "/w"}));
        assert_eq!(call("Push it"), Value::Null);
        let both = json!({"title": "tidy up", "kind": "execute", "rawInput": {"command": "rm x"}, "content": place("[current working directory /w]")});
        assert_eq!(asked(both).input, json!({"command": "rm x"}));
    }

    #[test]
    fn a_patch_is_an_edit_of_its_files_when_all_of_it_is_understood() {
        let patch = |text: &str| {
            let read = asked(json!({"title": "apply_patch: …", "kind": "other", "rawInput": {"input": text}}));
            (read.kind, read.paths)
        };
        let whole = "*** Begin Patch\n*** Add File: /w/a\n+*** x\n*** Update File: b\n*** Move to:  /c\n@@\n-x\n*** Delete File: d\n*** End Patch\n";
        assert_eq!(patch(whole), ("edit".into(), ["/w/a", "b", "/c", "d"].map(PathBuf::from).into()));
        assert_eq!(patch("*** Begin Patch\n*** Add File: a\n *** Write File: /c\n*** End Patch\n"), ("other".into(), vec![]));
        assert_eq!(patch("nothing of the kind"), ("other".into(), vec![]));
    }
}
