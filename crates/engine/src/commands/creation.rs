//! Makes tasks: the one way in which tools create them, inside the caller's transaction.

use super::config::{self, Scope};
use crate::resolve::Levels;
use crate::{Caller, change, handle};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind as EventKind, NewEvent};
use taskyard_domain::id::TaskId;
use taskyard_domain::list::{Config, List};
use taskyard_domain::name::ShortId;
use taskyard_domain::task::{self, Context, Fact, Kind, Priority, Status, Task, Word};
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Error, Result, Timestamp};
use taskyard_store::{Read, Tx};

/// What a new task is made of, checked.
#[derive(Debug, Clone)]
pub(crate) struct NewTask {
    pub list: List,
    /// The list's.
    pub workspace: Workspace,
    pub parent: Option<Task>,
    pub title: String,
    pub description: String,
    pub config: Config,
    /// The model as the caller typed it; checked against the agent that the rest resolves to.
    pub model: Option<String>,
    pub priority: Priority,
    pub sort_order: f64,
    pub due_at: Option<Timestamp>,
    pub manual: bool,
    pub blockers: Vec<Task>,
    /// Task, epic or plan.
    pub kind: Kind,
    /// Its name in a backlog.
    pub slug: Option<String>,
    /// Whether it stays a draft.
    pub draft: bool,
    /// Whether it goes to the queue at once.
    pub queue: bool,
}

/// Makes the task: row, blockers, event, audit entry.
///
/// # Errors
/// `INVALID_ARGUMENT` for an unknown model; `FAILED_PRECONDITION` when it is to be queued and repository or profile
/// don't resolve.
pub(crate) async fn create(tx: &mut Tx, caller: &Caller, new: NewTask) -> Result<Task> {
    let number = tx.workspace_next_number(new.workspace.id).await?;
    let task = draft(tx, caller, number, &new)?;
    let mut levels = Levels { task, list: new.list.clone(), workspace: new.workspace.clone(), step: None, parents: Vec::new() };
    if let Some(text) = &new.model {
        let runner = Scope::of(&levels).runner(tx).await?;
        levels.task.config.model = config::model(text, runner.as_ref())?;
    }
    if new.config.agent_profile_id.is_some() {
        Scope::of(&levels).check_model(tx, &["agent_profile_id"]).await?;
    }
    let word = if new.queue { Word::Queued } else { Word::Ready };
    if new.queue {
        check_runnable(tx, &levels).await.map_err(|error| nameless(error, &levels.task))?;
    }
    if !new.draft {
        levels.task.status = task::next(Status::Draft, Fact::Word(word), Context::default())?;
    }
    let task = levels.task;
    tx.task_insert(&task).await?;
    for blocker in &new.blockers {
        tx.blocker_add(task.id, blocker.id).await?;
    }
    let blockers: Vec<String> = new.blockers.iter().map(|b| b.short_id.to_string()).collect();
    let data = json!({ "short_id": task.short_id, "status": task.status, "kind": task.kind, "slug": task.slug, "list_id": task.list_id, "parent_id": task.parent_id, "blocked_by": blockers });
    tx.event(NewEvent::new(task.workspace_id, EventKind::TaskCreated).task(task.id).data(data.clone()));
    change::audit(tx, caller, task.workspace_id, Action::TaskCreated, About::Task(task.id), data).await?;
    Ok(task)
}

fn draft(tx: &Tx, caller: &Caller, number: i64, new: &NewTask) -> Result<Task> {
    let now = tx.now();
    Ok(Task {
        id: TaskId::new(tx.ids()),
        workspace_id: new.workspace.id,
        list_id: new.list.id,
        short_id: ShortId::new(&new.workspace.task_prefix, number),
        title: new.title.clone(),
        description: new.description.clone(),
        kind: new.kind,
        slug: new.slug.clone(),
        priority: new.priority,
        parent_id: new.parent.as_ref().map(|parent| parent.id),
        status: Status::Draft,
        sort_order: new.sort_order,
        due_at: new.due_at,
        manual: new.manual,
        my_day: false,
        config: new.config.clone(),
        not_before: None,
        last_outcome: None,
        failure: None,
        interruptions: 0,
        next_prompt: None,
        created_by: caller.actor.label(),
        archived_at: None,
        created_at: now,
        updated_at: now,
    })
}

/// Refuses what the queue could never start: no repository, no profile, another agent's model, an epic, an archived task.
///
/// # Errors
/// `FAILED_PRECONDITION` naming the field that is missing.
pub(crate) async fn check_runnable(read: &mut Read, levels: &Levels) -> Result<()> {
    let task = &levels.task;
    if task.kind != Kind::Task {
        return Err(Error::precondition(format!("{} is a {}; only tasks can be queued", task.short_id, task.kind)));
    }
    if task.archived_at.is_some() {
        return Err(
            Error::precondition(format!("{} is archived", task.short_id)).with_hint("restore it in the web app or the command line first")
        );
    }
    levels.repository(read).await?;
    let (profile, agent) = levels.profile(read).await?;
    levels.model(&profile, &agent).map(|_| ())
}

/// A refusal that doesn't name a task that never came to be.
fn nameless(error: Error, task: &Task) -> Error {
    Error { message: error.message.replacen(&task.short_id.to_string(), "the task", 1), ..error }
}

/// The tasks that `handles` name, each once, all of `list`'s workspace.
///
/// # Errors
/// `NOT_FOUND` about `blocked_by`, for tasks of other workspaces too.
pub(crate) async fn blockers(read: &mut Read, caller: &Caller, list: &List, handles: &[String]) -> Result<Vec<Task>> {
    let mut blockers: Vec<Task> = Vec::new();
    for handle in handles {
        let blocker = handle::task(read, caller, "blocked_by", handle).await?;
        if blocker.workspace_id != list.workspace_id {
            return Err(Error::not_found("task", handle).with_field("blocked_by"));
        }
        if !blockers.iter().any(|known| known.id == blocker.id) {
            blockers.push(blocker);
        }
    }
    Ok(blockers)
}
