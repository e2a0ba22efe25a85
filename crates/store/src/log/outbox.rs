//! The outbox: effects that were decided in a transaction and are carried out after it, at least once.

use crate::tx::{Read, Tx};
use crate::value::{Row, json, text, values};
use serde_json::Value as Json;
use taskyard_domain::{Error as Domain, Result, Timestamp};

/// An effect that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// Its number, rising and never re-used.
    pub id: i64,
    /// What sort of effect.
    pub kind: String,
    /// What it needs to know.
    pub payload: Json,
    /// How often it was tried in vain.
    pub attempts: i64,
    /// When it was decided.
    pub created_at: Timestamp,
}

fn read_row(row: &Row) -> Result<OutboxRow, crate::Error> {
    let what = "outbox row";
    Ok(OutboxRow {
        id: row.get(0, what, "id")?,
        kind: row.get(1, what, "kind")?,
        payload: row.get_json(2, what, "payload")?,
        attempts: row.get(3, what, "attempts")?,
        created_at: row.get(4, what, "created_at")?,
    })
}

impl Tx {
    /// Adds an effect, due at once.
    pub async fn outbox_push(&mut self, kind: &str, payload: Json) -> Result<()> {
        let now = self.now();
        let row = vec![text(kind), json(&payload)?];
        let row = row.into_iter().chain(values![0_i64, now, now]).collect();
        self.insert_rows("outbox", &["kind", "payload", "attempts", "not_before", "created_at"], vec![row]).await?;
        self.outbox = true;
        Ok(())
    }

    /// Takes a finished effect away. One that is gone already is no error.
    pub async fn outbox_done(&mut self, id: i64) -> Result<()> {
        self.conn.exec("DELETE FROM outbox WHERE id = $1", values![id]).await?;
        Ok(())
    }

    /// Keeps an effect that failed for another try, not before `not_before`.
    pub async fn outbox_retry(&mut self, id: i64, not_before: Timestamp, error: &str) -> Result<()> {
        let sql = "UPDATE outbox SET attempts = attempts + 1, not_before = $2, last_error = $3 WHERE id = $1";
        self.conn.exec(sql, values![id, not_before, error.to_owned()]).await?;
        self.outbox = true;
        Ok(())
    }
}

impl Read {
    /// At most `limit` effects that are due at `now`, oldest first.
    pub async fn outbox_due(&mut self, now: Timestamp, limit: i64) -> Result<Vec<OutboxRow>> {
        let sql = "SELECT id, kind, payload, attempts, created_at FROM outbox WHERE not_before <= $1 ORDER BY id LIMIT $2";
        let rows = self.conn.fetch(sql, values![now, limit]).await?;
        rows.iter().map(|row| read_row(row).map_err(Domain::from)).collect()
    }

    /// When the next effect is due, if any waits.
    pub async fn outbox_next_at(&mut self) -> Result<Option<Timestamp>> {
        let found: Vec<Option<Timestamp>> = self.column("SELECT MIN(not_before) FROM outbox", Vec::new()).await?;
        Ok(found.into_iter().next().flatten())
    }
}
