//! What Taskyard is held against: the same work done bare.

use anyhow::Result;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, SqliteConnection};
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows written before anything is measured, so that the write-ahead log has reached its size.
const WARM: usize = 1500;

/// One table, one row per transaction, with the durability that Taskyard has: write-ahead log, synced at each commit.
pub struct Inserts {
    conn: SqliteConnection,
    next: i64,
}

impl Inserts {
    /// A fresh database in `folder`.
    ///
    /// # Errors
    /// When it can't be made.
    pub async fn new(folder: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new().filename(folder.join("bare.db")).create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
        let mut conn = options.connect().await?;
        sqlx::query("CREATE TABLE task (id TEXT PRIMARY KEY, title TEXT NOT NULL, description TEXT NOT NULL)").execute(&mut conn).await?;
        let mut this = Self { conn, next: 0 };
        for _ in 0..WARM {
            this.one().await?;
        }
        Ok(this)
    }

    /// One transaction: how long it took.
    ///
    /// # Errors
    /// When the database says no.
    pub async fn one(&mut self) -> Result<Duration> {
        self.next += 1;
        // Ids come in no order, as a client's would.
        let id = format!("{:016x}", self.next.wrapping_mul(0x1E37_79B9_7F4A_7C15));
        let begun = Instant::now();
        sqlx::query("INSERT INTO task VALUES ($1, $2, $3)")
            .bind(id)
            .bind(format!("bench task {}", self.next))
            .bind("Do the thing in the demo repository, then report.")
            .execute(&mut self.conn)
            .await?;
        Ok(begun.elapsed())
    }
}
