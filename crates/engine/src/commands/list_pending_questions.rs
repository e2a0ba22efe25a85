//! `list_pending_questions`: what agents ask a person now.

use super::paging;
use crate::view::cut;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use taskyard_domain::question::Question;
use taskyard_domain::{Result, Timestamp};
use taskyard_store::Read;

/// Which questions.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListPendingQuestions {
    /// Only those of this workspace.
    #[serde(default)]
    pub workspace_id: Option<String>,
}

/// An open question.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QuestionRow {
    /// The id that `answer_question` takes.
    pub question_bundle_id: String,
    /// `permission` or `question`.
    pub kind: String,
    /// What is asked, in a line.
    pub title: String,
    /// Questions with their options, or the tool, its input and the options of a permission request. Left out
    /// where it doesn't fit, and then `body_omitted` says so.
    pub body: Value,
    /// Whether the body didn't fit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub body_omitted: bool,
    /// The task.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The task's title.
    pub task_title: String,
    /// The session that asks.
    pub session_id: String,
    /// The run that asks.
    pub run_id: String,
    /// When it was asked.
    pub asked_at: Timestamp,
}

/// The open questions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListPendingQuestionsOutput {
    /// Oldest first.
    pub questions: Vec<QuestionRow>,
    /// How many are open.
    pub total: usize,
    /// Whether some didn't fit; answer these first.
    pub has_more: bool,
}

impl Engine {
    /// The open questions, oldest first, as many as fit into 10 KB.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown workspace.
    pub async fn list_pending_questions(&self, caller: &Caller, input: ListPendingQuestions) -> Result<ListPendingQuestionsOutput> {
        let caller = caller.clone();
        self.store().read(move |read| Box::pin(async move { list(read, &caller, input).await })).await
    }
}

async fn list(read: &mut Read, caller: &Caller, input: ListPendingQuestions) -> Result<ListPendingQuestionsOutput> {
    let workspace = match (&input.workspace_id, caller.workspace_id()) {
        (Some(handle), _) => Some(handle::workspace(read, caller, "workspace_id", Some(handle)).await?.id),
        (None, own) => own,
    };
    let open = read.question_list_open(workspace).await?;
    let total = open.len();
    let mut questions = Vec::new();
    for question in open.into_iter().take(100) {
        questions.push(row(read, question).await?);
    }
    let fit = paging::fitting(&questions, paging::ROWS);
    questions.truncate(fit);
    Ok(ListPendingQuestionsOutput { has_more: questions.len() < total, questions, total })
}

async fn row(read: &mut Read, question: Question) -> Result<QuestionRow> {
    let task = read.task_fetch(question.task_id).await?;
    let body_omitted = paging::size(&question.body) > paging::ROWS / 2;
    Ok(QuestionRow {
        question_bundle_id: question.id.to_string(),
        kind: question.kind.to_string(),
        title: cut(&question.title, 500).to_owned(),
        body: if body_omitted { Value::Null } else { question.body },
        body_omitted,
        task_id: question.task_id.to_string(),
        short_id: task.as_ref().map(|task| task.short_id.to_string()).unwrap_or_default(),
        task_title: task.map(|task| cut(&task.title, 100).to_owned()).unwrap_or_default(),
        session_id: question.session_id.to_string(),
        run_id: question.run_id.to_string(),
        asked_at: question.created_at,
    })
}
