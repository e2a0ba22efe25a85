//! What Taskyard is held against: the same work done bare.

use anyhow::Result;
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows written before anything is measured, so that the write-ahead log has reached its size.
const WARM: usize = 1500;

/// One table, one row per transaction, with the durability that Taskyard has: write-ahead log, synced at each commit.
/// The loop is as bare as can be: one prepared statement, run on the thread that asks for it.
pub struct Inserts {
    conn: Connection,
    next: i64,
}

impl Inserts {
    /// A fresh database in `folder`.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn new(folder: &Path) -> Result<Self> {
        let conn = Connection::open(folder.join("bare.db"))?;
        conn.pragma_update(None, "journal_mode", "wal")?;
        conn.pragma_update(None, "synchronous", "full")?;
        conn.execute_batch("CREATE TABLE task (id TEXT PRIMARY KEY, title TEXT NOT NULL, description TEXT NOT NULL)")?;
        let mut this = Self { conn, next: 0 };
        for _ in 0..WARM {
            this.one()?;
        }
        Ok(this)
    }

    /// One transaction: how long it took.
    ///
    /// # Errors
    /// When the database says no.
    pub fn one(&mut self) -> Result<Duration> {
        self.next += 1;
        // Ids come in no order, as a client's would.
        let id = format!("{:016x}", self.next.wrapping_mul(0x1E37_79B9_7F4A_7C15));
        let begun = Instant::now();
        let mut insert = self.conn.prepare_cached("INSERT INTO task VALUES (?1, ?2, ?3)")?;
        insert.execute((id, format!("bench task {}", self.next), "Do the thing in the demo repository, then report."))?;
        Ok(begun.elapsed())
    }
}

/// Rows that are free until a conditional update gives them a holder, one transaction each, with the same durability.
pub struct Holders {
    conn: Connection,
    next: i64,
}

impl Holders {
    /// A fresh database in `folder`, with as many free rows as are ever asked for.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn new(folder: &Path) -> Result<Self> {
        let conn = Connection::open(folder.join("holders.db"))?;
        conn.pragma_update(None, "journal_mode", "wal")?;
        conn.pragma_update(None, "synchronous", "full")?;
        conn.execute_batch(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, title TEXT NOT NULL, holder TEXT);
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
             INSERT INTO item SELECT i, 'item ' || i, NULL FROM n",
        )?;
        let mut this = Self { conn, next: 0 };
        for _ in 0..WARM {
            this.one()?;
        }
        Ok(this)
    }

    /// Gives the next free row a holder.
    ///
    /// # Errors
    /// When the database says no, or the row had a holder.
    pub fn one(&mut self) -> Result<()> {
        self.next += 1;
        let mut update = self.conn.prepare_cached("UPDATE item SET holder = ?2 WHERE id = ?1 AND holder IS NULL")?;
        anyhow::ensure!(update.execute((self.next, "client"))? == 1, "the row {} isn't free", self.next);
        Ok(())
    }
}
