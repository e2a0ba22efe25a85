//! What Claude's stream says, as transcript items and turn ends.

use super::session::Session;
use super::tools;
use crate::contract::{TurnEnd, TurnStop};
use crate::cut;
use crate::dialogue::Out;
use serde_json::Value;
use taskyard_domain::transcript::Item;

/// Messages that say nothing a reader of the transcript needs.
const QUIET: &[&str] = &[
    "keep_alive",
    "stream_event",
    "tool_use_summary",
    "prompt_suggestion",
    "command_lifecycle",
    "transcript_mirror",
    "auth_status",
    "active_goal",
    "autocompact_state",
];
/// The same among `system` messages.
const QUIET_SYSTEM: &[&str] = &[
    "thinking_tokens",
    "status",
    "session_state_changed",
    "hook_started",
    "hook_progress",
    "hook_response",
    "files_persisted",
    "task_started",
    "task_progress",
    "task_updated",
    "task_notification",
];

/// Any message that isn't part of the conversation's control.
pub(super) fn message(session: &mut Session, message: Value, out: &mut Out) {
    match message["type"].as_str().unwrap_or_default() {
        "assistant" => assistant(session, &message, out),
        "system" => system(message, out),
        "rate_limit_event" => rate_limit(session, &message["rate_limit_info"], out),
        "tool_progress" => {
            if let Some(call_id) = message["tool_use_id"].as_str() {
                out.item(Item::ToolUpdate { call_id: call_id.into(), status: "running".into(), output: None });
            }
        }
        kind if QUIET.contains(&kind) => {}
        _ => out.item(Item::Unknown { raw: cut::json(message, cut::SANE) }),
    }
}

fn assistant(session: &mut Session, message: &Value, out: &mut Out) {
    let id = message["message"]["id"].as_str().unwrap_or("message");
    let from_subagent = message["parent_tool_use_id"].is_string();
    let error = message["is_api_error_message"] == true || message["error"].is_string();
    for block in message["message"]["content"].as_array().into_iter().flatten() {
        if let (true, Some(text)) = (error, block["text"].as_str()) {
            out.notice("error", text);
            continue;
        }
        if let (false, Some(turn), Some(text)) = (from_subagent, &mut session.turn, block["text"].as_str()) {
            if turn.last_id != id {
                turn.last.clear();
                turn.last_id = id.to_owned();
            }
            turn.last.push(text);
        }
        out.events.extend(spoken(id, block).map(crate::contract::Event::Item));
    }
}

fn spoken(id: &str, block: &Value) -> Option<Item> {
    let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
    let kind = block["type"].as_str().unwrap_or_default();
    Some(match kind {
        "text" => Item::Text { message_id: id.into(), text: text("text") },
        "thinking" => Item::Thought { message_id: id.into(), text: text("thinking") },
        "redacted_thinking" => return None,
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let tool = text("name");
            let input = &block["input"];
            Item::ToolCall {
                call_id: text("id"),
                title: tools::title(&tool, input),
                kind: tools::kind(&tool).into(),
                input: cut::json(input.clone(), cut::SANE),
            }
        }
        kind if kind.ends_with("tool_result") => tool_result(block),
        _ => Item::Unknown { raw: cut::json(block.clone(), cut::SANE) },
    })
}

/// The results of tools, which come as messages of the user.
pub(super) fn tool_results(message: &Value, out: &mut Out) {
    let blocks = message["message"]["content"].as_array().into_iter().flatten();
    for block in blocks.filter(|block| block["type"].as_str().is_some_and(|kind| kind.ends_with("tool_result"))) {
        out.item(tool_result(block));
    }
}

fn tool_result(block: &Value) -> Item {
    let status = if block["is_error"] == true { "failed" } else { "completed" };
    let call_id = block["tool_use_id"].as_str().unwrap_or_default().to_owned();
    Item::ToolUpdate { call_id, status: status.into(), output: tools::output(&block["content"]) }
}

