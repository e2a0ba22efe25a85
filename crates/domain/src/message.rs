//! Messages to a session: queued for a busy agent, delivered once, with a receipt that can be asked for.

use crate::id::{MessageId, SessionId, TaskId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// Where a message stands.
    State, "message state", {
        /// It waits for the agent to be idle.
        Queued = "queued",
        /// The agent holds it.
        Delivered = "delivered",
        /// It can't be delivered any more; see the reason.
        Undeliverable = "undeliverable",
    }
}

/// A message to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its UUID.
    pub id: MessageId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The session it is for.
    pub session_id: SessionId,
    /// That session's task.
    pub task_id: TaskId,
    /// The label of who sent it.
    pub sender: String,
    /// What it says.
    pub text: String,
    /// Where it stands.
    pub state: State,
    /// When it was sent.
    pub created_at: Timestamp,
    /// When the agent got it.
    pub delivered_at: Option<Timestamp>,
    /// Why it is undeliverable, in a sentence.
    pub reason: Option<String>,
}
