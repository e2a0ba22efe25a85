//! Questions and permission requests.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::values;
use taskyard_domain::Result;
use taskyard_domain::id::{QuestionId, RunId, WorkspaceId};
use taskyard_domain::question::Question;

entity!(Question, "question", "question", {
    id, workspace_id, task_id, session_id, run_id, kind, state, request_id, title, body as json, answer as json_opt, answered_by,
    created_at, closed_at,
});

impl Tx {
    /// Stores a new question.
    pub async fn question_insert(&mut self, question: &Question) -> Result<()> {
        self.insert(question).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn question_update(&mut self, question: &Question) -> Result<()> {
        self.update(question).await
    }

    /// The question, locked until the end of the transaction.
    pub async fn question_lock(&mut self, id: QuestionId) -> Result<Option<Question>> {
        self.lock(id).await
    }
}

impl Read {
    /// The question with this id.
    pub async fn question_fetch(&mut self, id: QuestionId) -> Result<Option<Question>> {
        self.by_id(id).await
    }

    /// The run's open questions, oldest first.
    pub async fn question_open_for_run(&mut self, run: RunId) -> Result<Vec<Question>> {
        self.select("WHERE run_id = $1 AND state = 'open' ORDER BY created_at, id", values![run]).await
    }

    /// The open questions of a workspace, or of all, oldest first.
    pub async fn question_list_open(&mut self, workspace: Option<WorkspaceId>) -> Result<Vec<Question>> {
        match workspace {
            Some(id) => self.select("WHERE workspace_id = $1 AND state = 'open' ORDER BY created_at, id", values![id]).await,
            None => self.select("WHERE state = 'open' ORDER BY created_at, id", Vec::new()).await,
        }
    }
}
