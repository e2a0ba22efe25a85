//! `continue_task`: a new prompt to the task's last session, in the override slot.

use super::run_task_now::RunStarted;
use crate::change::Key;
use crate::session::Opening;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::run::Slot;
use taskyard_domain::{Error, Result};

/// A prompt to go on with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ContinueTask {
    /// UUID or short id.
    pub task_id: String,
    /// What the agent is told.
    pub prompt: String,
    /// Makes a retry safe.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

impl Engine {
    /// Opens a run with `prompt` in the last session: resumed where the agent can, else told the story so far.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when the task has never run or a run is open; `RESOURCE_EXHAUSTED` when the override
    /// slot is taken; `FORBIDDEN` for an agent that Taskyard runs.
    pub async fn continue_task(&self, caller: &Caller, input: ContinueTask) -> Result<RunStarted> {
        caller.require_person("continue a task")?;
        if input.prompt.trim().is_empty() {
            return Err(Error::invalid("prompt", "prompt is empty: say what the agent should do next"));
        }
        let key = Key::of(caller, "continue_task", input.idempotency_key.as_deref(), &input)?;
        let (engine, caller) = (self.clone(), caller.clone());
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let task = handle::task(tx, &caller, "task_id", &input.task_id).await?;
                    let mut task = tx.task_lock(task.id).await?.unwrap_or(task);
                    if let Some(stored) = Key::replay::<RunStarted>(key.as_ref(), tx, task.workspace_id).await? {
                        return Ok(RunStarted { replayed: true, ..stored });
                    }
                    if tx.session_primary(task.id).await?.is_none() {
                        return Err(Error::precondition(format!("{} has never run, so there is nothing to continue", task.short_id))
                            .with_hint("start it with run_task_now or update_task_status(queued)"));
                    }
                    let opening = Opening { slot: Slot::Override, prompt: Some(input.prompt) };
                    let run = engine.open_run(tx, &caller, &mut task, opening).await?;
                    let started = RunStarted::of(&run, &task);
                    Key::keep(key.as_ref(), tx, task.workspace_id, &started).await?;
                    Ok(started)
                })
            })
            .await
    }
}
