//! `list_runs` and `get_run`: who worked on what, and how it ended.

use super::get_task::run_view;
use super::paging;
use crate::view::RunView;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::id::RunId;
use taskyard_domain::{Error, Result, Timestamp};
use taskyard_store::{Read, RunCursor};

const DEFAULT: i64 = 20;

/// Which runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListRuns {
    /// Only those of this task.
    #[serde(default)]
    pub task_id: Option<String>,
    /// Only those of this workspace.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Most rows, 1 to 200.
    #[serde(default = "twenty")]
    pub limit: i64,
    /// Where the last page ended.
    #[serde(default)]
    pub cursor: Option<String>,
}

fn twenty() -> i64 {
    DEFAULT
}

/// A page of runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListRunsOutput {
    /// Newest first.
    pub runs: Vec<RunView>,
    /// Whether there are more.
    pub has_more: bool,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Which run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetRun {
    /// The run.
    pub run_id: String,
}

/// A run, if there is one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetRunOutput {
    /// Whether there is such a run.
    pub found: bool,
    /// The run.
    pub run: Option<RunView>,
}

/// Where a page of runs ended.
#[derive(Serialize, Deserialize)]
struct Place(Timestamp, RunId);

impl Engine {
    /// A page of runs, newest first. A default page stays within 10 KB, so it may hold fewer rows than `limit`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a limit out of range or a foreign cursor; `NOT_FOUND`.
    pub async fn list_runs(&self, caller: &Caller, input: ListRuns) -> Result<ListRunsOutput> {
        let caller = caller.clone();
        self.store().read(move |read| Box::pin(async move { list(read, &caller, input).await })).await
    }

    /// A run by its UUID.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` when it isn't a UUID. An unknown run is `found: false`.
    pub async fn get_run(&self, caller: &Caller, input: GetRun) -> Result<GetRunOutput> {
        let caller = caller.clone();
        self.store().read(move |read| Box::pin(async move { get(read, &caller, input).await })).await
    }
}

async fn list(read: &mut Read, caller: &Caller, input: ListRuns) -> Result<ListRunsOutput> {
    let limit = paging::limit(input.limit)?;
    let place: Option<Place> = paging::decode(input.cursor.as_deref())?;
    let workspace = match (&input.workspace_id, caller.workspace_id()) {
        (Some(handle), _) => Some(handle::workspace(read, caller, "workspace_id", Some(handle)).await?.id),
        (None, own) => own,
    };
    let task = match &input.task_id {
        Some(handle) => Some(handle::task(read, caller, "task_id", handle).await?),
        None => None,
    };
    if let (Some(workspace), Some(task), Some(handle)) = (workspace, &task, &input.task_id)
        && task.workspace_id != workspace
    {
        return Err(Error::not_found("task", handle).with_field("task_id"));
    }
    let after = place.map(|Place(started_at, id)| RunCursor { started_at, id });
    let found = read.run_page(workspace, task.map(|task| task.id), after, input.limit + 1).await?;
    let mut runs = Vec::with_capacity(found.len());
    for run in &found {
        runs.push(run_view(read, run).await?);
    }
    let has_more = paging::page(&mut runs, limit, usize::try_from(DEFAULT).unwrap_or_default());
    let last = runs.len().checked_sub(1).and_then(|last| found.get(last)).filter(|_| has_more);
    let next_cursor = last.map(|run| paging::encode(&Place(run.started_at, run.id))).transpose()?;
    Ok(ListRunsOutput { runs, has_more, next_cursor })
}

async fn get(read: &mut Read, caller: &Caller, input: GetRun) -> Result<GetRunOutput> {
    let id: RunId = handle::id("run_id", &input.run_id)?;
    let run = read.run_fetch(id).await?.filter(|run| caller.require_workspace(run.workspace_id, "run", &input.run_id).is_ok());
    let run = match run {
        Some(run) => Some(run_view(read, &run).await?),
        None => None,
    };
    Ok(GetRunOutput { found: run.is_some(), run })
}
