//! Messages to sessions.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::values;
use taskyard_domain::Result;
use taskyard_domain::id::{MessageId, SessionId};
use taskyard_domain::message::Message;

entity!(Message, "message", "message", {
    id, workspace_id, session_id, task_id, sender, text, state, created_at, delivered_at, reason,
});

impl Tx {
    /// Stores a new message.
    pub async fn message_insert(&mut self, message: &Message) -> Result<()> {
        self.insert(message).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn message_update(&mut self, message: &Message) -> Result<()> {
        self.update(message).await
    }
}

impl Read {
    /// The message with this id.
    pub async fn message_fetch(&mut self, id: MessageId) -> Result<Option<Message>> {
        self.by_id(id).await
    }

    /// The session's queued messages, oldest first.
    pub async fn message_queue(&mut self, session: SessionId) -> Result<Vec<Message>> {
        self.select("WHERE session_id = $1 AND state = 'queued' ORDER BY created_at, id", values![session]).await
    }

    /// The session's queued message that is delivered next.
    pub async fn message_next(&mut self, session: SessionId) -> Result<Option<Message>> {
        self.select_one("WHERE session_id = $1 AND state = 'queued' ORDER BY created_at, id LIMIT 1", values![session]).await
    }
}
