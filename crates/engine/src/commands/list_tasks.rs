//! `list_tasks`: the tasks of a workspace, list or parent, in pages without long texts.

use super::paging;
use crate::view::TaskRow;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::alias::Vocabulary;
use taskyard_domain::id::{TaskId, WorkspaceId};
use taskyard_domain::task::Status;
use taskyard_domain::{Error, Result, Timestamp};
use taskyard_store::{Read, TaskCursor, TaskFilter};

const DEFAULT: i64 = 50;

/// Which tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListTasks {
    /// The list, by its other name.
    #[serde(default)]
    pub workflow_id: Option<String>,
    /// The list.
    #[serde(default)]
    pub list_id: Option<String>,
    /// The workspace; needed where there are several and no list or parent says it.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Only this status, or several separated by commas.
    #[serde(default)]
    pub status: Option<String>,
    /// Only children of this task.
    #[serde(default)]
    pub parent_id: Option<String>,
    /// Only those with all these words in short id, title or description.
    #[serde(default)]
    pub query: Option<String>,
    /// Archived ones too.
    #[serde(default)]
    pub include_archived: bool,
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

/// A page of tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListTasksOutput {
    /// In the queue's order: sort order, then age.
    pub tasks: Vec<TaskRow>,
    /// Whether there are more.
    pub has_more: bool,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Where a page of tasks ended.
#[derive(Serialize, Deserialize)]
struct Place(f64, Timestamp, TaskId);

impl Engine {
    /// A page of tasks. A default page stays within 10 KB, so it may hold fewer rows than `limit`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for both names of the list at once, a limit out of range, an unknown status or cursor;
    /// `NOT_FOUND`.
    pub async fn list_tasks(&self, caller: &Caller, input: ListTasks) -> Result<ListTasksOutput> {
        let caller = caller.clone();
        self.store().read(move |read| Box::pin(async move { list(read, &caller, input).await })).await
    }
}

async fn list(read: &mut Read, caller: &Caller, input: ListTasks) -> Result<ListTasksOutput> {
    let limit = paging::limit(input.limit)?;
    let place: Option<Place> = paging::decode(input.cursor.as_deref())?;
    let after = place.map(|Place(sort_order, created_at, id)| TaskCursor { sort_order, created_at, id });
    let filter = filter(read, caller, &input).await?;
    let tasks = read.task_page(&filter, after, input.limit + 1).await?;
    let mut rows: Vec<TaskRow> = tasks.iter().map(TaskRow::from).collect();
    let has_more = paging::page(&mut rows, limit, usize::try_from(DEFAULT).unwrap_or_default());
    let last = rows.len().checked_sub(1).and_then(|last| tasks.get(last)).filter(|_| has_more);
    let next_cursor = last.map(|task| paging::encode(&Place(task.sort_order, task.created_at, task.id))).transpose()?;
    Ok(ListTasksOutput { tasks: rows, has_more, next_cursor })
}

async fn filter(read: &mut Read, caller: &Caller, input: &ListTasks) -> Result<TaskFilter> {
    if input.workflow_id.is_some() && input.list_id.is_some() {
        return Err(Error::invalid("list_id", "pass one of workflow_id and list_id; they name the same thing"));
    }
    let list = match (&input.list_id, &input.workflow_id) {
        (Some(id), _) => Some(handle::list(read, caller, "list_id", id).await?),
        (None, Some(id)) => Some(handle::list(read, caller, "workflow_id", id).await?),
        (None, None) => None,
    };
    let parent = match &input.parent_id {
        Some(parent) => Some(handle::task(read, caller, "parent_id", parent).await?),
        None => None,
    };
    let implied = list.as_ref().map(|list| list.workspace_id).or(parent.as_ref().map(|parent| parent.workspace_id));
    let workspace = workspace(read, caller, input.workspace_id.as_deref(), implied).await?;
    if let Some(other) = list.as_ref().filter(|list| list.workspace_id != workspace) {
        let field = if input.list_id.is_some() { "list_id" } else { "workflow_id" };
        return Err(Error::not_found("list", other.id).with_field(field));
    }
    if let Some(other) = parent.as_ref().filter(|parent| parent.workspace_id != workspace) {
        return Err(Error::not_found("task", &other.short_id).with_field("parent_id"));
    }
    let mut filter = TaskFilter::all(workspace);
    filter.list = list.map(|list| list.id);
    filter.parent = parent.map(|parent| parent.id);
    filter.status = statuses(input.status.as_deref())?;
    filter.query = input.query.clone().filter(|query| !query.trim().is_empty());
    filter.include_archived = input.include_archived;
    Ok(filter)
}

async fn workspace(read: &mut Read, caller: &Caller, handle: Option<&str>, implied: Option<WorkspaceId>) -> Result<WorkspaceId> {
    match (handle, implied) {
        (None, Some(implied)) => Ok(implied),
        (handle, _) => Ok(handle::workspace(read, caller, "workspace_id", handle).await?.id),
    }
}

fn statuses(text: Option<&str>) -> Result<Vec<Status>> {
    let words = text.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| Status::read("status", word)).collect()
}
