//! What lists and tasks set for the runs below them: changing it, and showing what holds and where from.
//!
//! Owns no state; the values live on the list and the task.

use super::{check, paging};
use crate::Effective;
use crate::handle;
use crate::resolve::{Levels, fits_model};
use crate::view::cut;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use taskyard_domain::agent::{Agent, Profile, model_aliases};
use taskyard_domain::config::{Source, Sourced, nearest};
use taskyard_domain::id::{ProfileId, RepositoryId, WorkspaceId};
use taskyard_domain::list::{Config, List};
use taskyard_domain::repository::Repository;
use taskyard_domain::task::Task;
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Error, Result};
use taskyard_store::Read;

/// Where agents run as long as there are no named executors.
const EXECUTOR: &str = "worktree";
/// Most bytes of a system prompt in an answer.
const PROMPT: usize = 4 << 10;
/// A system prompt of no more bytes than this is shown both where it is set and as what holds.
const SHORT: usize = 1 << 10;
/// Bytes of the beginning of a longer one, where it is set.
const BEGINNING: usize = 200;

/// What a list or a task sets, and what holds for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConfigView {
    /// What is set here, by key; null where the value is inherited.
    pub set: BTreeMap<String, Value>,
    /// What holds, by key, with the level that it comes from. A long system prompt is here, cut; in `set` is then
    /// only its beginning.
    pub effective: BTreeMap<String, Effective>,
    /// Bytes of the system prompt that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt_bytes: Option<usize>,
    /// Whether that is more than this shows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub system_prompt_truncated: bool,
}

/// New values for a [`Config`]; `None` leaves a key alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Change {
    pub agent_profile_id: Option<String>,
    pub executor_profile_id: Option<String>,
    pub repository_id: Option<String>,
    pub target_branch: Option<String>,
    pub model: Option<String>,
    pub max_turns: Option<i64>,
    pub system_prompt: Option<String>,
}

impl Change {
    fn named(&self) -> Vec<&'static str> {
        [
            ("agent_profile_id", self.agent_profile_id.is_some()),
            ("executor_profile_id", self.executor_profile_id.is_some()),
            ("repository_id", self.repository_id.is_some()),
            ("target_branch", self.target_branch.is_some()),
            ("model", self.model.is_some()),
            ("max_turns", self.max_turns.is_some()),
            ("system_prompt", self.system_prompt.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, set)| set.then_some(name))
        .collect()
    }

    /// Writes the new values into `config`, all but the model, and clears the keys of `clear`, each one of `known`.
    /// Returns the keys that were named.
    pub(crate) async fn apply(
        &self,
        read: &mut Read,
        workspace: WorkspaceId,
        config: &mut Config,
        clear: &[String],
        known: &[&'static str],
    ) -> Result<Vec<&'static str>> {
        let cleared = check::clear(clear, known)?;
        let mut named = self.named();
        check::not_both(&cleared, &named)?;
        for key in &cleared {
            unset(config, key);
        }
        if let Some(handle) = &self.agent_profile_id {
            config.agent_profile_id = Some(handle::profile(read, workspace, "agent_profile_id", handle).await?.id);
        }
        if let Some(handle) = &self.repository_id {
            config.repository_id = Some(handle::repository(read, workspace, "repository_id", handle).await?.id);
        }
        if let Some(handle) = &self.executor_profile_id {
            config.executor_profile_id = Some(executor(handle)?);
        }
        if let Some(branch) = &self.target_branch {
            config.target_branch = Some(check::branch("target_branch", branch)?);
        }
        if let Some(turns) = self.max_turns {
            config.max_turns = Some(max_turns(turns)?);
        }
        if let Some(text) = &self.system_prompt {
            let text = check::text("system_prompt", text, check::SYSTEM_PROMPT)?;
            config.system_prompt = (!text.trim().is_empty()).then_some(text);
        }
        named.extend(cleared);
        Ok(named)
    }
}

/// `max_turns` as it may be.
pub(crate) fn max_turns(turns: i64) -> Result<i64> {
    if turns > 0 { Ok(turns) } else { Err(Error::invalid("max_turns", format!("max_turns is {turns}; it must be above 0"))) }
}

fn executor(handle: &str) -> Result<String> {
    if handle.trim().eq_ignore_ascii_case(EXECUTOR) {
        return Ok(EXECUTOR.into());
    }
    Err(Error::not_found("executor profile", handle).with_field("executor_profile_id").with_hint(format!("executor profiles: {EXECUTOR}")))
}

