//! Agents and the named ways to run them.

use crate::id::{AgentId, ProfileId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

crate::vocabulary! {
    /// The protocol that an agent speaks.
    DriverKind, "driver", {
        /// The Agent Client Protocol on stdio.
        Acp = "acp",
        /// Claude Code's stream-json on stdio.
        Claude = "claude",
        /// Codex's app-server on stdio.
        Codex = "codex",
        /// Any command that reads a prompt on stdin and exits.
        Exec = "exec",
    }
}

crate::vocabulary! {
    /// What a profile does when its agent asks for permission.
    PermissionPolicy, "permission policy", {
        /// A person is asked each time.
        Ask = "ask",
        /// What the profile lists is allowed, the rest is asked.
        Listed = "listed",
        /// Everything that stays inside the worktree is allowed, the rest is asked.
        Worktree = "worktree",
    }
}

/// A program that can work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its UUID.
    pub id: AgentId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// Its name, unique in the workspace.
    pub name: String,
    /// The protocol it speaks.
    pub driver: DriverKind,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment added to the clean one. Values are secrets: masked on every read.
    pub env: BTreeMap<String, String>,
    /// Until when its account is limited, with the words it gave.
    pub limited_until: Option<Timestamp>,
    /// Why it is limited.
    pub limit_reason: Option<String>,
    /// Consecutive limits without a stated reset time; the back-off doubles with each.
    pub limit_strikes: i64,
    /// When it was added.
    pub created_at: Timestamp,
}

/// A named way to run an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Its UUID.
    pub id: ProfileId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The agent it runs.
    pub agent_id: AgentId,
    /// Its name, unique in the workspace.
    pub name: String,
    /// The model; `None` leaves it to the agent.
    pub model: Option<String>,
    /// The agent's own mode, where it has modes.
    pub mode: Option<String>,
    /// What happens when the agent asks.
    pub permission_policy: PermissionPolicy,
    /// With `listed`: tool kinds or names that are allowed.
    pub allowed_tools: Vec<String>,
    /// Environment added on top of the agent's.
    pub env: BTreeMap<String, String>,
    /// Most runs of this profile at once; `None` means no cap.
    pub max_parallel: Option<i64>,
    /// Whether Taskyard commits what the agent left uncommitted.
    pub auto_commit: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Claude's model aliases, cheapest first.
pub const CLAUDE_MODELS: &[&str] = &["haiku", "sonnet", "opus"];

/// Whether `text` can't be a model of an agent of this kind: not one of its aliases, or, where names are free-form but
/// one vendor's, another vendor's alias.
pub fn is_foreign_model(driver: DriverKind, text: &str) -> bool {
    let known = |aliases: &[&str]| aliases.iter().any(|alias| alias.eq_ignore_ascii_case(text));
    match driver {
        DriverKind::Claude => !known(CLAUDE_MODELS),
        DriverKind::Codex => known(CLAUDE_MODELS),
        DriverKind::Acp | DriverKind::Exec => false,
    }
}

/// The aliases an agent of this kind knows, cheapest first; empty where models are free-form.
pub fn model_aliases(driver: DriverKind) -> &'static [&'static str] {
    match driver {
        DriverKind::Claude => CLAUDE_MODELS,
        DriverKind::Acp | DriverKind::Codex | DriverKind::Exec => &[],
    }
}
