//! Ends a run: outcome, task status, session, questions, limits, all in one transaction.

use crate::resolve::Levels;
use crate::{Caller, Engine, change};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use taskyard_agents::LimitNotice;
use taskyard_domain::agent::Agent;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::RunId;
use taskyard_domain::run::{self, Outcome, Run};
use taskyard_domain::session::{self, Session};
use taskyard_domain::settings::Settings;
use taskyard_domain::task::{Context, Fact, Task};
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// The longest pause of an account whose limit has no stated end.
const LONGEST_BACKOFF: i64 = 3600;

/// Until when an account pauses that only a person's word lets work again: the year 9999, which every store can hold.
const NO_END: Timestamp = Timestamp::constant(253_370_764_800, 0);

/// How a run ended.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    /// The outcome.
    pub outcome: Outcome,
    /// Why, in a sentence.
    pub cause: Option<String>,
    /// The agent's exit code, where it exited.
    pub exit_code: Option<i32>,
    /// The usage limit it ran into.
    pub limit: Option<LimitNotice>,
    /// For `interrupted`: the server stopped in good order, which isn't held against the task.
    pub orderly: bool,
}

impl Ending {
    /// An ending with `outcome` because of `cause`.
    pub(crate) fn new(outcome: Outcome, cause: impl Into<String>) -> Self {
        Self { outcome, cause: Some(cause.into()), exit_code: None, limit: None, orderly: false }
    }

    /// The ending of a run that a person called off.
    pub(crate) fn cancelled() -> Self {
        Self::new(Outcome::Cancelled, "cancelled by a person")
    }
}

impl Engine {
    /// Ends `run_id`; nothing happens to one that has ended.
    pub(crate) async fn end_run(&self, run_id: RunId, ending: Ending) -> Result<()> {
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let Some(known) = tx.run_fetch(run_id).await?.filter(Run::is_open) else { return Ok(()) };
                    // The store's order of locks: agent, task, session, run.
                    let agent = match known.agent_id {
                        Some(id) => tx.agent_lock(id).await?,
                        None => None,
                    };
                    let Some(mut task) = tx.task_lock(known.task_id).await? else { return Ok(()) };
                    let session = match known.session_id {
                        Some(id) => tx.session_lock(id).await?,
                        None => None,
                    };
                    let Some(mut run) = tx.run_lock(run_id).await?.filter(Run::is_open) else { return Ok(()) };
                    let settings = tx.settings_fetch().await?;
                    // A person's word that came before the end was recorded stands, whatever the agent made of it.
                    let ending = if run.cancel_requested { Ending::cancelled() } else { ending };
                    let delivered = run.state != run::State::Starting;
                    close_run(tx, &mut run, &ending).await?;
                    if !delivered {
                        keep_prompt(tx, &mut task, &run).await?;
                    }
                    void_questions(tx, &run).await?;
                    if let Some(session) = session {
                        end_session(tx, session, ending.outcome).await?;
                    }
                    if let Some(agent) = agent {
                        note_limit(tx, agent, &run, &mut task, &ending, &settings).await?;
                    }
                    end_for_task(tx, &mut task, &ending, &settings).await?;
                    // The cause, which may be the agent's words, is the run's.
                    let data = json!({ "outcome": ending.outcome, "task_status": task.status });
                    change::audit_run(tx, &Caller::system(), None, &run, Action::RunEnded, data).await
                })
            })
            .await
    }

    /// Ends an open run that no live session owns: its leftover processes first, then the record.
    pub(crate) async fn end_dead_run(&self, run_id: RunId) -> Result<()> {
        let run = self.store().read(move |read| Box::pin(async move { read.run_fetch(run_id).await })).await?;
        let Some(run) = run.filter(Run::is_open) else { return Ok(()) };
        if let (Some(session), run::Kind::Managed) = (run.session_id, run.kind) {
            let marker = super::launch::marker(session);
            let (pid, started) = (run.pid.unwrap_or_default(), run.pid_started.and_then(|t| u64::try_from(t).ok()).unwrap_or_default());
            taskyard_process::tree::end(pid, started, &marker).await;
        }
        let ending = if run.cancel_requested {
            Ending::cancelled()
        } else {
            Ending::new(Outcome::Interrupted, "the server stopped while the agent was working")
        };
        self.end_run(run_id, ending).await
    }
}

pub(crate) async fn close_run(tx: &mut Tx, run: &mut Run, ending: &Ending) -> Result<()> {
    run.state = run::next(run.state, run::Fact::Ended)?;
    run.outcome = Some(ending.outcome);
    run.cause.clone_from(&ending.cause);
    run.exit_code = ending.exit_code;
    run.ended_at = Some(tx.now());
    run.token_hash = None;
    run.slot = None;
    run.wants_slot = false;
    run.waiting_since = None;
    run.stalled = false;
    tx.run_update(run).await?;
    let data = json!({ "outcome": ending.outcome, "cause": ending.cause });
    tx.event(NewEvent::new(run.workspace_id, Kind::RunEnded).task(run.task_id).run(run.id).session(run.session_id).data(data));
    Ok(())
}

