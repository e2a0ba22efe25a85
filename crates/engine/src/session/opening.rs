//! Opens a run: the one way in which the queue, `run_task_now` and `continue_task` start work.

use super::prompt;
use crate::effect::Effect;
use crate::resolve::Levels;
use crate::{Caller, Engine, change};
use serde_json::json;
use taskyard_domain::agent::{Agent, Profile};
use taskyard_domain::audit::Action;
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::{RunId, SessionId};
use taskyard_domain::run::{self, Run, Slot, State};
use taskyard_domain::session::{self, Session};
use taskyard_domain::task::{Context, Fact, Task};
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// How a run is to be opened.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    /// The place it takes.
    pub slot: Slot,
    /// A prompt instead of the task's own.
    pub prompt: Option<String>,
}

impl Engine {
    /// Opens a run of `task` (locked by the caller) in the transaction: run, session, status, event, effect.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when a run is open, repository or profile don't resolve, or the model isn't the agent's;
    /// `RESOURCE_EXHAUSTED` when the override slot is taken.
    pub(crate) async fn open_run(&self, tx: &mut Tx, caller: &Caller, task: &mut Task, opening: Opening) -> Result<Run> {
        check_startable(tx, task).await?;
        if opening.slot == Slot::Override {
            check_override_free(tx).await?;
        }
        let levels = Levels::of(tx, task.clone()).await?;
        levels.repository(tx).await?;
        let (profile, agent) = levels.profile(tx).await?;
        let model = levels.model(&profile, &agent)?;
        let session = self.session_for(tx, task, &profile, &agent).await?;
        let before = tx.run_latest_for_task(task.id).await?;
        let Opening { slot, prompt: given } = opening;
        let text = prompt::choose(given.or_else(|| task.next_prompt.take()), before.as_ref(), &levels);
        let run = self.new_run(tx, caller, task, &session, &profile, text, slot, model, before.as_ref());
        tx.run_insert(&run).await?;
        task.not_before = None;
        task.failure = None;
        task.next_prompt = None;
        change::status(tx, task, Fact::RunStarted, Context::default()).await?;
        let data = json!({ "slot": slot, "profile": profile.name, "agent": agent.name });
        tx.event(NewEvent::new(task.workspace_id, Kind::RunOpened).task(task.id).run(run.id).session(run.session_id).data(data.clone()));
        change::audit_run(tx, caller, None, &run, Action::RunOpened, data).await?;
        Effect::StartRun { run_id: run.id }.push(tx).await?;
        Ok(run)
    }

    async fn session_for(&self, tx: &mut Tx, task: &Task, profile: &Profile, agent: &Agent) -> Result<Session> {
        let now = tx.now();
        if let Some(mut session) = tx.session_primary(task.id).await? {
            if session.agent_id == agent.id {
                session.state = session::next(session.state, session::Fact::RunOpened)?;
                session.profile_id = profile.id;
                session.updated_at = now;
                tx.session_update(&session).await?;
                return Ok(session);
            }
            session.is_primary = false;
            session.updated_at = now;
            tx.session_update(&session).await?;
        }
        let session = Session {
            id: SessionId::new(self.ids()),
            workspace_id: task.workspace_id,
            task_id: task.id,
            agent_id: agent.id,
            profile_id: profile.id,
            worktree_id: None,
            is_primary: true,
            state: session::next(session::State::Created, session::Fact::RunOpened)?,
            agent_session_id: None,
            created_at: now,
            updated_at: now,
        };
        tx.session_insert(&session).await?;
        tx.event(NewEvent::new(task.workspace_id, Kind::SessionChanged).task(task.id).session(Some(session.id)));
        Ok(session)
    }

    #[expect(clippy::too_many_arguments, reason = "a run is made of all of these, in one place only")]
    fn new_run(
        &self,
        tx: &Tx,
        caller: &Caller,
        task: &Task,
        session: &Session,
        profile: &Profile,
        prompt: String,
        slot: Slot,
        model: Option<String>,
        before: Option<&Run>,
    ) -> Run {
        Run {
            session_id: Some(session.id),
            actor: Some(caller.actor.label()),
            agent_id: Some(session.agent_id),
            profile_id: Some(profile.id),
            model,
            slot: Some(slot),
            node: Some(self.node().to_owned()),
            // A run that was cut short counts from where the first one started, so that its commits aren't forgotten.
            start_commit: before.filter(|run| was_cut_short(run)).and_then(|run| run.start_commit.clone()),
            ..Run::opened(RunId::new(self.ids()), task, run::Kind::Managed, State::Starting, prompt, tx.now())
        }
    }
}

fn was_cut_short(run: &Run) -> bool {
    matches!(run.outcome, Some(run::Outcome::Interrupted | run::Outcome::Limited))
}

/// Refuses what can't be started at all: an open run, an archived task, an epic or a plan.
async fn check_startable(tx: &mut Tx, task: &Task) -> Result<()> {
    if let Some(open) = tx.run_open_for_task(task.id).await? {
        let who = open.actor.unwrap_or_else(|| "anonymous".into());
        return Err(Error::precondition(format!("{} has an open run already ({} by {who})", task.short_id, open.kind))
            .with_details(json!({ "run_id": open.id, "kind": open.kind, "state": open.state })));
    }
    if task.archived_at.is_some() {
        return Err(Error::precondition(format!("{} is archived", task.short_id)));
    }
    if task.kind != taskyard_domain::task::Kind::Task {
        return Err(Error::precondition(format!("{} is a {}; only tasks can be run", task.short_id, task.kind)));
    }
    crate::merge::none_under_way(tx, task).await
}

async fn check_override_free(tx: &mut Tx) -> Result<()> {
    let Some(busy) = tx.run_open_all().await?.into_iter().find(|r| r.slot == Some(Slot::Override)) else { return Ok(()) };
    let task = tx.task_fetch(busy.task_id).await?;
    let name = task.map_or_else(|| busy.task_id.to_string(), |t| format!("{} ({})", t.short_id, t.title));
    Err(Error::exhausted(format!("the override slot is taken: {name} runs there"))
        .with_details(json!({ "task_id": busy.task_id, "run_id": busy.id, "started_at": busy.started_at }))
        .with_hint("wait for it, cancel it, or queue the task with update_task_status(queued)"))
}
