//! `create_object`: a plan, an epic or a task of a backlog, with its slug and its place below another.

use super::check;
use super::creation::{self, NewTask};
use crate::change::Key;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::backlog::{SLUG, check_slug};
use taskyard_domain::event::{Kind as EventKind, NewEvent};
use taskyard_domain::id::{ListId, WorkspaceId};
use taskyard_domain::list::{Config, List};
use taskyard_domain::name::slugify;
use taskyard_domain::task::{Kind, Status, Task};
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Error, Result};
use taskyard_store::{Read, Tx};

/// The list of items that are put into none, where there are several lists or none.
const BACKLOG: &str = "Backlog";
/// Longest slug that is made from a title, so that a number still fits behind it.
const MADE: usize = SLUG - 10;

/// A new item.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateObject {
    /// Slug or UUID.
    pub workspace: String,
    /// `plan`, `epic` or `task`.
    pub kind: String,
    /// One line.
    pub title: String,
    /// Its name; made from the title without it.
    #[serde(default)]
    pub slug: Option<String>,
    /// What it is about.
    #[serde(default)]
    pub body_markdown: Option<String>,
    /// The plan it belongs to.
    #[serde(default)]
    pub plan_slug: Option<String>,
    /// The epic it belongs to.
    #[serde(default)]
    pub epic_slug: Option<String>,
    /// `draft` or `ready`.
    #[serde(default = "draft")]
    pub status: String,
    /// `critical`, `high`, `medium` or `low`; or `P0` to `P3`.
    #[serde(default)]
    pub priority: Option<String>,
    /// Makes a repeated call give the first one's result.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

fn draft() -> String {
    Status::Draft.to_string()
}

/// The new item.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateObjectOutput {
    /// True.
    pub created: bool,
    /// UUID.
    pub id: String,
    /// `TY-42`.
    pub short_id: String,
    /// Its kind.
    pub kind: String,
    /// Its name, unique in the workspace among its kind.
    pub slug: String,
    /// Its title.
    pub title: String,
    /// `draft` or `ready`.
    pub status: String,
    /// Its list.
    pub list_id: String,
    /// The plan it belongs to.
    pub plan_slug: Option<String>,
    /// The epic it belongs to.
    pub epic_slug: Option<String>,
    /// Whether this is the result of an earlier call with the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl Engine {
    /// Makes a plan, an epic or a task. Without a plan or epic it goes into the workspace's only list, else into the one
    /// called Backlog, which is made where it is missing.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` and `NOT_FOUND` naming the argument; `CONFLICT` for a slug that is taken, or a key used for
    /// another call.
    pub async fn create_object(&self, caller: &Caller, input: CreateObject) -> Result<CreateObjectOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { create(tx, &caller, input).await })).await
    }
}

async fn create(tx: &mut Tx, caller: &Caller, input: CreateObject) -> Result<CreateObjectOutput> {
    use taskyard_domain::alias::Vocabulary as _;
    let key = Key::of(caller, "create_object", input.idempotency_key.as_deref(), &input)?;
    let workspace = handle::workspace(tx, caller, "workspace", Some(&input.workspace)).await?;
    // Slugs are given under the workspace's lock, so that two of a kind never race for one.
    let workspace = tx.workspace_lock(workspace.id).await?.unwrap_or(workspace);
    if let Some(before) = Key::replay::<CreateObjectOutput>(key.as_ref(), tx, workspace.id).await? {
        return Ok(CreateObjectOutput { replayed: true, ..before });
    }
    let item = NewItem {
        kind: Kind::read("kind", &input.kind)?,
        slug: input.slug,
        title: check::title("title", &input.title)?,
        body: check::text("body_markdown", input.body_markdown.as_deref().unwrap_or_default(), check::DESCRIPTION)?,
        plan_slug: input.plan_slug,
        epic_slug: input.epic_slug,
        draft: is_draft(&input.status)?,
        priority: input.priority,
    };
    let (plan_slug, epic_slug) = (item.plan_slug.clone(), item.epic_slug.clone());
    let task = make(tx, caller, workspace, item).await?;
    let output = CreateObjectOutput {
        created: true,
        id: task.id.to_string(),
        short_id: task.short_id.to_string(),
        kind: task.kind.to_string(),
        slug: task.slug.clone().unwrap_or_default(),
        title: task.title.clone(),
        status: task.status.to_string(),
        list_id: task.list_id.to_string(),
        plan_slug,
        epic_slug,
        replayed: false,
    };
    Key::keep(key.as_ref(), tx, task.workspace_id, &output).await?;
    Ok(output)
}

fn is_draft(status: &str) -> Result<bool> {
    use taskyard_domain::alias::Vocabulary as _;
    match Status::read("status", status)? {
        Status::Draft => Ok(true),
        Status::Ready => Ok(false),
        other => Err(Error::invalid("status", format!("status: a new item is draft or ready, not {other}"))),
    }
}

/// An item to make.
#[derive(Debug, Clone)]
pub(crate) struct NewItem {
    pub kind: Kind,
    /// As the caller typed it.
    pub slug: Option<String>,
    pub title: String,
    pub body: String,
    pub plan_slug: Option<String>,
    pub epic_slug: Option<String>,
    pub draft: bool,
    /// As the caller typed it.
    pub priority: Option<String>,
}

