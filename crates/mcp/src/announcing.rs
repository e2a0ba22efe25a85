//! Telling a session's client that its tool list has changed, for the revisions until 2025-11-25.
//!
//! Since 2026-07-28 clients listen by a request of their own; see [`crate::server`]. What is the same in both: the
//! list of an address changes with the suffix behind the names and nothing else.

use crate::dispatch::Dispatcher;
use rmcp::RoleServer;
use rmcp::service::Peer;
use std::sync::{Mutex, PoisonError};
use tokio_util::task::AbortOnDropHandle;

/// The announcements of one session: a task that ends with the session's handler. A clone is another session's, and
/// has none yet.
#[derive(Default)]
pub(crate) struct Announcing(Mutex<Option<AbortOnDropHandle<()>>>);

impl Clone for Announcing {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Announcing {
    /// Tells `peer` of every change from now on.
    pub(crate) async fn start(&self, dispatcher: Dispatcher, peer: Peer<RoleServer>) {
        let mut suffix = dispatcher.backend().suffix().await;
        let task = tokio::spawn(async move {
            loop {
                suffix = dispatcher.backend().suffix_after(&suffix).await;
                if peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(AbortOnDropHandle::new(task));
    }
}
