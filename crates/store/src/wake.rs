//! Waking those who wait for commits. A wake-up carries nothing: the truth is in the tables.
//!
//! A subscription registers before it reads, so that a commit in between wakes it again, and reads by number,
//! so that no event comes twice. Those who listen for the same share what was read: however many are woken by a
//! commit, one of them asks the database.

use crate::store::Store;
use crate::tx::{News, Read, Woken};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use taskyard_domain::Result;
use taskyard_domain::event::{Event, Kind};
use taskyard_domain::id::WorkspaceId;
use tokio::sync::watch;

/// Events read at a time.
const PAGE: i64 = 256;
/// Events that are kept for those who are woken later by the same commit.
const KEPT: usize = 256;

/// Kinds of events that somebody listens for; `None` is all of them.
type Kinds = Option<&'static [Kind]>;

/// Those who listen for the same. The channel's value counts the wake-ups.
#[derive(Debug)]
struct Ear {
    kinds: Kinds,
    sender: watch::Sender<u64>,
    recent: Arc<tokio::sync::Mutex<Recent>>,
}

impl Ear {
    fn wake(&self) {
        self.sender.send_modify(|count| *count += 1);
    }
}

/// The end of a workspace's log as one of the listeners read it last: all events of the kinds with numbers above
/// `from`, up to `seen`.
#[derive(Debug, Default)]
struct Recent {
    /// The wake-ups that had been counted before the log was read; `None` before the first time.
    as_of: Option<u64>,
    from: i64,
    seen: i64,
    events: VecDeque<Event>,
}

impl Recent {
    /// The events above `after`, when what is here has everything up to the wake-up `count`.
    fn behind(&self, after: i64, count: u64) -> Option<(VecDeque<Event>, i64)> {
        let is_whole = self.as_of.is_some_and(|as_of| as_of >= count) && self.from <= after;
        let start = self.events.partition_point(|event| event.seq <= after);
        is_whole.then(|| (self.events.range(start..).cloned().collect(), self.seen.max(after)))
    }

    /// Whether the log can be followed on from here by one who has seen it up to `after`.
    fn leads_to(&self, after: i64) -> bool {
        self.as_of.is_some() && (self.from..=self.seen).contains(&after)
    }

    /// Adds what was read behind `seen`.
    fn extend(&mut self, count: u64, page: Vec<Event>, seen: i64) {
        (self.as_of, self.seen) = (Some(count), seen);
        self.events.extend(page);
    }

    /// Forgets what is older than the newest few.
    fn trim(&mut self) {
        while self.events.len() > KEPT {
            self.from = self.events.pop_front().map_or(self.from, |event| event.seq);
        }
    }
}

/// What a subscription hears by.
pub(crate) struct Hearing {
    receiver: watch::Receiver<u64>,
    recent: Arc<tokio::sync::Mutex<Recent>>,
}

/// Everybody who waits.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    all: watch::Sender<()>,
    outbox: watch::Sender<()>,
    workspaces: Mutex<HashMap<WorkspaceId, Vec<Ear>>>,
}

impl Wakes {
    fn workspaces(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Vec<Ear>>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self, workspace: WorkspaceId, kinds: Kinds) -> Hearing {
        let mut workspaces = self.workspaces();
        workspaces.retain(|_, ears| {
            ears.retain(|ear| ear.sender.receiver_count() > 0);
            !ears.is_empty()
        });
        let ears = workspaces.entry(workspace).or_default();
        if let Some(known) = ears.iter().find(|ear| ear.kinds == kinds) {
            return Hearing { receiver: known.sender.subscribe(), recent: Arc::clone(&known.recent) };
        }
        let (sender, receiver) = watch::channel(0);
        let recent = Arc::<tokio::sync::Mutex<Recent>>::default();
        ears.push(Ear { kinds, sender, recent: Arc::clone(&recent) });
        Hearing { receiver, recent }
    }

    pub(crate) fn watch_all(&self) -> Wake {
        Wake { receiver: self.all.subscribe() }
    }

    pub(crate) fn watch_outbox(&self) -> Wake {
        Wake { receiver: self.outbox.subscribe() }
    }

    /// Wakes those whom a commit concerns.
    pub(crate) fn wake(&self, woken: &Woken) {
        for news in &woken.workspaces {
            self.wake_workspace(news);
        }
        if woken.outbox || woken.workspaces.iter().any(News::is_loud) {
            self.all.send_replace(());
        }
        if woken.outbox {
            self.outbox.send_replace(());
        }
    }

