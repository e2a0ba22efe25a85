//! Transcripts: what agents said and did, numbered per session, appended in batches. They aren't events.

use crate::tx::{Read, Tx};
use crate::value::{Row, json, values};
use taskyard_domain::id::{RunId, SessionId};
use taskyard_domain::transcript::Item;
use taskyard_domain::{Error as Domain, Result, Timestamp};

fn read_item(row: &Row) -> Result<(i64, RunId, Timestamp, Item), crate::Error> {
    let what = "transcript item";
    Ok((row.get(0, what, "seq")?, row.get(1, what, "run_id")?, row.get(2, what, "at")?, row.get_json(3, what, "item")?))
}

impl Tx {
    /// Appends `items` to the transcript of `session`; the number of its last item.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when the session or the run doesn't exist.
    pub async fn transcript_append(&mut self, session: SessionId, run: RunId, items: &[Item]) -> Result<i64> {
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let sql = "INSERT INTO transcript_head (session_id, head) VALUES ($1, $2) \
                   ON CONFLICT (session_id) DO UPDATE SET head = transcript_head.head + excluded.head RETURNING head";
        let head = self.number(sql, values![session, count]).await?.unwrap_or(count);
        let at = self.now();
        let rows = items.iter().zip(head - count + 1..).map(|(item, seq)| {
            let mut row = values![session, seq, run, at];
            row.push(json(item)?);
            Ok(row)
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        self.insert_rows("transcript_item", &["session_id", "seq", "run_id", "at", "item"], rows).await?;
        Ok(head)
    }
}

impl Read {
    /// At most `limit` items of the transcript of `session` with numbers above `after`, in order.
    pub async fn transcript_page(&mut self, session: SessionId, after: i64, limit: i64) -> Result<Vec<(i64, RunId, Timestamp, Item)>> {
        let sql = "SELECT seq, run_id, at, item FROM transcript_item WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let rows = self.conn.fetch(sql, values![session, after, limit]).await?;
        rows.iter().map(|row| read_item(row).map_err(Domain::from)).collect()
    }
}
