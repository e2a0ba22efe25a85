//! Audit entries: who did what to what, through which face.

use crate::actor::{Actor, Face};
use crate::id::WorkspaceId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An entry that is about to be written, in the transaction of the change it is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewEntry {
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The authenticated caller.
    pub actor: Actor,
    /// A label the caller gave for itself; no identity.
    pub actor_label: Option<String>,
    /// The face the call came through.
    pub face: Face,
    /// `noun.verbed`, such as `task.claimed`.
    pub action: String,
    /// What sort of thing it was done to, such as `task`.
    pub target_type: String,
    /// Its id.
    pub target_id: String,
    /// Small facts, snake_case, no secrets.
    pub metadata: serde_json::Value,
}

/// An audit entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number on the server, rising.
    pub id: i64,
    /// When it was written.
    pub at: Timestamp,
    /// Who did what.
    #[serde(flatten)]
    pub body: NewEntry,
}