fn unset(config: &mut Config, key: &str) {
    match key {
        "agent_profile_id" => config.agent_profile_id = None,
        "executor_profile_id" => config.executor_profile_id = None,
        "repository_id" => config.repository_id = None,
        "target_branch" => config.target_branch = None,
        "model" => config.model = None,
        "max_turns" => config.max_turns = None,
        "system_prompt" => config.system_prompt = None,
        _ => {}
    }
}

/// The model that `text` asks for: `None` when it is blank, which inherits. Checked against the agent that would
/// run it, where one resolves.
///
/// # Errors
/// `INVALID_ARGUMENT` naming the aliases that the agent knows.
pub(crate) fn model(text: &str, runner: Option<&(Profile, Agent)>) -> Result<Option<String>> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let plain = check::text("model", text, 200)?;
    let Some((profile, agent)) = runner else { return Ok(Some(plain)) };
    if !fits_model(text, profile, agent) {
        return Err(foreign(text, "", agent).with_hint("leave model out, or blank, to inherit"));
    }
    let alias = model_aliases(agent.driver).iter().find(|alias| alias.eq_ignore_ascii_case(text));
    Ok(Some(alias.map_or(plain, |alias| (*alias).to_owned())))
}

/// The refusal of the model `text`, which comes `from` another level.
fn foreign(text: &str, from: &str, agent: &Agent) -> Error {
    let aliases = model_aliases(agent.driver);
    let known = if aliases.is_empty() { String::new() } else { format!("; it knows {}", aliases.join(", ")) };
    Error::invalid("model", format!("model: {text:?}{from} is no model of the agent {}{known}", agent.name))
}

/// The levels of configuration above a run: a task's, or a list's own.
pub(crate) struct Scope<'a> {
    pub task: Option<&'a Task>,
    pub list: &'a List,
    pub workspace: &'a Workspace,
}

impl<'a> Scope<'a> {
    /// The scope of a task.
    pub(crate) fn of(levels: &'a Levels) -> Self {
        Self { task: Some(&levels.task), list: &levels.list, workspace: &levels.workspace }
    }

    fn key<T: Clone>(&self, key: impl Fn(&Config) -> &Option<T>, workspace: Option<T>) -> Sourced<T> {
        let task = self.task.and_then(|task| key(&task.config).clone());
        nearest(None, task, key(&self.list.config).clone(), workspace)
    }

    /// The profile that holds.
    async fn profile_id(&self, read: &mut Read) -> Result<Sourced<ProfileId>> {
        let set = self.key(|c| &c.agent_profile_id, self.workspace.default_profile_id);
        if set.value.is_some() {
            return Ok(set);
        }
        Ok(match read.profile_list(self.workspace.id).await?.as_slice() {
            [one] => Sourced { value: Some(one.id), source: Source::Only },
            _ => set,
        })
    }

    async fn repository_id(&self, read: &mut Read) -> Result<Sourced<RepositoryId>> {
        let set = self.key(|c| &c.repository_id, None);
        if set.value.is_some() {
            return Ok(set);
        }
        Ok(match read.repository_list(self.workspace.id).await?.as_slice() {
            [one] => Sourced { value: Some(one.id), source: Source::Only },
            _ => set,
        })
    }

    /// The profile that holds with its agent, where one resolves.
    pub(crate) async fn runner(&self, read: &mut Read) -> Result<Option<(Profile, Agent)>> {
        let Some(id) = self.profile_id(read).await?.value else { return Ok(None) };
        let Some(profile) = read.profile_fetch(id).await? else { return Ok(None) };
        let agent = read.agent_fetch(profile.agent_id).await?;
        Ok(agent.map(|agent| (profile, agent)))
    }

    /// Refuses a change of `named` keys after which the model that is inherited isn't the agent's that holds.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` about `model`.
    pub(crate) async fn check_model(&self, read: &mut Read, named: &[&str]) -> Result<()> {
        if !["agent_profile_id", "model"].iter().any(|key| named.contains(key)) {
            return Ok(());
        }
        let model = self.key(|c| &c.model, None);
        match (model.value, self.runner(read).await?) {
            (Some(text), Some((profile, agent))) if !fits_model(&text, &profile, &agent) => {
                let from = if model.source == Source::List && self.task.is_some() { ", inherited from the list," } else { "" };
                Err(foreign(&text, from, &agent).with_hint("pass a model of this agent along with the profile"))
            }
            _ => Ok(()),
        }
    }

