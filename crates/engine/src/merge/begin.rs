//! The first step of a merge: everything that could refuse it is looked at, then the intent is written.

use super::target::Target;
use super::{Bench, Place, again};
use crate::session;
use crate::{Caller, Engine, change, fold};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind as EventKind, NewEvent};
use taskyard_domain::id::{MergeId, TaskId};
use taskyard_domain::merge::{Kind, MergeRecord, State, Strategy};
use taskyard_domain::task::{Status, Task};
use taskyard_domain::{Error, Result};
use taskyard_git::Oid;
use taskyard_git::history::Fork;
use taskyard_store::{Read, Tx};

/// Longest message, bytes.
const MESSAGE: usize = 64 << 10;

/// What becomes of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// Nothing has happened.
    Abort,
    /// It is opened in a private merge worktree.
    LeaveOpen,
}

/// A merge that a person asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// By which strategy.
    pub strategy: Strategy,
    /// Into which branch, where the call says so.
    pub target: Option<String>,
    /// The message of the new commit.
    pub message: Option<String>,
    /// Where the task's branch must be.
    pub expected_head: Option<String>,
    /// What becomes of a conflict.
    pub on_conflict: OnConflict,
    /// Whether it is the merge of an approving review.
    pub is_approval: bool,
}

/// What the first step came to.
#[derive(Debug)]
pub(super) enum Begun {
    /// The intent is written; with what the merge starts from.
    Record(Box<MergeRecord>, Fork),
    /// The target has all of it already, up to this commit.
    Nothing(String),
}

impl Engine {
    /// Checks everything and writes the intent. The caller holds the repository's turn, and read `place` within it.
    pub(super) async fn begin_merge(&self, caller: &Caller, bench: &Bench, place: &Place, wish: &Wish) -> Result<Begun> {
        self.check_mergeable_task(place.task().id).await?;
        place.check_mergeable()?;
        self.end_leftovers(place.task().id).await?;
        let tip = place.tip(bench).await?;
        check_head(place, &tip, wish.expected_head.as_deref())?;
        let target = Target::resolve(bench, place, wish.target.as_deref()).await;
        // Questions that don't depend on each other; the settings are kept for later.
        let fork = async {
            match &target {
                // A rebase merges commit by commit.
                Ok(target) if wish.strategy == Strategy::Rebase => Fork::of(&bench.repo, &target.tip, &tip).await.map(Some),
                Ok(target) => Fork::merging(&bench.repo, &target.tip, &tip).await.map(Some),
                Err(_) => Ok(None),
            }
        };
        let author = self.author(&bench.repository, &bench.repo);
        let (committed, fork, author) = tokio::join!(place.check_committed(bench, &tip), fork, author);
        committed?;
        let target = target?;
        author?;
        let fork = fork.map_err(fold::git)?.ok_or_else(|| Error::internal("a merge without a target"))?;
        let merged_before = again::earlier(bench, &place.records, place.worktree.id, &target, &tip).await?;
        if merged_before.is_none() && fork.merge_base.as_ref() == Some(&tip) {
            return Ok(Begun::Nothing(tip.into()));
        }
        let record = MergeRecord {
            id: MergeId::new(self.ids()),
            unit_id: None,
            workspace_id: place.worktree.workspace_id,
            task_id: place.worktree.task_id,
            worktree_id: place.worktree.id,
            kind: Kind::Merge,
            reverts: None,
            state: State::Prepared,
            strategy: wish.strategy,
            message: Some(message(place, &target.branch, wish)?),
            target: target.branch,
            target_before: target.tip.to_string(),
            target_after: None,
            tip: tip.to_string(),
            merge_base: fork.merge_base.clone().map(String::from),
            merge_worktree_path: None,
            actor: caller.actor.label(),
            is_approval: wish.is_approval,
            created_at: self.now(),
            landed_at: None,
        };
        self.write_intent(caller, record).await.map(|record| Begun::Record(Box::new(record), fork))
    }

