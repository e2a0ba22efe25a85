//! Codex's errors: what they mean for a turn.

use crate::contract::{LimitNotice, TurnStop};
use jiff::Timestamp;
use serde_json::Value;

/// The words of an error, with its details.
pub(super) fn words(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or("Codex reported an error");
    match error["additionalDetails"].as_str() {
        Some(details) if !message.contains(details) => format!("{message}: {details}"),
        _ => message.to_owned(),
    }
}

/// How a turn that failed with `error` stopped.
pub(super) fn stop(error: &Value) -> TurnStop {
    let message = error["message"].as_str().unwrap_or_default();
    match (kind(error), status(error)) {
        ("unauthorized", _) | (_, Some(401 | 403)) => TurnStop::AuthRequired,
        ("cyberPolicy" | "bioPolicy" | "misalignmentPolicyViolation", _) => TurnStop::Refused,
        _ if message.contains("max_output_tokens") => TurnStop::MaxTokens,
        _ => TurnStop::Failed,
    }
}

/// The usage limit that `error` tells of; `windows` is Codex's last report of the account's limits.
pub(super) fn limit(error: &Value, windows: &Value) -> Option<LimitNotice> {
    let text = words(error);
    let sure = matches!(kind(error), "usageLimitExceeded" | "rateLimitExceeded") || status(error) == Some(429);
    let mut notice = if sure { crate::limits::certain(&text) } else { crate::limits::notice(&text)? };
    notice.reset_at = notice.reset_at.or_else(|| full_window(windows));
    Some(notice)
}

fn full_window(windows: &Value) -> Option<Timestamp> {
    let full = ["primary", "secondary"].iter().map(|name| &windows[*name]).filter(|window| window["usedPercent"].as_i64() >= Some(100));
    let seconds = full.filter_map(|window| window["resetsAt"].as_i64()).max()?;
    Timestamp::from_second(seconds).ok()
}

/// The error's kind: a word, or the only key of an object.
fn kind(error: &Value) -> &str {
    let info = &error["codexErrorInfo"];
    info.as_str().or_else(|| info.as_object()?.keys().next().map(String::as_str)).unwrap_or_default()
}

fn status(error: &Value) -> Option<i64> {
    error["codexErrorInfo"].as_object()?.values().find_map(|detail| detail["httpStatusCode"].as_i64())
}
