//! `list_agents`: the agents that are set up, and the known ones that could be.
//!
//! What is installed is asked of the programs themselves, at most once a minute.

use super::list_workspaces;
use crate::{Caller, Engine};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use std::path::Path;
use taskyard_agents::detect::{Found, detect};
use taskyard_domain::agent::{Agent, DriverKind, Profile, model_aliases};
use taskyard_domain::id::ProfileId;
use taskyard_domain::{Result, Timestamp};
use taskyard_process::{Environment, is_program};
use taskyard_store::Read;

/// How long what was found is believed.
const FRESH: SignedDuration = SignedDuration::from_secs(60);

/// No arguments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListAgents {}

/// A way to run an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProfileRow {
    /// The id that `agent_profile_id` takes; its name works too.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The model it asks for.
    pub model: Option<String>,
    /// `ask`, `listed` or `worktree`.
    pub permission_policy: String,
    /// Whether tasks use it when nothing else is said.
    pub is_default: bool,
}

/// An agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentRow {
    /// UUID; null for a known one that isn't set up.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// The workspace it is set up in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// `claude`, `codex`, `acp` or `exec`.
    pub driver: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Whether tasks can use it.
    pub configured: bool,
    /// Whether its program is there.
    pub installed: bool,
    /// Its version, where it tells.
    pub version: Option<String>,
    /// The ways to run it.
    pub profiles: Vec<ProfileRow>,
    /// The models it knows, cheapest first; empty where any name goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Names of the variables that are set for it; the values are secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Until when its account is limited.
    pub limited_until: Option<Timestamp>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_reason: Option<String>,
}

/// The agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListAgentsOutput {
    /// Those that are set up, then known ones that aren't.
    pub agents: Vec<AgentRow>,
    /// How to set one up, while none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What was found on this machine, and when.
#[derive(Debug, Default)]
pub(crate) struct Detected(tokio::sync::Mutex<Option<(Timestamp, Vec<Found>)>>);

impl Detected {
    /// What is installed, at most a minute old. Callers at the same time share one look.
    async fn get(&self, env: &Environment, now: Timestamp) -> Vec<Found> {
        let mut known = self.0.lock().await;
        if let Some((at, found)) = known.as_ref().filter(|(at, _)| now.duration_since(*at).abs() < FRESH) {
            tracing::trace!(%at, "agents are known");
            return found.clone();
        }
        let found = detect(env).await;
        *known = Some((now, found.clone()));
        found
    }
}

impl Engine {
    /// Every agent that is set up, and every known one, with what is installed.
    ///
    /// # Errors
    /// Only the store's.
    pub async fn list_agents(&self, caller: &Caller, _input: ListAgents) -> Result<ListAgentsOutput> {
        let caller = caller.clone();
        let configured = self.store().read(move |read| Box::pin(async move { configured(read, &caller).await })).await?;
        let found = self.detected().get(self.environment(), self.now()).await;
        let mut agents: Vec<AgentRow> = configured.into_iter().map(|one| row(one, &found, self.environment())).collect();
        let hint = agents.is_empty().then(|| "none is set up: taskyard agent add NAME --driver DRIVER -- COMMAND".to_owned());
        let others =
            found.iter().filter(|known| !agents.iter().any(|agent| program(&agent.command) == known.command.first().map(String::as_str)));
        let others: Vec<AgentRow> = others.map(unconfigured).collect();
        agents.extend(others);
        Ok(ListAgentsOutput { agents, hint })
    }
}

struct Configured {
    agent: Agent,
    profiles: Vec<Profile>,
    workspace: String,
    default: Option<ProfileId>,
}

async fn configured(read: &mut Read, caller: &Caller) -> Result<Vec<Configured>> {
    let mut all = Vec::new();
    for workspace in list_workspaces::seen(read, caller, None).await? {
        let profiles = read.profile_list(workspace.id).await?;
        for agent in read.agent_list(workspace.id).await? {
            let own = profiles.iter().filter(|profile| profile.agent_id == agent.id).cloned().collect();
            all.push(Configured { agent, profiles: own, workspace: workspace.slug.clone(), default: workspace.default_profile_id });
        }
    }
    Ok(all)
}

/// The file name of a command's program.
fn program(command: &[String]) -> Option<&str> {
    Path::new(command.first()?).file_name()?.to_str()
}

fn row(one: Configured, found: &[Found], env: &Environment) -> AgentRow {
    let agent = one.agent;
    let known = found.iter().find(|known| program(&agent.command) == known.command.first().map(String::as_str));
    let profile = |profile: &Profile| ProfileRow {
        id: profile.id.to_string(),
        name: profile.name.clone(),
        model: profile.model.clone(),
        permission_policy: profile.permission_policy.to_string(),
        is_default: one.default == Some(profile.id),
    };
    let installed = is_installed(&agent, env);
    AgentRow {
        id: Some(agent.id.to_string()),
        name: agent.name,
        workspace: Some(one.workspace),
        driver: agent.driver.to_string(),
        configured: true,
        installed,
        version: known.and_then(|known| known.version.clone()),
        profiles: one.profiles.iter().map(profile).collect(),
        models: models(agent.driver),
        env: agent.env.into_keys().collect(),
        command: agent.command,
        limited_until: agent.limited_until,
        limit_reason: agent.limit_reason,
    }
}

fn unconfigured(known: &Found) -> AgentRow {
    AgentRow {
        id: None,
        name: known.name.to_owned(),
        workspace: None,
        driver: known.driver.to_string(),
        command: known.command.clone(),
        configured: false,
        installed: known.installed(),
        version: known.version.clone(),
        profiles: Vec::new(),
        models: Vec::new(),
        env: Vec::new(),
        limited_until: None,
        limit_reason: None,
    }
}

fn models(driver: DriverKind) -> Vec<String> {
    model_aliases(driver).iter().map(|alias| (*alias).to_owned()).collect()
}

/// Whether the agent's program is there: by its path, or by its name on the `PATH` that it is started with. A path that
/// isn't absolute is looked up in each task's worktree, where nobody can look now.
pub(crate) fn is_installed(agent: &Agent, env: &Environment) -> bool {
    let Some(name) = agent.command.first() else { return false };
    if name.contains('/') {
        return Path::new(name).is_absolute() && is_program(Path::new(name));
    }
    match agent.env.get("PATH") {
        Some(path) => env.clone().with("PATH", path).find(name).is_some(),
        None => env.find(name).is_some(),
    }
}
