//! The queue: looks at the facts, lets the pure plan decide, opens runs.
//!
//! Woken by commits and by the moment at which something becomes due; never polls. `get_queue_state`
//! reads the same snapshot.

use crate::resolve::fits_model;
use crate::session::Opening;
use crate::{Caller, Engine};
use jiff::Timestamp;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;
use taskyard_domain::agent::{Agent, Profile};
use taskyard_domain::id::{ProfileId, RepositoryId, RunId, TaskId, WorkspaceId};
use taskyard_domain::list::List;
use taskyard_domain::queue::{Active, Candidate, Snapshot, plan};
use taskyard_domain::run::{Kind, Outcome, Run, Slot, State};
use taskyard_domain::task::Status;
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Class, Result};
use taskyard_store::{QueuedTask, Read};

/// How long a task that couldn't start is left alone.
const REFUSED_FOR: jiff::SignedDuration = jiff::SignedDuration::from_secs(5);

/// Everything that the queue decides by, read at one moment.
pub(crate) async fn snapshot(read: &mut Read, now: Timestamp) -> Result<Snapshot> {
    let settings = read.settings_fetch().await?;
    let mut levels = Known::default();
    let mut candidates = Vec::new();
    for task in read.queue_candidates(None).await? {
        candidates.push(levels.candidate(read, &task).await?);
    }
    let runs = read.run_open_all().await?;
    let active = runs.into_iter().filter(|run| run.kind == Kind::Managed).map(|run| active(&run)).collect();
    let mut limited = Vec::new();
    let mut caps = Vec::new();
    for workspace in read.workspace_list().await? {
        for agent in read.agent_list(workspace.id).await? {
            limited.extend(agent.limited_until.filter(|until| *until > now).map(|until| (agent.id, until)));
        }
        for profile in read.profile_list(workspace.id).await? {
            caps.extend(profile.max_parallel.and_then(|cap| usize::try_from(cap).ok()).map(|cap| (profile.id, cap)));
        }
    }
    let configured = usize::try_from(settings.configured_slots).unwrap_or(1);
    Ok(Snapshot { candidates, active, configured, paused: settings.paused, limited, caps })
}

/// The snapshot, unless nothing in it could be decided: no run waits for its slot, and nothing is queued or may start.
/// Most commits have nothing to do with the queue, and cost it no more than this look.
async fn needed(read: &mut Read, now: Timestamp) -> Result<Option<Snapshot>> {
    let wants_slot = read.run_open_all().await?.iter().any(|run| run.wants_slot);
    if !wants_slot && (read.queue_is_empty().await? || read.settings_fetch().await?.paused) {
        return Ok(None);
    }
    snapshot(read, now).await.map(Some)
}

fn active(run: &Run) -> Active {
    Active {
        run_id: run.id,
        task_id: run.task_id,
        slot: run.slot,
        profile_id: run.profile_id,
        wants_slot: run.wants_slot,
        started_at: run.started_at,
    }
}

/// Levels read once per snapshot, so that a long queue costs no query per task.
#[derive(Default)]
struct Known {
    lists: HashMap<taskyard_domain::id::ListId, Option<List>>,
    workspaces: HashMap<WorkspaceId, Option<Workspace>>,
    profiles: HashMap<WorkspaceId, Vec<Profile>>,
    agents: HashMap<WorkspaceId, Vec<Agent>>,
    repositories: HashMap<WorkspaceId, Vec<RepositoryId>>,
}

impl Known {
    async fn candidate(&mut self, read: &mut Read, task: &QueuedTask) -> Result<Candidate> {
        let list = self.list(read, task).await?;
        let runner = self.runner(read, task, list.as_ref()).await?;
        // What a run that was cut short had begun goes on, whatever would keep it from being started anew.
        let goes_on = matches!(task.last_outcome, Some(Outcome::Interrupted | Outcome::Limited));
        let model = task.model.as_deref().or(list.as_ref().and_then(|list| list.config.model.as_deref()));
        Ok(Candidate {
            task_id: task.id,
            sort_order: task.sort_order,
            created_at: task.created_at,
            not_before: task.due_at.max(task.not_before),
            manual: task.manual && !goes_on,
            blocked: task.blocked && !goes_on,
            has_repository: self.has_repository(task, list.as_ref()),
            fits_model: model.zip(runner.as_ref()).is_none_or(|(model, (profile, agent))| fits_model(model, profile, agent)),
            profile_id: runner.as_ref().map(|(profile, _)| profile.id),
            agent_id: runner.map(|(_, agent)| agent.id),
        })
    }

    async fn list(&mut self, read: &mut Read, task: &QueuedTask) -> Result<Option<List>> {
        if let Entry::Vacant(unknown) = self.lists.entry(task.list_id) {
            unknown.insert(read.list_fetch(task.list_id).await?);
        }
        Ok(self.lists.get(&task.list_id).cloned().flatten())
    }

