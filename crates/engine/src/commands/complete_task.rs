//! `complete_task`: ends a claim.

use super::claim::{self, End};
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::audit::Action;
use taskyard_domain::id::RunId;
use taskyard_domain::run::{Kind, Outcome, Run};
use taskyard_domain::task::Task;
use taskyard_domain::{Error, Result, step};
use taskyard_store::{Read, Tx};

taskyard_domain::vocabulary! {
    /// How a claimer says that it ended.
    Word, "outcome", {
        /// The work is finished.
        Done = "done",
        /// It can't be done.
        Failed = "failed",
        /// It is given back.
        Abandoned = "abandoned",
    } aliases { "complete" => Done, "completed" => Done, "succeeded" => Done, }
}

impl Word {
    fn outcome(self) -> Outcome {
        match self {
            Word::Done => Outcome::Succeeded,
            Word::Failed => Outcome::Failed,
            Word::Abandoned => Outcome::Abandoned,
        }
    }
}

/// Ends a claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompleteTask {
    /// Slug or UUID.
    pub workspace: String,
    /// From `claim_task`.
    pub run_id: String,
    /// `done`, `failed` or `abandoned`.
    #[serde(default = "done")]
    pub outcome: String,
    /// What came of it, in a sentence or two.
    #[serde(default)]
    pub summary: Option<String>,
    /// Notes in place of the claim's.
    #[serde(default)]
    pub notes: Option<String>,
}

fn done() -> String {
    Word::Done.to_string()
}

/// A claim that has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompleteTaskOutput {
    /// True.
    pub completed: bool,
    /// The run.
    pub run_id: String,
    /// How it ended.
    pub outcome: String,
    /// The item.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// Where the item stands now.
    pub status: String,
}

impl Engine {
    /// Ends a claim as done (a person looks at it first where its workflow has a review step, or where its worktree holds
    /// unmerged changes), failed, or abandoned (ready again). Whoever may operate the workspace may end it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an unknown outcome; `NOT_FOUND` for a run that isn't in the workspace; `CONFLICT` when it has
    /// ended otherwise; `FAILED_PRECONDITION` for a run of Taskyard's own; `FORBIDDEN` for an agent that Taskyard runs.
    pub async fn complete_task(&self, caller: &Caller, input: CompleteTask) -> Result<CompleteTaskOutput> {
        use taskyard_domain::alias::Vocabulary as _;
        caller.require_person("end a claim")?;
        let word = Word::read("outcome", &input.outcome)?;
        let (owned, asked) = (caller.clone(), input.clone());
        let (_, task) = self.store().read(move |read| Box::pin(async move { find(read, &owned, &asked).await })).await?;
        let unmerged_changes = word == Word::Done && self.unmerged_changes(&task).await?;
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { complete(tx, &caller, &input, word, unmerged_changes).await })).await
    }
}

/// The run and its item.
async fn find(read: &mut Read, caller: &Caller, input: &CompleteTask) -> Result<(Run, Task)> {
    let workspace = handle::workspace(read, caller, "workspace", Some(&input.workspace)).await?;
    let id: RunId = handle::id("run_id", &input.run_id)?;
    let run = read.run_fetch(id).await?.filter(|run| run.workspace_id == workspace.id);
    let run = run.ok_or_else(|| Error::not_found("run", &input.run_id).with_field("run_id"))?;
    let task = read.task_fetch(run.task_id).await?.ok_or_else(|| Error::not_found("task", run.task_id))?;
    if run.kind == Kind::Managed {
        return Err(Error::precondition(format!("the run of {} is one that Taskyard manages, not a claim", task.short_id))
            .with_field("run_id")
            .with_hint("cancel_task ends it"));
    }
    Ok((run, task))
}

async fn complete(tx: &mut Tx, caller: &Caller, input: &CompleteTask, word: Word, unmerged_changes: bool) -> Result<CompleteTaskOutput> {
    let (run, task) = find(tx, caller, input).await?;
    let mut task = tx.task_lock(task.id).await?.unwrap_or(task);
    let mut run = tx.run_lock(run.id).await?.unwrap_or(run);
    if !run.is_open() {
        return ended_before(tx, &run, &task, word).await;
    }
    let review = step::has_review(&tx.step_list(task.list_id).await?);
    let summary = input.summary.as_deref().map(|text| claim::notes("summary", text)).transpose()?;
    if let Some(notes) = &input.notes {
        run.notes = Some(claim::notes("notes", notes)?);
    }
    claim::end(tx, &mut task, &mut run, End { outcome: word.outcome(), cause: summary, review, unmerged_changes }).await?;
    let claimed_by = tx.audit_last(run.workspace_id, &run.id.to_string(), Action::TaskClaimed).await?;
    let by_claimer = claimed_by.is_none_or(|entry| entry.body.actor == caller.actor);
    let metadata = json!({ "backlog_item_id": task.id, "outcome": word, "status": task.status, "by_claimer": by_claimer });
    // The label is what the caller called itself, which is known of the claimer alone.
    let label = run.actor.as_deref().filter(|_| by_claimer);
    change::audit_run(tx, caller, label, &run, Action::TaskCompleted, metadata).await?;
    Ok(answer(&run, &task, word))
}

/// The answer of a claim that has ended already: the one that its end got, whatever became of the item since.
async fn ended_before(tx: &mut Tx, run: &Run, task: &Task, word: Word) -> Result<CompleteTaskOutput> {
    if run.outcome == Some(word.outcome()) {
        let ended = tx.audit_last(run.workspace_id, &run.id.to_string(), Action::TaskCompleted).await?;
        let status = ended.and_then(|entry| entry.body.metadata["status"].as_str().map(str::to_owned));
        let first = answer(run, task, word);
        return Ok(CompleteTaskOutput { status: status.unwrap_or(first.status), ..first });
    }
    let how = run.outcome.map_or_else(|| "otherwise".to_owned(), |outcome| outcome.to_string());
    Err(Error::conflict(format!("the claim of {} has ended already ({how}); nothing was changed", task.short_id))
        .with_field("run_id")
        .with_details(json!({ "outcome": run.outcome, "ended_at": run.ended_at, "task_status": task.status }))
        .with_hint("claim the item again to go on with it"))
}

fn answer(run: &Run, task: &Task, word: Word) -> CompleteTaskOutput {
    CompleteTaskOutput {
        completed: true,
        run_id: run.id.to_string(),
        outcome: word.to_string(),
        task_id: task.id.to_string(),
        short_id: task.short_id.to_string(),
        status: task.status.to_string(),
    }
}
