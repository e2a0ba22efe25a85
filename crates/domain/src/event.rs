//! The append-only event log: one entry per state change, written in its transaction.

use crate::id::{RunId, SessionId, TaskId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// What happened, in the past tense.
    Kind, "event kind", {
        /// A workspace was made.
        WorkspaceCreated = "workspace_created",
        /// A workspace's name or prompt changed.
        WorkspaceUpdated = "workspace_updated",
        /// A repository was added.
        RepositoryAdded = "repository_added",
        /// A list was made.
        ListCreated = "list_created",
        /// A list was changed.
        ListUpdated = "list_updated",
        /// A list was deleted.
        ListDeleted = "list_deleted",
        /// An agent was added or changed.
        AgentSaved = "agent_saved",
        /// An agent's account hit a limit, or the limit was lifted.
        AgentLimited = "agent_limited",
        /// A task was made.
        TaskCreated = "task_created",
        /// A task's text, place or configuration changed.
        TaskUpdated = "task_updated",
        /// A task's status changed: `data` has `status`, `previous_status`.
        TaskStatusChanged = "task_status_changed",
        /// A task was deleted.
        TaskDeleted = "task_deleted",
        /// A run was opened.
        RunOpened = "run_opened",
        /// A run's state changed.
        RunChanged = "run_changed",
        /// A run ended.
        RunEnded = "run_ended",
        /// A session was made or changed.
        SessionChanged = "session_changed",
        /// A worktree was made or changed.
        WorktreeChanged = "worktree_changed",
        /// A merge or revert was intended, landed or given up.
        MergeChanged = "merge_changed",
        /// A snapshot was taken or restored.
        SnapshotTaken = "snapshot_taken",
        /// A question was asked.
        QuestionAsked = "question_asked",
        /// A question was answered, declined or voided.
        QuestionClosed = "question_closed",
        /// Settings changed.
        SettingsChanged = "settings_changed",
        /// A session's transcript grew (bounded to a few a second).
        TranscriptAdvanced = "transcript_advanced",
    }
}

impl Kind {
    /// Whether it tells only that work goes on: it changes nothing that the queue or an effect waits for.
    pub fn is_quiet(self) -> bool {
        self == Kind::TranscriptAdvanced
    }
}

/// An event that is about to be written; the store gives it its number and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewEvent {
    /// The workspace whose log it goes to.
    pub workspace_id: WorkspaceId,
    /// What happened.
    pub kind: Kind,
    /// The task it is about.
    pub task_id: Option<TaskId>,
    /// The run it is about.
    pub run_id: Option<RunId>,
    /// The session it is about.
    pub session_id: Option<SessionId>,
    /// Small facts for a subscriber, snake_case.
    pub data: serde_json::Value,
}

impl NewEvent {
    /// An event of `kind` without further facts.
    pub fn new(workspace_id: WorkspaceId, kind: Kind) -> Self {
        Self { workspace_id, kind, task_id: None, run_id: None, session_id: None, data: serde_json::Value::Null }
    }

    /// The same about `task`.
    #[must_use]
    pub fn task(mut self, task: TaskId) -> Self {
        self.task_id = Some(task);
        self
    }

    /// The same about `run`.
    #[must_use]
    pub fn run(mut self, run: RunId) -> Self {
        self.run_id = Some(run);
        self
    }

    /// The same about `session`.
    #[must_use]
    pub fn session(mut self, session: Option<SessionId>) -> Self {
        self.session_id = session;
        self
    }

    /// The same with facts.
    #[must_use]
    pub fn data(mut self, data: serde_json::Value) -> Self {
        self.data = data;
        self
    }
}

/// An event of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number in the workspace: 1, 2, 3 … in commit order without holes.
    pub seq: i64,
    /// When it was written.
    pub at: Timestamp,
    /// What happened to what.
    #[serde(flatten)]
    pub body: NewEvent,
}
