//! The session: a conversation between one agent and one task.

use crate::error::{Error, Result};
use crate::id::{AgentId, ProfileId, SessionId, TaskId, WorkspaceId, WorktreeId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// Where a session stands.
    State, "session state", {
        /// Made, nothing started.
        Created = "created",
        /// A run prepares the worktree and the agent.
        Starting = "starting",
        /// A turn is running.
        Running = "running",
        /// The agent waits for a person.
        WaitingForInput = "waiting_for_input",
        /// The last run ended well; it can be woken.
        Completed = "completed",
        /// The last run failed.
        Failed = "failed",
        /// Called off.
        Cancelled = "cancelled",
    }
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its UUID.
    pub id: SessionId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// Its task.
    pub task_id: TaskId,
    /// The agent that talks.
    pub agent_id: AgentId,
    /// The profile it runs by.
    pub profile_id: ProfileId,
    /// The worktree it works in.
    pub worktree_id: Option<WorktreeId>,
    /// Whether it is the task's primary one.
    pub is_primary: bool,
    /// Where it stands; changed only through [`next`].
    pub state: State,
    /// The agent's own id of the conversation.
    pub agent_session_id: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Something that happened to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// A run was opened in it.
    RunOpened,
    /// The agent holds its prompt.
    TurnStarted,
    /// The agent asks a person.
    Asked,
    /// The last open question is gone.
    Answered,
    /// The run ended well, or will be taken up again.
    RunSucceeded,
    /// The run failed.
    RunFailed,
    /// The run was cancelled.
    RunCancelled,
}

/// The state after `fact`.
///
/// # Errors
/// `CONFLICT` when no run is open and the fact needs one.
pub fn next(state: State, fact: Fact) -> Result<State> {
    let live = matches!(state, State::Starting | State::Running | State::WaitingForInput);
    match fact {
        Fact::RunOpened if live => Err(Error::conflict("the session has an open run already")),
        Fact::RunOpened => Ok(State::Starting),
        _ if !live => Err(Error::conflict(format!("the session is {state}"))),
        // An agent may ask before it has said that it holds its prompt.
        Fact::TurnStarted if state == State::WaitingForInput => Ok(state),
        Fact::TurnStarted => Ok(State::Running),
        Fact::Asked => Ok(State::WaitingForInput),
        Fact::Answered if state == State::WaitingForInput => Ok(State::Running),
        Fact::Answered => Ok(state),
        Fact::RunSucceeded => Ok(State::Completed),
        Fact::RunFailed => Ok(State::Failed),
        Fact::RunCancelled => Ok(State::Cancelled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        use State::{Cancelled, Completed, Failed, Running, Starting, WaitingForInput};
        let live = |s, r, w| [None, Some(s), Some(r), Some(w), None, None, None];
        let table = [
            (Fact::RunOpened, [Some(Starting), None, None, None, Some(Starting), Some(Starting), Some(Starting)]),
            (Fact::TurnStarted, live(Running, Running, WaitingForInput)),
            (Fact::Asked, live(WaitingForInput, WaitingForInput, WaitingForInput)),
            (Fact::Answered, live(Starting, Running, Running)),
            (Fact::RunSucceeded, live(Completed, Completed, Completed)),
            (Fact::RunFailed, live(Failed, Failed, Failed)),
            (Fact::RunCancelled, live(Cancelled, Cancelled, Cancelled)),
        ];
        for (fact, expected) in table {
            for (state, expected) in State::ALL.iter().zip(expected) {
                assert_eq!(next(*state, fact).ok(), expected, "{state} after {fact:?}");
            }
        }
    }
}
