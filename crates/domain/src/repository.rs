//! A git repository of a workspace and how Taskyard treats it.

use crate::id::{RepositoryId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// Whether the repository's own hooks run on commits and merges that Taskyard makes.
    HookPolicy, "hook policy", {
        /// Hooks run; a failing one refuses the operation with its text.
        Run = "run",
        /// Hooks are skipped.
        Skip = "skip",
    }
}

crate::vocabulary! {
    /// Whether commits that Taskyard makes are signed.
    SignPolicy, "signing policy", {
        /// As the repository's git configuration says.
        Inherit = "inherit",
        /// Never signed: the explicit choice for unsigned work.
        Never = "never",
    }
}

/// A git repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// Its UUID.
    pub id: RepositoryId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// What people call it; the folder's name by default.
    pub name: String,
    /// The user's checkout (or bare repository), an absolute path.
    pub local_path: Option<String>,
    /// Where it was cloned from.
    pub remote_url: Option<String>,
    /// The branch that merges go to when nothing nearer says otherwise.
    pub default_branch: Option<String>,
    /// First part of the names of task branches.
    pub branch_prefix: String,
    /// Run in a new worktree before the agent; a failure fails the run.
    pub setup_script: Option<String>,
    /// Run in a worktree before it is removed.
    pub cleanup_script: Option<String>,
    /// Run on combined trees by `preview_merge_set`.
    pub verify_script: Option<String>,
    /// Globs of untracked files to copy into new worktrees.
    pub copy_files: Vec<String>,
    /// Whether hooks run on Taskyard's own commits.
    pub hook_policy: HookPolicy,
    /// Whether Taskyard's own commits are signed.
    pub sign_policy: SignPolicy,
    /// When it was added.
    pub created_at: Timestamp,
}