/// What a person asked in a run that never got to its agent is asked again by the next one.
async fn keep_prompt(tx: &mut Tx, task: &mut Task, run: &Run) -> Result<()> {
    // As the task was when the run was opened: a prompt may name its status.
    let own = Levels::of(tx, task.clone()).await?.prompt_at(run.prior_status);
    if run.kind == run::Kind::Managed && run.prompt != own {
        task.next_prompt.get_or_insert_with(|| run.prompt.clone());
    }
    Ok(())
}

async fn void_questions(tx: &mut Tx, run: &Run) -> Result<()> {
    for mut open in tx.question_open_for_run(run.id).await? {
        super::asking::void(tx, &mut open, "its run ended").await?;
    }
    Ok(())
}

async fn end_session(tx: &mut Tx, mut session: Session, outcome: Outcome) -> Result<()> {
    let fact = match outcome {
        Outcome::Failed => session::Fact::RunFailed,
        Outcome::Cancelled => session::Fact::RunCancelled,
        Outcome::Succeeded | Outcome::NoChanges | Outcome::Interrupted | Outcome::Limited | Outcome::Abandoned => {
            session::Fact::RunSucceeded
        }
    };
    session.state = session::next(session.state, fact)?;
    session.updated_at = tx.now();
    tx.session_update(&session).await?;
    let event = NewEvent::new(session.workspace_id, Kind::SessionChanged).task(session.task_id).session(Some(session.id));
    tx.event(event.data(json!({ "state": session.state })));
    Ok(())
}

/// Pauses the agent's account, or forgets earlier limits after a run that went through.
async fn note_limit(tx: &mut Tx, mut agent: Agent, run: &Run, task: &mut Task, ending: &Ending, settings: &Settings) -> Result<()> {
    let now = tx.now();
    if let (Outcome::Limited, Some(limit)) = (ending.outcome, &ending.limit) {
        let until = limit.reset_at.filter(|at| *at > now).unwrap_or_else(|| {
            let doublings = u32::try_from(agent.limit_strikes.clamp(0, 12)).unwrap_or_default();
            let pause = settings.limit_backoff.saturating_mul(1 << doublings).min(LONGEST_BACKOFF);
            now + SignedDuration::from_secs(pause)
        });
        agent.limit_strikes = if limit.reset_at.is_some() { 0 } else { agent.limit_strikes + 1 };
        // Without leave to resume the pause ends only by a person's word.
        let until = if settings.resume_limited { until } else { NO_END };
        agent.limited_until = Some(until);
        agent.limit_reason = Some(limit.message.clone());
        task.not_before = Some(until);
        let data = json!({ "agent_id": agent.id, "until": until, "reason": limit.message });
        tx.event(NewEvent::new(run.workspace_id, Kind::AgentLimited).task(run.task_id).run(run.id).data(data));
        tx.agent_update(&agent).await?;
        let metadata = json!({ "name": agent.name, "until": until, "run_id": run.id });
        return change::audit(tx, &Caller::system(), run.workspace_id, Action::AgentLimited, About::Agent(agent.id), metadata).await;
    }
    let went_through = matches!(ending.outcome, Outcome::Succeeded | Outcome::NoChanges);
    if went_through && (agent.limit_strikes != 0 || agent.limited_until.is_some_and(|at| at <= now)) {
        agent.limit_strikes = 0;
        agent.limited_until = None;
        agent.limit_reason = None;
        tx.agent_update(&agent).await?;
        let data = json!({ "agent_id": agent.id, "limited_until": null });
        tx.event(NewEvent::new(run.workspace_id, Kind::AgentLimited).task(run.task_id).run(run.id).data(data));
        let metadata = json!({ "name": agent.name, "reason": "a run went through", "run_id": run.id });
        change::audit(tx, &Caller::system(), run.workspace_id, Action::AgentUnlimited, About::Agent(agent.id), metadata).await?;
    }
    Ok(())
}

async fn end_for_task(tx: &mut Tx, task: &mut Task, ending: &Ending, settings: &Settings) -> Result<()> {
    let interrupted = ending.outcome == Outcome::Interrupted;
    let requeue = interrupted && settings.resume_interrupted && (ending.orderly || task.interruptions < 1);
    task.interruptions = match (interrupted, ending.orderly) {
        (true, false) => task.interruptions + 1,
        (true, true) => task.interruptions,
        (false, _) => 0,
    };
    task.last_outcome = Some(ending.outcome);
    let fails = ending.outcome == Outcome::Failed || (interrupted && !requeue);
    task.failure = fails.then(|| ending.cause.clone().unwrap_or_else(|| "the run failed".into()));
    let fact = Fact::RunEnded { outcome: ending.outcome, requeue };
    change::status(tx, task, fact, Context { open_run: true, ..Context::default() }).await
}

impl From<Error> for Ending {
    fn from(error: Error) -> Self {
        let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        Ending::new(Outcome::Failed, format!("{}{hint}", error.message))
    }
}
