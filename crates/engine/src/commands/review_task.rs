//! `review_task`: a person's decision on work that waits for review.

use super::locked;
use super::merge_task::merge;
use crate::effect::Effect;
use crate::merge::{MergeView, OnConflict, Outcome, Release, Wish, check_no_run, none_under_way};
use crate::{Caller, Engine, change};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::alias::Vocabulary;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::id::WorktreeId;
use taskyard_domain::merge::Strategy;
use taskyard_domain::task::{Context, Fact, Status, Task};
use taskyard_domain::{Error, Result, worktree};
use taskyard_store::{Tx, WorktreeFilter};

/// Longest feedback, bytes.
const FEEDBACK: usize = 256 << 10;

taskyard_domain::vocabulary! {
    /// What a reviewer decides.
    Decision, "decision", {
        /// The work is merged.
        Approve = "approve",
        /// The same session goes on with feedback.
        RejectRerun = "reject_rerun",
        /// It is put aside as ready.
        RejectPark = "reject_park",
        /// It is called off.
        Cancel = "cancel",
    } aliases { "approved" => Approve, "reject" => RejectRerun, "rerun" => RejectRerun, "park" => RejectPark, }
}

/// A decision.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReviewTask {
    /// UUID or short id.
    pub task_id: String,
    /// `approve`, `reject_rerun`, `reject_park` or `cancel`.
    pub decision: String,
    /// What to change; needed for `reject_rerun`.
    #[serde(default)]
    pub feedback: Option<String>,
    /// For `approve`: the local branch to merge into.
    #[serde(default)]
    pub target_branch: Option<String>,
    /// For `approve`: `merge`, `squash` or `rebase`.
    #[serde(default = "merge")]
    pub strategy: String,
    /// For `approve`: the commit that was reviewed.
    #[serde(default)]
    pub expected_head: Option<String>,
}

/// What the decision came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReviewTaskOutput {
    /// Always true.
    pub reviewed: bool,
    /// The decision.
    pub decision: String,
    /// UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The task's status now.
    pub status: String,
    /// Whether it was approved.
    pub approved: bool,
    /// Whether work was merged.
    pub merged: bool,
    /// Whether it was approved without a merge, because there was nothing to merge.
    pub nothing_to_merge: bool,
    /// The merge of an approval.
    pub merge: Option<MergeView>,
    /// What the reviewer should know besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl ReviewTaskOutput {
    fn of(decision: Decision, task: &Task) -> Self {
        Self {
            reviewed: true,
            decision: decision.to_string(),
            task_id: task.id.to_string(),
            short_id: task.short_id.to_string(),
            status: task.status.to_string(),
            approved: decision == Decision::Approve,
            merged: false,
            nothing_to_merge: false,
            merge: None,
            note: None,
        }
    }
}

impl Engine {
    /// Decides on a task in `waiting_for_review`.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` in any other status, with children, with uncommitted work, or with work left on a branch that
    /// no merge would take; `CONFLICT` with the files
    /// when the work doesn't merge; `INVALID_ARGUMENT` for a rerun without feedback; `FORBIDDEN` for an agent that
    /// Taskyard runs. Nothing has changed in any case.
    pub async fn review_task(&self, caller: &Caller, input: ReviewTask) -> Result<ReviewTaskOutput> {
        caller.require_person("review")?;
        let decision = Decision::read("decision", &input.decision)?;
        match decision {
            Decision::Approve => self.approve(caller, input).await,
            Decision::RejectRerun | Decision::RejectPark | Decision::Cancel => self.reject(caller, decision, input).await,
        }
    }

    async fn approve(&self, caller: &Caller, input: ReviewTask) -> Result<ReviewTaskOutput> {
        let strategy = Strategy::read("strategy", &input.strategy)?;
        let (task, place) = self.find_place(caller, &input.task_id, None).await?;
        let Some(place) = place.filter(|p| p.worktree.state != worktree::State::Merged) else {
            return self.approve_nothing(caller, &task, None, input.target_branch.as_deref()).await;
        };
        self.check_one_worktree(&task).await?;
        let wish = Wish {
            strategy,
            target: input.target_branch.clone(),
            message: None,
            expected_head: input.expected_head,
            on_conflict: OnConflict::Abort,
            is_approval: true,
        };
        match self.merge_worktree(caller, place.worktree.id, wish).await? {
            Outcome::Landed(done) => {
                let merge = Some(MergeView::from(&*done));
                Ok(ReviewTaskOutput { merged: true, merge, ..ReviewTaskOutput::of(Decision::Approve, &done.task) })
            }
            Outcome::Nothing { tip } => {
                let empty = (place.worktree.id, tip);
                self.approve_nothing(caller, &task, Some(empty), input.target_branch.as_deref()).await
            }
            Outcome::Open { .. } => Err(Error::internal("an approval left a merge open")),
        }
    }

    /// Approving merges one worktree; where there are several, each is merged by name.
    async fn check_one_worktree(&self, task: &Task) -> Result<()> {
        let filter = WorktreeFilter { task: Some(task.id), ..WorktreeFilter::default() };
        let all = self.store().read(move |read| Box::pin(async move { read.worktree_list(filter).await })).await?;
        let waiting: Vec<String> =
            all.iter().filter(|w| matches!(w.state, worktree::State::Active | worktree::State::Kept)).map(|w| w.id.to_string()).collect();
        if waiting.len() < 2 {
            return Ok(());
        }
        Err(Error::precondition(format!("{} has {} worktrees with work of their own", task.short_id, waiting.len()))
            .with_details(json!({ "worktree_ids": waiting }))
            .with_hint("merge each with merge_task(worktree_id); the last one makes the task done"))
    }

