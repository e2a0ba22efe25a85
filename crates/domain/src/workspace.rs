//! The workspace: tenant boundary, with its handle and its task counter's prefix.

use crate::id::{ProfileId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A tenant. Everything below it belongs to exactly one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Its UUID.
    pub id: WorkspaceId,
    /// Its slug, unique on the server.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// 2–6 capitals, unique on the server, never changed.
    pub task_prefix: String,
    /// Put before every prompt of its tasks.
    pub prompt: String,
    /// The profile its tasks use when nothing nearer says otherwise.
    pub default_profile_id: Option<ProfileId>,
    /// When it was made.
    pub created_at: Timestamp,
}
