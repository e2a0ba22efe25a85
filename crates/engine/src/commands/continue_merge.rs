//! `continue_merge`: finishes a merge whose conflict a person has resolved.

use super::merge_task::{MergeTaskOutput, landed, opened};
use crate::merge::{MergeView, Outcome};
use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use taskyard_domain::{Error, Result};

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
    /// Concludes and lands an open merge, carried over where the target has moved since. A rebase may stop again, with other files in conflict.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` without an open merge, or while files are unmerged or hold markers; `CONFLICT` with the files
    /// when the target has moved and what it changed disagrees with the resolution, or when the branch has; `FORBIDDEN` for an agent that Taskyard runs. The merge stays open in any case.
    pub async fn continue_merge(&self, caller: &Caller, input: ContinueMerge) -> Result<MergeTaskOutput> {
        caller.require_person("merge")?;
        let place = self.place(caller, &input.task_id, input.worktree_id.as_deref()).await?;
        match self.continue_open(caller, place.worktree.id).await? {
            Outcome::Landed(done) => Ok(landed(&done.task, MergeView::from(&*done))),
            Outcome::Open { record, files } => Ok(opened(place.task(), *record, files)),
            Outcome::Nothing { .. } => Err(Error::internal("an open merge came to nothing")),
        }
    }
}
