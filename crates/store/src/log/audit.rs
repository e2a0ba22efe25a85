//! Audit entries: written in the transaction of the change, never changed.

use crate::tx::{Read, Tx};
use crate::value::{Row, json, text, values};
use taskyard_domain::alias::Vocabulary as _;
use taskyard_domain::audit::{Action, Entry, NewEntry};
use taskyard_domain::id::{TaskId, WorkspaceId};
use taskyard_domain::name::ShortId;
use taskyard_domain::{Error as Domain, Face, Result};

const COLUMNS: [&str; 10] =
    ["workspace_id", "at", "actor", "actor_label", "face", "action", "target_type", "target_id", "task_id", "metadata"];

fn read_entry(row: &Row) -> Result<Entry, crate::Error> {
    let what = "audit entry";
    let face: String = row.get(5, what, "face")?;
    let face: Face = serde_json::from_value(face.into()).map_err(|e: serde_json::Error| crate::Error::Stored {
        what,
        column: "face".into(),
        problem: e.to_string(),
    })?;
    let action: String = row.get(6, what, "action")?;
    let action = Action::stored(&action).ok_or_else(|| crate::Error::Stored {
        what,
        column: "action".into(),
        problem: format!("{action:?} is no action"),
    })?;
    Ok(Entry {
        id: row.get(0, what, "id")?,
        at: row.get(2, what, "at")?,
        body: NewEntry {
            workspace_id: row.get(1, what, "workspace_id")?,
            actor: row.get_json(3, what, "actor")?,
            actor_label: row.get(4, what, "actor_label")?,
            face,
            action,
            target_type: row.get(7, what, "target_type")?,
            target_id: row.get(8, what, "target_id")?,
            task_id: row.get(9, what, "task_id")?,
            metadata: row.get_json(10, what, "metadata")?,
        },
    })
}

impl Tx {
    /// Writes an audit entry.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when its workspace doesn't exist.
    pub async fn audit(&mut self, entry: NewEntry) -> Result<()> {
        let mut row = values![entry.workspace_id, self.now()];
        row.push(json(&entry.actor)?);
        row.extend(values![entry.actor_label, entry.face.as_str().to_owned(), entry.action.as_str().to_owned()]);
        row.extend(values![entry.target_type, entry.target_id, entry.task_id]);
        row.push(json(&entry.metadata)?);
        self.insert_rows("audit", &COLUMNS, vec![row]).await
    }
}

impl Read {
    /// At most `limit` audit entries of `workspace`, newest first, with ids below `before`; only those about
    /// `target_id` (of a task, those about its runs, worktrees and merges too) and with this `action`, where given.
    pub async fn audit_page(
        &mut self,
        workspace: WorkspaceId,
        target_id: Option<&str>,
        action: Option<Action>,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Entry>> {
        let mut values = values![workspace, before.unwrap_or(i64::MAX), limit];
        let mut sql = format!("SELECT id, {} FROM audit WHERE workspace_id = $1 AND id < $2", COLUMNS.join(", "));
        if let Some(target) = target_id {
            values.push(text(target));
            let n = values.len();
            // Each half by its index: of an `OR`, SQLite would rather walk through the whole workspace.
            let half = |column: &str| format!("SELECT id FROM audit WHERE workspace_id = $1 AND {column} = ${n} AND id < $2");
            sql.push_str(&format!(" AND id IN ({} UNION {})", half("target_id"), half("task_id")));
        }
        if let Some(action) = action {
            values.push(text(action.as_str()));
            sql.push_str(&format!(" AND action = ${}", values.len()));
        }
        sql.push_str(" ORDER BY id DESC LIMIT $3");
        let rows = self.conn.fetch(&sql, values).await?;
        rows.iter().map(|row| read_entry(row).map_err(Domain::from)).collect()
    }

    /// The last entry of `workspace` with this action about exactly this.
    pub async fn audit_last(&mut self, workspace: WorkspaceId, target_id: &str, action: Action) -> Result<Option<Entry>> {
        let columns = COLUMNS.join(", ");
        let sql =
            format!("SELECT id, {columns} FROM audit WHERE workspace_id = $1 AND target_id = $2 AND action = $3 ORDER BY id DESC LIMIT 1");
        let mut values = values![workspace];
        values.extend([text(target_id), text(action.as_str())]);
        let rows = self.conn.fetch(&sql, values).await?;
        rows.first().map(|row| read_entry(row).map_err(Domain::from)).transpose()
    }

    /// The task of `workspace` that had this short id and is deleted.
    pub async fn audit_deleted_task(&mut self, workspace: WorkspaceId, short: &ShortId) -> Result<Option<TaskId>> {
        // A short id is letters, a dash and digits: nothing in it is a wildcard.
        let sql = "SELECT target_id FROM audit WHERE workspace_id = $1 AND action = 'task.deleted' AND metadata LIKE $2 LIMIT 1";
        let mut values = values![workspace];
        values.push(text(&format!("%\"short_id\":\"{short}\"%")));
        Ok(self.column(sql, values).await?.into_iter().next())
    }
}