    /// The explicit no-op: done without a merge. `seen` is the task as it was looked at, `empty` its worktree with the
    /// commit that has nothing to merge.
    async fn approve_nothing(
        &self,
        caller: &Caller,
        seen: &Task,
        empty: Option<(WorktreeId, String)>,
        target: Option<&str>,
    ) -> Result<ReviewTaskOutput> {
        self.check_nothing_left(seen, empty.as_ref().map(|(id, _)| *id), target).await?;
        let (caller, id, seen_at) = (caller.clone(), seen.id, seen.updated_at);
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut task = locked::task(tx, &caller, "task_id", &id.to_string()).await?;
                    check_reviewable(tx, &task).await?;
                    if task.updated_at != seen_at {
                        return Err(Error::conflict(format!("{} changed in this moment", task.short_id)).with_hint("repeat the call"));
                    }
                    let children = tx.task_children(task.id).await?;
                    if !children.is_empty() {
                        return Err(Error::precondition(format!(
                            "{} has children, and approving them as one unit isn't available yet",
                            task.short_id
                        ))
                        .with_hint("approve the children one by one; move or delete them to approve the parent alone"));
                    }
                    change::status(tx, &mut task, Fact::Approved, Context::default()).await?;
                    if let Some((worktree_id, tip)) = empty {
                        let last_run = tx.run_latest_for_task(task.id).await?.map(|run| run.id);
                        Effect::ReleaseWorktree(Release { worktree_id, last_run, tip }).push(tx).await?;
                    }
                    let metadata = json!({ "decision": Decision::Approve, "nothing_to_merge": true });
                    change::audit(tx, &caller, task.workspace_id, Action::TaskReviewed, About::Task(task.id), metadata).await?;
                    let note = discarded(tx, &task).await?;
                    Ok(ReviewTaskOutput { nothing_to_merge: true, note, ..ReviewTaskOutput::of(Decision::Approve, &task) })
                })
            })
            .await
    }

    async fn reject(&self, caller: &Caller, decision: Decision, input: ReviewTask) -> Result<ReviewTaskOutput> {
        let feedback = feedback(decision, input.feedback)?;
        let caller = caller.clone();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut task = locked::task(tx, &caller, "task_id", &input.task_id).await?;
                    check_reviewable(tx, &task).await?;
                    let fact = match decision {
                        Decision::RejectRerun => Fact::SentBack,
                        Decision::RejectPark => Fact::Parked,
                        Decision::Cancel | Decision::Approve => Fact::CalledOff,
                    };
                    if decision == Decision::RejectRerun {
                        task.next_prompt.clone_from(&feedback);
                        task.not_before = None;
                    }
                    change::status(tx, &mut task, fact, Context::default()).await?;
                    let metadata =
                        json!({ "decision": decision, "feedback_bytes": feedback.as_ref().map(String::len), "status": task.status });
                    change::audit(tx, &caller, task.workspace_id, Action::TaskReviewed, About::Task(task.id), metadata).await?;
                    let manual = task.manual && task.status == Status::Queued;
                    let note = manual.then(|| "the task is manual, so the queue won't start it: use run_task_now".into());
                    Ok(ReviewTaskOutput { note, ..ReviewTaskOutput::of(decision, &task) })
                })
            })
            .await
    }
}

/// Feedback is needed where the agent is to go on, and optional elsewhere.
fn feedback(decision: Decision, text: Option<String>) -> Result<Option<String>> {
    let text = text.filter(|text| !text.trim().is_empty());
    if decision == Decision::RejectRerun && text.is_none() {
        return Err(Error::invalid("feedback", "feedback is needed for reject_rerun: it is what the agent goes on with"));
    }
    match &text {
        Some(long) if long.len() > FEEDBACK => {
            Err(Error::invalid("feedback", format!("feedback is {} bytes long; at most {FEEDBACK} fit", long.len())))
        }
        _ => Ok(text),
    }
}

/// Refuses a task that doesn't wait for review, or whose merge is begun and not ended.
async fn check_reviewable(tx: &mut Tx, task: &Task) -> Result<()> {
    if task.status != Status::WaitingForReview {
        return Err(Error::precondition(format!(
            "{} is {}; only a task in waiting_for_review can be reviewed",
            task.short_id, task.status
        )));
    }
    check_no_run(tx, task).await?;
    none_under_way(tx, task).await
}

/// A note where the work was put aside before, so that nobody takes "nothing to merge" for "nothing was done".
async fn discarded(tx: &mut Tx, task: &Task) -> Result<Option<String>> {
    let filter = WorktreeFilter { task: Some(task.id), state: Some(worktree::State::Discarded), ..WorktreeFilter::default() };
    let Some(last) = tx.worktree_list(filter).await?.pop() else { return Ok(None) };
    Ok(Some(format!("its worktree was discarded before; what it held is on the branch {} or in list_snapshots", last.branch)))
}
