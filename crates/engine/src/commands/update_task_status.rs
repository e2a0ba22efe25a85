//! `update_task_status`: a person's word about where a task stands.

use super::cancel_task::CancelTask;
use super::{locked, words};
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::alias::Vocabulary;
use taskyard_domain::task::{Status, Task, Word};
use taskyard_domain::{Error, Result};

/// A word about a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UpdateTaskStatus {
    /// The task.
    pub task_id: String,
    /// `ready`, `queued`, `cancelled` or `done`.
    pub status: String,
}

/// Where the task stands now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UpdateTaskStatusOutput {
    /// Whether the status changed.
    pub updated: bool,
    /// The task.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// Its status.
    pub status: String,
    /// Its status before.
    pub previous_status: String,
}

impl Engine {
    /// Makes a task ready, queues it, calls it off or closes it. Calling off one that runs is `cancel_task`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for another word; `FAILED_PRECONDITION` for what would skip a run or a merge, and for
    /// queueing without repository or agent profile.
    pub async fn update_task_status(&self, caller: &Caller, input: UpdateTaskStatus) -> Result<UpdateTaskStatusOutput> {
        let word = read_word("status", &input.status)?;
        let (task, running) = self.task_and_run(caller, &input.task_id).await?;
        if word == Word::Cancelled && running {
            let cancelled = self.cancel_task(caller, CancelTask { task_id: input.task_id }).await?;
            return Ok(UpdateTaskStatusOutput {
                updated: true,
                task_id: cancelled.task_id,
                short_id: cancelled.short_id,
                status: cancelled.status,
                previous_status: task.status.to_string(),
            });
        }
        let spoken = self.prepare_word(&task, word).await?;
        let caller = caller.clone();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut task = locked::task(tx, &caller, "task_id", &input.task_id).await?;
                    let previous = task.status;
                    words::say(tx, &caller, &mut task, spoken).await?;
                    Ok(UpdateTaskStatusOutput {
                        updated: task.status != previous,
                        task_id: task.id.to_string(),
                        short_id: task.short_id.to_string(),
                        status: task.status.to_string(),
                        previous_status: previous.to_string(),
                    })
                })
            })
            .await
    }

    /// The task that `handle` names, and whether a run of it is open.
    pub(crate) async fn task_and_run(&self, caller: &Caller, task_id: &str) -> Result<(Task, bool)> {
        let (caller, task_id) = (caller.clone(), task_id.to_owned());
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let task = handle::task(read, &caller, "task_id", &task_id).await?;
                    let running = read.run_open_for_task(task.id).await?.is_some();
                    Ok((task, running))
                })
            })
            .await
    }
}

/// Reads a word about a status; one of the other statuses is refused with the reason.
///
/// # Errors
/// `INVALID_ARGUMENT` about `field` naming the words that work.
pub(crate) fn read_word(field: &str, text: &str) -> Result<Word> {
    let Err(error) = Word::read(field, text) else { return Word::read(field, text) };
    match Status::read(field, text) {
        Ok(status) => Err(Error::invalid(
            field,
            format!("{field}: {status} comes about by itself; it can be set to ready, queued, cancelled or done"),
        )
        .with_hint("run_task_now starts a task, review_task decides on its work")),
        Err(_) => Err(error),
    }
}
