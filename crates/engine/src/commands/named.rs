//! Tasks as other answers name them: id, short id, title, status; and why a task waits.

use crate::view::cut;
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;
use taskyard_domain::id::TaskId;
use taskyard_domain::task::{Status, Task};
use taskyard_store::Read;

/// A task in few words.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskRef {
    /// UUID.
    pub id: String,
    /// `TY-42`.
    pub short_id: String,
    /// Its title, cut.
    pub title: String,
    /// Where it stands.
    pub status: String,
}

impl From<&Task> for TaskRef {
    fn from(task: &Task) -> Self {
        Self {
            id: task.id.to_string(),
            short_id: task.short_id.to_string(),
            title: cut(&task.title, 80).to_owned(),
            status: task.status.to_string(),
        }
    }
}

/// The tasks that `task` waits for.
pub(crate) async fn blockers(read: &mut Read, task: TaskId) -> Result<Vec<Task>> {
    let ids = read.blockers_of(task).await?;
    fetch(read, &ids).await
}

/// The tasks that wait for `task`.
pub(crate) async fn dependants(read: &mut Read, task: TaskId) -> Result<Vec<Task>> {
    let ids = read.blocked_by_me(task).await?;
    fetch(read, &ids).await
}

/// The tasks with these ids that there are.
pub(crate) async fn fetch(read: &mut Read, ids: &[TaskId]) -> Result<Vec<Task>> {
    let mut tasks = Vec::with_capacity(ids.len());
    for id in ids {
        tasks.extend(read.task_fetch(*id).await?);
    }
    Ok(tasks)
}

/// Why a blocker can't be expected to finish by itself, and who has to decide; `None` while it can.
pub(crate) fn dead_end(blocker: &Task) -> Option<String> {
    let name = &blocker.short_id;
    let way_out = match blocker.status {
        Status::Done => return None,
        Status::Failed => "reset_failed_task or continue_task takes it up again",
        Status::Cancelled => "update_task_status(queued) takes it up again",
        _ if blocker.archived_at.is_some() => "restore it",
        _ => return None,
    };
    let what = if blocker.archived_at.is_some() { "archived".to_owned() } else { blocker.status.to_string() };
    Some(format!("waits for {name}, which is {what}: a person has to decide ({way_out}; remove_task_dependency starts without it)"))
}