    fn wake_workspace(&self, news: &News) {
        for ear in self.workspaces().get(&news.workspace).into_iter().flatten() {
            if ear.kinds.is_none_or(|kinds| news.concerns(kinds)) {
                ear.wake();
            }
        }
    }

    /// Wakes everybody: news may have been missed, or the store was closed.
    pub(crate) fn wake_everybody(&self) {
        self.workspaces().values().flatten().for_each(Ear::wake);
        self.all.send_replace(());
        self.outbox.send_replace(());
    }
}

/// A signal that commits raise: those that wrote outbox rows, or also those that wrote events other than quiet ones.
#[derive(Debug, Clone)]
pub struct Wake {
    receiver: watch::Receiver<()>,
}

impl Wake {
    /// Returns once something was committed since the last return (or since the signal was made). Commits in
    /// between are one wake-up. Cancel-safe. Waits for ever once the store is gone.
    pub async fn changed(&mut self) {
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The events of a workspace in order, each exactly once; all of them, or those of some kinds.
pub struct Subscription {
    store: Store,
    hearing: Hearing,
    workspace: WorkspaceId,
    kinds: Kinds,
    /// The last event that was handed out.
    last: i64,
    /// How far the log was read.
    seen: i64,
    page: VecDeque<Event>,
}

impl Subscription {
    pub(crate) fn new(store: Store, hearing: Hearing, workspace: WorkspaceId, kinds: Kinds, after: i64) -> Self {
        Self { store, hearing, workspace, kinds, last: after, seen: after, page: VecDeque::new() }
    }

    /// The next event, waiting for it. Cancel-safe: a dropped call takes no event with it.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the database doesn't answer or the store was closed; another call goes on where
    /// this one stopped.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.page.pop_front() {
                self.last = event.seq;
                return Ok(event);
            }
            // Seen first, read afterwards: a commit during the read raises the signal again.
            let count = *self.hearing.receiver.borrow_and_update();
            let (page, seen) = self.look(count).await?;
            self.seen = seen;
            if page.is_empty() {
                // The store holds the sending half, and this holds the store: it can't be gone.
                let _ = self.hearing.receiver.changed().await;
            } else {
                self.page = page;
            }
        }
    }

    /// The next events, and how far the log is read with them: those that another listener has read since the wake-up
    /// `count`, else what the database has. Only one listener reads at a time.
    async fn look(&self, count: u64) -> Result<(VecDeque<Event>, i64)> {
        let mut recent = self.hearing.recent.lock().await;
        if let Some(known) = recent.behind(self.seen, count) {
            return Ok(known);
        }
        let follows = recent.leads_to(self.seen);
        let after = if follows { recent.seen } else { self.seen };
        let (workspace, kinds) = (self.workspace, self.kinds);
        let (page, seen) = self.store.read(move |read| Box::pin(page(read, workspace, kinds, after))).await?;
        let is_all = i64::try_from(page.len()).is_ok_and(|length| length < PAGE);
        if !follows && (!is_all || self.seen < recent.from) {
            // One who is far behind catches up alone; what the others share stays theirs.
            return Ok((page.into(), seen));
        }
        if !follows {
            *recent = Recent { as_of: None, from: after, seen: after, events: VecDeque::new() };
        }
        // A page that isn't all of it is as of no wake-up: the next listener reads on.
        let as_of = if is_all { count } else { recent.as_of.unwrap_or_default() };
        recent.extend(as_of, page, seen);
        let answer = recent.behind(self.seen, as_of);
        recent.trim();
        Ok(answer.unwrap_or_else(|| (VecDeque::new(), self.seen)))
    }

    /// The number of the last event that was handed out; where it began, before the first.
    pub fn position(&self) -> i64 {
        self.last
    }
}

/// The next events behind `after`, and how far the log is read with them: what is of other kinds isn't looked at twice.
async fn page(read: &mut Read, workspace: WorkspaceId, kinds: Kinds, after: i64) -> Result<(Vec<Event>, i64)> {
    let Some(kinds) = kinds else {
        let page = read.events_after(workspace, after, PAGE).await?;
        let seen = page.last().map_or(after, |event| event.seq);
        return Ok((page, seen));
    };
    let head = read.event_head(workspace).await?;
    if head <= after {
        return Ok((Vec::new(), after));
    }
    let page = read.events_of_kinds_after(workspace, kinds, after, PAGE).await?;
    let is_all = i64::try_from(page.len()).is_ok_and(|count| count < PAGE);
    let seen = if is_all { head } else { page.last().map_or(after, |event| event.seq) };
    Ok((page, seen))
}
