//! `agent_add`: sets up an agent with a profile of the same name, or changes the one of that name.

use crate::commands::check;
use crate::commands::list_agents::is_installed;
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use taskyard_domain::agent::{Agent, DriverKind, PermissionPolicy, Profile};
use taskyard_domain::alias::Vocabulary;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::{AgentId, ProfileId};
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Error, Result};
use taskyard_process::Environment;
use taskyard_store::Tx;

/// What stands for a secret that isn't shown; writing it keeps the stored one.
const MASK: &str = "***";
/// Longest name, bytes.
const NAME: usize = 100;

/// An agent and how to run it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentAdd {
    /// The name of agent and profile.
    pub name: String,
    /// `acp`, `claude`, `codex` or `exec`.
    pub driver: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Its environment; values are secrets. `***` keeps a stored one.
    #[serde(default)]
    pub env: Option<BTreeMap<String, String>>,
    /// The model that the profile asks for; left to the agent without it.
    #[serde(default)]
    pub model: Option<String>,
    /// The agent's own mode.
    #[serde(default)]
    pub mode: Option<String>,
    /// `ask`, `listed` or `worktree`; `worktree` without it.
    #[serde(default)]
    pub permission_policy: Option<String>,
    /// With `listed`: tools or kinds of tools that are allowed.
    #[serde(default)]
    pub allowed_tools: Option<Vec<String>>,
    /// Most runs of it at once.
    #[serde(default)]
    pub max_parallel: Option<i64>,
    /// Whether Taskyard commits what the agent left uncommitted; true without it.
    #[serde(default)]
    pub auto_commit: Option<bool>,
    /// The workspace; needed where there are several.
    #[serde(default)]
    pub workspace: Option<String>,
}

/// The agent that is set up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentAddOutput {
    /// Whether it is new.
    pub added: bool,
    /// Whether one of that name was changed.
    pub updated: bool,
    /// The agent.
    pub agent_id: String,
    /// Its profile.
    pub profile_id: String,
    /// The name of both.
    pub name: String,
    /// The protocol it speaks.
    pub driver: String,
    /// Whether tasks use it when nothing else is said.
    pub is_default: bool,
    /// Why its runs would fail as things are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Engine {
    /// Sets up an agent and a profile of the same name. What the call leaves out has its default, also when the
    /// name is known already. The first profile of a workspace is its default.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` naming the argument; `FORBIDDEN` for a run.
    pub async fn agent_add(&self, caller: &Caller, input: AgentAdd) -> Result<AgentAddOutput> {
        caller.require_person("set up agents")?;
        let (caller, environment) = (caller.clone(), self.environment().clone());
        self.store().write(move |tx| Box::pin(async move { add(tx, &caller, input, &environment).await })).await
    }
}

async fn add(tx: &mut Tx, caller: &Caller, input: AgentAdd, environment: &Environment) -> Result<AgentAddOutput> {
    let workspace = handle::workspace(tx, caller, "workspace", input.workspace.as_deref()).await?;
    let mut workspace = tx.workspace_lock(workspace.id).await?.ok_or_else(|| Error::not_found("workspace", workspace.slug))?;
    let name = name(&input.name)?;
    let (agent, is_new, agent_changed) = save_agent(tx, &workspace, &name, &input).await?;
    let (profile, profile_changed) = save_profile(tx, &workspace, &name, &agent, &input).await?;
    let becomes_default = workspace.default_profile_id.is_none();
    if becomes_default {
        workspace.default_profile_id = Some(profile.id);
        tx.workspace_update(&workspace).await?;
    }
    if agent_changed || profile_changed || becomes_default {
        let data = json!({
            "agent_id": agent.id, "name": name, "driver": agent.driver, "is_new": is_new, "profile_id": profile.id,
            "is_default": workspace.default_profile_id == Some(profile.id),
        });
        tx.event(NewEvent::new(workspace.id, Kind::AgentSaved).data(data.clone()));
        change::audit(tx, caller, workspace.id, Action::AgentSaved, About::Agent(agent.id), data).await?;
    }
    Ok(AgentAddOutput {
        added: is_new,
        updated: !is_new,
        agent_id: agent.id.to_string(),
        profile_id: profile.id.to_string(),
        driver: agent.driver.to_string(),
        is_default: workspace.default_profile_id == Some(profile.id),
        warning: warning(&agent, environment),
        name,
    })
}

