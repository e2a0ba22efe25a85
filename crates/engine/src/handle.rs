//! Resolves what a caller names: workspaces by slug or UUID, tasks by UUID or short id, everything else by UUID.
//!
//! Something of another workspace is reported as if it didn't exist.

use crate::Caller;
use std::str::FromStr;
use taskyard_domain::agent::Profile;
use taskyard_domain::id::{ListId, ParseIdError, ProfileId, RepositoryId, TaskId, WorkspaceId};
use taskyard_domain::list::List;
use taskyard_domain::name::ShortId;
use taskyard_domain::repository::Repository;
use taskyard_domain::task::Task;
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Error, Result};
use taskyard_store::Read;

/// Reads an id argument.
pub(crate) fn id<T: FromStr<Err = ParseIdError>>(field: &str, text: &str) -> Result<T> {
    text.parse().map_err(|error| Error::invalid(field, format!("{field}: {error}")))
}

/// The task that `handle` (UUID or short id) names.
pub(crate) async fn task(read: &mut Read, caller: &Caller, field: &str, handle: &str) -> Result<Task> {
    let found = match ShortId::parse(handle) {
        Some(short) => read.task_by_short(&short).await?,
        None => {
            let id: TaskId = handle
                .parse()
                .map_err(|_| Error::invalid(field, format!("{field}: {handle:?} is neither a task's UUID nor a short id such as TY-42")))?;
            read.task_fetch(id).await?
        }
    };
    let task = found.ok_or_else(|| Error::not_found("task", handle).with_field(field))?;
    caller.require_workspace(task.workspace_id, "task", handle)?;
    Ok(task)
}

/// The task that `handle` names, in `workspace`; one of another workspace is as unknown as one that never was.
pub(crate) async fn task_in(read: &mut Read, caller: &Caller, workspace: WorkspaceId, field: &str, handle: &str) -> Result<Task> {
    let task = task(read, caller, field, handle).await?;
    if task.workspace_id == workspace { Ok(task) } else { Err(Error::not_found("task", handle).with_field(field)) }
}

/// The list that `handle` names, in `workspace`.
pub(crate) async fn list_in(read: &mut Read, caller: &Caller, workspace: WorkspaceId, field: &str, handle: &str) -> Result<List> {
    let list = list(read, caller, field, handle).await?;
    if list.workspace_id == workspace { Ok(list) } else { Err(Error::not_found("list", handle).with_field(field)) }
}

/// The list that `handle` names.
pub(crate) async fn list(read: &mut Read, caller: &Caller, field: &str, handle: &str) -> Result<List> {
    let id: ListId = self::id(field, handle)?;
    let list = read.list_fetch(id).await?.ok_or_else(|| Error::not_found("list", handle).with_field(field))?;
    caller.require_workspace(list.workspace_id, "list", handle)?;
    Ok(list)
}

/// The workspace that `handle` names; without one the caller's own, else the only one.
pub(crate) async fn workspace(read: &mut Read, caller: &Caller, field: &str, handle: Option<&str>) -> Result<Workspace> {
    let found = match (handle, caller.workspace_id()) {
        (Some(handle), _) => match handle.parse::<WorkspaceId>() {
            Ok(id) => read.workspace_fetch(id).await?,
            Err(_) => read.workspace_by_slug(handle).await?,
        }
        .ok_or_else(|| Error::not_found("workspace", handle).with_field(field))?,
        (None, Some(own)) => read.workspace_fetch(own).await?.ok_or_else(|| Error::not_found("workspace", own))?,
        (None, None) => only(field, read.workspace_list().await?)?,
    };
    caller.require_workspace(found.id, "workspace", handle.unwrap_or(&found.slug))?;
    Ok(found)
}

fn only(field: &str, mut all: Vec<Workspace>) -> Result<Workspace> {
    match (all.pop(), all.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => Err(Error::not_found("workspace", "yet")),
        (Some(last), false) => {
            let slugs: Vec<String> = all.into_iter().chain([last]).map(|w| w.slug).collect();
            Err(Error::invalid(field, format!("{field} is needed: there are several workspaces ({})", slugs.join(", "))))
        }
    }
}

/// The repository that `handle` names, in `workspace`.
pub(crate) async fn repository(read: &mut Read, workspace: WorkspaceId, field: &str, handle: &str) -> Result<Repository> {
    let id: RepositoryId = self::id(field, handle)?;
    let found = read.repository_fetch(id).await?.filter(|r| r.workspace_id == workspace);
    found.ok_or_else(|| Error::not_found("repository", handle).with_field(field))
}

/// The agent profile that `handle` (UUID or name) names, in `workspace`.
pub(crate) async fn profile(read: &mut Read, workspace: WorkspaceId, field: &str, handle: &str) -> Result<Profile> {
    let found = match handle.parse::<ProfileId>() {
        Ok(id) => read.profile_fetch(id).await?.filter(|p| p.workspace_id == workspace),
        Err(_) => read.profile_by_name(workspace, handle).await?,
    };
    match found {
        Some(profile) => Ok(profile),
        None => {
            let names: Vec<String> = read.profile_list(workspace).await?.into_iter().map(|p| p.name).collect();
            let known = if names.is_empty() { "none is set up".into() } else { names.join(", ") };
            Err(Error::not_found("agent profile", handle).with_field(field).with_hint(format!("profiles: {known}")))
        }
    }
}
