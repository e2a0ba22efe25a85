//! Opens and ends claims: runs of agents that Taskyard didn't start. One way for all claiming tools.

use super::check;
use crate::merge::none_under_way;
use crate::resolve::Levels;
use crate::session::{Ending, close_run};
use crate::view::cut;
use crate::{Caller, Engine, change};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::audit::Action;
use taskyard_domain::event::{Kind as EventKind, NewEvent};
use taskyard_domain::id::RunId;
use taskyard_domain::run::{Kind, Outcome, Run, State};
use taskyard_domain::task::{Context, Fact, Status, Task, next};
use taskyard_domain::{Class, Error, Result};
use taskyard_store::{Read, Tx};

/// What a claimer can't work without comes whole up to this size, bytes.
pub(super) const WHOLE: usize = 64 << 10;
/// Longest label, bytes.
const LABEL: usize = 200;
/// Longest notes or summary, bytes.
const NOTES: usize = 16 << 10;

/// Who claims, in the caller's own words: no identity.
#[derive(Debug, Clone, Default)]
pub(super) struct Claimer {
    /// Its label; `None` for an anonymous one.
    pub label: Option<String>,
    /// What it says about its run.
    pub notes: Option<String>,
}

impl Claimer {
    /// The claimer of a call.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a label or notes that are too long.
    pub(super) fn of(actor_user_id: Option<&str>, notes: Option<&str>) -> Result<Self> {
        let label = match actor_user_id.map(str::trim).filter(|label| !label.is_empty()) {
            Some(label) if label.len() > LABEL || label.chars().any(char::is_control) => {
                return Err(Error::invalid("actor_user_id", format!("actor_user_id takes one line of at most {LABEL} bytes")));
            }
            label => label.map(str::to_owned),
        };
        Ok(Self { label, notes: notes.map(|text| self::notes("notes", text)).transpose()? })
    }
}

/// Notes or a summary of bounded size.
pub(super) fn notes(field: &str, text: &str) -> Result<String> {
    check::text(field, text, NOTES)
}

/// An item as its claimer gets it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BacklogItem {
    /// UUID.
    pub id: String,
    /// `TY-42`.
    pub short_id: String,
    /// One line.
    pub title: String,
    /// What is to be done, whole up to 64 KB.
    pub body_markdown: String,
    /// Whether it was cut; `get_task` with `full` has it whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub body_truncated: bool,
    /// Where it stands now.
    pub status: String,
}

impl From<&Task> for BacklogItem {
    fn from(task: &Task) -> Self {
        let body = cut(&task.description, WHOLE);
        Self {
            id: task.id.to_string(),
            short_id: task.short_id.to_string(),
            title: task.title.clone(),
            body_markdown: body.to_owned(),
            body_truncated: body.len() < task.description.len(),
            status: task.status.to_string(),
        }
    }
}

/// A claim that stands.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub run: Run,
    pub workflow_prompt: String,
    /// Whether it stood before the call.
    pub reclaimed: bool,
}

impl Engine {
    /// Claims `task`, which the caller has locked: gives back the claimer's own open claim, else opens one.
    ///
    /// # Errors
    /// `ALREADY_CLAIMED` with the holder when a run is open that isn't the claimer's; `FAILED_PRECONDITION` for an
    /// archived item, an epic or a plan.
    pub(super) async fn claim(&self, tx: &mut Tx, caller: &Caller, task: &mut Task, claimer: Claimer) -> Result<Claim> {
        let open = tx.run_open_for_task(task.id).await?;
        if let Some(run) = open {
            let run = reclaimed(tx, caller, task, run, claimer).await?;
            let workflow_prompt = run.prompt.clone();
            return Ok(Claim { run, workflow_prompt, reclaimed: true });
        }
        check_claimable(task)?;
        // A merge that goes on would make it done under the claimer's hands.
        none_under_way(tx, task).await?;
        let mut workflow_prompt = Levels::of(tx, task.clone()).await?.workflow_prompt();
        if let Some(asked) = &task.next_prompt {
            let gap = if workflow_prompt.is_empty() { "" } else { "\n\n" };
            workflow_prompt += &format!("{gap}Work on this item goes on. What is asked for now:\n\n{asked}");
        }
        let run = self.new_claim(tx, task, claimer, workflow_prompt.clone());
        tx.run_insert(&run).await?;
        change::status(tx, task, Fact::Claimed, Context::default()).await?;
        let data = json!({ "kind": run.kind, "actor": run.actor });
        tx.event(NewEvent::new(task.workspace_id, EventKind::RunOpened).task(task.id).run(run.id).data(data));
        let metadata = json!({ "backlog_item_id": task.id, "prior_status": run.prior_status });
        change::audit_run(tx, caller, run.actor.as_deref(), &run, Action::TaskClaimed, metadata).await?;
        Ok(Claim { run, workflow_prompt, reclaimed: false })
    }

