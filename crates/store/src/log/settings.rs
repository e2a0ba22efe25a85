//! The server's settings: one row.

use crate::tx::{Read, Tx};
use crate::value::json;
use taskyard_domain::Result;
use taskyard_domain::settings::Settings;

impl Read {
    /// The settings; the defaults before they were ever stored.
    pub async fn settings_fetch(&mut self) -> Result<Settings> {
        let rows = self.conn.fetch("SELECT body FROM settings WHERE id = 1", Vec::new()).await?;
        match rows.first() {
            Some(row) => Ok(row.get_json(0, "settings", "body")?),
            None => Ok(Settings::default()),
        }
    }
}

impl Tx {
    /// Stores the settings. They were checked before.
    pub async fn settings_store(&mut self, settings: &Settings) -> Result<()> {
        let sql = "INSERT INTO settings (id, body) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET body = excluded.body";
        self.conn.exec(sql, vec![json(settings)?]).await?;
        Ok(())
    }
}
