//! `list_workspaces`: the tenants that the caller sees.

use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;
use taskyard_domain::workspace::Workspace;
use taskyard_store::Read;

/// No arguments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListWorkspaces {}

/// A workspace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkspaceRow {
    /// UUID.
    pub id: String,
    /// Its slug, which names it wherever the UUID does.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// What its tasks' short ids begin with.
    pub task_prefix: String,
    /// The profile that its tasks use by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_profile_id: Option<String>,
}

impl From<&Workspace> for WorkspaceRow {
    fn from(workspace: &Workspace) -> Self {
        Self {
            id: workspace.id.to_string(),
            slug: workspace.slug.clone(),
            name: workspace.name.clone(),
            task_prefix: workspace.task_prefix.clone(),
            default_profile_id: workspace.default_profile_id.map(|id| id.to_string()),
        }
    }
}

/// The workspaces.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListWorkspacesOutput {
    /// Those that the caller sees.
    pub workspaces: Vec<WorkspaceRow>,
}

impl Engine {
    /// The workspaces that the caller sees.
    ///
    /// # Errors
    /// Only the store's.
    pub async fn list_workspaces(&self, caller: &Caller, _input: ListWorkspaces) -> Result<ListWorkspacesOutput> {
        let caller = caller.clone();
        let all = self.store().read(move |read| Box::pin(async move { seen(read, &caller, None).await })).await?;
        Ok(ListWorkspacesOutput { workspaces: all.iter().map(WorkspaceRow::from).collect() })
    }
}

/// The workspace that `handle` names, or every one that the caller sees.
pub(crate) async fn seen(read: &mut Read, caller: &Caller, handle: Option<&str>) -> Result<Vec<Workspace>> {
    if handle.is_some() || caller.workspace_id().is_some() {
        return Ok(vec![handle::workspace(read, caller, "workspace_id", handle).await?]);
    }
    read.workspace_list().await
}
