//! Audit entries: who did what to what, through which face.

use crate::actor::{Actor, Face};
use crate::id::{AgentId, ListId, MergeId, QuestionId, RepositoryId, RunId, SnapshotId, StepId, TaskId, WorkspaceId, WorktreeId};
use crate::run::Run;
use crate::worktree::Worktree;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// What was done: `noun.verbed`.
    Action, "audit action", {
        /// A workspace was made.
        WorkspaceCreated = "workspace.created",
        /// A workspace got another name.
        WorkspaceRenamed = "workspace.renamed",
        /// A workspace's prompt changed.
        WorkspaceUpdated = "workspace.updated",
        /// The server's settings changed.
        SettingsUpdated = "settings.updated",
        /// A repository was added.
        RepositoryAdded = "repository.added",
        /// What Taskyard knows of a repository changed.
        RepositoryUpdated = "repository.updated",
        /// An agent or a profile of it was added or changed.
        AgentSaved = "agent.saved",
        /// An agent or a profile of it was removed.
        AgentRemoved = "agent.removed",
        /// An agent's account hit a limit, and pauses.
        AgentLimited = "agent.limited",
        /// An agent's account works again, because a person said so or a run went through.
        AgentUnlimited = "agent.unlimited",
        /// A list was made.
        ListCreated = "list.created",
        /// A list's name, description, place or prompt changed.
        ListUpdated = "list.updated",
        /// What a list's tasks run with changed.
        ListConfigured = "list.configured",
        /// A list was deleted.
        ListDeleted = "list.deleted",
        /// A step was added to a list.
        StepAdded = "step.added",
        /// A step was renamed, moved or given another prompt.
        StepUpdated = "step.updated",
        /// A step was removed.
        StepRemoved = "step.removed",
        /// A task, epic or plan was made.
        TaskCreated = "task.created",
        /// Its text or place changed.
        TaskUpdated = "task.updated",
        /// What it runs with changed.
        TaskConfigured = "task.configured",
        /// Its status was set by hand.
        TaskStatusSet = "task.status_set",
        /// It waits for another task.
        TaskDependencyAdded = "task.dependency_added",
        /// It no longer waits for another task.
        TaskDependencyRemoved = "task.dependency_removed",
        /// Its failure was cleared.
        TaskReset = "task.reset",
        /// It was called off, or its run was asked to end.
        TaskCancelled = "task.cancelled",
        /// Its work was approved, sent back or rejected.
        TaskReviewed = "task.reviewed",
        /// Its work is in the target branch.
        TaskMerged = "task.merged",
        /// Its merge was undone.
        TaskMergeReverted = "task.merge_reverted",
        /// An agent from outside took it on.
        TaskClaimed = "task.claimed",
        /// Its claimer claimed it again, with other notes.
        TaskReclaimed = "task.reclaimed",
        /// A claim of it ended: by its claimer, by somebody else, or because the task was called off.
        TaskCompleted = "task.completed",
        /// Its deletion began: it is out of the way while its worktrees are put away.
        TaskDeletionBegun = "task.deletion_begun",
        /// Its deletion couldn't be ended, and it is back as it was.
        TaskDeletionUndone = "task.deletion_undone",
        /// It is gone.
        TaskDeleted = "task.deleted",
        /// A managed run began.
        RunOpened = "run.opened",
        /// Its agent has the prompt.
        RunTurnStarted = "run.turn_started",
        /// It ended.
        RunEnded = "run.ended",
        /// An agent asks for a permission.
        QuestionAsked = "question.asked",
        /// A person answered or declined.
        QuestionAnswered = "question.answered",
        /// Nobody needs an answer any more: the agent took it back, or its run ended.
        QuestionVoided = "question.voided",
        /// A worktree is going to be made.
        WorktreePlanned = "worktree.planned",
        /// It goes to another place, because something else was there.
        WorktreeMoved = "worktree.moved",
        /// A run has it, ready for its agent.
        WorktreePrepared = "worktree.prepared",
        /// A run left other commits on its branch than it found.
        WorktreeAdvanced = "worktree.advanced",
        /// One that a crash had left half made counts as made, for it may hold something.
        WorktreeAdopted = "worktree.adopted",
        /// One that a crash had left half made was given up.
        WorktreeDiscarded = "worktree.discarded",
        /// Its folder was removed.
        WorktreeRemoved = "worktree.removed",
        /// A merge or revert was intended.
        MergeBegun = "merge.begun",
        /// Its conflict was opened for a person.
        MergeOpened = "merge.opened",
        /// What a person resolved is going to land.
        MergeContinued = "merge.continued",
        /// What was resolved couldn't land, and it is open again.
        MergeReopened = "merge.reopened",
        /// It ended without changing anything.
        MergeAborted = "merge.aborted",
        /// What would have been lost was kept.
        SnapshotTaken = "snapshot.taken",
        /// It was restored to a branch.
        SnapshotRestored = "snapshot.restored",
        /// An item was compared with its file; what both say is remembered.
        BacklogAgreed = "backlog.agreed",
    }
}

