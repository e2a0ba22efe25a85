//! What Claude Code's tools do, in Taskyard's words.

use crate::cut;
use serde_json::Value;
use std::path::PathBuf;

/// Longest title.
const TITLE: usize = 200;

/// The kind of a tool, from its name.
pub(super) fn kind(tool: &str) -> &'static str {
    match tool {
        "Bash" | "PowerShell" | "Monitor" => "execute",
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => "edit",
        "Read" | "NotebookRead" | "LS" | "LSP" | "BashOutput" | "TaskOutput" => "read",
        "Glob" | "Grep" => "search",
        "WebFetch" | "WebSearch" => "fetch",
        "Task" | "Agent" | "TodoWrite" | "ToolSearch" | "TaskCreate" | "TaskUpdate" | "TaskGet" | "TaskList" => "think",
        tool if tool.starts_with("mcp__") => "mcp",
        _ => "other",
    }
}

/// What a call does, in words.
pub(super) fn title(tool: &str, input: &Value) -> String {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let about =
        ["command", "file_path", "notebook_path", "pattern", "url", "query", "description", "skill"].iter().find_map(|key| text(key));
    let title = match (tool, about) {
        ("Bash", Some(command)) => command.to_owned(),
        (tool, _) if tool.starts_with("mcp__") => tool.trim_start_matches("mcp__").replacen("__", ": ", 1),
        (tool, Some(about)) => format!("{tool} {about}"),
        (tool, None) => tool.to_owned(),
    };
    cut::text(title.trim(), TITLE)
}

/// The paths a call names.
pub(super) fn paths(input: &Value) -> Vec<PathBuf> {
    ["file_path", "notebook_path", "path"].iter().filter_map(|key| input.get(key)?.as_str()).map(PathBuf::from).collect()
}

/// The text of a tool's result: a string, or blocks of which the texts count.
pub(super) fn output(content: &Value) -> Option<String> {
    let text = match content {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(block).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    };
    Some(cut::text(&text, cut::SANE))
}

fn block(block: &Value) -> String {
    match (block["type"].as_str(), block["text"].as_str()) {
        (_, Some(text)) => text.to_owned(),
        (Some(kind), None) => format!("[{kind}]"),
        (None, None) => block.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn calls_have_kinds_titles_and_paths() {
        let cases = [
            ("Bash", json!({"command": "git status", "description": "look"}), "execute", "git status", 0),
            ("Write", json!({"file_path": "/a", "content": "x"}), "edit", "Write /a", 1),
            ("Read", json!({"file_path": "/a"}), "read", "Read /a", 1),
            ("Grep", json!({"pattern": "x", "path": "src"}), "search", "Grep x", 1),
            ("WebFetch", json!({"url": "https://x.test"}), "fetch", "WebFetch https://x.test", 0),
            ("mcp__taskyard__ask_user", json!({}), "mcp", "taskyard: ask_user", 0),
            ("Novel", json!(null), "other", "Novel", 0),
        ];
        for (tool, input, expected_kind, expected_title, count) in cases {
            assert_eq!((kind(tool), title(tool, &input).as_str(), paths(&input).len()), (expected_kind, expected_title, count));
        }
    }

    #[test]
    fn outputs_are_texts_whatever_their_shape() {
        assert_eq!(output(&json!("a")), Some("a".into()));
        assert_eq!(output(&json!([{"type": "text", "text": "a"}, {"type": "image", "source": {}}])), Some("a\n[image]".into()));
        assert_eq!(output(&Value::Null), None);
    }
}
