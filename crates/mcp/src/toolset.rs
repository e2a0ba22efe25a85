//! Which tools a caller sees: toolsets, modes made of them, and the selection that a URL makes.
//!
//! The contract names more sets and modes than are built; only built ones are listed here, and a test
//! compares each with the contract.

use crate::tool::Tool;
use crate::tools;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use taskyard_domain::{Error, Result};

/// A named group of tools.
pub type Toolset = (&'static str, &'static [&'static str]);

/// Every toolset that has tools.
pub static TOOLSETS: &[Toolset] = &[
    (
        "tasks",
        &[
            "list_task_lists",
            "list_tasks",
            "get_task",
            "add_task",
            "add_subtask",
            "update_task",
            "update_task_status",
            "get_task_status_values",
            "review_task",
            "run_task_now",
            "continue_task",
            "cancel_task",
            "delete_task",
        ],
    ),
    (
        "git",
        &[
            "get_task_worktree",
            "get_task_diff",
            "merge_task",
            "continue_merge",
            "abort_merge",
            "preview_merge",
            "preview_merge_set",
            "revert_merge",
            "list_worktrees",
            "cleanup_task_worktree",
        ],
    ),
    ("lists", &["create_list", "update_list", "delete_list"]),
    ("task_and_list_config", &["get_list_config", "set_list_config", "get_task_config", "set_task_config"]),
    ("runs", &["list_runs", "get_run", "get_task_log"]),
    ("agents", &["list_agents"]),
    ("lifecycle", &["reset_failed_task"]),
    ("settings", &["get_app_settings"]),
    ("wait", &["wait_for_task_change"]),
    ("queue", &["get_queue_state"]),
    ("workflow_config", &["list_workspaces"]),
    ("dependencies", &["add_task_dependency", "remove_task_dependency"]),
    ("claiming", &["claim_task", "complete_task", "claim_next_task"]),
    ("backlog", &["create_object", "list_backlog"]),
    ("human", &["list_pending_questions", "answer_question"]),
    ("safety", &["list_snapshots", "restore_snapshot", "get_audit_log"]),
];

/// A mode: toolsets and single tools by name.
pub type Mode = (&'static str, &'static [&'static str]);

/// Every mode that can be asked for at `/mcp`.
pub static MODES: &[Mode] = &[
    (
        "external",
        &[
            "tasks",
            "git",
            "lists",
            "task_and_list_config",
            "runs",
            "agents",
            "lifecycle",
            "settings",
            "wait",
            "queue",
            "workflow_config",
            "claiming",
            "backlog",
            "dependencies",
            "human",
            "safety",
        ],
    ),
    ("dispatch", &["tasks", "git", "lists", "task_and_list_config", "runs", "agents", "lifecycle", "settings", "wait", "queue"]),
    (
        "core",
        &[
            "list_task_lists",
            "list_tasks",
            "get_task",
            "add_task",
            "update_task_status",
            "run_task_now",
            "continue_task",
            "cancel_task",
            "wait_for_task_change",
            "get_queue_state",
            "get_task_diff",
            "preview_merge",
            "preview_merge_set",
            "merge_task",
            "review_task",
            "revert_merge",
            "claim_task",
            "complete_task",
            "list_pending_questions",
            "answer_question",
        ],
    ),
    ("claims", &["claiming", "backlog"]),
    (
        "agent",
        &["get_task", "list_tasks", "add_task", "add_subtask", "get_task_diff", "preview_merge", "wait_for_task_change", "get_queue_state"],
    ),
];

/// The mode of a caller that names none.
pub const DEFAULT_MODE: &str = "external";
/// The mode of a caller with a run's token, whatever it asks for.
pub const AGENT_MODE: &str = "agent";

/// The names of the tools in `name`, which is a toolset, a mode or a single tool.
pub fn expand(name: &str) -> Option<Vec<&'static str>> {
    if let Some((_, members)) = TOOLSETS.iter().find(|(set, _)| *set == name) {
        return Some(members.to_vec());
    }
    if let Some((_, members)) = MODES.iter().find(|(mode, _)| *mode == name) {
        let mut names: Vec<&'static str> = Vec::new();
        for tool in members.iter().filter_map(|member| expand(member)).flatten() {
            if !names.contains(&tool) {
                names.push(tool);
            }
        }
        return Some(names);
    }
    tools::find(name).map(|tool| vec![tool.name])
}

/// The tools of every mode: each request asks for those of its own.
static EXPANDED: LazyLock<HashMap<&str, Arc<[&str]>>> =
    LazyLock::new(|| MODES.iter().map(|(mode, _)| (*mode, expand(mode).unwrap_or_default().into())).collect());

fn expanded(mode: &str) -> Arc<[&'static str]> {
    EXPANDED.get(mode).cloned().unwrap_or_default()
}

/// What one caller sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    mode: &'static str,
    names: Arc<[&'static str]>,
    read_only: bool,
}

impl Selection {
    /// The selection of `?mode=`, `?toolsets=` and `?readonly=` in `query`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a mode or toolset that doesn't exist, listing those that do, and for a parameter that nobody
    /// knows: a misspelt `readonly` mustn't give what it was to keep away.
    pub fn from_query(query: &str) -> Result<Self> {
        let (mut mode, mut sets, mut read_only) = (DEFAULT_MODE.to_owned(), None, false);
        for (key, value) in pairs(query) {
            match key.as_str() {
                "mode" if !value.is_empty() => mode = value,
                "toolsets" | "toolset" if !value.is_empty() => sets = Some(value),
                "readonly" | "read_only" => read_only = flag(&key, &value)?,
                // The older transport's id of a session.
                "mode" | "toolsets" | "toolset" | "sessionId" | "session_id" => {}
                _ => return Err(Error::invalid(&key, format!("there is no parameter {key:?}; parameters are mode, toolsets, readonly"))),
            }
        }
        let mut selection = Self::mode(&mode)?;
        selection.read_only = read_only;
        if let Some(sets) = sets {
            selection.narrow(&sets)?;
        }
        Ok(selection)
    }

    /// All tools of `mode`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a mode that doesn't exist, listing those that do.
    pub fn mode(mode: &str) -> Result<Self> {
        let Some((mode, _)) = MODES.iter().find(|(known, _)| *known == mode) else {
            return Err(Error::invalid("mode", format!("there is no mode {mode:?}; modes are {}", names(MODES))));
        };
        Ok(Self { mode, names: expanded(mode), read_only: false })
    }

    /// Every tool that is built.
    pub fn everything() -> Self {
        Self { mode: DEFAULT_MODE, names: tools::all().map(|tool| tool.name).collect(), read_only: false }
    }

    /// What an agent that Taskyard runs sees.
    pub fn agent() -> Self {
        Self { mode: AGENT_MODE, names: expanded(AGENT_MODE), read_only: false }
    }

    fn narrow(&mut self, sets: &str) -> Result<()> {
        let mut wanted = Vec::new();
        for set in sets.split(',').map(str::trim).filter(|set| !set.is_empty()) {
            let Some((_, members)) = TOOLSETS.iter().find(|(known, _)| *known == set) else {
                return Err(Error::invalid("toolsets", format!("there is no toolset {set:?}; toolsets are {}", names(TOOLSETS))));
            };
            wanted.extend_from_slice(members);
        }
        self.names = self.names.iter().filter(|name| wanted.contains(name)).copied().collect();
        Ok(())
    }

    /// The tools, sorted by name as the protocol wants.
    pub fn tools(&self) -> Vec<&'static Tool> {
        let mut tools: Vec<&'static Tool> = tools::all().filter(|tool| self.contains(tool)).collect();
        tools.sort_by_key(|tool| tool.name);
        tools
    }

    /// Whether `tool` is among them.
    pub fn contains(&self, tool: &Tool) -> bool {
        self.names.contains(&tool.name) && (tool.read_only || !self.read_only)
    }

    /// Why a tool outside the selection isn't to be had.
    pub fn refusal(&self, tool: &Tool) -> Error {
        let at = if self.mode == AGENT_MODE { "an agent that Taskyard runs" } else { "this connection" };
        let error = Error::forbidden(format!("{} isn't available to {at} (mode {})", tool.name, self.mode));
        match (self.mode, self.names.contains(&tool.name)) {
            (AGENT_MODE, _) => error.with_hint("finish your turn; a person reviews, merges and answers"),
            (_, true) => error.with_hint("the connection is read-only: leave out ?readonly=true"),
            (_, false) => error.with_hint("connect to /mcp without ?mode= and ?toolsets= for every tool"),
        }
    }
}

fn names(all: &[(&'static str, &'static [&'static str])]) -> String {
    all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn flag(key: &str, value: &str) -> Result<bool> {
    match value {
        "" | "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(Error::invalid(key, format!("{key} is true or false"))),
    }
}

/// The decoded pairs of a query string.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query.split('&').filter(|part| !part.is_empty()).map(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (decode(key), decode(value))
    })
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let escaped =
            bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], escaped) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_modes_name_tools_that_exist() {
        for (set, members) in TOOLSETS {
            for member in *members {
                assert!(tools::find(member).is_some(), "{set} names {member}");
            }
        }
        for (mode, members) in MODES {
            assert!(members.iter().all(|m| expand(m).is_some()), "{mode}");
        }
    }

    #[test]
    fn a_query_selects() {
        let names = |query: &str| Selection::from_query(query).unwrap().tools().iter().map(|t| t.name).collect::<Vec<_>>();
        assert!(names("").contains(&"merge_task"));
        assert_eq!(names("mode=core&toolsets=wait%2Cqueue"), ["get_queue_state", "wait_for_task_change"]);
        assert!(!names("readonly=true").contains(&"add_task"));
        assert!(names("readonly").contains(&"get_task"));
        assert!(!names("mode=agent").contains(&"merge_task"));
    }

    #[test]
    fn unknown_names_list_the_choices() {
        let error = Selection::from_query("mode=nope").unwrap_err();
        assert_eq!((error.field.as_deref(), error.message.contains("external, dispatch, core, claims, agent")), (Some("mode"), true));
        assert!(Selection::from_query("toolsets=git,nope").unwrap_err().message.contains("task_and_list_config"));
        assert!(Selection::from_query("readonly=perhaps").is_err());
        let error = Selection::from_query("mode=core&read-only=true").unwrap_err();
        let says = "there is no parameter \"read-only\"; parameters are mode, toolsets, readonly";
        assert_eq!((error.field.as_deref(), error.message.as_str()), (Some("read-only"), says));
        assert!(Selection::from_query("sessionId=1&mode=core").is_ok());
    }

    #[test]
    fn decoding_survives_broken_escapes() {
        assert_eq!(decode("a%2Cb+c%"), "a,b c%");
        assert_eq!(decode("%zz"), "%zz");
    }
}
