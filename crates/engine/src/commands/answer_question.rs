//! `answer_question`: a person answers a permission request or a bundle of questions, once.

use crate::session::{Msg, asking};
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use taskyard_agents::Answer;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::id::QuestionId;
use taskyard_domain::question::{Kind, Question, State};
use taskyard_domain::run::Run;
use taskyard_domain::{Error, Result};

/// An answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AnswerQuestion {
    /// The bundle's UUID.
    pub question_bundle_id: String,
    /// One answer per question; for a permission at most one, `{"selected_option": …}`; none allows it once.
    #[serde(default)]
    pub answers: Option<Vec<Value>>,
    /// Declines instead.
    #[serde(default)]
    pub rejected: bool,
    /// Told to the agent.
    #[serde(default)]
    pub reject_reason: Option<String>,
}

/// A question that was answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QuestionAnswered {
    /// Always true.
    pub answered: bool,
    /// The bundle's UUID.
    pub question_bundle_id: String,
    /// `answered` or `rejected`.
    pub state: String,
    /// The task's UUID.
    pub task_id: String,
}

impl Engine {
    /// Records the answer and gives it to the waiting agent.
    ///
    /// # Errors
    /// `CONFLICT` when somebody answered before or the run has ended; `INVALID_ARGUMENT` for an unknown option;
    /// `FORBIDDEN` for an agent that Taskyard runs.
    pub async fn answer_question(&self, caller: &Caller, input: AnswerQuestion) -> Result<QuestionAnswered> {
        caller.require_person("answer a question")?;
        let id: QuestionId = handle::id("question_bundle_id", &input.question_bundle_id)?;
        let caller = caller.clone();
        let (question, answer) = self
            .store()
            .write(move |tx| {
                Box::pin(async move {
                    let missing = || Error::not_found("question", id).with_field("question_bundle_id");
                    let known = tx.question_fetch(id).await?.ok_or_else(missing)?;
                    let asked = caller.require_workspace(known.workspace_id, "question", &id.to_string());
                    asked.map_err(|error| error.with_field("question_bundle_id"))?;
                    if let Some(run) = tx.run_fetch(known.run_id).await? {
                        asking::lock_around(tx, &run).await?;
                    }
                    let run = tx.run_lock(known.run_id).await?;
                    let mut question = tx.question_lock(id).await?.ok_or_else(missing)?;
                    if question.state != State::Open {
                        let by = question.answered_by.clone().unwrap_or_else(|| "nobody: the run ended".into());
                        return Err(Error::conflict(format!("the question is {} already (by {by})", question.state))
                            .with_details(json!({ "state": question.state, "answered_by": question.answered_by })));
                    }
                    let mut run = run.filter(Run::is_open).ok_or_else(|| Error::conflict("the run that asked has ended"))?;
                    let answer = decision(&question, &input)?;
                    question.answer =
                        Some(json!({ "answers": input.answers, "rejected": input.rejected, "reject_reason": input.reject_reason }));
                    question.answered_by = Some(caller.actor.label());
                    let state = if matches!(answer, Answer::Allow(_)) { State::Answered } else { State::Rejected };
                    asking::close(tx, &mut question, state).await?;
                    asking::go_on(tx, &mut run).await?;
                    let metadata = json!({ "state": state, "run_id": question.run_id });
                    change::audit(
                        tx,
                        &caller,
                        question.workspace_id,
                        Action::QuestionAnswered,
                        About::Question(id, question.task_id),
                        metadata,
                    )
                    .await?;
                    Ok((question, answer))
                })
            })
            .await?;
        if let Some(request_id) = question.request_id.clone() {
            self.sessions().tell(question.run_id, Msg::Answer { request_id, answer });
        }
        Ok(QuestionAnswered {
            answered: true,
            question_bundle_id: question.id.to_string(),
            state: question.state.to_string(),
            task_id: question.task_id.to_string(),
        })
    }
}

/// The decision on a permission request that the input stands for.
fn decision(question: &Question, input: &AnswerQuestion) -> Result<Answer> {
    if question.kind != Kind::Permission {
        return Err(Error::precondition("this is not a permission request").with_field("question_bundle_id"));
    }
    let answers = input.answers.as_deref().unwrap_or_default();
    if answers.len() > 1 {
        return Err(Error::invalid("answers", "answers: a permission request takes at most one answer"));
    }
    let option = answers.first().map(|answer| selected(question, answer)).transpose()?;
    let reason = input.reject_reason.clone().unwrap_or_else(|| "a person declined".into());
    Ok(match option {
        Some(_) if input.rejected => {
            return Err(Error::invalid("rejected", "rejected: pass either an answer or rejected, not both"));
        }
        Some((id, kind)) if kind.starts_with("reject") => Answer::Deny { reason, option_id: Some(id) },
        Some((id, _)) => Answer::Allow(Some(id)),
        None if input.rejected => Answer::Deny { reason, option_id: None },
        None => Answer::Allow(None),
    })
}

/// The option that an answer names, with its kind.
fn selected(question: &Question, answer: &Value) -> Result<(String, String)> {
    let options = question.body["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    let known: Vec<&str> = options.iter().filter_map(|option| option["option_id"].as_str()).collect();
    let wanted = answer.get("selected_option").and_then(Value::as_str);
    let found = options.iter().find(|option| wanted.is_some() && option["option_id"].as_str() == wanted);
    match (found, wanted) {
        (Some(option), Some(id)) => Ok((id.to_owned(), option["kind"].as_str().unwrap_or_default().to_owned())),
        _ => Err(Error::invalid("answers", format!("answers: selected_option must be one of {}", known.join(", ")))),
    }
}
