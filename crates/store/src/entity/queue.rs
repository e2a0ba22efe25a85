//! What the queue looks at: tasks that wait for a slot.

use super::{Entity as _, columns_of};
use crate::tx::Read;
use crate::value::values;
use taskyard_domain::id::WorkspaceId;
use taskyard_domain::task::Task;
use taskyard_domain::{Error as Domain, Result};

impl Read {
    /// The queued tasks of kind `task` that aren't archived and have no open run, in the queue's order, each
    /// with whether a blocker of it is unfinished. Of one workspace, or of all.
    pub async fn queue_candidates(&mut self, workspace: Option<WorkspaceId>) -> Result<Vec<(Task, bool)>> {
        let of_workspace = if workspace.is_some() { "AND task.workspace_id = $1" } else { "" };
        let sql = format!(
            "{}, CAST(CASE WHEN EXISTS (SELECT 1 FROM task_blocker b JOIN task other ON other.id = b.blocker_id \
             WHERE b.task_id = task.id AND other.status <> 'done') THEN 1 ELSE 0 END AS BIGINT) \
             FROM task WHERE status = 'queued' AND kind = 'task' AND archived_at IS NULL {of_workspace} \
             AND NOT EXISTS (SELECT 1 FROM run WHERE run.task_id = task.id AND run.state <> 'ended') \
             ORDER BY task.sort_order, task.created_at, task.id",
            columns_of::<Task>()
        );
        let values = workspace.map(|workspace| values![workspace]).unwrap_or_default();
        let rows = self.conn.fetch(&sql, values).await?;
        let read = |row| Ok((Task::read(row)?, row.get(Task::COLUMNS.len(), "task", "blocked")?));
        rows.iter().map(|row| read(row).map_err(|e: crate::Error| Domain::from(e))).collect()
    }
}