    fn new_claim(&self, tx: &Tx, task: &Task, claimer: Claimer, prompt: String) -> Run {
        let opened = Run::opened(RunId::new(self.ids()), task, Kind::Claimed, State::Running, prompt, tx.now());
        Run { actor: claimer.label, notes: claimer.notes, ..opened }
    }
}

/// The open run, if it is the claimer's own; its notes are those of the new call, where that has any.
async fn reclaimed(tx: &mut Tx, caller: &Caller, task: &Task, mut run: Run, claimer: Claimer) -> Result<Run> {
    let is_own = run.kind == Kind::Claimed && claimer.label.is_some() && run.actor == claimer.label;
    if !is_own {
        return Err(held(task, &run));
    }
    if claimer.notes.is_some() && run.notes != claimer.notes {
        run.notes = claimer.notes;
        run.last_activity_at = tx.now();
        tx.run_update(&run).await?;
        let event = NewEvent::new(task.workspace_id, EventKind::RunChanged).task(task.id).run(run.id);
        tx.event(event.data(json!({ "state": run.state, "fields": ["notes"] })));
        let metadata = json!({ "backlog_item_id": task.id, "fields": ["notes"] });
        change::audit_run(tx, caller, run.actor.as_deref(), &run, Action::TaskReclaimed, metadata).await?;
    }
    Ok(run)
}

/// A claim that a key remembers, as long as it stands or was done: handed out again after it was given up, two would work on
/// one item.
///
/// # Errors
/// `CONFLICT` when it has ended otherwise.
pub(super) async fn still_held(read: &mut Read, run: &str) -> Result<()> {
    let Ok(id) = run.parse::<RunId>() else { return Ok(()) };
    let run = read.run_fetch(id).await?;
    if run.as_ref().is_some_and(|run| run.is_open() || run.outcome == Some(Outcome::Succeeded)) {
        return Ok(());
    }
    let how = run.and_then(|run| run.outcome).map_or_else(|| "it is gone".to_owned(), |outcome| format!("it ended as {outcome}"));
    Err(Error::conflict(format!("the claim that this key made has ended ({how}); nothing was claimed"))
        .with_field("idempotency_key")
        .with_details(json!({ "run_id": id }))
        .with_hint("claim with a new key"))
}

/// Somebody else has it.
fn held(task: &Task, run: &Run) -> Error {
    let actor = run.actor.as_deref().unwrap_or("anonymous");
    let (how, way) = match run.kind {
        Kind::Claimed => ("claimed", "take another item, or end the claim with complete_task (abandoned) if its holder is gone"),
        Kind::Managed => ("run by Taskyard", "take another item, or wait for its end with wait_for_task_change"),
    };
    Error::new(Class::AlreadyClaimed, format!("{} is {how} already, by {actor} since {}", task.short_id, run.started_at))
        .with_details(json!({ "actor": actor, "run_id": run.id, "kind": run.kind, "started_at": run.started_at }))
        .with_hint(way)
}

fn check_claimable(task: &Task) -> Result<()> {
    if task.kind != taskyard_domain::task::Kind::Task {
        return Err(Error::precondition(format!("{} is a {}; only tasks can be claimed", task.short_id, task.kind))
            .with_hint("list_backlog with claimable_only shows what can be"));
    }
    if task.archived_at.is_some() {
        return Err(Error::precondition(format!("{} is archived", task.short_id)).with_hint("restore it first"));
    }
    Ok(())
}

/// How a claim ends.
#[derive(Debug, Clone)]
pub(super) struct End {
    /// The run's outcome.
    pub outcome: Outcome,
    /// Why, in the claimer's words.
    pub cause: Option<String>,
    /// For a claim that is done: whether a person looks at it first.
    pub review: bool,
    /// Whether an active worktree holds changes that no merge has taken.
    pub unmerged_changes: bool,
}

/// Ends a claim, run and task locked by the caller: run, status, events. The audit entry is the caller's.
pub(super) async fn end(tx: &mut Tx, task: &mut Task, run: &mut Run, end: End) -> Result<()> {
    let ending = Ending { outcome: end.outcome, cause: end.cause, exit_code: None, limit: None, orderly: true };
    close_run(tx, run, &ending).await?;
    let fact = match end.outcome {
        Outcome::Succeeded => Fact::ClaimDone { review: end.review },
        outcome => Fact::RunEnded { outcome, requeue: false },
    };
    let context = Context { open_run: true, unmerged_changes: end.unmerged_changes };
    task.interruptions = 0;
    task.last_outcome = Some(end.outcome);
    if end.outcome == Outcome::Succeeded {
        // What was asked for is done now; whoever gives it up leaves it to the next one.
        task.next_prompt = None;
    }
    let after = next(task.status, fact, context)?;
    if after != Status::Failed {
        task.failure = None;
    } else if end.outcome == Outcome::Failed {
        task.failure = Some(ending.cause.unwrap_or_else(|| "its claimer gave it up as failed".into()));
    }
    change::status(tx, task, fact, context).await
}
