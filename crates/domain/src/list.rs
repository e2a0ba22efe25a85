//! The list (workflow): an ordered set of tasks with the configuration they inherit.

use crate::id::{ListId, ProfileId, RepositoryId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A list of tasks. `workflow_id` and `list_id` name the same thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct List {
    /// Its UUID.
    pub id: ListId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// What people call it.
    pub name: String,
    /// A sentence on what it is for.
    pub description: String,
    /// Put after the workspace's prompt, before the task's description.
    pub prompt: String,
    /// Place among the workspace's lists.
    pub sort_order: f64,
    /// What its tasks inherit.
    pub config: Config,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Configuration that a list or a task can carry; `None` means inherit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// How to run the agent.
    pub agent_profile_id: Option<ProfileId>,
    /// Where to run it; named executors come later.
    pub executor_profile_id: Option<String>,
    /// The repository to work in.
    pub repository_id: Option<RepositoryId>,
    /// The branch that merges go to.
    pub target_branch: Option<String>,
    /// The model alias or name.
    pub model: Option<String>,
    /// Largest number of turns of the agent's own loop.
    pub max_turns: Option<i64>,
    /// Added to the agent's system prompt.
    pub system_prompt: Option<String>,
}