    /// The profile that holds for the task, with its agent.
    async fn runner(&mut self, read: &mut Read, task: &QueuedTask, list: Option<&List>) -> Result<Option<(Profile, Agent)>> {
        let ws = task.workspace_id;
        if let Entry::Vacant(unknown) = self.workspaces.entry(ws) {
            unknown.insert(read.workspace_fetch(ws).await?);
            self.profiles.insert(ws, read.profile_list(ws).await?);
            self.agents.insert(ws, read.agent_list(ws).await?);
            self.repositories.insert(ws, read.repository_list(ws).await?.into_iter().map(|r| r.id).collect());
        }
        let default = self.workspaces.get(&ws).and_then(Option::as_ref).and_then(|w| w.default_profile_id);
        let all = self.profiles.get(&ws).map(Vec::as_slice).unwrap_or_default();
        let of_list = list.and_then(|l| l.config.agent_profile_id);
        let only = if let [one] = all { Some(one.id) } else { None };
        let id: Option<ProfileId> = task.agent_profile_id.or(of_list).or(default).or(only);
        let Some(profile) = id.and_then(|id| all.iter().find(|p| p.id == id)) else { return Ok(None) };
        let agent = self.agents.get(&ws).into_iter().flatten().find(|agent| agent.id == profile.agent_id);
        Ok(agent.map(|agent| (profile.clone(), agent.clone())))
    }

    fn has_repository(&self, task: &QueuedTask, list: Option<&List>) -> bool {
        let set = task.repository_id.or(list.and_then(|l| l.config.repository_id));
        let all = self.repositories.get(&task.workspace_id).map(Vec::as_slice).unwrap_or_default();
        set.map_or(all.len() == 1, |id| all.contains(&id))
    }
}

impl Engine {
    /// Starts what may start, until shutdown.
    pub(crate) async fn run_queue(self) {
        let mut wake = self.store().subscribe_all();
        let mut refused = HashMap::new();
        loop {
            let wake_at = match self.dispatch(&mut refused).await {
                Ok(wake_at) => wake_at,
                Err(error) => {
                    tracing::error!(%error, "the queue can't be read");
                    Some(self.now() + jiff::SignedDuration::from_secs(1))
                }
            };
            let pause = wake_at.map(|at| Duration::try_from(at.duration_since(self.now())).unwrap_or_default());
            let timer = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.shutdown().cancelled() => return,
                () = wake.changed() => {}
                () = timer => {}
            }
        }
    }

    /// One decision, carried out. Returns when time alone will make something eligible. Tasks that were `refused` lately
    /// take no slot of the plan.
    pub(crate) async fn dispatch(&self, refused: &mut HashMap<TaskId, Timestamp>) -> Result<Option<Timestamp>> {
        let now = self.now();
        refused.retain(|_, until| *until > now);
        let facts = self.store().read(move |read| Box::pin(async move { needed(read, now).await })).await?;
        let Some(mut facts) = facts else { return Ok(None) };
        for candidate in &mut facts.candidates {
            candidate.not_before = candidate.not_before.max(refused.get(&candidate.task_id).copied());
        }
        let plan = plan(facts, now);
        for run_id in plan.resume {
            self.grant_slot(run_id).await?;
        }
        for task_id in plan.start {
            if !self.dispatch_task(task_id).await? {
                refused.insert(task_id, now + REFUSED_FOR);
            }
        }
        let retry = refused.values().min().copied();
        Ok(plan.wake_at.into_iter().chain(retry).min())
    }

    /// Opens a run of a queued task. Returns false when it can't start now.
    async fn dispatch_task(&self, task_id: TaskId) -> Result<bool> {
        let engine = self.clone();
        let opened = self.store().write(move |tx| {
            Box::pin(async move {
                let Some(mut task) = tx.task_lock(task_id).await?.filter(|task| task.status == Status::Queued) else { return Ok(()) };
                let open = tx.run_open_all().await?;
                let taken = open.iter().filter(|run| run.slot == Some(Slot::Queue)).count();
                let settings = tx.settings_fetch().await?;
                if i64::try_from(taken).unwrap_or(i64::MAX) >= settings.configured_slots || settings.paused {
                    return Ok(());
                }
                let opening = Opening { slot: Slot::Queue, prompt: None };
                engine.open_run(tx, &Caller::system(), &mut task, opening).await.map(|_| ())
            })
        });
        match opened.await {
            // What doesn't hold when the transaction looks again is tried again after a while.
            Err(error) if matches!(error.class, Class::FailedPrecondition | Class::Conflict) => {
                tracing::info!(%task_id, %error, "a queued task couldn't start");
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    /// Waits until `run_id` has ended, at most `limit`. Returns whether it has.
    pub(crate) async fn run_ended(&self, run_id: RunId, limit: Duration) -> Result<bool> {
        let mut wake = self.store().subscribe_all();
        let ended = async {
            loop {
                let run = self.store().read(move |read| Box::pin(async move { read.run_fetch(run_id).await })).await?;
                if run.is_none_or(|run| run.state == State::Ended) {
                    return Ok(());
                }
                wake.changed().await;
            }
        };
        match tokio::time::timeout(limit, ended).await {
            Ok(done) => done.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}
