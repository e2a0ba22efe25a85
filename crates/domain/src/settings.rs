//! The server's settings with their defaults and bounds.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Settings of the server. Durations are whole seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Runs at once, 1–64.
    pub configured_slots: i64,
    /// Whether the queue starts nothing new.
    pub paused: bool,
    /// Whether an interrupted run starts again by itself.
    pub resume_interrupted: bool,
    /// Whether a limited account's tasks start again by themselves at the reset time.
    pub resume_limited: bool,
    /// Silence after which an open run is shown as stalled.
    pub stall_after: i64,
    /// Silence after which an open run is ended as failed; 0 never.
    pub stall_kill_after: i64,
    /// A run that waits for a person longer than this gives its slot back.
    pub slot_yield_after: i64,
    /// Longest a setup, cleanup or verify script may take.
    pub script_limit: i64,
    /// Largest `timeout_seconds` of `wait_for_task_change`.
    pub wait_limit: i64,
    /// First pause of an account whose limit has no stated end; doubles up to an hour.
    pub limit_backoff: i64,
    /// Put behind every MCP tool name, such as `_kandev`.
    pub tool_suffix: String,
    /// Where worktrees live; the data folder when empty.
    pub worktree_root: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            configured_slots: 3,
            paused: false,
            resume_interrupted: true,
            resume_limited: true,
            stall_after: 600,
            stall_kill_after: 7200,
            slot_yield_after: 10,
            script_limit: 600,
            wait_limit: 900,
            limit_backoff: 60,
            tool_suffix: String::new(),
            worktree_root: String::new(),
        }
    }
}

impl Settings {
    /// Checks every bound.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` naming the first setting that is out of range.
    pub fn check(&self) -> Result<()> {
        let bounds = [
            ("configured_slots", self.configured_slots, 1, 64),
            ("stall_after", self.stall_after, 1, 604_800),
            ("stall_kill_after", self.stall_kill_after, 0, 604_800),
            ("slot_yield_after", self.slot_yield_after, 0, 86_400),
            ("script_limit", self.script_limit, 1, 86_400),
            ("wait_limit", self.wait_limit, 1, 3_600),
            ("limit_backoff", self.limit_backoff, 1, 3_600),
        ];
        for (name, value, min, max) in bounds {
            if value < min || value > max {
                return Err(Error::invalid(name, format!("{name} is {value}; it can be {min} to {max}")));
            }
        }
        let plain = self.tool_suffix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !plain || self.tool_suffix.len() > 8 {
            return Err(Error::invalid("tool_suffix", "tool_suffix takes at most 8 of a-z, 0-9 and _"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_bounds() {
        Settings::default().check().unwrap();
    }

    #[test]
    fn a_bad_value_is_named() {
        let bad = Settings { configured_slots: 0, ..Settings::default() };
        assert_eq!(bad.check().unwrap_err().field.as_deref(), Some("configured_slots"));
        let bad = Settings { tool_suffix: "-X".into(), ..Settings::default() };
        assert_eq!(bad.check().unwrap_err().field.as_deref(), Some("tool_suffix"));
    }
}
