//! Runs.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::{Field as _, text, values};
use std::fmt::Write as _;
use taskyard_domain::id::{RunId, SessionId, TaskId, WorkspaceId};
use taskyard_domain::run::Run;
use taskyard_domain::{Result, Timestamp};

entity!(Run, "run", "run", {
    id, workspace_id, task_id, session_id, kind, state, outcome, cause, actor, agent_id, profile_id, model, prompt, slot, wants_slot,
    cancel_requested, waiting_since, last_activity_at, stalled, token_hash, pid, pid_started, node, usage as json, exit_code, notes,
    prior_status, start_commit, started_at, ended_at,
});

/// A place among runs, newest first: the next page begins behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunCursor {
    /// When the run was opened.
    pub started_at: Timestamp,
    /// Its id.
    pub id: RunId,
}

impl From<&Run> for RunCursor {
    fn from(run: &Run) -> Self {
        Self { started_at: run.started_at, id: run.id }
    }
}

impl Tx {
    /// Stores a new run.
    ///
    /// # Errors
    /// `CONFLICT` when another run of the task is open, however close the race.
    pub async fn run_insert(&mut self, run: &Run) -> Result<()> {
        self.insert(run).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn run_update(&mut self, run: &Run) -> Result<()> {
        self.update(run).await
    }

    /// The run, locked until the end of the transaction.
    pub async fn run_lock(&mut self, id: RunId) -> Result<Option<Run>> {
        self.lock(id).await
    }
}

impl Read {
    /// The run with this id.
    pub async fn run_fetch(&mut self, id: RunId) -> Result<Option<Run>> {
        self.by_id(id).await
    }

    /// Every open run on the server, oldest first.
    pub async fn run_open_all(&mut self) -> Result<Vec<Run>> {
        self.select("WHERE state <> 'ended' ORDER BY started_at, id", Vec::new()).await
    }

    /// The task's open run.
    pub async fn run_open_for_task(&mut self, task: TaskId) -> Result<Option<Run>> {
        self.select_one("WHERE task_id = $1 AND state <> 'ended'", values![task]).await
    }

    /// The open run whose token has this hash; an ended run's token is dead.
    pub async fn run_by_token_hash(&mut self, hash: &str) -> Result<Option<Run>> {
        self.select_one("WHERE token_hash = $1 AND state <> 'ended'", vec![text(hash)]).await
    }

    /// The task's newest run.
    pub async fn run_latest_for_task(&mut self, task: TaskId) -> Result<Option<Run>> {
        self.select_one("WHERE task_id = $1 ORDER BY started_at DESC, id DESC LIMIT 1", values![task]).await
    }

    /// At most `limit` runs behind `after`, newest first; only of a workspace or a task, where given.
    pub async fn run_page(
        &mut self,
        workspace: Option<WorkspaceId>,
        task: Option<TaskId>,
        after: Option<RunCursor>,
        limit: i64,
    ) -> Result<Vec<Run>> {
        let mut values = values![limit];
        let mut sql = String::from("WHERE 1 = 1");
        for (column, value) in [("workspace_id", workspace.map(|id| id.value())), ("task_id", task.map(|id| id.value()))] {
            if let Some(value) = value {
                values.push(value);
                let _ = write!(sql, " AND {column} = ${}", values.len());
            }
        }
        if let Some(after) = after {
            values.extend(values![after.started_at, after.id]);
            let _ = write!(sql, " AND (started_at, id) < (${}, ${})", values.len() - 1, values.len());
        }
        sql.push_str(" ORDER BY started_at DESC, id DESC LIMIT $1");
        self.select(&sql, values).await
    }

    /// The session's runs, oldest first.
    pub async fn runs_of_session(&mut self, session: SessionId) -> Result<Vec<Run>> {
        self.select("WHERE session_id = $1 ORDER BY started_at, id", values![session]).await
    }
}