fn system(message: Value, out: &mut Out) {
    let text = |key: &str| message[key].as_str().unwrap_or_default();
    match text("subtype") {
        "api_retry" => {
            let status = message["error_status"].as_i64().map(|status| format!(" {status}")).unwrap_or_default();
            let (attempt, max) = (&message["attempt"], &message["max_retries"]);
            let delay = message["retry_delay_ms"].as_f64().unwrap_or_default() / 1000.0;
            out.notice("warning", format!("The model's API failed ({}{status}); retry {attempt} of {max} in {delay:.1} s", text("error")));
        }
        "compact_boundary" => out.notice("info", "Claude shortened the conversation to make room"),
        kind if QUIET_SYSTEM.contains(&kind) => {}
        _ => out.item(Item::Unknown { raw: cut::json(message, cut::SANE) }),
    }
}

/// MCP servers that can't be used, each told once.
pub(super) fn servers(session: &mut Session, init: &Value, out: &mut Out) {
    for server in init["mcp_servers"].as_array().into_iter().flatten() {
        let text = |key: &str| server[key].as_str().unwrap_or_default();
        if matches!(text("status"), "failed" | "needs-auth") && session.told.insert(text("name").to_owned()) {
            out.notice("warning", format!("Claude can't use the MCP server {}: {}", text("name"), text("status")));
        }
    }
}

fn rate_limit(session: &mut Session, info: &Value, out: &mut Out) {
    let reset_at = info["resetsAt"].as_i64().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let until = reset_at.map(|time| format!(" until {time}")).unwrap_or_default();
    let window = info["rateLimitType"].as_str().unwrap_or("account").replace('_', " ");
    match info["status"].as_str() {
        Some("rejected") if info["isUsingOverage"] != true => {
            session.limit = Some(reset_at);
            out.notice("warning", format!("The {window} usage limit is reached{until}"));
        }
        Some("allowed_warning") => out.notice("info", format!("The {window} usage limit is close; it counts{until}")),
        _ => {}
    }
}

/// Errors a result tells of, in Claude's words.
pub(super) fn errors(result: &Value) -> Vec<String> {
    let listed = result["errors"].as_array().into_iter().flatten();
    let mut errors: Vec<String> = listed.map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned)).collect();
    // What Claude adds for its own developers.
    errors.retain(|error| !error.starts_with("[ede_diagnostic]"));
    let said = result["result"].as_str().filter(|text| result["is_error"] == true && !text.is_empty());
    errors.extend(said.map(|text| cut::text(text, cut::LAST_TEXT)));
    if errors.is_empty() && result["is_error"] == true {
        errors.push(result["terminal_reason"].as_str().or(result["subtype"].as_str()).unwrap_or("error").replace('_', " "));
    }
    errors
}

/// How a turn ended.
pub(super) fn end(result: &Value, cancelled: bool, last_text: String) -> TurnEnd {
    let text = |key: &str| result[key].as_str().unwrap_or_default();
    let mut errors = errors(result);
    let aborted = text("terminal_reason").starts_with("aborted") || cancelled && text("subtype") == "error_during_execution";
    let stop = match (text("subtype"), text("stop_reason")) {
        _ if aborted => TurnStop::Cancelled,
        ("error_max_turns", _) => TurnStop::MaxTurns,
        _ if result["is_error"] == true => {
            let refused = matches!(result["api_error_status"].as_i64(), Some(401 | 403));
            if refused || errors.iter().any(|error| is_auth(error)) { TurnStop::AuthRequired } else { TurnStop::Failed }
        }
        ("success" | "", "refusal") => TurnStop::Refused,
        ("success" | "", "max_tokens" | "model_context_window_exceeded") => TurnStop::MaxTokens,
        ("success" | "", _) => TurnStop::Ended,
        _ => TurnStop::Failed,
    };
    if stop == TurnStop::Cancelled {
        errors.clear();
    }
    TurnEnd { stop, errors, last_text }
}

/// Whether an error says that nobody is logged in or the key is wrong.
pub(super) fn is_auth(error: &str) -> bool {
    let error = error.to_lowercase();
    ["invalid api key", "/login", "authentication", "not logged in", "oauth token", "unauthorized"].iter().any(|word| error.contains(word))
}
