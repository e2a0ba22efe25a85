//! What closures work on: [`Read`], a snapshot, and [`Tx`], a transaction that also keeps its events.
//!
//! Events are buffered and numbered by the transaction's last statements, so that the counter's row is held
//! as briefly as can be and the order of numbers is the order of commits.

use crate::conn::{Conn, Link};
use crate::value::{Value, values};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use taskyard_domain::alias::Vocabulary as _;
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::WorkspaceId;
use taskyard_domain::{Clock, Error as Domain, Ids, Result, Timestamp};

/// PostgreSQL's channel for wake-ups.
pub(crate) const CHANNEL: &str = "taskyard";

/// The time and ids that a transaction uses.
#[derive(Clone)]
pub(crate) struct Env {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    /// Whether a change without an audit entry is refused.
    pub(crate) audited: bool,
}

impl Env {
    /// Now, cut to the microseconds that the database keeps.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }
}

/// One consistent snapshot of the database.
pub struct Read {
    pub(crate) conn: Conn,
    pub(crate) env: Env,
}

impl Read {
    pub(crate) fn new(conn: Conn, env: Env) -> Self {
        Self { conn, env }
    }

    /// Now, in the precision that the database keeps.
    pub fn now(&self) -> Timestamp {
        self.env.now()
    }

    /// The source of new ids.
    pub fn ids(&self) -> &dyn Ids {
        &*self.env.ids
    }

    /// Gives the connection to PostgreSQL back. What goes wrong here changes nothing that was read.
    pub(crate) async fn end(self) {
        if let Link::Postgres(tx) = self.conn.link
            && let Err(error) = tx.rollback().await
        {
            tracing::debug!(%error, "a finished read could not be ended properly; its connection is given up");
        }
    }
}

/// What a committed transaction has to wake.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Woken {
    /// Workspaces with new events.
    pub(crate) workspaces: Vec<News>,
    /// Whether effects are waiting.
    pub(crate) outbox: bool,
}

/// The new events of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) workspace: WorkspaceId,
    /// Their kinds, each once; empty when they aren't known.
    pub(crate) kinds: Vec<Kind>,
}

impl News {
    fn of(workspace: WorkspaceId, events: &[NewEvent]) -> Self {
        let mut kinds: Vec<Kind> = events.iter().map(|event| event.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        Self { workspace, kinds }
    }

    /// Whether there is anything but the noise of work that goes on.
    pub(crate) fn is_loud(&self) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kind| !kind.is_quiet())
    }

    /// Whether there is something for those who listen for `kinds`.
    pub(crate) fn concerns(&self, kinds: &[Kind]) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kind| kinds.contains(kind))
    }

    /// As it goes to other nodes: the workspace and the kinds.
    pub(crate) fn to_payload(&self) -> String {
        self.kinds.iter().fold(self.workspace.to_string(), |text, kind| format!("{text} {kind}"))
    }

    /// Reads what another node sent; `None` when it was about no workspace. A kind of a newer node is unknown here,
    /// and then all are.
    pub(crate) fn from_payload(payload: &str) -> Option<Self> {
        let mut words = payload.split(' ');
        let workspace = words.next()?.parse().ok()?;
        let kinds: Option<Vec<Kind>> = words.map(Kind::stored).collect();
        Some(Self { workspace, kinds: kinds.unwrap_or_default() })
    }
}

/// A transaction: everything that is read works here too.
pub struct Tx {
    pub(crate) read: Read,
    events: Vec<NewEvent>,
    pub(crate) outbox: bool,
}

impl Deref for Tx {
    type Target = Read;
    fn deref(&self) -> &Read {
        &self.read
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut Read {
        &mut self.read
    }
}

impl Tx {
    pub(crate) fn new(read: Read) -> Self {
        Self { read, events: Vec::new(), outbox: false }
    }

    /// Adds an event to the transaction. Its number and time are given when the closure has returned.
    pub fn event(&mut self, event: NewEvent) {
        self.events.push(event);
    }

    /// Says that what the transaction changes needs no audit entry: it is how a run or merge gets on (a slot, a process,
    /// figures), which is nobody's doing and is told by the entries before and after. Never so for a task.
    pub fn bookkeeping(&mut self) {
        self.conn.ledger.allow_bookkeeping();
    }

    /// Says that the rows are a test's, made behind the commands' backs.
    #[doc(hidden)]
    pub fn fixture(&mut self) {
        self.conn.ledger.allow_everything();
    }

