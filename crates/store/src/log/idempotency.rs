//! Idempotency keys: a creating call's result, stored in the call's own transaction.

use crate::tx::{Read, Tx};
use crate::value::{Row, json, text, values};
use serde_json::Value as Json;
use taskyard_domain::id::WorkspaceId;
use taskyard_domain::{Error as Domain, Result, Timestamp};

/// How long a key is kept.
pub const IDEMPOTENCY_HOURS: i64 = 24;

/// A stored result.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The tool that was called.
    pub tool: String,
    /// The hash of its arguments.
    pub args_hash: String,
    /// What it gave.
    pub result: Json,
}

fn read_stored(row: &Row) -> Result<Stored, crate::Error> {
    let what = "idempotency key";
    Ok(Stored { tool: row.get(0, what, "tool")?, args_hash: row.get(1, what, "args_hash")?, result: row.get_json(2, what, "result")? })
}

impl Tx {
    /// Stores the result of a call under its key. A key older than [`IDEMPOTENCY_HOURS`] is replaced.
    ///
    /// # Errors
    /// `CONFLICT` when a call with the same key was made at the same moment: nothing of this one is stored,
    /// and repeating it gives the other's result.
    pub async fn idempotency_insert(
        &mut self,
        workspace: WorkspaceId,
        caller: &str,
        key: &str,
        tool: &str,
        args_hash: &str,
        result: Json,
    ) -> Result<()> {
        let now = self.now();
        let expired = now - jiff::SignedDuration::from_hours(IDEMPOTENCY_HOURS);
        let sql = "DELETE FROM idempotency WHERE workspace_id = $1 AND caller = $2 AND idem_key = $3 AND created_at < $4";
        self.conn.exec(sql, values![workspace, caller.to_owned(), key.to_owned(), expired]).await?;
        let mut row = values![workspace];
        row.extend([text(caller), text(key), text(tool), text(args_hash), json(&result)?]);
        row.extend(values![now]);
        let columns = ["workspace_id", "caller", "idem_key", "tool", "args_hash", "result", "created_at"];
        self.insert_rows("idempotency", &columns, vec![row]).await
    }

    /// Forgets the keys from before `before`; how many.
    pub async fn idempotency_prune(&mut self, before: Timestamp) -> Result<u64> {
        Ok(self.conn.exec("DELETE FROM idempotency WHERE created_at < $1", values![before]).await?)
    }
}

impl Read {
    /// The result stored under `key`, unless it is older than `not_older_than`.
    pub async fn idempotency_fetch(
        &mut self,
        workspace: WorkspaceId,
        caller: &str,
        key: &str,
        not_older_than: Timestamp,
    ) -> Result<Option<Stored>> {
        let sql = "SELECT tool, args_hash, result FROM idempotency \
                   WHERE workspace_id = $1 AND caller = $2 AND idem_key = $3 AND created_at >= $4";
        let rows = self.conn.fetch(sql, values![workspace, caller.to_owned(), key.to_owned(), not_older_than]).await?;
        rows.first().map(|row| read_stored(row).map_err(Domain::from)).transpose()
    }
}
