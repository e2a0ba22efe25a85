//! `get_list_config` and `set_list_config`: what a list's tasks inherit.

use super::check;
use super::config::{self, Change, ConfigView, Scope};
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::list::List;
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Error, Result};
use taskyard_store::{Read, Tx};

const KEYS: &[&str] = &["agent_profile_id", "executor_profile_id", "repository_id", "target_branch", "model", "max_turns", "system_prompt"];

/// Which list's configuration to read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetListConfig {
    /// The list.
    pub list_id: String,
}

/// What to change in a list's configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetListConfig {
    /// The list.
    pub list_id: String,
    /// How its tasks run.
    #[serde(default)]
    pub agent_profile_id: Option<String>,
    /// Where they run.
    #[serde(default)]
    pub executor_profile_id: Option<String>,
    /// The repository they work in.
    #[serde(default)]
    pub repository_id: Option<String>,
    /// The branch that they are merged into.
    #[serde(default)]
    pub target_branch: Option<String>,
    /// The model; blank inherits.
    #[serde(default)]
    pub model: Option<String>,
    /// Most turns of the agent's own loop.
    #[serde(default)]
    pub max_turns: Option<i64>,
    /// Added to the agent's system prompt.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// Keys to inherit again.
    #[serde(default)]
    pub clear: Vec<String>,
}

/// A list's configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListConfigOutput {
    /// Whether the call changed it; absent when it only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<bool>,
    /// The list.
    pub list_id: String,
    /// Its name.
    pub name: String,
    /// What is set and what holds.
    #[serde(flatten)]
    pub config: ConfigView,
}

impl Engine {
    /// What the list sets for its tasks, and what holds for them.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown list.
    pub async fn get_list_config(&self, caller: &Caller, input: GetListConfig) -> Result<ListConfigOutput> {
        let caller = caller.clone();
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let list = handle::list(read, &caller, "list_id", &input.list_id).await?;
                    output(read, &list, None).await
                })
            })
            .await
    }

    /// Changes what the list sets for its tasks; runs that are open keep what they started with.
    ///
    /// # Errors
    /// `NOT_FOUND` for what doesn't exist; `INVALID_ARGUMENT` naming the key.
    pub async fn set_list_config(&self, caller: &Caller, input: SetListConfig) -> Result<ListConfigOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { set(tx, &caller, input).await })).await
    }
}

async fn set(tx: &mut Tx, caller: &Caller, input: SetListConfig) -> Result<ListConfigOutput> {
    let mut list = handle::list(tx, caller, "list_id", &input.list_id).await?;
    let before = list.config.clone();
    let change = Change {
        agent_profile_id: input.agent_profile_id,
        executor_profile_id: input.executor_profile_id,
        repository_id: input.repository_id,
        target_branch: input.target_branch,
        model: input.model,
        max_turns: input.max_turns,
        system_prompt: input.system_prompt,
    };
    let mut config = list.config.clone();
    let named = change.apply(tx, list.workspace_id, &mut config, &input.clear, KEYS).await?;
    list.config = config;
    // A model that was set for another agent doesn't slip through with a new profile.
    let kept = change.agent_profile_id.as_ref().and(list.config.model.clone());
    if let Some(text) = change.model.or(kept) {
        let workspace = self::workspace(tx, &list).await?;
        let runner = Scope { task: None, list: &list, workspace: &workspace }.runner(tx).await?;
        list.config.model = config::model(&text, runner.as_ref())?;
    }
    check::some(&named)?;
    let workspace = workspace(tx, &list).await?;
    Scope { task: None, list: &list, workspace: &workspace }.check_model(tx, &named).await?;
    if list.config != before {
        tx.list_update(&list).await?;
        let data = json!({ "list_id": list.id, "fields": named });
        tx.event(NewEvent::new(list.workspace_id, Kind::ListUpdated).data(data.clone()));
        change::audit(tx, caller, list.workspace_id, Action::ListConfigured, About::List(list.id), data).await?;
    }
    output(tx, &list, Some(list.config != before)).await
}

async fn workspace(read: &mut Read, list: &List) -> Result<Workspace> {
    read.workspace_fetch(list.workspace_id).await?.ok_or_else(|| Error::internal(format!("the list {} has no workspace", list.id)))
}

async fn output(read: &mut Read, list: &List, updated: Option<bool>) -> Result<ListConfigOutput> {
    let workspace = workspace(read, list).await?;
    let config = Scope { task: None, list, workspace: &workspace }.view(read).await?;
    Ok(ListConfigOutput { updated, list_id: list.id.to_string(), name: list.name.clone(), config })
}