    /// Writes the intent of a merge or revert, unless task or worktree have changed since they were looked at.
    pub(super) async fn write_intent(&self, caller: &Caller, record: MergeRecord) -> Result<MergeRecord> {
        let caller = caller.clone();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let task = tx.task_lock(record.task_id).await?.ok_or_else(|| Error::not_found("task", record.task_id))?;
                    match record.kind {
                        Kind::Merge => check_task(tx, &task).await?,
                        Kind::Revert => check_revertible(tx, &task).await?,
                    }
                    check_free(tx, &record).await?;
                    tx.merge_insert(&record).await?;
                    announce(tx, &record);
                    let metadata = json!({ "task": task.short_id, "kind": record.kind, "target": record.target, "strategy": record.strategy, "tip": record.tip, "is_approval": record.is_approval });
                    change::audit(tx, &caller, record.workspace_id, Action::MergeBegun, About::Merge(record.id, record.task_id), metadata).await?;
                    Ok(record)
                })
            })
            .await
    }

    async fn check_mergeable_task(&self, id: TaskId) -> Result<()> {
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let task = read.task_fetch(id).await?.ok_or_else(|| Error::not_found("task", id))?;
                    check_task(read, &task).await
                })
            })
            .await
    }

    /// Ends what the task's sessions may have left running. No run of it is open here.
    pub(super) async fn end_leftovers(&self, task: TaskId) -> Result<()> {
        let sessions = self.store().read(move |read| Box::pin(async move { read.session_list(task).await })).await?;
        for one in sessions {
            let ended = taskyard_process::tree::sweep(&session::marker(one.id)).await;
            if ended > 0 {
                tracing::info!(session = %one.id, ended, "ended processes that a finished run had left");
            }
        }
        Ok(())
    }
}

/// Refuses a task whose work can't be merged now.
pub(super) async fn check_task(read: &mut Read, task: &Task) -> Result<()> {
    check_no_run(read, task).await?;
    if task.status != Status::WaitingForReview {
        return Err(Error::precondition(format!("{} is {}; only a task in waiting_for_review can be merged", task.short_id, task.status))
            .with_hint(hint_for(task.status)));
    }
    let children = read.task_children(task.id).await?;
    if !children.is_empty() {
        let names: Vec<String> = children.iter().map(|child| child.short_id.to_string()).collect();
        return Err(Error::precondition(format!(
            "{} has children ({}), and landing them as one unit isn't available yet",
            task.short_id,
            names.join(", ")
        ))
        .with_details(json!({ "children": names }))
        .with_hint("approve the children one by one; move or delete them to approve the parent alone"));
    }
    Ok(())
}

fn hint_for(status: Status) -> &'static str {
    match status {
        Status::Done => "it is done; revert_merge undoes its merge",
        Status::InProgress | Status::WaitingForInput => "wait for its run to end, or cancel_task",
        Status::Queued => "wait for it to run, or take it from the queue with update_task_status(ready)",
        Status::Ready => {
            "continue_task has the agent go on, after which its whole work waits for review; \
             to take it as it is, merge its branch into the target with git and set it done with update_task_status"
        }
        Status::Draft | Status::Failed | Status::Cancelled | Status::WaitingForReview => {
            "continue_task has the agent go on; its work then waits for review"
        }
    }
}

async fn check_revertible(read: &mut Read, task: &Task) -> Result<()> {
    check_no_run(read, task).await?;
    if task.status == Status::Done {
        return Ok(());
    }
    Err(Error::precondition(format!("{} is {}; only a done task's merge can be reverted", task.short_id, task.status)))
}

