//! Who makes a call: bound by the server, never said by the model.

use crate::id::{RunId, SessionId, TaskId, WorkspaceId};
use serde::{Deserialize, Serialize};

/// The authenticated caller of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Actor {
    /// A person or their own client, on loopback without a token.
    Operator,
    /// An agent that Taskyard runs, known by its run's token.
    Run {
        /// The workspace that the run belongs to.
        workspace_id: WorkspaceId,
        /// The run whose token was shown.
        run_id: RunId,
        /// Its session; none for a claimed run.
        session_id: Option<SessionId>,
        /// Its task.
        task_id: TaskId,
    },
    /// Taskyard itself: the queue, a reconciler, an effect.
    System,
}

impl Actor {
    /// The label that audit entries and reviews carry.
    pub fn label(&self) -> String {
        match self {
            Actor::Operator => "operator".into(),
            Actor::Run { run_id, .. } => format!("run:{run_id}"),
            Actor::System => "system".into(),
        }
    }

    /// The run that calls, if a run calls.
    pub fn run_id(&self) -> Option<RunId> {
        match self {
            Actor::Run { run_id, .. } => Some(*run_id),
            Actor::Operator | Actor::System => None,
        }
    }

    /// The workspace the caller is confined to, if any.
    pub fn workspace_id(&self) -> Option<WorkspaceId> {
        match self {
            Actor::Run { workspace_id, .. } => Some(*workspace_id),
            Actor::Operator | Actor::System => None,
        }
    }

    /// Whether the caller may do what only a person may: review, merge, revert, answer, clean up, claim.
    pub fn is_person(&self) -> bool {
        !matches!(self, Actor::Run { .. })
    }
}

/// The face a call came through; recorded by audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Face {
    /// The MCP server.
    Mcp,
    /// The command line.
    Cli,
    /// The queue, a reconciler or an effect of an earlier command.
    Engine,
}

impl Face {
    /// The stored spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Face::Mcp => "mcp",
            Face::Cli => "cli",
            Face::Engine => "engine",
        }
    }
}
