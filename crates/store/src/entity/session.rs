//! Sessions.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::values;
use taskyard_domain::Result;
use taskyard_domain::id::{SessionId, TaskId};
use taskyard_domain::session::Session;

entity!(Session, "session", "session", {
    id, workspace_id, task_id, agent_id, profile_id, worktree_id, is_primary, state, agent_session_id, created_at, updated_at,
});

impl Tx {
    /// Stores a new session.
    ///
    /// # Errors
    /// `CONFLICT` when it is primary and the task has a primary one.
    pub async fn session_insert(&mut self, session: &Session) -> Result<()> {
        self.insert(session).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone; `CONFLICT` as for [`Tx::session_insert`].
    pub async fn session_update(&mut self, session: &Session) -> Result<()> {
        self.update(session).await
    }

    /// The session, locked until the end of the transaction.
    pub async fn session_lock(&mut self, id: SessionId) -> Result<Option<Session>> {
        self.lock(id).await
    }
}

impl Read {
    /// The session with this id.
    pub async fn session_fetch(&mut self, id: SessionId) -> Result<Option<Session>> {
        self.by_id(id).await
    }

    /// The task's primary session.
    pub async fn session_primary(&mut self, task: TaskId) -> Result<Option<Session>> {
        self.select_one("WHERE task_id = $1 AND is_primary = 1", values![task]).await
    }

    /// The task's sessions, oldest first.
    pub async fn session_list(&mut self, task: TaskId) -> Result<Vec<Session>> {
        self.select("WHERE task_id = $1 ORDER BY created_at, id", values![task]).await
    }
}
