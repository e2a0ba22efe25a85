//! The run: one stretch of work on a task, managed by Taskyard or claimed by an outside agent.

use crate::error::{Error, Result};
use crate::id::{AgentId, ProfileId, RunId, SessionId, TaskId, WorkspaceId};
use crate::task::Task;
use crate::task_status::Status;
use crate::transcript::Usage;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// Who works.
    Kind, "run kind", {
        /// Taskyard runs an agent.
        Managed = "managed",
        /// An outside agent claimed the task.
        Claimed = "claimed",
    }
}

crate::vocabulary! {
    /// Where a run stands.
    State, "run state", {
        /// Worktree, setup and handshake.
        Starting = "starting",
        /// A turn is running.
        Running = "running",
        /// It waits for a person.
        Waiting = "waiting",
        /// It is over; see the outcome.
        Ended = "ended",
    }
}

crate::vocabulary! {
    /// How a run ended.
    Outcome, "outcome", {
        /// The facts say that work was done.
        Succeeded = "succeeded",
        /// It ended and nothing changed.
        NoChanges = "no_changes",
        /// The agent, its login, the isolation, a script or Taskyard's patience failed.
        Failed = "failed",
        /// By a person.
        Cancelled = "cancelled",
        /// The server died under it.
        Interrupted = "interrupted",
        /// A usage limit.
        Limited = "limited",
        /// A claim was given back.
        Abandoned = "abandoned",
    }
}

crate::vocabulary! {
    /// Which place a run takes.
    Slot, "slot", {
        /// One of the configured slots.
        Queue = "queue",
        /// The one extra slot of `run_task_now` and `continue_task`.
        Override = "override",
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its UUID.
    pub id: RunId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The task it works on.
    pub task_id: TaskId,
    /// Its session; none for a claim.
    pub session_id: Option<SessionId>,
    /// Managed or claimed.
    pub kind: Kind,
    /// Where it stands; changed only through [`next`].
    pub state: State,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Why, in a sentence.
    pub cause: Option<String>,
    /// The label of who started or claimed it.
    pub actor: Option<String>,
    /// The agent that works.
    pub agent_id: Option<AgentId>,
    /// The profile it runs by.
    pub profile_id: Option<ProfileId>,
    /// The model that was asked for.
    pub model: Option<String>,
    /// The prompt it started with.
    pub prompt: String,
    /// The place it takes; `None` while it has given its slot back.
    pub slot: Option<Slot>,
    /// Whether it gave its slot back and needs one to go on.
    pub wants_slot: bool,
    /// Whether a person called it off; it is over as soon as its processes are.
    pub cancel_requested: bool,
    /// Since when it waits for a person or for other tasks.
    pub waiting_since: Option<Timestamp>,
    /// When the agent last said anything.
    pub last_activity_at: Timestamp,
    /// Whether it is silent for longer than `stall_after`.
    pub stalled: bool,
    /// SHA-256 of its token, hex; dead when the run ends.
    pub token_hash: Option<String>,
    /// The agent's process id.
    pub pid: Option<i32>,
    /// The process's start time in clock ticks since boot.
    pub pid_started: Option<i64>,
    /// The server process that runs it.
    pub node: Option<String>,
    /// What was used so far.
    pub usage: Usage,
    /// The agent's exit code.
    pub exit_code: Option<i32>,
    /// What the claimer wrote.
    pub notes: Option<String>,
    /// The task's status before it.
    pub prior_status: Status,
    /// The worktree's commit when it started, to judge by.
    pub start_commit: Option<String>,
    /// When it was opened.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Run {
    /// A run that is opened for `task` at `now`; what only some runs have is empty.
    pub fn opened(id: RunId, task: &Task, kind: Kind, state: State, prompt: String, now: Timestamp) -> Self {
        Self {
            id,
            workspace_id: task.workspace_id,
            task_id: task.id,
            session_id: None,
            kind,
            state,
            outcome: None,
            cause: None,
            actor: None,
            agent_id: None,
            profile_id: None,
            model: None,
            prompt,
            slot: None,
            wants_slot: false,
            cancel_requested: false,
            waiting_since: None,
            last_activity_at: now,
            stalled: false,
            token_hash: None,
            pid: None,
            pid_started: None,
            node: None,
            usage: Usage::default(),
            exit_code: None,
            notes: None,
            prior_status: task.status,
            start_commit: None,
            started_at: now,
            ended_at: None,
        }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.state != State::Ended
    }
}

/// Something that happened to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The agent holds its prompt.
    TurnStarted,
    /// It asks a person.
    Asked,
    /// The last open question was answered or withdrawn.
    Answered,
    /// It is over.
    Ended,
}

