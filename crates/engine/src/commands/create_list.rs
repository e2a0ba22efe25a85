//! `create_list`: a list for the tasks of one repository, which is added along with it where it is new.

use super::check;
use super::repository::{self, Found};
use crate::change::Key;
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::ListId;
use taskyard_domain::list::{Config, List};
use taskyard_domain::repository::Repository;
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// A new list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateList {
    /// What people call it.
    pub name: String,
    /// The workspace; needed where there are several.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// A known repository.
    #[serde(default)]
    pub repository_id: Option<String>,
    /// The folder of a repository on this machine.
    #[serde(default)]
    pub local_path: Option<String>,
    /// The URL that a known repository was cloned from.
    #[serde(default)]
    pub repository_url: Option<String>,
    /// Makes a repeated call give the first one's result.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// The new list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateListOutput {
    /// True.
    pub created: bool,
    /// The list.
    pub list_id: String,
    /// Its name.
    pub name: String,
    /// Its workspace.
    pub workspace_id: String,
    /// Its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_id: Option<String>,
    /// Whether the repository was added by this call.
    pub repository_added: bool,
    /// Where merges go by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_branch: Option<String>,
    /// Whether this is the result of an earlier call with the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl Engine {
    /// Makes a list, with at most one of a known repository, a folder and a URL.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for several locators; `NOT_FOUND`; `FAILED_PRECONDITION` when the folder holds no usable
    /// repository. A refused call leaves neither list nor repository.
    pub async fn create_list(&self, caller: &Caller, input: CreateList) -> Result<CreateListOutput> {
        check::title("name", &input.name)?;
        let locators = [&input.repository_id, &input.repository_url, &input.local_path];
        if locators.iter().filter(|locator| locator.is_some()).count() > 1 {
            return Err(Error::invalid("local_path", "pass at most one of repository_id, repository_url, local_path"));
        }
        let key = Key::of(caller, "create_list", input.idempotency_key.as_deref(), &input)?;
        if let Some(before) = self.created_before(caller, &input, key.clone()).await? {
            return Ok(before);
        }
        let found = match &input.local_path {
            Some(path) => {
                caller.require_person("add a repository")?;
                Some(self.look_at_repository(path).await?)
            }
            None => None,
        };
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { create(tx, &caller, input, found, key).await })).await
    }

    /// A repeated call is answered before git is asked again: the folder may be gone by now.
    async fn created_before(&self, caller: &Caller, input: &CreateList, key: Option<Key>) -> Result<Option<CreateListOutput>> {
        if key.is_none() {
            return Ok(None);
        }
        let (caller, handle) = (caller.clone(), input.workspace_id.clone());
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let workspace = handle::workspace(tx, &caller, "workspace_id", handle.as_deref()).await?;
                    replayed(tx, key.as_ref(), &workspace).await
                })
            })
            .await
    }
}

async fn replayed(tx: &mut Tx, key: Option<&Key>, workspace: &Workspace) -> Result<Option<CreateListOutput>> {
    let before: Option<CreateListOutput> = Key::replay(key, tx, workspace.id).await?;
    Ok(before.map(|before| CreateListOutput { replayed: true, ..before }))
}

async fn create(tx: &mut Tx, caller: &Caller, input: CreateList, found: Option<Found>, key: Option<Key>) -> Result<CreateListOutput> {
    let workspace = handle::workspace(tx, caller, "workspace_id", input.workspace_id.as_deref()).await?;
    if let Some(before) = replayed(tx, key.as_ref(), &workspace).await? {
        return Ok(before);
    }
    let (repository, repository_added) = locate(tx, caller, &workspace, &input, found).await?;
    let last = tx.list_list(workspace.id).await?.iter().map(|list| list.sort_order).fold(0.0, f64::max);
    let list = List {
        id: ListId::new(tx.ids()),
        workspace_id: workspace.id,
        name: check::title("name", &input.name)?,
        description: String::new(),
        prompt: String::new(),
        sort_order: last + 1.0,
        config: Config { repository_id: repository.as_ref().map(|r| r.id), ..Config::default() },
        created_at: tx.now(),
    };
    tx.list_insert(&list).await?;
    let data = json!({ "list_id": list.id, "name": list.name, "repository_id": list.config.repository_id });
    tx.event(NewEvent::new(workspace.id, Kind::ListCreated).data(data.clone()));
    change::audit(tx, caller, workspace.id, Action::ListCreated, About::List(list.id), data).await?;
    let output = CreateListOutput {
        created: true,
        list_id: list.id.to_string(),
        name: list.name,
        workspace_id: workspace.id.to_string(),
        repository_id: repository.as_ref().map(|r| r.id.to_string()),
        repository_added,
        default_branch: repository.and_then(|r| r.default_branch),
        replayed: false,
    };
    Key::keep(key.as_ref(), tx, workspace.id, &output).await?;
    Ok(output)
}

async fn locate(
    tx: &mut Tx,
    caller: &Caller,
    workspace: &Workspace,
    input: &CreateList,
    found: Option<Found>,
) -> Result<(Option<Repository>, bool)> {
    if let Some(found) = found {
        let (repository, added) = repository::ensure(tx, caller, workspace.id, found).await?;
        return Ok((Some(repository), added));
    }
    let known = match (&input.repository_id, &input.repository_url) {
        (Some(id), _) => Some(handle::repository(tx, workspace.id, "repository_id", id).await?),
        (None, Some(url)) => Some(repository::by_url(tx, workspace.id, url).await?),
        (None, None) => None,
    };
    Ok((known, false))
}
