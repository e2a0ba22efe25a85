//! `list_task_lists`: the lists of a workspace with what is in them.

use super::paging;
use crate::view::cut;
use crate::{Caller, Engine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use taskyard_domain::Result;
use taskyard_domain::list::List;
use taskyard_domain::workspace::Workspace;
use taskyard_store::Read;

/// Bytes of a name where only the name fits.
const NAME: usize = 100;

/// Which workspace's lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListTaskLists {
    /// The workspace; all that the caller sees without it.
    #[serde(default)]
    pub workspace_id: Option<String>,
}

/// A list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListRow {
    /// UUID.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The workspace's slug.
    pub workspace: String,
    /// How many tasks it has, by status; statuses without tasks are left out.
    pub counts: BTreeMap<String, i64>,
    /// How many tasks it has.
    pub total: i64,
    /// The repository its tasks work in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_id: Option<String>,
    /// That repository's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The agent profile that it sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_profile_id: Option<String>,
    /// That profile's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_profile: Option<String>,
}

/// A list whose details didn't fit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListName {
    /// UUID.
    pub id: String,
    /// What people call it.
    pub name: String,
}

/// The lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListTaskListsOutput {
    /// In their order.
    pub lists: Vec<ListRow>,
    /// Those of which only the name fits into the answer; get_list_config and list_tasks tell more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<ListName>,
    /// How many there are.
    pub total: usize,
    /// How many of them don't fit in at all; `workspace_id` narrows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_shown: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Engine {
    /// The lists of a workspace, or of all, in their order.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown workspace.
    pub async fn list_task_lists(&self, caller: &Caller, input: ListTaskLists) -> Result<ListTaskListsOutput> {
        let caller = caller.clone();
        self.store().read(move |read| Box::pin(async move { lists(read, &caller, input).await })).await
    }
}

async fn lists(read: &mut Read, caller: &Caller, input: ListTaskLists) -> Result<ListTaskListsOutput> {
    let mut lists = Vec::new();
    for workspace in super::list_workspaces::seen(read, caller, input.workspace_id.as_deref()).await? {
        for list in read.list_list(workspace.id).await? {
            lists.push(row(read, &workspace, list).await?);
        }
    }
    let total = lists.len();
    let further = if paging::size(&lists) > paging::ROWS { lists.split_off(paging::fitting(&lists, paging::ROWS / 2)) } else { Vec::new() };
    let mut further: Vec<ListName> =
        further.into_iter().map(|row| ListName { id: row.id, name: cut(&row.name, NAME).to_owned() }).collect();
    further.truncate(paging::fitting(&further, paging::ROWS.saturating_sub(paging::size(&lists))));
    let not_shown = total - lists.len() - further.len();
    Ok(ListTaskListsOutput { lists, further, total, not_shown })
}

async fn row(read: &mut Read, workspace: &Workspace, list: List) -> Result<ListRow> {
    let counts = read.task_counts_by_status(list.id).await?;
    let counts: BTreeMap<String, i64> = counts.into_iter().filter(|(_, n)| *n > 0).map(|(status, n)| (status.to_string(), n)).collect();
    let repository = match list.config.repository_id {
        Some(id) => read.repository_fetch(id).await?,
        None => None,
    };
    let profile = match list.config.agent_profile_id {
        Some(id) => read.profile_fetch(id).await?,
        None => None,
    };
    Ok(ListRow {
        id: list.id.to_string(),
        name: list.name,
        workspace: workspace.slug.clone(),
        total: counts.values().sum(),
        counts,
        repository_id: list.config.repository_id.map(|id| id.to_string()),
        repository: repository.map(|r| r.name),
        agent_profile_id: list.config.agent_profile_id.map(|id| id.to_string()),
        agent_profile: profile.map(|p| p.name),
    })
}
