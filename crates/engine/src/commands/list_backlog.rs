//! `list_backlog`: plans, epics and tasks, and what of them may be claimed.

use super::create_object::named;
use super::paging;
use crate::resolve::parents;
use crate::view::cut;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;
use taskyard_domain::id::TaskId;
use taskyard_domain::run::Run;
use taskyard_domain::task::{Kind, Status, Task};
use taskyard_store::{BacklogFilter, Read, TaskCursor};

const DEFAULT: i64 = 50;

/// Which items.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListBacklog {
    /// Slug or UUID.
    pub workspace: String,
    /// Only `plan`, `epic` or `task`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only this status.
    #[serde(default)]
    pub status: Option<String>,
    /// Only below this plan.
    #[serde(default)]
    pub plan_slug: Option<String>,
    /// Only below this epic.
    #[serde(default)]
    pub epic_slug: Option<String>,
    /// Only what `claim_next_task` would take.
    #[serde(default)]
    pub claimable_only: bool,
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

/// Who works on an item.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Holder {
    /// The open run.
    pub run_id: String,
    /// `claimed` or `managed`.
    pub kind: String,
    /// Its label; `anonymous` without one.
    pub actor: String,
}

impl Holder {
    pub(crate) fn of(run: &Run) -> Self {
        let actor = run.actor.clone().unwrap_or_else(|| "anonymous".into());
        Self { run_id: run.id.to_string(), kind: run.kind.to_string(), actor }
    }
}

/// An item.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BacklogRow {
    /// UUID.
    pub id: String,
    /// `TY-42`.
    pub short_id: String,
    /// `plan`, `epic` or `task`.
    pub kind: String,
    /// Its name.
    pub slug: Option<String>,
    /// One line.
    pub title: String,
    /// Where it stands.
    pub status: String,
    /// How much it matters.
    pub priority: String,
    /// The plan it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_slug: Option<String>,
    /// The epic it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epic_slug: Option<String>,
    /// Who works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Holder>,
}

/// A page of a backlog.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListBacklogOutput {
    /// In the order of the queue.
    pub items: Vec<BacklogRow>,
    /// Whether there are more.
    pub has_more: bool,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Where a page ended.
#[derive(Serialize, Deserialize)]
struct Place(f64, taskyard_domain::Timestamp, TaskId);

impl Engine {
    /// A page of a workspace's items. A default page stays within 10 KB.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an unknown kind or status, a limit out of range or a foreign cursor; `NOT_FOUND`.
    pub async fn list_backlog(&self, caller: &Caller, input: ListBacklog) -> Result<ListBacklogOutput> {
        let caller = caller.clone();
        self.store().read(move |read| Box::pin(async move { list(read, &caller, input).await })).await
    }
}

async fn list(read: &mut Read, caller: &Caller, input: ListBacklog) -> Result<ListBacklogOutput> {
    use taskyard_domain::alias::Vocabulary as _;
    let limit = paging::limit(input.limit)?;
    let place: Option<Place> = paging::decode(input.cursor.as_deref())?;
    let workspace = handle::workspace(read, caller, "workspace", Some(&input.workspace)).await?.id;
    let plan = match &input.plan_slug {
        Some(slug) => Some(named(read, workspace, Kind::Plan, "plan_slug", slug).await?.id),
        None => None,
    };
    let epic = match &input.epic_slug {
        Some(slug) => Some(named(read, workspace, Kind::Epic, "epic_slug", slug).await?.id),
        None => None,
    };
    let filter = BacklogFilter {
        workspace,
        kind: input.kind.as_deref().map(|text| Kind::read("kind", text)).transpose()?,
        status: input.status.as_deref().map(|text| Status::read("status", text)).transpose()?,
        plan,
        epic,
        claimable_at: input.claimable_only.then(|| read.now()),
    };
    let after = place.map(|Place(sort_order, created_at, id)| TaskCursor { sort_order, created_at, id });
    let found = read.backlog_page(&filter, after, input.limit + 1).await?;
    let mut items = Vec::with_capacity(found.len());
    for task in &found {
        items.push(row(read, task).await?);
    }
    let has_more = paging::page(&mut items, limit, usize::try_from(DEFAULT).unwrap_or_default());
    let last = items.len().checked_sub(1).and_then(|last| found.get(last)).filter(|_| has_more);
    let next_cursor = last.map(|task| paging::encode(&Place(task.sort_order, task.created_at, task.id))).transpose()?;
    Ok(ListBacklogOutput { items, has_more, next_cursor })
}

async fn row(read: &mut Read, task: &Task) -> Result<BacklogRow> {
    let parents = parents(read, task).await?;
    let slug_of = |kind: Kind| parents.iter().find(|parent| parent.kind == kind).and_then(|parent| parent.slug.clone());
    let held_by = read.run_open_for_task(task.id).await?.as_ref().map(Holder::of);
    Ok(BacklogRow {
        id: task.id.to_string(),
        short_id: task.short_id.to_string(),
        kind: task.kind.to_string(),
        slug: task.slug.clone(),
        title: cut(&task.title, 200).to_owned(),
        status: task.status.to_string(),
        priority: task.priority.to_string(),
        plan_slug: slug_of(Kind::Plan),
        epic_slug: slug_of(Kind::Epic),
        held_by,
    })
}
