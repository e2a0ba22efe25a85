//! Waking those who wait for commits. A wake-up carries nothing: the truth is in the tables.
//!
//! A subscription registers before it reads, so that a commit in between wakes it again, and reads by number,
//! so that no event comes twice.

use crate::store::Store;
use crate::tx::Woken;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use taskyard_domain::Result;
use taskyard_domain::event::Event;
use taskyard_domain::id::WorkspaceId;
use tokio::sync::watch;

/// Events read at a time.
const PAGE: i64 = 256;

/// Everybody who waits. The channels' values mean nothing.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    all: watch::Sender<()>,
    workspaces: Mutex<HashMap<WorkspaceId, watch::Sender<()>>>,
}

impl Wakes {
    fn workspaces(&self) -> MutexGuard<'_, HashMap<WorkspaceId, watch::Sender<()>>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self, workspace: WorkspaceId) -> watch::Receiver<()> {
        let mut workspaces = self.workspaces();
        workspaces.retain(|_, sender| sender.receiver_count() > 0);
        workspaces.entry(workspace).or_default().subscribe()
    }

    pub(crate) fn watch_all(&self) -> Wake {
        Wake { receiver: self.all.subscribe() }
    }

    /// Wakes those whom a commit concerns.
    pub(crate) fn wake(&self, woken: &Woken) {
        for workspace in &woken.workspaces {
            self.wake_workspace(*workspace);
        }
        if woken.outbox || !woken.workspaces.is_empty() {
            self.all.send_replace(());
        }
    }

    fn wake_workspace(&self, workspace: WorkspaceId) {
        if let Some(sender) = self.workspaces().get(&workspace) {
            sender.send_replace(());
        }
    }

    /// Wakes everybody: news may have been missed, or the store was closed.
    pub(crate) fn wake_everybody(&self) {
        for sender in self.workspaces().values() {
            sender.send_replace(());
        }
        self.all.send_replace(());
    }
}

/// A signal that is raised by every commit that wrote events or outbox rows.
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

/// The events of a workspace in order, each exactly once.
pub struct Subscription {
    store: Store,
    receiver: watch::Receiver<()>,
    workspace: WorkspaceId,
    last: i64,
    page: VecDeque<Event>,
}

impl Subscription {
    pub(crate) fn new(store: Store, receiver: watch::Receiver<()>, workspace: WorkspaceId, after: i64) -> Self {
        Self { store, receiver, workspace, last: after, page: VecDeque::new() }
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
            let (workspace, last) = (self.workspace, self.last);
            let page = self.store.read(move |read| Box::pin(read.events_after(workspace, last, PAGE))).await?;
            if page.is_empty() {
                // The store holds the sending half, and this holds the store: it can't be gone.
                let _ = self.receiver.changed().await;
            } else {
                self.page = page.into();
            }
        }
    }

    /// The number of the last event that was handed out.
    pub fn position(&self) -> i64 {
        self.last
    }
}
