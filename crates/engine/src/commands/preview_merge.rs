//! `preview_merge`: whether a task's work would merge, exactly and without effect.

use crate::merge::PreviewView;
use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;

/// Which work, and into what.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PreviewMerge {
    /// UUID or short id.
    pub task_id: String,
    /// One of the task's worktrees; its current one by default.
    #[serde(default)]
    pub worktree_id: Option<String>,
    /// The local branch to merge into.
    #[serde(default)]
    pub target_branch: Option<String>,
}

/// What the merge would come to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PreviewMergeOutput {
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The worktree.
    pub worktree_id: String,
    /// The outcome.
    #[serde(flatten)]
    pub preview: PreviewView,
}

impl Engine {
    /// Previews a merge.
    ///
    /// # Errors
    /// `NOT_FOUND` without a worktree; `FAILED_PRECONDITION` when it is merged or discarded, or when its branch or its
    /// repository is missing; `INVALID_ARGUMENT` without a target.
    pub async fn preview_merge(&self, caller: &Caller, input: PreviewMerge) -> Result<PreviewMergeOutput> {
        let place = self.place(caller, &input.task_id, input.worktree_id.as_deref()).await?;
        place.check_mergeable()?;
        let bench = self.bench(&place.repository).await?;
        let preview = self.preview_place(&bench, &place, input.target_branch.as_deref()).await?;
        Ok(PreviewMergeOutput {
            task_id: place.task().id.to_string(),
            short_id: place.task().short_id.to_string(),
            worktree_id: place.worktree.id.to_string(),
            preview,
        })
    }
}
