//! Agents and agent profiles.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::values;
use taskyard_domain::Result;
use taskyard_domain::agent::{Agent, Profile};
use taskyard_domain::id::{AgentId, ProfileId, WorkspaceId};

entity!(Agent, "agent", "agent", {
    id, workspace_id, name, driver, command as json, env as json, limited_until, limit_reason, limit_strikes, created_at,
});

entity!(Profile, "profile", "agent profile", {
    id, workspace_id, agent_id, name, model, mode, permission_policy, allowed_tools as json, env as json, max_parallel, auto_commit,
    created_at,
});

impl Tx {
    /// Stores a new agent.
    ///
    /// # Errors
    /// `CONFLICT` when its name is taken in the workspace.
    pub async fn agent_insert(&mut self, agent: &Agent) -> Result<()> {
        self.insert(agent).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone; `CONFLICT` when its name is taken.
    pub async fn agent_update(&mut self, agent: &Agent) -> Result<()> {
        self.update(agent).await
    }

    /// Deletes an agent.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone; `FAILED_PRECONDITION` while profiles, sessions or runs name it.
    pub async fn agent_delete(&mut self, id: AgentId) -> Result<()> {
        self.delete::<Agent>(id).await
    }

    /// Deletes a profile.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone; `FAILED_PRECONDITION` while sessions or runs name it.
    pub async fn profile_delete(&mut self, id: ProfileId) -> Result<()> {
        self.delete::<Profile>(id).await
    }

    /// The agent, locked until the end of the transaction.
    pub async fn agent_lock(&mut self, id: AgentId) -> Result<Option<Agent>> {
        self.lock(id).await
    }

    /// Stores a new profile.
    ///
    /// # Errors
    /// `CONFLICT` when its name is taken in the workspace; `FAILED_PRECONDITION` when its agent isn't there.
    pub async fn profile_insert(&mut self, profile: &Profile) -> Result<()> {
        self.insert(profile).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone; `CONFLICT` when its name is taken.
    pub async fn profile_update(&mut self, profile: &Profile) -> Result<()> {
        self.update(profile).await
    }
}

impl Read {
    /// The agent with this id.
    pub async fn agent_fetch(&mut self, id: AgentId) -> Result<Option<Agent>> {
        self.by_id(id).await
    }

    /// The workspace's agents, oldest first.
    pub async fn agent_list(&mut self, workspace: WorkspaceId) -> Result<Vec<Agent>> {
        self.select("WHERE workspace_id = $1 ORDER BY created_at, id", values![workspace]).await
    }

    /// The workspace's agent of this name.
    pub async fn agent_by_name(&mut self, workspace: WorkspaceId, name: &str) -> Result<Option<Agent>> {
        self.select_one("WHERE workspace_id = $1 AND name = $2", values![workspace, name.to_owned()]).await
    }

    /// The profile with this id.
    pub async fn profile_fetch(&mut self, id: ProfileId) -> Result<Option<Profile>> {
        self.by_id(id).await
    }

    /// The workspace's profiles, oldest first.
    pub async fn profile_list(&mut self, workspace: WorkspaceId) -> Result<Vec<Profile>> {
        self.select("WHERE workspace_id = $1 ORDER BY created_at, id", values![workspace]).await
    }

    /// The workspace's profile of this name.
    pub async fn profile_by_name(&mut self, workspace: WorkspaceId, name: &str) -> Result<Option<Profile>> {
        self.select_one("WHERE workspace_id = $1 AND name = $2", values![workspace, name.to_owned()]).await
    }
}