    /// What is set on the task, or on the list where there is no task, and what holds.
    pub(crate) async fn view(&self, read: &mut Read) -> Result<ConfigView> {
        let config = self.task.map_or(&self.list.config, |task| &task.config);
        let mut view = ConfigView {
            set: set(config),
            effective: self.effective(read).await?,
            system_prompt_bytes: None,
            system_prompt_truncated: false,
        };
        view.fit();
        Ok(view)
    }

    /// Where merges go, when nothing sets it: what the worktree was made from, else the repository's default branch.
    async fn target(&self, read: &mut Read, repository: Option<&Repository>) -> Result<Sourced<String>> {
        let set = self.key(|c| &c.target_branch, None);
        if set.value.is_some() {
            return Ok(set);
        }
        let worktree = match self.task {
            Some(task) => read.worktree_current(task.id).await?,
            None => None,
        };
        if let Some(base) = worktree.and_then(|worktree| worktree.base_branch) {
            return Ok(Sourced { value: Some(base), source: Source::Worktree });
        }
        let default = repository.and_then(|repository| repository.default_branch.clone());
        Ok(default.map_or(set, |branch| Sourced { value: Some(branch), source: Source::Repository }))
    }

    /// What holds, by key, with its source.
    pub(crate) async fn effective(&self, read: &mut Read) -> Result<BTreeMap<String, Effective>> {
        let profile = self.profile_id(read).await?;
        let runner = self.runner(read).await?;
        let repository_id = self.repository_id(read).await?;
        let repository = match repository_id.value {
            Some(id) => read.repository_fetch(id).await?,
            None => None,
        };
        let of_profile = runner.as_ref().and_then(|(profile, _)| profile.model.clone());
        let model = match (self.key(|c| &c.model, None), of_profile) {
            (Sourced { value: None, .. }, Some(model)) => Sourced { value: Some(model), source: Source::Profile },
            (set, _) => set,
        };
        let target = self.target(read, repository.as_ref()).await?;
        let executor = self.key(|c| &c.executor_profile_id, None);
        let executor = Sourced { value: executor.value.or_else(|| Some(EXECUTOR.into())), source: executor.source };
        let name = |value: Option<String>, source: Source| Effective { value: json!(value), source };
        let entries = [
            ("agent_profile_id", Effective::from(profile.clone())),
            ("agent_profile", name(runner.as_ref().map(|(p, _)| p.name.clone()), profile.source)),
            ("agent", name(runner.map(|(_, a)| a.name), profile.source)),
            ("executor_profile_id", executor.into()),
            ("repository_id", Effective::from(repository_id.clone())),
            ("repository", name(repository.map(|r| r.name), repository_id.source)),
            ("target_branch", target.into()),
            ("model", model.into()),
            ("max_turns", self.key(|c| &c.max_turns, None).into()),
            ("system_prompt", self.key(|c| &c.system_prompt, None).into()),
        ];
        Ok(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }
}

impl ConfigView {
    /// Shows a long system prompt once and no more of it than a small answer has room for.
    fn fit(&mut self) {
        let Some(Effective { value: Value::String(text), .. }) = self.effective.get_mut("system_prompt") else { return };
        self.system_prompt_bytes = Some(text.len());
        if paging::size(text) <= SHORT {
            return;
        }
        if let Some(Value::String(here)) = self.set.get_mut("system_prompt") {
            here.truncate(cut(here, BEGINNING).len());
            self.system_prompt_truncated = true;
        }
        let mut end = cut(text, PROMPT).len();
        // A control character takes six bytes of JSON.
        while paging::size(&&text[..end]) > PROMPT + PROMPT / 2 {
            end = cut(text, end / 2).len();
        }
        self.system_prompt_truncated |= end < text.len();
        text.truncate(end);
    }
}

fn set(config: &Config) -> BTreeMap<String, Value> {
    let entries = [
        ("agent_profile_id", json!(config.agent_profile_id)),
        ("executor_profile_id", json!(config.executor_profile_id)),
        ("repository_id", json!(config.repository_id)),
        ("target_branch", json!(config.target_branch)),
        ("model", json!(config.model)),
        ("max_turns", json!(config.max_turns)),
        ("system_prompt", json!(config.system_prompt)),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