/// The state after `fact`.
///
/// # Errors
/// `CONFLICT` when the run has ended: a late word of a dead run changes nothing.
pub fn next(state: State, fact: Fact) -> Result<State> {
    match (state, fact) {
        (State::Ended, Fact::Ended) => Ok(State::Ended),
        (State::Ended, _) => Err(Error::conflict("the run has ended")),
        (_, Fact::Ended) => Ok(State::Ended),
        // An agent may ask before it has said that it holds its prompt.
        (State::Waiting, Fact::TurnStarted) => Ok(State::Waiting),
        (_, Fact::TurnStarted) => Ok(State::Running),
        (_, Fact::Asked) => Ok(State::Waiting),
        (State::Waiting, Fact::Answered) => Ok(State::Running),
        (other, Fact::Answered) => Ok(other),
    }
}

/// What is known when a turn has ended and the run is to be judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evidence {
    /// A person cancelled it.
    pub cancelled: bool,
    /// A usage limit was reported.
    pub limited: bool,
    /// The agent or its stream reported an error, or the process broke off.
    pub errors: bool,
    /// The agent's last text reads like an error (authentication, overflow), or it said nothing at all, though the
    /// protocol says it ended well.
    pub error_text: bool,
    /// Commits or uncommitted changes came about in the run.
    pub changes: bool,
}

/// The outcome that the evidence speaks for.
pub fn judge(evidence: Evidence) -> Outcome {
    if evidence.cancelled {
        Outcome::Cancelled
    } else if evidence.limited {
        Outcome::Limited
    } else if evidence.errors || (evidence.error_text && !evidence.changes) {
        Outcome::Failed
    } else if evidence.changes {
        Outcome::Succeeded
    } else {
        Outcome::NoChanges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        use Fact::{Answered, Asked, Ended as End, TurnStarted};
        use State::{Ended, Running, Starting, Waiting};
        let table = [
            (TurnStarted, [Some(Running), Some(Running), Some(Waiting), None]),
            (Asked, [Some(Waiting), Some(Waiting), Some(Waiting), None]),
            (Answered, [Some(Starting), Some(Running), Some(Running), None]),
            (End, [Some(Ended); 4]),
        ];
        for (fact, expected) in table {
            for (state, expected) in State::ALL.iter().zip(expected) {
                assert_eq!(next(*state, fact).ok(), expected, "{state} after {fact:?}");
            }
        }
    }

    #[test]
    fn a_turn_is_judged_by_facts() {
        let none = Evidence::default();
        assert_eq!(judge(none), Outcome::NoChanges);
        assert_eq!(judge(Evidence { changes: true, ..none }), Outcome::Succeeded);
        assert_eq!(judge(Evidence { changes: true, errors: true, ..none }), Outcome::Failed);
        assert_eq!(judge(Evidence { error_text: true, ..none }), Outcome::Failed);
        assert_eq!(judge(Evidence { error_text: true, changes: true, ..none }), Outcome::Succeeded);
        assert_eq!(judge(Evidence { limited: true, errors: true, ..none }), Outcome::Limited);
        assert_eq!(judge(Evidence { cancelled: true, limited: true, ..none }), Outcome::Cancelled);
    }
}
