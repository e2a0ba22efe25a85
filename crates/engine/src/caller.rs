//! Who calls a command and through which face; what only a person may do is checked here.

use crate::Engine;
use sha2::{Digest, Sha256};
use taskyard_domain::id::{RunId, TaskId, WorkspaceId};
use taskyard_domain::{Actor, Error, Face, Result};

/// The authenticated caller of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who, as the server knows it.
    pub actor: Actor,
    /// Through which face.
    pub face: Face,
    /// The one workspace that a person said this call is about: nothing of another exists for it.
    pub within: Option<WorkspaceId>,
}

impl Caller {
    /// The operator on loopback.
    pub fn operator(face: Face) -> Self {
        Self { actor: Actor::Operator, face, within: None }
    }

    /// Taskyard itself.
    pub fn system() -> Self {
        Self { actor: Actor::System, face: Face::Engine, within: None }
    }

    /// The workspace that the caller is confined to: a run's own, or the one that a person named.
    pub fn workspace_id(&self) -> Option<WorkspaceId> {
        self.actor.workspace_id().or(self.within)
    }

    /// The run that calls, if a run calls.
    pub fn run_id(&self) -> Option<RunId> {
        self.actor.run_id()
    }

    /// The task that the caller is bound to, if any.
    pub fn task_id(&self) -> Option<TaskId> {
        match &self.actor {
            Actor::Run { task_id, .. } => Some(*task_id),
            Actor::Operator | Actor::System => None,
        }
    }

    /// Refuses a run's token: `what` is a person's to do.
    ///
    /// # Errors
    /// `FORBIDDEN` for an agent that Taskyard runs.
    pub fn require_person(&self, what: &str) -> Result<()> {
        if self.actor.is_person() {
            return Ok(());
        }
        Err(Error::forbidden(format!("an agent that Taskyard runs can't {what}: that is a person's decision"))
            .with_hint("finish your turn; a person reviews the work"))
    }

    /// Refuses what lies outside the workspace the caller is confined to, as if it didn't exist.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn require_workspace(&self, workspace: WorkspaceId, what: &str, handle: &str) -> Result<()> {
        match self.workspace_id() {
            Some(own) if own != workspace => Err(Error::not_found(what, handle)),
            _ => Ok(()),
        }
    }

    /// The scope of idempotency keys: one per operator or run.
    pub(crate) fn scope(&self) -> String {
        self.actor.label()
    }
}

/// SHA-256 of a token in hex: what the store keeps instead of the token.
pub(crate) fn token_hash(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
}

/// A new random token: 256 bits in hex behind `ty_`.
pub(crate) fn new_token() -> String {
    let bytes: [u8; 32] = rand::random();
    bytes.iter().fold(String::from("ty_"), |token, b| format!("{token}{b:02x}"))
}

impl Engine {
    /// The same caller confined to the workspace of this slug or UUID.
    ///
    /// # Errors
    /// `NOT_FOUND` for a workspace that isn't there, or isn't the caller's.
    pub async fn confined(&self, caller: Caller, workspace: &str) -> Result<Caller> {
        let (owned, handle) = (caller.clone(), workspace.to_owned());
        let found = self
            .store()
            .read(move |read| Box::pin(async move { crate::handle::workspace(read, &owned, "workspace", Some(&handle)).await }));
        Ok(Caller { within: Some(found.await?.id), ..caller })
    }

    /// Finds out who calls: the run of a bearer token, else the operator (callers reach us on loopback only).
    ///
    /// # Errors
    /// `FORBIDDEN` for a token that isn't any open run's.
    pub async fn authenticate(&self, token: Option<&str>, face: Face) -> Result<Caller> {
        let Some(token) = token else { return Ok(Caller::operator(face)) };
        let hash = token_hash(token);
        let run = self.store().read(move |tx| Box::pin(async move { tx.run_by_token_hash(&hash).await })).await?;
        let run = run.ok_or_else(|| {
            Error::forbidden("the token isn't that of an open run")
                .with_hint("a run's token dies with the run; call without a token as the operator")
        })?;
        let actor = Actor::Run { workspace_id: run.workspace_id, run_id: run.id, session_id: run.session_id, task_id: run.task_id };
        Ok(Caller { actor, face, within: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_run_is_no_person_and_sees_its_workspace_only() {
        let own = WorkspaceId(Uuid::from_u128(1));
        let actor =
            Actor::Run { workspace_id: own, run_id: RunId(Uuid::from_u128(2)), session_id: None, task_id: TaskId(Uuid::from_u128(3)) };
        let caller = Caller { actor, face: Face::Mcp, within: None };
        assert_eq!(caller.require_person("merge").unwrap_err().class, taskyard_domain::Class::Forbidden);
        assert!(caller.require_workspace(own, "task", "x").is_ok());
        assert!(caller.require_workspace(WorkspaceId(Uuid::from_u128(9)), "task", "x").is_err());
        assert!(Caller::operator(Face::Cli).require_person("merge").is_ok());
    }

    #[test]
    fn tokens_are_long_and_differ() {
        assert_ne!(new_token(), new_token());
        assert_eq!(new_token().len(), 67);
        assert_eq!(token_hash("a").len(), 64);
    }
}
