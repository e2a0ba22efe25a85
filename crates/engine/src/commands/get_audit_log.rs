//! `get_audit_log`: who did what to what.

use super::paging;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use taskyard_domain::alias::Vocabulary as _;
use taskyard_domain::audit::{Action, Entry};
use taskyard_domain::id::{TaskId, WorkspaceId};
use taskyard_domain::name::ShortId;
use taskyard_domain::{Error, Result, Timestamp};
use taskyard_store::Read;

const DEFAULT: i64 = 50;

/// Which entries.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetAuditLog {
    /// The workspace.
    pub workspace: String,
    /// Only those about this: a task by UUID or short id (with those about its runs, worktrees, merges, questions and
    /// snapshots; a deleted one too), or anything else by UUID.
    #[serde(default)]
    pub target_id: Option<String>,
    /// Only this action, such as `task.created`.
    #[serde(default)]
    pub action: Option<String>,
    /// Most rows, 1 to 200.
    #[serde(default = "fifty")]
    pub limit: i64,
    /// Where the last page ended.
    #[serde(default)]
    pub cursor: Option<String>,
}

fn fifty() -> i64 {
    DEFAULT
}

/// An audit entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AuditRow {
    /// Its number, rising.
    pub id: i64,
    /// When.
    pub at: Timestamp,
    /// Who: `operator`, `system` or `run:…`.
    pub actor: String,
    /// What the caller called itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_label: Option<String>,
    /// Through which face.
    pub face: String,
    /// What was done.
    pub action: String,
    /// The sort of thing it was done to.
    pub target_type: String,
    /// That thing.
    pub target_id: String,
    /// The task it belongs to, where it isn't one itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Small facts.
    pub metadata: Value,
}

impl From<Entry> for AuditRow {
    fn from(entry: Entry) -> Self {
        let body = entry.body;
        Self {
            id: entry.id,
            at: entry.at,
            actor: body.actor.label(),
            actor_label: body.actor_label,
            face: body.face.as_str().into(),
            action: body.action.as_str().into(),
            target_type: body.target_type,
            target_id: body.target_id,
            task_id: body.task_id.map(|id| id.to_string()),
            metadata: body.metadata,
        }
    }
}

/// A page of audit entries.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetAuditLogOutput {
    /// Newest first.
    pub entries: Vec<AuditRow>,
    /// Whether there are older ones.
    pub has_more: bool,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

impl Engine {
    /// A page of a workspace's audit entries, newest first. A default page stays within 10 KB.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown workspace, or a short id that no task of it ever had; `INVALID_ARGUMENT` for an unknown
    /// action, a limit out of range or a foreign cursor.
    pub async fn get_audit_log(&self, caller: &Caller, input: GetAuditLog) -> Result<GetAuditLogOutput> {
        let caller = caller.clone();
        self.store().read(move |read| Box::pin(async move { page(read, &caller, input).await })).await
    }
}

async fn page(read: &mut Read, caller: &Caller, input: GetAuditLog) -> Result<GetAuditLogOutput> {
    let limit = paging::limit(input.limit)?;
    let before: Option<i64> = paging::decode(input.cursor.as_deref())?;
    let workspace = handle::workspace(read, caller, "workspace", Some(&input.workspace)).await?.id;
    let action = input.action.as_deref().map(|word| Action::read("action", word)).transpose()?;
    let target = match input.target_id.as_deref().and_then(ShortId::parse) {
        Some(short) => Some(task_named(read, workspace, &short).await?.to_string()),
        None => input.target_id,
    };
    let entries = read.audit_page(workspace, target.as_deref(), action, before, input.limit + 1).await?;
    let mut entries: Vec<AuditRow> = entries.into_iter().map(AuditRow::from).collect();
    let has_more = paging::page(&mut entries, limit, usize::try_from(DEFAULT).unwrap_or_default());
    let next_cursor = entries.last().filter(|_| has_more).map(|entry| paging::encode(&entry.id)).transpose()?;
    Ok(GetAuditLogOutput { entries, has_more, next_cursor })
}

/// The task of `workspace` with this short id, deleted or not.
async fn task_named(read: &mut Read, workspace: WorkspaceId, short: &ShortId) -> Result<TaskId> {
    if let Some(task) = read.task_by_short(short).await?.filter(|task| task.workspace_id == workspace) {
        return Ok(task.id);
    }
    let deleted = read.audit_deleted_task(workspace, short).await?;
    deleted.ok_or_else(|| Error::not_found("task", short).with_field("target_id").with_hint("list_tasks shows the tasks that there are"))
}