    /// Forgets what the last transaction on this connection gathered.
    pub(crate) fn reset(&mut self) {
        self.events.clear();
        self.outbox = false;
        self.read.conn.mend();
    }

    /// Writes the buffered events; the transaction's last statements.
    ///
    /// # Errors
    /// Whatever keeps the transaction from being committed, an earlier failed statement among them.
    pub(crate) async fn finish(&mut self) -> Result<Woken> {
        self.conn.sound()?;
        if self.env.audited {
            self.conn.ledger.check()?;
        }
        let mut woken = Woken { workspaces: Vec::new(), outbox: std::mem::take(&mut self.outbox) };
        // By rising id, so that two transactions never wait for each other's counters.
        let mut by_workspace: BTreeMap<WorkspaceId, Vec<NewEvent>> = BTreeMap::new();
        for event in std::mem::take(&mut self.events) {
            by_workspace.entry(event.workspace_id).or_default().push(event);
        }
        let mut numbered = Vec::new();
        for (workspace, events) in by_workspace {
            let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
            let head = self.counter_add(workspace, "event", count).await?;
            numbered.push((workspace, head - count, events));
        }
        for (workspace, before, events) in numbered {
            let news = News::of(workspace, &events);
            let rows = self.event_rows(before, events)?;
            let columns = ["workspace_id", "seq", "at", "kind", "task_id", "run_id", "session_id", "data"];
            self.insert_rows("event", &columns, rows).await?;
            woken.workspaces.push(news);
        }
        self.notify(&woken).await?;
        Ok(woken)
    }

    fn event_rows(&self, before: i64, events: Vec<NewEvent>) -> Result<Vec<Vec<Value>>> {
        let at = self.now();
        let rows = events.iter().zip(before + 1..).map(|(event, seq)| {
            let mut row = values![event.workspace_id, seq, at, event.kind, event.task_id, event.run_id, event.session_id];
            row.push(crate::value::json(&event.data)?);
            Ok(row)
        });
        rows.collect()
    }

    /// Raises a counter of `workspace` by `by`; its new value.
    pub(crate) async fn counter_add(&mut self, workspace: WorkspaceId, kind: &str, by: i64) -> Result<i64> {
        let sql = "UPDATE counter SET value = value + $3 WHERE workspace_id = $1 AND kind = $2 RETURNING value";
        let values = values![workspace, kind.to_owned(), by];
        self.number(sql, values).await?.ok_or_else(|| Domain::not_found("workspace", workspace))
    }

    /// PostgreSQL tells every node at commit; on SQLite there is only this process, which is told by the writer.
    async fn notify(&mut self, woken: &Woken) -> Result<()> {
        if !self.conn.is_postgres() {
            return Ok(());
        }
        for news in &woken.workspaces {
            self.notify_one(crate::value::text(&news.to_payload())).await?;
        }
        // The outbox is woken along with any event but a quiet one.
        if woken.outbox && !woken.workspaces.iter().any(News::is_loud) {
            self.notify_one(crate::value::text("")).await?;
        }
        Ok(())
    }

    async fn notify_one(&mut self, payload: Value) -> Result<()> {
        let sql = "SELECT pg_notify($1, $2)";
        self.conn.exec(sql, vec![crate::value::text(CHANNEL), payload]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_reach_other_nodes_whole() {
        let workspace = WorkspaceId(uuid::Uuid::from_u128(7));
        let event = |kind| NewEvent::new(workspace, kind);
        let news = News::of(workspace, &[event(Kind::TranscriptAdvanced), event(Kind::TaskUpdated), event(Kind::TaskUpdated)]);
        assert_eq!(news.kinds, [Kind::TaskUpdated, Kind::TranscriptAdvanced]);
        assert_eq!(News::from_payload(&news.to_payload()), Some(news));
        assert_eq!(News::from_payload(""), None);
        let newer = News::from_payload(&format!("{workspace} task_updated moon_rose")).unwrap();
        assert!(newer.is_loud() && newer.concerns(&[Kind::TaskDeleted]), "what isn't known may be anything");
    }

    #[test]
    fn only_noise_is_quiet() {
        let workspace = WorkspaceId(uuid::Uuid::from_u128(7));
        let quiet = News { workspace, kinds: vec![Kind::TranscriptAdvanced] };
        let loud = News { workspace, kinds: vec![Kind::RunEnded, Kind::TranscriptAdvanced] };
        assert_eq!((quiet.is_loud(), loud.is_loud()), (false, true));
        assert_eq!((loud.concerns(&[Kind::TaskUpdated]), loud.concerns(&[Kind::RunEnded])), (false, true));
    }
}