/// What is wrong with the agent's program, if anything.
fn warning(agent: &Agent, environment: &Environment) -> Option<String> {
    let program = agent.command.first().filter(|_| !is_installed(agent, environment))?;
    Some(match (program.contains('/'), Path::new(program).is_absolute()) {
        (false, _) => format!("{program} isn't on the server's PATH now: runs will fail until it is, or give its full path"),
        (true, true) => format!("{program} isn't there, or isn't executable: runs will fail until it is"),
        (true, false) => format!("{program} isn't an absolute path: it is looked up in each task's worktree"),
    })
}

/// Stores the agent; says whether it is new, and whether anything is.
async fn save_agent(tx: &mut Tx, workspace: &Workspace, name: &str, input: &AgentAdd) -> Result<(Agent, bool, bool)> {
    let driver = DriverKind::read("driver", &input.driver)?;
    let command = command(&input.command)?;
    let known = tx.agent_by_name(workspace.id, name).await?;
    let stored = known.as_ref().map(|agent| agent.env.clone()).unwrap_or_default();
    let env = env(input.env.clone().unwrap_or_default(), &stored)?;
    let is_new = known.is_none();
    let before = known.clone();
    let agent = match known {
        Some(agent) => Agent { driver, command, env, ..agent },
        None => Agent {
            id: AgentId::new(tx.ids()),
            workspace_id: workspace.id,
            name: name.into(),
            driver,
            command,
            env,
            limited_until: None,
            limit_reason: None,
            limit_strikes: 0,
            created_at: tx.now(),
        },
    };
    let changed = before.as_ref() != Some(&agent);
    if is_new {
        tx.agent_insert(&agent).await?;
    } else if changed {
        tx.agent_update(&agent).await?;
    }
    Ok((agent, is_new, changed))
}

/// Stores the profile; says whether anything about it is new.
async fn save_profile(tx: &mut Tx, workspace: &Workspace, name: &str, agent: &Agent, input: &AgentAdd) -> Result<(Profile, bool)> {
    let known = tx.profile_by_name(workspace.id, name).await?;
    if known.as_ref().is_some_and(|profile| profile.agent_id != agent.id) {
        return Err(Error::conflict(format!("name: a profile {name} of another agent exists; choose another name")).with_field("name"));
    }
    let text = |field: &str, text: &Option<String>| match text.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => check::text(field, text, 200).map(Some),
        None => Ok(None),
    };
    let profile = Profile {
        id: known.as_ref().map_or_else(|| ProfileId::new(tx.ids()), |profile| profile.id),
        workspace_id: workspace.id,
        agent_id: agent.id,
        name: name.into(),
        model: text("model", &input.model)?,
        mode: text("mode", &input.mode)?,
        permission_policy: match &input.permission_policy {
            Some(policy) => PermissionPolicy::read("permission_policy", policy)?,
            None => PermissionPolicy::Worktree,
        },
        allowed_tools: input.allowed_tools.clone().unwrap_or_default(),
        env: known.as_ref().map(|profile| profile.env.clone()).unwrap_or_default(),
        max_parallel: match input.max_parallel {
            Some(most) if most < 1 => return Err(Error::invalid("max_parallel", format!("max_parallel is {most}; it must be above 0"))),
            most => most,
        },
        auto_commit: input.auto_commit.unwrap_or(true),
        created_at: known.as_ref().map_or_else(|| tx.now(), |profile| profile.created_at),
    };
    let changed = known.as_ref() != Some(&profile);
    if known.is_none() {
        tx.profile_insert(&profile).await?;
    } else if changed {
        tx.profile_update(&profile).await?;
    }
    Ok((profile, changed))
}

fn name(text: &str) -> Result<String> {
    let name = check::title("name", text)?;
    if name.len() > NAME {
        return Err(Error::invalid("name", format!("name is {} bytes long; at most {NAME} fit", name.len())));
    }
    // Profiles are named by UUID or name; one that looks like the other could mean two.
    if name.parse::<ProfileId>().is_ok() {
        return Err(Error::invalid("name", "name can't be a UUID"));
    }
    Ok(name)
}

fn command(command: &[String]) -> Result<Vec<String>> {
    let usable = command.first().is_some_and(|program| !program.trim().is_empty()) && !command.iter().any(|word| word.contains('\0'));
    if usable { Ok(command.to_vec()) } else { Err(Error::invalid("command", "command needs a program, then its arguments")) }
}

/// Checks names and puts stored values where the mask stands. Values are never shown.
fn env(given: BTreeMap<String, String>, stored: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let mut env = BTreeMap::new();
    for (name, value) in given {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Error::invalid("env", "env takes names without '=' and values without NUL"));
        }
        let value = match stored.get(&name) {
            Some(stored) if value == MASK => stored.clone(),
            _ => value,
        };
        env.insert(name, value);
    }
    Ok(env)
}
