//! What a task runs with: repository, profile, model, target, each from the nearest level that says so.

use serde::Serialize;
use taskyard_domain::agent::{Agent, Profile, is_foreign_model, model_aliases};
use taskyard_domain::config::{Source, Sourced, nearest};
use taskyard_domain::id::{ProfileId, RepositoryId};
use taskyard_domain::list::List;
use taskyard_domain::repository::Repository;
use taskyard_domain::step::{self, Step};
use taskyard_domain::task::{Kind, Status, Task};
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Error, Result, template};
use taskyard_store::Read;

/// A task with the levels it inherits from.
#[derive(Debug, Clone)]
pub(crate) struct Levels {
    pub task: Task,
    pub list: List,
    pub workspace: Workspace,
    /// The step whose prompt holds while the task is worked on.
    pub step: Option<Step>,
    /// What it is a child of, nearest first.
    pub parents: Vec<Task>,
}

/// How many levels above a task are looked at: epic and plan.
const PARENTS: usize = 2;

impl Levels {
    /// Reads the levels of `task`.
    pub(crate) async fn of(read: &mut Read, task: Task) -> Result<Self> {
        let list = read.list_fetch(task.list_id).await?.ok_or_else(|| Error::internal(format!("{} has no list", task.short_id)))?;
        let workspace = read.workspace_fetch(task.workspace_id).await?;
        let workspace = workspace.ok_or_else(|| Error::internal(format!("{} has no workspace", task.short_id)))?;
        let step = step::working(&read.step_list(list.id).await?).cloned();
        let parents = parents(read, &task).await?;
        Ok(Self { task, list, workspace, step, parents })
    }

    /// The profile's id with its source: task, list, workspace default, else the only one there is.
    pub(crate) async fn profile_id(&self, read: &mut Read) -> Result<Sourced<ProfileId>> {
        let set = nearest(None, self.task.config.agent_profile_id, self.list.config.agent_profile_id, self.workspace.default_profile_id);
        if set.value.is_some() {
            return Ok(set);
        }
        let all = read.profile_list(self.workspace.id).await?;
        Ok(match all.as_slice() {
            [one] => Sourced { value: Some(one.id), source: Source::Only },
            _ => set,
        })
    }

    /// The profile and its agent.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` naming `agent_profile_id` when nothing resolves.
    pub(crate) async fn profile(&self, read: &mut Read) -> Result<(Profile, Agent)> {
        let none = || {
            Error::precondition(format!("{} can't start: no agent profile is set for it, its list or its workspace", self.task.short_id))
                .with_field("agent_profile_id")
                .with_hint("add an agent with `taskyard agent add`, or set agent_profile_id on the list or the task")
        };
        let id = self.profile_id(read).await?.value.ok_or_else(none)?;
        let profile = read.profile_fetch(id).await?.ok_or_else(none)?;
        let agent = read.agent_fetch(profile.agent_id).await?.ok_or_else(none)?;
        Ok((profile, agent))
    }

    /// The repository's id with its source: task, list, else the workspace's only one.
    pub(crate) async fn repository_id(&self, read: &mut Read) -> Result<Sourced<RepositoryId>> {
        let set = nearest(None, self.task.config.repository_id, self.list.config.repository_id, None);
        if set.value.is_some() {
            return Ok(set);
        }
        let all = read.repository_list(self.workspace.id).await?;
        Ok(match all.as_slice() {
            [one] => Sourced { value: Some(one.id), source: Source::Only },
            _ => set,
        })
    }

    /// The repository.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` naming `repository_id` when nothing resolves.
    pub(crate) async fn repository(&self, read: &mut Read) -> Result<Repository> {
        let none = || {
            Error::precondition(format!("{} can't be queued or started: it has no repository", self.task.short_id))
                .with_field("repository_id")
                .with_hint("set repository_id on its list with set_list_config, or make the list with create_list(local_path)")
        };
        let id = self.repository_id(read).await?.value.ok_or_else(none)?;
        read.repository_fetch(id).await?.ok_or_else(none)
    }

