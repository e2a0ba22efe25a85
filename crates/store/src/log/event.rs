//! Reading the event log. It is written by [`Tx::event`](crate::Tx::event) and never changed.

use crate::tx::Read;
use crate::value::{Field as _, Row, values};
use taskyard_domain::event::{Event, Kind, NewEvent};
use taskyard_domain::id::WorkspaceId;
use taskyard_domain::{Error as Domain, Result};

fn read_event(row: &Row) -> Result<Event, crate::Error> {
    let what = "event";
    Ok(Event {
        seq: row.get(1, what, "seq")?,
        at: row.get(2, what, "at")?,
        body: NewEvent {
            workspace_id: row.get(0, what, "workspace_id")?,
            kind: row.get(3, what, "kind")?,
            task_id: row.get(4, what, "task_id")?,
            run_id: row.get(5, what, "run_id")?,
            session_id: row.get(6, what, "session_id")?,
            data: row.get_json(7, what, "data")?,
        },
    })
}

impl Read {
    /// At most `limit` events of `workspace` with numbers above `after`, in order.
    pub async fn events_after(&mut self, workspace: WorkspaceId, after: i64, limit: i64) -> Result<Vec<Event>> {
        let sql = "SELECT workspace_id, seq, at, kind, task_id, run_id, session_id, data FROM event \
                   WHERE workspace_id = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let rows = self.conn.fetch(sql, values![workspace, after, limit]).await?;
        rows.iter().map(|row| read_event(row).map_err(Domain::from)).collect()
    }

    /// [`Read::events_after`] of these kinds only; the others stay in the database.
    pub async fn events_of_kinds_after(&mut self, workspace: WorkspaceId, kinds: &[Kind], after: i64, limit: i64) -> Result<Vec<Event>> {
        let mut values = values![workspace, after, limit];
        let first = values.len() + 1;
        values.extend(kinds.iter().map(|kind| kind.value()));
        let marks: Vec<String> = (first..=values.len()).map(|n| format!("${n}")).collect();
        let sql = format!(
            "SELECT workspace_id, seq, at, kind, task_id, run_id, session_id, data FROM event \
             WHERE workspace_id = $1 AND seq > $2 AND kind IN ({}) ORDER BY seq LIMIT $3",
            marks.join(", ")
        );
        let rows = self.conn.fetch(&sql, values).await?;
        rows.iter().map(|row| read_event(row).map_err(Domain::from)).collect()
    }

    /// The number of the last event of `workspace`; 0 before the first.
    pub async fn event_head(&mut self, workspace: WorkspaceId) -> Result<i64> {
        let sql = "SELECT value FROM counter WHERE workspace_id = $1 AND kind = 'event'";
        Ok(self.number(sql, values![workspace]).await?.unwrap_or(0))
    }
}
