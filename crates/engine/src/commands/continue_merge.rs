//! `continue_merge`: finishes a merge whose conflict a person has resolved.

use super::merge_task::{MergeTaskOutput, landed};
use crate::merge::MergeView;
use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;

/// Which open merge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ContinueMerge {
    /// UUID or short id.
    pub task_id: String,
    /// One of the task's worktrees; its current one by default.
    #[serde(default)]
    pub worktree_id: Option<String>,
}

impl Engine {
    /// Concludes and lands an open merge.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` without an open merge, or while files are unmerged or hold markers; `CONFLICT` when the
    /// target has moved; `FORBIDDEN` for an agent that Taskyard runs. The merge stays open in any case.
    pub async fn continue_merge(&self, caller: &Caller, input: ContinueMerge) -> Result<MergeTaskOutput> {
        caller.require_person("merge")?;
        let place = self.place(caller, &input.task_id, input.worktree_id.as_deref()).await?;
        let done = self.continue_open(caller, place.worktree.id).await?;
        Ok(landed(&done.task, MergeView::from(&done)))
    }
}
