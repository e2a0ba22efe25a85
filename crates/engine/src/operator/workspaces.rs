//! Workspaces: the first one, further ones, their names.

use crate::commands::check;
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::WorkspaceId;
use taskyard_domain::name::task_prefix;
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// Slug and prefix of the first workspace.
const FIRST: (&str, &str) = ("default", "TY");
/// Longest slug, bytes.
const SLUG: usize = 40;

/// A new workspace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkspaceAdd {
    /// Its slug: a-z, 0-9 and dashes.
    pub slug: String,
    /// What people call it; the slug without it.
    #[serde(default)]
    pub name: Option<String>,
}

/// A workspace's new name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkspaceRename {
    /// Slug or UUID.
    pub workspace: String,
    /// What people call it.
    pub name: String,
}

/// A workspace's new prompt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkspacePrompt {
    /// Slug or UUID.
    pub workspace: String,
    /// The prompt; empty for none. Left out, nothing changes.
    #[serde(default)]
    pub prompt: Option<String>,
}

/// A workspace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkspaceOutput {
    /// Whether it was made by this call.
    pub created: bool,
    /// UUID.
    pub workspace_id: String,
    /// Its slug.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// What its tasks' short ids begin with.
    pub task_prefix: String,
    /// Put before every prompt of its tasks.
    pub prompt: String,
}

impl WorkspaceOutput {
    fn of(workspace: &Workspace, created: bool) -> Self {
        Self {
            created,
            workspace_id: workspace.id.to_string(),
            slug: workspace.slug.clone(),
            name: workspace.name.clone(),
            task_prefix: workspace.task_prefix.clone(),
            prompt: workspace.prompt.clone(),
        }
    }
}

impl Engine {
    /// Makes the first workspace where there is none. Changes nothing else.
    pub(crate) async fn ensure_first_workspace(&self) -> Result<()> {
        self.store()
            .write(|tx| {
                Box::pin(async move {
                    if tx.workspace_list().await?.is_empty() {
                        let (slug, prefix) = FIRST;
                        insert(tx, &Caller::system(), slug, "Default", prefix.into()).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Makes a workspace. Its task prefix is made from the slug and never changes.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a bad slug or name; `CONFLICT` for a slug that is taken; `FORBIDDEN` for a run.
    pub async fn workspace_add(&self, caller: &Caller, input: WorkspaceAdd) -> Result<WorkspaceOutput> {
        caller.require_person("add a workspace")?;
        check_slug(&input.slug)?;
        let name = check::title("name", input.name.as_deref().unwrap_or(&input.slug))?;
        let caller = caller.clone();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    if tx.workspace_by_slug(&input.slug).await?.is_some() {
                        return Err(Error::conflict(format!("slug: there is a workspace {} already", input.slug)).with_field("slug"));
                    }
                    let taken: Vec<String> = tx.workspace_list().await?.into_iter().map(|w| w.task_prefix).collect();
                    let workspace = insert(tx, &caller, &input.slug, &name, task_prefix(&input.slug, &taken)).await?;
                    Ok(WorkspaceOutput::of(&workspace, true))
                })
            })
            .await
    }

    /// Changes what people call a workspace; slug and prefix stay.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INVALID_ARGUMENT` for an empty or over-long name; `FORBIDDEN` for a run.
    pub async fn workspace_rename(&self, caller: &Caller, input: WorkspaceRename) -> Result<WorkspaceOutput> {
        caller.require_person("rename a workspace")?;
        let caller = caller.clone();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut workspace = locked(tx, &caller, &input.workspace).await?;
                    let name = check::title("name", &input.name)?;
                    if name != workspace.name {
                        let before = std::mem::replace(&mut workspace.name, name);
                        let data = json!({ "name": workspace.name, "before": before });
                        store(tx, &caller, &workspace, Action::WorkspaceRenamed, data).await?;
                    }
                    Ok(WorkspaceOutput::of(&workspace, false))
                })
            })
            .await
    }

    /// Changes the prompt that stands before every prompt of a workspace's tasks.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INVALID_ARGUMENT` for an over-long prompt; `FORBIDDEN` for a run.
    pub async fn workspace_prompt(&self, caller: &Caller, input: WorkspacePrompt) -> Result<WorkspaceOutput> {
        caller.require_person("change a workspace")?;
        let caller = caller.clone();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut workspace = locked(tx, &caller, &input.workspace).await?;
                    let text = input.prompt.as_deref().map(|text| super::steps::prompt("prompt", text)).transpose()?;
                    if let Some(text) = text.filter(|text| *text != workspace.prompt) {
                        workspace.prompt = text;
                        store(tx, &caller, &workspace, Action::WorkspaceUpdated, json!({ "fields": ["prompt"] })).await?;
                    }
                    Ok(WorkspaceOutput::of(&workspace, false))
                })
            })
            .await
    }
}

/// The workspace of this name, locked.
async fn locked(tx: &mut Tx, caller: &Caller, handle: &str) -> Result<Workspace> {
    let found = handle::workspace(tx, caller, "workspace", Some(handle)).await?;
    Ok(tx.workspace_lock(found.id).await?.unwrap_or(found))
}

/// Stores a changed workspace with its event and audit entry.
async fn store(tx: &mut Tx, caller: &Caller, workspace: &Workspace, action: Action, data: Value) -> Result<()> {
    tx.workspace_update(workspace).await?;
    tx.event(NewEvent::new(workspace.id, Kind::WorkspaceUpdated).data(data.clone()));
    change::audit(tx, caller, workspace.id, action, About::Workspace(workspace.id), data).await
}

async fn insert(tx: &mut Tx, caller: &Caller, slug: &str, name: &str, task_prefix: String) -> Result<Workspace> {
    let workspace = Workspace {
        id: WorkspaceId::new(tx.ids()),
        slug: slug.into(),
        name: name.into(),
        task_prefix,
        prompt: String::new(),
        default_profile_id: None,
        created_at: tx.now(),
    };
    tx.workspace_insert(&workspace).await?;
    let data = json!({ "slug": workspace.slug, "task_prefix": workspace.task_prefix });
    tx.event(NewEvent::new(workspace.id, Kind::WorkspaceCreated).data(data.clone()));
    change::audit(tx, caller, workspace.id, Action::WorkspaceCreated, About::Workspace(workspace.id), data).await?;
    Ok(workspace)
}

fn check_slug(slug: &str) -> Result<()> {
    let plain = slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let fits = (1..=SLUG).contains(&slug.len()) && !slug.starts_with('-') && !slug.ends_with('-');
    // A UUID would name two workspaces at once.
    if plain && fits && slug.parse::<WorkspaceId>().is_err() {
        return Ok(());
    }
    Err(Error::invalid("slug", format!("slug: {slug:?} can't be a slug; it takes 1 to {SLUG} of a-z, 0-9 and dashes inside")))
}