/// What something was done to, in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The settings of the server.
    Settings,
    /// A workspace.
    Workspace(WorkspaceId),
    /// A repository.
    Repository(RepositoryId),
    /// An agent.
    Agent(AgentId),
    /// A list.
    List(ListId),
    /// A step of a list.
    Step(StepId),
    /// A task.
    Task(TaskId),
    /// A managed run of a task.
    Run(RunId, TaskId),
    /// A claim of a task.
    Claim(RunId, TaskId),
    /// A question of a task's agent.
    Question(QuestionId, TaskId),
    /// A worktree of a task.
    Worktree(WorktreeId, TaskId),
    /// A merge or revert of a task's work.
    Merge(MergeId, TaskId),
    /// A snapshot, and the task whose work is in it.
    Snapshot(SnapshotId, Option<TaskId>),
}

impl About {
    /// The sort of thing, as it is stored and shown.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Workspace(_) => "workspace",
            Self::Repository(_) => "repository",
            Self::Agent(_) => "agent",
            Self::List(_) => "list",
            Self::Step(_) => "step",
            Self::Task(_) => "task",
            Self::Run(..) => "run",
            Self::Claim(..) => "agent_run",
            Self::Question(..) => "question",
            Self::Worktree(..) => "worktree",
            Self::Merge(..) => "merge",
            Self::Snapshot(..) => "snapshot",
        }
    }

    /// Its id; the settings, which are one, are `server`.
    pub fn id(&self) -> String {
        match self {
            Self::Settings => "server".into(),
            Self::Workspace(id) => id.to_string(),
            Self::Repository(id) => id.to_string(),
            Self::Agent(id) => id.to_string(),
            Self::List(id) => id.to_string(),
            Self::Step(id) => id.to_string(),
            Self::Task(id) => id.to_string(),
            Self::Run(id, _) | Self::Claim(id, _) => id.to_string(),
            Self::Question(id, _) => id.to_string(),
            Self::Worktree(id, _) => id.to_string(),
            Self::Merge(id, _) => id.to_string(),
            Self::Snapshot(id, _) => id.to_string(),
        }
    }

    /// The task that it belongs to; none for a task itself.
    pub fn task(&self) -> Option<TaskId> {
        match *self {
            Self::Run(_, task)
            | Self::Claim(_, task)
            | Self::Question(_, task)
            | Self::Worktree(_, task)
            | Self::Merge(_, task)
            | Self::Snapshot(_, Some(task)) => Some(task),
            _ => None,
        }
    }
}

impl From<&Run> for About {
    fn from(run: &Run) -> Self {
        match run.kind {
            crate::run::Kind::Managed => Self::Run(run.id, run.task_id),
            crate::run::Kind::Claimed => Self::Claim(run.id, run.task_id),
        }
    }
}

impl From<&Worktree> for About {
    fn from(worktree: &Worktree) -> Self {
        Self::Worktree(worktree.id, worktree.task_id)
    }
}

/// An entry that is about to be written, in the transaction of the change it is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewEntry {
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The authenticated caller.
    pub actor: Actor,
    /// A label the caller gave for itself; no identity.
    pub actor_label: Option<String>,
    /// The face the call came through.
    pub face: Face,
    /// What was done.
    pub action: Action,
    /// What sort of thing it was done to, such as `task`.
    pub target_type: String,
    /// Its id.
    pub target_id: String,
    /// The task that a run, question, worktree, merge or snapshot belongs to; none for a task itself.
    pub task_id: Option<TaskId>,
    /// Small facts, snake_case, no secrets.
    pub metadata: serde_json::Value,
}

/// An audit entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number on the server, rising.
    pub id: i64,
    /// When it was written.
    pub at: Timestamp,
    /// Who did what.
    #[serde(flatten)]
    pub body: NewEntry,
}
