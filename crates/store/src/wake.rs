//! Waking those who wait for commits. A wake-up carries nothing: the truth is in the tables.
//!
//! A subscription registers before it reads, so that a commit in between wakes it again, and reads by number,
//! so that no event comes twice.

use crate::store::Store;
use crate::tx::{News, Read, Woken};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use taskyard_domain::Result;
use taskyard_domain::event::{Event, Kind};
use taskyard_domain::id::WorkspaceId;
use tokio::sync::watch;

/// Events read at a time.
const PAGE: i64 = 256;

/// Kinds of events that somebody listens for; `None` is all of them.
type Kinds = Option<&'static [Kind]>;

/// Those who listen for the same.
#[derive(Debug)]
struct Ear {
    kinds: Kinds,
    sender: watch::Sender<()>,
}

/// Everybody who waits. The channels' values mean nothing.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    all: watch::Sender<()>,
    workspaces: Mutex<HashMap<WorkspaceId, Vec<Ear>>>,
}

impl Wakes {
    fn workspaces(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Vec<Ear>>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self, workspace: WorkspaceId, kinds: Kinds) -> watch::Receiver<()> {
        let mut workspaces = self.workspaces();
        workspaces.retain(|_, ears| {
            ears.retain(|ear| ear.sender.receiver_count() > 0);
            !ears.is_empty()
        });
        let ears = workspaces.entry(workspace).or_default();
        if let Some(known) = ears.iter().find(|ear| ear.kinds == kinds) {
            return known.sender.subscribe();
        }
        let (sender, receiver) = watch::channel(());
        ears.push(Ear { kinds, sender });
        receiver
    }

    pub(crate) fn watch_all(&self) -> Wake {
        Wake { receiver: self.all.subscribe() }
    }

    /// Wakes those whom a commit concerns.
    pub(crate) fn wake(&self, woken: &Woken) {
        for news in &woken.workspaces {
            self.wake_workspace(news);
        }
        if woken.outbox || woken.workspaces.iter().any(News::is_loud) {
            self.all.send_replace(());
        }
    }

    fn wake_workspace(&self, news: &News) {
        for ear in self.workspaces().get(&news.workspace).into_iter().flatten() {
            if ear.kinds.is_none_or(|kinds| news.concerns(kinds)) {
                ear.sender.send_replace(());
            }
        }
    }

    /// Wakes everybody: news may have been missed, or the store was closed.
    pub(crate) fn wake_everybody(&self) {
        for ear in self.workspaces().values().flatten() {
            ear.sender.send_replace(());
        }
        self.all.send_replace(());
    }
}

/// A signal that is raised by every commit that wrote outbox rows, or events other than quiet ones.
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
    receiver: watch::Receiver<()>,
    workspace: WorkspaceId,
    kinds: Kinds,
    /// The last event that was handed out.
    last: i64,
    /// How far the log was read.
    seen: i64,
    page: VecDeque<Event>,
}

impl Subscription {
    pub(crate) fn new(store: Store, receiver: watch::Receiver<()>, workspace: WorkspaceId, kinds: Kinds, after: i64) -> Self {
        Self { store, receiver, workspace, kinds, last: after, seen: after, page: VecDeque::new() }
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
            self.receiver.borrow_and_update();
            let (workspace, kinds, after) = (self.workspace, self.kinds, self.seen);
            let (page, seen) = self.store.read(move |read| Box::pin(page(read, workspace, kinds, after))).await?;
            self.seen = seen;
            if page.is_empty() {
                // The store holds the sending half, and this holds the store: it can't be gone.
                let _ = self.receiver.changed().await;
            } else {
                self.page = page.into();
            }
        }
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
