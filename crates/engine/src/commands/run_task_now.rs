//! `run_task_now`: starts a task at once in the override slot.

use crate::session::Opening;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;
use taskyard_domain::run::{Run, Slot};
use taskyard_domain::task::Task;

/// Starts a task at once, past the queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunTaskNow {
    /// UUID or short id.
    pub task_id: String,
}

/// A run that was opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunStarted {
    /// Always true.
    pub started: bool,
    /// The task's UUID.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The run's UUID.
    pub run_id: String,
    /// The session's UUID.
    pub session_id: Option<String>,
    /// `override`.
    pub slot: String,
    /// The task's status now.
    pub status: String,
    /// Whether this is the stored answer of an earlier call with the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl RunStarted {
    pub(super) fn of(run: &Run, task: &Task) -> Self {
        Self {
            started: true,
            task_id: task.id.to_string(),
            short_id: task.short_id.to_string(),
            run_id: run.id.to_string(),
            session_id: run.session_id.map(|id| id.to_string()),
            slot: Slot::Override.to_string(),
            status: task.status.to_string(),
            replayed: false,
        }
    }
}

impl Engine {
    /// Opens a run of the task in the override slot. A second call while that run is open gives the same run.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` when another task runs there; `FAILED_PRECONDITION` when it can't start;
    /// `FORBIDDEN` for an agent that Taskyard runs.
    pub async fn run_task_now(&self, caller: &Caller, input: RunTaskNow) -> Result<RunStarted> {
        caller.require_person("start another task past the queue")?;
        let (engine, caller) = (self.clone(), caller.clone());
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let task = handle::task(tx, &caller, "task_id", &input.task_id).await?;
                    let mut task = tx.task_lock(task.id).await?.unwrap_or(task);
                    if let Some(open) = tx.run_open_for_task(task.id).await?.filter(|run| run.slot == Some(Slot::Override)) {
                        return Ok(RunStarted::of(&open, &task));
                    }
                    let run = engine.open_run(tx, &caller, &mut task, Opening { slot: Slot::Override, prompt: None }).await?;
                    Ok(RunStarted::of(&run, &task))
                })
            })
            .await
    }
}