    /// The model: task, list, else the profile's.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` naming `model` when what the task or its list says is no model of `agent`: the list may
    /// have been set for another one.
    pub(crate) fn model(&self, profile: &Profile, agent: &Agent) -> Result<Option<String>> {
        let set = nearest(None, self.task.config.model.clone(), self.list.config.model.clone(), None);
        let Some(text) = set.value else { return Ok(profile.model.clone()) };
        if fits_model(&text, profile, agent) {
            return Ok(Some(text));
        }
        let of = if set.source == Source::List { "of its list " } else { "" };
        Err(Error::precondition(format!(
            "{} can't start: the model {text:?} {of}is no model of the agent {}",
            self.task.short_id, agent.name
        ))
        .with_field("model")
        .with_hint(model_hint(agent, "set model with set_task_config or set_list_config")))
    }

    /// The text that an agent starts with: the workflow's prompt, then the task.
    pub(crate) fn prompt(&self) -> String {
        let task = if self.task.description.trim().is_empty() {
            self.task.title.clone()
        } else {
            format!("{}\n\n{}", self.task.title, self.task.description)
        };
        joined([self.workflow_prompt().as_str(), &task])
    }

    /// The prompt as it was when the task had this status, which a prompt may name.
    pub(crate) fn prompt_at(&self, status: Status) -> String {
        let mut then = self.clone();
        then.task.status = status;
        then.prompt()
    }

    /// The effective workflow prompt: of the workspace, the workflow (list) and the step, in that order, with the task's
    /// fields in their placeholders.
    pub(crate) fn workflow_prompt(&self) -> String {
        let fields = self.fields();
        let value = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
        let fill = |text: &str| template::fill(text.trim(), value);
        let step = self.step.as_ref().map(|step| fill(&step.prompt)).unwrap_or_default();
        joined([fill(&self.workspace.prompt).as_str(), &fill(&self.list.prompt), &step])
    }

    /// What placeholders stand for.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let task = &self.task;
        let slug_of = |kind: Kind| self.parents.iter().find(|p| p.kind == kind).and_then(|p| p.slug.clone()).unwrap_or_default();
        vec![
            ("id", task.id.to_string()),
            ("short_id", task.short_id.to_string()),
            ("title", task.title.clone()),
            ("description", task.description.clone()),
            ("body_markdown", task.description.clone()),
            ("kind", task.kind.to_string()),
            ("slug", task.slug.clone().unwrap_or_default()),
            ("status", task.status.to_string()),
            ("priority", task.priority.to_string()),
            ("plan_slug", slug_of(Kind::Plan)),
            ("epic_slug", slug_of(Kind::Epic)),
            ("workspace", self.workspace.slug.clone()),
            ("workflow", self.list.name.clone()),
            ("list", self.list.name.clone()),
            ("step", self.step.as_ref().map(|step| step.name.clone()).unwrap_or_default()),
        ]
    }
}

/// The parts that aren't empty, a blank line between them.
fn joined<const N: usize>(parts: [&str; N]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// What `task` is a child of, nearest first.
pub(crate) async fn parents(read: &mut Read, task: &Task) -> Result<Vec<Task>> {
    let (mut found, mut at) = (Vec::new(), task.parent_id);
    while let Some(id) = at.filter(|_| found.len() < PARENTS) {
        let Some(parent) = read.task_fetch(id).await? else { break };
        at = parent.parent_id;
        found.push(parent);
    }
    Ok(found)
}

/// Whether `agent` can be asked for the model `text`; the profile's own name for one always fits.
pub(crate) fn fits_model(text: &str, profile: &Profile, agent: &Agent) -> bool {
    profile.model.as_deref() == Some(text) || !is_foreign_model(agent.driver, text)
}

/// `way` out of a wrong model, with the names that `agent` knows.
pub(crate) fn model_hint(agent: &Agent, way: &str) -> String {
    let aliases = model_aliases(agent.driver);
    if aliases.is_empty() { way.to_owned() } else { format!("{way}; {} knows {}", agent.name, aliases.join(", ")) }
}

/// A sourced value as tools show it: ids as strings.
#[derive(Debug, Clone, Serialize, serde::Deserialize)]
pub struct Effective {
    /// The effective value, null where nothing sets it.
    pub value: serde_json::Value,
    /// Which level set it.
    pub source: Source,
}

impl<T: Serialize> From<Sourced<T>> for Effective {
    fn from(sourced: Sourced<T>) -> Self {
        let value = sourced.value.and_then(|v| serde_json::to_value(v).ok()).unwrap_or_default();
        Self { value, source: sourced.source }
    }
}