/// Refuses while a run of the task is open, an outside agent's claim included.
///
/// # Errors
/// `FAILED_PRECONDITION` with whose it is and the way out.
pub(crate) async fn check_no_run(read: &mut Read, task: &Task) -> Result<()> {
    let Some(run) = read.run_open_for_task(task.id).await? else { return Ok(()) };
    let who = run.actor.unwrap_or_else(|| "anonymous".into());
    Err(Error::precondition(format!("{} has an open run ({} by {who})", task.short_id, run.kind))
        .with_details(json!({ "run_id": run.id, "kind": run.kind, "state": run.state }))
        .with_hint("wait for its end, cancel_task, or complete_task for a claim"))
}

/// Refuses while a merge or revert of the task is begun and not ended.
///
/// # Errors
/// `FAILED_PRECONDITION` with the way out, for one that is open; `CONFLICT` for one that goes on right now.
pub(crate) async fn none_under_way(read: &mut Read, task: &Task) -> Result<()> {
    let busy = read.merge_list(task.id).await?.into_iter().find(unfinished);
    busy.map_or(Ok(()), |busy| Err(in_the_way(&busy)))
}

pub(super) fn unfinished(record: &MergeRecord) -> bool {
    matches!(record.state, State::Prepared | State::Computed | State::Open)
}

/// One merge per worktree at a time, an open one included.
async fn check_free(tx: &mut Tx, record: &MergeRecord) -> Result<()> {
    let busy = tx.merge_list(record.task_id).await?.into_iter().find(|other| other.worktree_id == record.worktree_id && unfinished(other));
    busy.map_or(Ok(()), |busy| Err(in_the_way(&busy)))
}

/// The error for a merge that is begun and not ended.
pub(super) fn in_the_way(busy: &MergeRecord) -> Error {
    let details = json!({ "merge_id": busy.id, "state": busy.state, "merge_worktree_path": busy.merge_worktree_path });
    if busy.state == State::Open {
        return Error::precondition("a merge of this task is open")
            .with_details(details)
            .with_hint("resolve its files and call continue_merge, or abort_merge");
    }
    Error::conflict("a merge of this task is under way").with_details(details).with_hint("wait for it and look again")
}

fn check_head(place: &Place, tip: &Oid, expected: Option<&str>) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    let wanted = expected.trim().to_ascii_lowercase();
    if wanted.len() < 7 || !wanted.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Error::invalid("expected_head", format!("expected_head: {expected:?} is no commit id (7 to 64 hex digits)")));
    }
    if tip.as_str().starts_with(&wanted) {
        return Ok(());
    }
    let branch = &place.worktree.branch;
    Err(Error::conflict(format!("{branch} has moved: expected {wanted}, found {tip}"))
        .with_field("expected_head")
        .with_details(json!({ "branch": branch, "expected": wanted, "found": tip, "nothing_changed": true }))
        .with_hint("look at get_task_diff again, then repeat the call with the new commit"))
}

fn message(place: &Place, target: &str, wish: &Wish) -> Result<String> {
    if let Some(text) = &wish.message {
        if text.trim().is_empty() {
            return Err(Error::invalid("message", "message can't be empty; leave it out for the usual one"));
        }
        if text.len() > MESSAGE || text.contains('\0') {
            return Err(Error::invalid("message", format!("message takes at most {MESSAGE} bytes without NUL")));
        }
        return Ok(text.clone());
    }
    let task = place.task();
    let subject = format!("{}: {}", task.short_id, task.title);
    let what = taskyard_git::merge::default_message(wish.strategy, &place.worktree.branch, target);
    Ok(match wish.strategy {
        Strategy::Merge => format!("Merge {subject}\n\n{what}"),
        Strategy::Squash | Strategy::Rebase => format!("{subject}\n\n{what}"),
    })
}

/// The event of a record's new state.
pub(super) fn announce(tx: &mut Tx, record: &MergeRecord) {
    let data = json!({ "merge_id": record.id, "kind": record.kind, "state": record.state, "target": record.target, "target_after": record.target_after });
    tx.event(NewEvent::new(record.workspace_id, EventKind::MergeChanged).task(record.task_id).data(data));
}
