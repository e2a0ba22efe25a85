//! Asks a person: a permission that the profile's policy doesn't give becomes an open question.

use super::slot;
use crate::{Caller, Engine, change};
use serde_json::json;
use taskyard_agents::Permission;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::{QuestionId, RunId};
use taskyard_domain::question::{self, Question, State};
use taskyard_domain::run::{self, Run};
use taskyard_domain::session;
use taskyard_domain::task::{Context, Fact};
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

impl Engine {
    /// Stores a permission request as an open question; run, session and task wait.
    pub(crate) async fn ask_permission(&self, run_id: RunId, asked: Permission) -> Result<QuestionId> {
        let id = QuestionId::new(self.ids());
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut run = open_run(tx, run_id).await?;
                    let session_id = run.session_id.ok_or_else(|| Error::internal("a managed run without a session asks"))?;
                    let body = json!({
                        "tool": asked.tool, "kind": asked.kind, "input": asked.input, "paths": asked.paths,
                        "options": asked.options.iter().map(|o| json!({ "option_id": o.id, "label": o.label, "kind": o.kind })).collect::<Vec<_>>(),
                    });
                    let question = Question {
                        id,
                        workspace_id: run.workspace_id,
                        task_id: run.task_id,
                        session_id,
                        run_id,
                        kind: question::Kind::Permission,
                        state: State::Open,
                        request_id: Some(asked.request_id),
                        title: asked.title,
                        body,
                        answer: None,
                        answered_by: None,
                        created_at: tx.now(),
                        closed_at: None,
                    };
                    tx.question_insert(&question).await?;
                    let data = json!({ "question_id": id, "kind": question.kind, "title": question.title });
                    tx.event(NewEvent::new(run.workspace_id, Kind::QuestionAsked).task(run.task_id).run(run_id).session(run.session_id).data(data));
                    let metadata = json!({ "kind": question.kind, "tool": question.body["kind"], "run_id": run_id });
                    let about = About::Question(id, run.task_id);
                    change::audit(tx, &Caller::system(), run.workspace_id, Action::QuestionAsked, about, metadata).await?;
                    run.state = run::next(run.state, run::Fact::Asked)?;
                    run.waiting_since = run.waiting_since.or(Some(tx.now()));
                    slot::store(tx, &run).await?;
                    follow(tx, &run, session::Fact::Asked, Fact::RunWaits).await?;
                    Ok(id)
                })
            })
            .await
    }

    /// The agent took a request back: its question is void, and the run goes on when none is left.
    pub(crate) async fn withdraw_permission(&self, run_id: RunId, request_id: String) -> Result<()> {
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut run = open_run(tx, run_id).await?;
                    let open = tx.question_open_for_run(run_id).await?;
                    // One that was answered in this moment isn't open any more, and the run goes on by its answer.
                    let Some(mut taken) = open.into_iter().find(|open| open.request_id.as_deref() == Some(&request_id)) else {
                        return Ok(());
                    };
                    void(tx, &mut taken, "the agent took it back").await?;
                    go_on(tx, &mut run).await
                })
            })
            .await
    }
}

/// Closes a question and writes the event.
pub(crate) async fn close(tx: &mut Tx, question: &mut Question, state: State) -> Result<()> {
    question.state = state;
    question.closed_at = Some(tx.now());
    tx.question_update(question).await?;
    let data = json!({ "question_id": question.id, "state": state, "answered_by": question.answered_by });
    let event = NewEvent::new(question.workspace_id, Kind::QuestionClosed).task(question.task_id).run(question.run_id);
    tx.event(event.session(Some(question.session_id)).data(data));
    Ok(())
}

/// Closes a question that needs no answer any more, because of `reason`.
pub(crate) async fn void(tx: &mut Tx, question: &mut Question, reason: &str) -> Result<()> {
    close(tx, question, State::Void).await?;
    let (about, metadata) = (About::Question(question.id, question.task_id), json!({ "reason": reason, "run_id": question.run_id }));
    change::audit(tx, &Caller::system(), question.workspace_id, Action::QuestionVoided, about, metadata).await
}

/// When no question of the run is open any more: run, session and task go on; a slot that was given back is wanted.
pub(crate) async fn go_on(tx: &mut Tx, run: &mut Run) -> Result<()> {
    if !tx.question_open_for_run(run.id).await?.is_empty() {
        return Ok(());
    }
    run.state = run::next(run.state, run::Fact::Answered)?;
    if run.slot.is_none() {
        run.wants_slot = true;
    } else {
        run.waiting_since = None;
    }
    run.last_activity_at = tx.now();
    slot::store(tx, run).await?;
    follow(tx, run, session::Fact::Answered, Fact::RunGoesOn).await
}

/// Session and task follow their run.
async fn follow(tx: &mut Tx, run: &Run, session_fact: session::Fact, task_fact: Fact) -> Result<()> {
    if let Some(mut session) = tx.session_lock(run.session_id.ok_or_else(|| Error::internal("a managed run without a session"))?).await? {
        session.state = session::next(session.state, session_fact)?;
        session.updated_at = tx.now();
        tx.session_update(&session).await?;
    }
    if let Some(mut task) = tx.task_lock(run.task_id).await? {
        change::status(tx, &mut task, task_fact, Context { open_run: true, ..Context::default() }).await?;
    }
    Ok(())
}

/// The open run of this id, locked with what is locked before it.
pub(super) async fn open_run(tx: &mut Tx, run_id: RunId) -> Result<Run> {
    let known = tx.run_fetch(run_id).await?.ok_or_else(|| Error::not_found("run", run_id))?;
    lock_around(tx, &known).await?;
    let run = tx.run_lock(run_id).await?.filter(Run::is_open);
    run.ok_or_else(|| Error::conflict("the run has ended"))
}

/// Locks task and session of a run before the run itself: the store's order.
pub(crate) async fn lock_around(tx: &mut Tx, run: &Run) -> Result<()> {
    tx.task_lock(run.task_id).await?;
    if let Some(session) = run.session_id {
        tx.session_lock(session).await?;
    }
    Ok(())
}

impl Engine {
    /// The agent holds its prompt: run and session are running, the session in the agent's conversation of this id.
    pub(crate) async fn turn_started(&self, run_id: RunId, agent_session_id: Option<String>) -> Result<()> {
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut run = open_run(tx, run_id).await?;
                    run.state = run::next(run.state, run::Fact::TurnStarted)?;
                    run.last_activity_at = tx.now();
                    slot::store(tx, &run).await?;
                    let id = run.session_id.ok_or_else(|| Error::internal("a managed run without a session"))?;
                    if let Some(mut session) = tx.session_lock(id).await? {
                        session.state = session::next(session.state, session::Fact::TurnStarted)?;
                        session.agent_session_id = agent_session_id;
                        session.updated_at = tx.now();
                        tx.session_update(&session).await?;
                    }
                    change::audit_run(tx, &Caller::system(), None, &run, Action::RunTurnStarted, json!({})).await
                })
            })
            .await
    }
}