/// Makes an item; the caller holds the workspace's lock.
pub(crate) async fn make(tx: &mut Tx, caller: &Caller, owner: Workspace, item: NewItem) -> Result<Task> {
    let workspace = owner.id;
    let parent = parent(tx, workspace, item.kind, item.plan_slug.as_deref(), item.epic_slug.as_deref()).await?;
    let slug = match &item.slug {
        Some(slug) => free(tx, workspace, item.kind, slug).await?,
        None => made(tx, workspace, item.kind, &item.title).await?,
    };
    let list = home(tx, caller, workspace, parent.as_ref().map(|parent| parent.list_id)).await?;
    let new = NewTask {
        workspace: owner,
        list,
        parent,
        title: item.title,
        description: item.body,
        config: Config::default(),
        model: None,
        priority: check::priority(item.priority.as_deref().unwrap_or("medium"))?,
        sort_order: 0.0,
        due_at: None,
        manual: false,
        blockers: Vec::new(),
        kind: item.kind,
        slug: Some(slug),
        draft: item.draft,
        queue: false,
    };
    creation::create(tx, caller, new).await
}

/// What an item of `kind` with these slugs stands below.
///
/// # Errors
/// `INVALID_ARGUMENT` when its kind takes none, or the epic is another plan's; `NOT_FOUND` for an unknown one.
pub(crate) async fn parent(
    read: &mut Read,
    workspace: WorkspaceId,
    kind: Kind,
    plan: Option<&str>,
    epic: Option<&str>,
) -> Result<Option<Task>> {
    let refused = |field: &str, why: &str| Err(Error::invalid(field, format!("{field}: {why}")));
    match (kind, plan, epic) {
        (Kind::Plan, Some(_), _) => return refused("plan_slug", "a plan stands below nothing"),
        (Kind::Plan, _, Some(_)) => return refused("epic_slug", "a plan stands below nothing"),
        (Kind::Epic, _, Some(_)) => return refused("epic_slug", "an epic stands below a plan; use plan_slug"),
        _ => {}
    }
    let plan = match plan {
        Some(slug) => Some(named(read, workspace, Kind::Plan, "plan_slug", slug).await?),
        None => None,
    };
    let Some(slug) = epic else { return Ok(plan) };
    let epic = named(read, workspace, Kind::Epic, "epic_slug", slug).await?;
    match plan {
        Some(plan) if epic.parent_id != Some(plan.id) => {
            let slug = plan.slug.unwrap_or_default();
            refused("epic_slug", &format!("the epic {} doesn't belong to the plan {slug}", epic.slug.unwrap_or_default()))
        }
        _ => Ok(Some(epic)),
    }
}

/// The item with this slug.
///
/// # Errors
/// `NOT_FOUND` about `field`.
pub(crate) async fn named(read: &mut Read, workspace: WorkspaceId, kind: Kind, field: &str, slug: &str) -> Result<Task> {
    let found = read.task_by_slug(workspace, kind, slug).await?;
    found.ok_or_else(|| {
        let hint = format!("list_backlog with kind: {kind} shows those that there are");
        Error::not_found(kind.as_str(), slug).with_field(field).with_hint(hint)
    })
}

/// `slug`, unless another item of the kind has it.
async fn free(read: &mut Read, workspace: WorkspaceId, kind: Kind, slug: &str) -> Result<String> {
    check_slug("slug", slug)?;
    match read.task_by_slug(workspace, kind, slug).await? {
        None => Ok(slug.to_owned()),
        Some(taken) => Err(Error::conflict(format!("slug: {} is the {kind} {slug} already", taken.short_id))
            .with_field("slug")
            .with_details(json!({ "id": taken.id, "short_id": taken.short_id, "title": taken.title }))),
    }
}

/// A free slug from a title.
async fn made(read: &mut Read, workspace: WorkspaceId, kind: Kind, title: &str) -> Result<String> {
    let stem = slugify(title, MADE);
    let mut slug = stem.clone();
    let mut number = 1;
    while read.task_by_slug(workspace, kind, &slug).await?.is_some() {
        number += 1;
        slug = format!("{stem}-{number}");
    }
    Ok(slug)
}

/// The list of an item: its parent's, else the workspace's only one, else the backlog's.
async fn home(tx: &mut Tx, caller: &Caller, workspace: WorkspaceId, of_parent: Option<ListId>) -> Result<List> {
    let lists = tx.list_list(workspace).await?;
    if let Some(id) = of_parent {
        let list = lists.into_iter().find(|list| list.id == id);
        return list.ok_or_else(|| Error::internal(format!("there is no list {id}")));
    }
    if let [only] = lists.as_slice() {
        return Ok(only.clone());
    }
    let last = lists.iter().map(|list| list.sort_order).fold(0.0, f64::max);
    if let Some(backlog) = lists.into_iter().find(|list| list.name.eq_ignore_ascii_case(BACKLOG)) {
        return Ok(backlog);
    }
    let list = List {
        id: ListId::new(tx.ids()),
        workspace_id: workspace,
        name: BACKLOG.into(),
        description: String::new(),
        prompt: String::new(),
        sort_order: last + 1.0,
        config: Config::default(),
        created_at: tx.now(),
    };
    tx.list_insert(&list).await?;
    let data = json!({ "list_id": list.id, "name": list.name, "repository_id": null });
    tx.event(NewEvent::new(workspace, EventKind::ListCreated).data(data.clone()));
    crate::change::audit(tx, caller, workspace, Action::ListCreated, About::List(list.id), data).await?;
    Ok(list)
}
