//! `agent_unlimit`: ends the pause of an account that hit its usage limit.

use super::agent_remove::by_name;
use crate::resolve::Levels;
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::agent::Agent;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::{Class, Error, Result};
use taskyard_store::Tx;

/// Which agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentUnlimit {
    /// Its name.
    pub name: String,
    /// The workspace; needed where there are several.
    #[serde(default)]
    pub workspace: Option<String>,
}

/// The agent that may work again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentUnlimitOutput {
    /// Whether it was limited.
    pub unlimited: bool,
    /// The agent.
    pub agent_id: String,
    /// Its name.
    pub name: String,
    /// Tasks that were held back by the limit and may start now, by short id.
    pub released: Vec<String>,
}

impl Engine {
    /// Lifts the pause of an agent's account, and lets the tasks that it held back start.
    ///
    /// # Errors
    /// `NOT_FOUND`; `FORBIDDEN` for a run.
    pub async fn agent_unlimit(&self, caller: &Caller, input: AgentUnlimit) -> Result<AgentUnlimitOutput> {
        caller.require_person("lift a usage limit")?;
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { unlimit(tx, &caller, input).await })).await
    }
}

async fn unlimit(tx: &mut Tx, caller: &Caller, input: AgentUnlimit) -> Result<AgentUnlimitOutput> {
    let workspace = handle::workspace(tx, caller, "workspace", input.workspace.as_deref()).await?;
    let found = by_name(tx, workspace.id, &input.name).await?;
    let mut agent = tx.agent_lock(found.id).await?.ok_or_else(|| Error::not_found("agent", &found.name))?;
    let unlimited = agent.limited_until.is_some();
    let has_strikes = agent.limit_strikes != 0;
    agent.limited_until = None;
    agent.limit_reason = None;
    agent.limit_strikes = 0;
    let released = release(tx, caller, &agent).await?;
    if unlimited || has_strikes || !released.is_empty() {
        tx.agent_update(&agent).await?;
        let data = json!({ "agent_id": agent.id, "limited_until": null, "released": released });
        tx.event(NewEvent::new(workspace.id, Kind::AgentLimited).data(data.clone()));
        change::audit(tx, caller, workspace.id, Action::AgentUnlimited, About::Agent(agent.id), data).await?;
    }
    Ok(AgentUnlimitOutput { unlimited, agent_id: agent.id.to_string(), name: agent.name, released })
}

/// Lets the agent's queued tasks start now.
async fn release(tx: &mut Tx, caller: &Caller, agent: &Agent) -> Result<Vec<String>> {
    let mut released = Vec::new();
    for queued in tx.queue_candidates(Some(agent.workspace_id)).await? {
        if queued.not_before.is_none() {
            continue;
        }
        let Some(task) = tx.task_fetch(queued.id).await? else { continue };
        let levels = Levels::of(tx, task).await?;
        match levels.profile(tx).await {
            Ok((_, runner)) if runner.id == agent.id => {}
            Ok(_) => continue,
            Err(error) if error.class == Class::FailedPrecondition => continue,
            Err(error) => return Err(error),
        }
        // It may have started in this moment.
        let Some(mut task) = tx.task_lock(levels.task.id).await?.filter(|task| task.not_before.is_some()) else { continue };
        task.not_before = None;
        change::task(tx, &mut task, &["not_before"]).await?;
        let why = json!({ "fields": ["not_before"], "reason": format!("{} works again", agent.name) });
        change::audit(tx, caller, task.workspace_id, Action::TaskUpdated, About::Task(task.id), why).await?;
        released.push(task.short_id.to_string());
    }
    Ok(released)
}
