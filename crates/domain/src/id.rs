//! Typed ids: UUIDv7 newtypes that can't be mixed up, made by an injected source.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// Where new ids come from. Injected, so that tests can fix them.
pub trait Ids: Send + Sync + 'static {
    /// The next UUIDv7; later ones sort after earlier ones within one source.
    fn next(&self) -> Uuid;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new id from `ids`.
            pub fn new(ids: &dyn Ids) -> Self {
                Self(ids.next())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                Uuid::try_parse(text.trim()).map(Self).map_err(|_| ParseIdError { what: $what })
            }
        }
    )*};
}

/// The text isn't a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a {what} id: a UUID is needed")]
pub struct ParseIdError {
    what: &'static str,
}

ids! {
    /// A workspace: the tenant boundary.
    WorkspaceId = "workspace";
    /// A git repository of a workspace.
    RepositoryId = "repository";
    /// A workflow, also called a list.
    ListId = "list";
    /// A column of a workflow.
    StepId = "step";
    /// A task.
    TaskId = "task";
    /// An agent: a program that can work.
    AgentId = "agent";
    /// A named way to run an agent.
    ProfileId = "agent profile";
    /// A conversation between one agent and one task.
    SessionId = "session";
    /// One stretch of work on a task.
    RunId = "run";
    /// A git worktree made for a task.
    WorktreeId = "worktree";
    /// The record of one merge.
    MergeId = "merge";
    /// A snapshot of work under a private ref.
    SnapshotId = "snapshot";
    /// A message to a session.
    MessageId = "message";
    /// A question to a person, or a permission request.
    QuestionId = "question";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_refuse_prefixes() {
        let text = "01890a5d-ac96-774b-bcce-b302099a8057";
        let id: TaskId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!("01890a5d".parse::<TaskId>().unwrap_err().to_string(), "not a task id: a UUID is needed");
    }
}
