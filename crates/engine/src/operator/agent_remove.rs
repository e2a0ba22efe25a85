//! `agent_remove`: takes away an agent that nothing uses, with its profiles.

use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::agent::Agent;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::{ProfileId, WorkspaceId};
use taskyard_domain::{Class, Error, Result};
use taskyard_store::{Read, TaskCursor, TaskFilter, Tx};

/// Which agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentRemove {
    /// Its name.
    pub name: String,
    /// The workspace; needed where there are several.
    #[serde(default)]
    pub workspace: Option<String>,
}

/// The agent that is gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentRemoveOutput {
    /// True.
    pub removed: bool,
    /// The agent.
    pub agent_id: String,
    /// Its name.
    pub name: String,
}

impl Engine {
    /// Removes an agent and its profiles.
    ///
    /// # Errors
    /// `NOT_FOUND`; `CONFLICT` naming what uses it: lists and tasks that set it, or the record of its work;
    /// `FORBIDDEN` for a run.
    pub async fn agent_remove(&self, caller: &Caller, input: AgentRemove) -> Result<AgentRemoveOutput> {
        caller.require_person("remove agents")?;
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { remove(tx, &caller, input).await })).await
    }
}

/// The agent of that name.
///
/// # Errors
/// `NOT_FOUND` with the names there are.
pub(super) async fn by_name(read: &mut Read, workspace: WorkspaceId, name: &str) -> Result<Agent> {
    if let Some(agent) = read.agent_by_name(workspace, name).await? {
        return Ok(agent);
    }
    let names: Vec<String> = read.agent_list(workspace).await?.into_iter().map(|agent| agent.name).collect();
    let known = if names.is_empty() { "none is set up".into() } else { names.join(", ") };
    Err(Error::not_found("agent", name).with_field("name").with_hint(format!("agents: {known}")))
}

async fn remove(tx: &mut Tx, caller: &Caller, input: AgentRemove) -> Result<AgentRemoveOutput> {
    let found = handle::workspace(tx, caller, "workspace", input.workspace.as_deref()).await?;
    let mut workspace = tx.workspace_lock(found.id).await?.ok_or_else(|| Error::not_found("workspace", found.slug))?;
    let agent = by_name(tx, workspace.id, &input.name).await?;
    let profiles = tx.profile_list(workspace.id).await?;
    let profiles: Vec<ProfileId> = profiles.into_iter().filter(|profile| profile.agent_id == agent.id).map(|profile| profile.id).collect();
    let users = users(tx, workspace.id, &profiles).await?;
    if !users.is_empty() {
        return Err(Error::conflict(format!("the agent {} is in use by {}", agent.name, users.join(", ")))
            .with_details(json!({ "users": users }))
            .with_hint("set another agent_profile_id there first, or clear it"));
    }
    let was_default = workspace.default_profile_id.is_some_and(|id| profiles.contains(&id));
    if was_default {
        workspace.default_profile_id = None;
        tx.workspace_update(&workspace).await?;
    }
    for profile in profiles {
        tx.profile_delete(profile).await.map_err(|error| worked(error, &agent))?;
    }
    tx.agent_delete(agent.id).await.map_err(|error| worked(error, &agent))?;
    let data = json!({ "agent_id": agent.id, "name": agent.name, "removed": true, "was_default": was_default });
    tx.event(NewEvent::new(workspace.id, Kind::AgentSaved).data(data.clone()));
    change::audit(tx, caller, workspace.id, Action::AgentRemoved, About::Agent(agent.id), data).await?;
    Ok(AgentRemoveOutput { removed: true, agent_id: agent.id.to_string(), name: agent.name })
}

/// Sessions and runs name the agent that worked: their record keeps it.
fn worked(error: Error, agent: &Agent) -> Error {
    if error.class != Class::FailedPrecondition {
        return error;
    }
    Error::conflict(format!("the agent {} has worked on tasks, and the record of its runs names it", agent.name))
        .with_hint("delete those tasks first, or keep the agent and choose another default")
}

/// Lists and tasks that set one of the profiles, by name.
async fn users(read: &mut Read, workspace: WorkspaceId, profiles: &[ProfileId]) -> Result<Vec<String>> {
    let uses = |id: Option<ProfileId>| id.is_some_and(|id| profiles.contains(&id));
    let lists = read.list_list(workspace).await?;
    let mut users: Vec<String> =
        lists.iter().filter(|list| uses(list.config.agent_profile_id)).map(|list| format!("the list {}", list.name)).collect();
    let filter = TaskFilter { include_archived: true, ..TaskFilter::all(workspace) };
    let mut after: Option<TaskCursor> = None;
    loop {
        let tasks = read.task_page(&filter, after, 500).await?;
        users.extend(tasks.iter().filter(|task| uses(task.config.agent_profile_id)).map(|task| task.short_id.to_string()));
        match tasks.last() {
            Some(last) if users.len() < 20 => after = Some(TaskCursor::from(last)),
            _ => return Ok(users),
        }
    }
}
