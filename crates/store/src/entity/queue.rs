//! What the queue looks at: tasks that wait for a slot.
//!
//! Read at every wake-up of the queue, for all that wait: so only what the decision needs, never the long texts.

use crate::tx::Read;
use crate::value::{Row, values};
use taskyard_domain::id::{ListId, ProfileId, RepositoryId, TaskId, WorkspaceId};
use taskyard_domain::run::Outcome;
use taskyard_domain::{Error as Domain, Result, Timestamp};

/// A task that waits for a slot.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedTask {
    /// Its id.
    pub id: TaskId,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// Its list.
    pub list_id: ListId,
    /// Its place, lower first.
    pub sort_order: f64,
    /// When it was made.
    pub created_at: Timestamp,
    /// Not before, by a person's word.
    pub due_at: Option<Timestamp>,
    /// Not before, by a limit.
    pub not_before: Option<Timestamp>,
    /// Never started by the queue.
    pub manual: bool,
    /// The profile that it sets itself.
    pub agent_profile_id: Option<ProfileId>,
    /// The repository that it sets itself.
    pub repository_id: Option<RepositoryId>,
    /// The model that it sets itself.
    pub model: Option<String>,
    /// How its last run ended.
    pub last_outcome: Option<Outcome>,
    /// Whether a blocker of it is unfinished.
    pub blocked: bool,
}

fn read_row(row: &Row) -> Result<QueuedTask, crate::Error> {
    let what = "task";
    Ok(QueuedTask {
        id: row.get(0, what, "id")?,
        workspace_id: row.get(1, what, "workspace_id")?,
        list_id: row.get(2, what, "list_id")?,
        sort_order: row.get(3, what, "sort_order")?,
        created_at: row.get(4, what, "created_at")?,
        due_at: row.get(5, what, "due_at")?,
        not_before: row.get(6, what, "not_before")?,
        manual: row.get(7, what, "manual")?,
        agent_profile_id: row.get(8, what, "config.agent_profile_id")?,
        repository_id: row.get(9, what, "config.repository_id")?,
        model: row.get(10, what, "config.model")?,
        last_outcome: row.get(11, what, "last_outcome")?,
        blocked: row.get(12, what, "blocked")?,
    })
}

impl Read {
    /// Whether no task is queued at all.
    pub async fn queue_is_empty(&mut self) -> Result<bool> {
        Ok(self.number("SELECT CAST(1 AS BIGINT) FROM task WHERE status = 'queued' LIMIT 1", Vec::new()).await?.is_none())
    }

    /// The queued tasks of kind `task` that aren't archived and have no open run, in the queue's order. Of one
    /// workspace, or of all.
    pub async fn queue_candidates(&mut self, workspace: Option<WorkspaceId>) -> Result<Vec<QueuedTask>> {
        let of_workspace = if workspace.is_some() { "AND task.workspace_id = $1" } else { "" };
        let is_postgres = self.conn.is_postgres();
        let config = |key: &str| {
            if is_postgres { format!("task.config::json ->> '{key}'") } else { format!("json_extract(task.config, '$.{key}')") }
        };
        let (profile, repository, model) = (config("agent_profile_id"), config("repository_id"), config("model"));
        let sql = format!(
            "SELECT task.id, task.workspace_id, task.list_id, task.sort_order, task.created_at, task.due_at, task.not_before, \
             task.manual, {profile}, {repository}, {model}, task.last_outcome, \
             CAST(CASE WHEN EXISTS (SELECT 1 FROM task_blocker b JOIN task other ON other.id = b.blocker_id \
             WHERE b.task_id = task.id AND other.status <> 'done') THEN 1 ELSE 0 END AS BIGINT) \
             FROM task WHERE status = 'queued' AND kind = 'task' AND archived_at IS NULL {of_workspace} \
             AND NOT EXISTS (SELECT 1 FROM run WHERE run.task_id = task.id AND run.state <> 'ended') \
             ORDER BY task.sort_order, task.created_at, task.id"
        );
        let values = workspace.map(|workspace| values![workspace]).unwrap_or_default();
        let rows = self.conn.fetch(&sql, values).await?;
        rows.iter().map(|row| read_row(row).map_err(Domain::from)).collect()
    }
}
