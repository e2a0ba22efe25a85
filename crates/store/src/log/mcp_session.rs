//! The state of MCP connections, so that a client goes on after the server was restarted.

use crate::tx::{Read, Tx};
use crate::value::{json, text, values};
use serde_json::Value as Json;
use taskyard_domain::{Result, Timestamp};

impl Tx {
    /// Stores the state of the connection `id`, replacing what is there.
    pub async fn mcp_session_store(&mut self, id: &str, state: Json) -> Result<()> {
        let sql = "INSERT INTO mcp_session (id, body, updated_at) VALUES ($1, $2, $3) \
                   ON CONFLICT (id) DO UPDATE SET body = excluded.body, updated_at = excluded.updated_at";
        let mut row = vec![text(id), json(&state)?];
        row.extend(values![self.now()]);
        self.conn.exec(sql, row).await?;
        Ok(())
    }

    /// Forgets the connection `id`. One that is gone already is no error.
    pub async fn mcp_session_delete(&mut self, id: &str) -> Result<()> {
        self.conn.exec("DELETE FROM mcp_session WHERE id = $1", vec![text(id)]).await?;
        Ok(())
    }

    /// Forgets the connections that were last stored before `before`; how many.
    pub async fn mcp_session_prune(&mut self, before: Timestamp) -> Result<u64> {
        Ok(self.conn.exec("DELETE FROM mcp_session WHERE updated_at < $1", values![before]).await?)
    }
}

impl Read {
    /// The state of the connection `id`, if it is known.
    pub async fn mcp_session_load(&mut self, id: &str) -> Result<Option<Json>> {
        let rows = self.conn.fetch("SELECT body FROM mcp_session WHERE id = $1", vec![text(id)]).await?;
        match rows.first() {
            Some(row) => Ok(row.get_json_opt(0, "MCP connection", "body")?),
            None => Ok(None),
        }
    }
}
