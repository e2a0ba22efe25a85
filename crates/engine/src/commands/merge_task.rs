//! `merge_task`: merges a task's work into its target, or opens the conflict for a person to resolve.

use crate::merge::{MergeView, OnConflict, Outcome, Wish};
use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::alias::{Vocabulary, fold};
use taskyard_domain::merge::{MergeRecord, Strategy};
use taskyard_domain::task::Task;
use taskyard_domain::{Error, Result};

/// Which work goes where, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MergeTask {
    /// UUID or short id.
    pub task_id: String,
    /// One of the task's worktrees; its current one by default.
    #[serde(default)]
    pub worktree_id: Option<String>,
    /// The local branch to merge into.
    #[serde(default)]
    pub target_branch: Option<String>,
    /// `merge`, `squash` or `rebase`.
    #[serde(default = "merge")]
    pub strategy: String,
    /// The message of the new commit.
    #[serde(default)]
    pub message: Option<String>,
    /// The commit that the task's branch must be at.
    #[serde(default)]
    pub expected_head: Option<String>,
    /// `abort` or `leave_open`.
    #[serde(default = "abort")]
    pub on_conflict: String,
}

pub(super) fn merge() -> String {
    "merge".into()
}

fn abort() -> String {
    "abort".into()
}

/// A task whose work is merged, or whose conflict is open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MergeTaskOutput {
    /// Whether the target has moved.
    pub merged: bool,
    /// Whether a conflict is open for `continue_merge` or `abort_merge`.
    pub merge_open: bool,
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The task's status now.
    pub status: String,
    /// The merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeView>,
    /// Where the open conflict is to be resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_worktree_path: Option<String>,
    /// The files in conflict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The branch to be merged into, while the merge is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl Engine {
    /// Merges a task's work. When it lands, the task is done.
    ///
    /// # Errors
    /// `CONFLICT` with files and both commits, or when `expected_head` has moved; `FAILED_PRECONDITION` unless the
    /// task waits for review with everything committed; `INVALID_ARGUMENT` without a target; `FORBIDDEN` for an
    /// agent that Taskyard runs. Nothing has changed in any case.
    pub async fn merge_task(&self, caller: &Caller, input: MergeTask) -> Result<MergeTaskOutput> {
        caller.require_person("merge")?;
        let wish = Wish {
            strategy: Strategy::read("strategy", &input.strategy)?,
            target: input.target_branch,
            message: input.message,
            expected_head: input.expected_head,
            on_conflict: on_conflict(&input.on_conflict)?,
            is_approval: false,
        };
        let place = self.place(caller, &input.task_id, input.worktree_id.as_deref()).await?;
        match self.merge_worktree(caller, place.worktree.id, wish).await? {
            Outcome::Landed(done) => Ok(landed(&done.task, MergeView::from(&*done))),
            Outcome::Open { record, files } => Ok(opened(place.task(), *record, files)),
            Outcome::Nothing { .. } => {
                Err(Error::precondition(format!("there is nothing to merge: the target has everything of {}", place.task().short_id))
                    .with_details(json!({ "nothing_changed": true }))
                    .with_hint("review_task(approve) makes it done without a merge"))
            }
        }
    }
}

/// The answer for a merge that landed.
pub(super) fn landed(task: &Task, merge: MergeView) -> MergeTaskOutput {
    MergeTaskOutput {
        merged: true,
        merge_open: false,
        task_id: task.id.to_string(),
        short_id: task.short_id.to_string(),
        status: task.status.to_string(),
        merge: Some(merge),
        merge_worktree_path: None,
        files: Vec::new(),
        target: None,
    }
}

/// The answer for a conflict that is open.
pub(super) fn opened(task: &Task, record: MergeRecord, files: Vec<String>) -> MergeTaskOutput {
    MergeTaskOutput {
        merged: false,
        merge_open: true,
        task_id: task.id.to_string(),
        short_id: task.short_id.to_string(),
        status: task.status.to_string(),
        merge: None,
        merge_worktree_path: record.merge_worktree_path,
        files,
        target: Some(record.target),
    }
}

fn on_conflict(text: &str) -> Result<OnConflict> {
    match fold(text).as_str() {
        "abort" => Ok(OnConflict::Abort),
        "leaveopen" => Ok(OnConflict::LeaveOpen),
        _ => Err(Error::invalid("on_conflict", format!("on_conflict: {text:?} is unknown; use abort or leave_open"))),
    }
}
