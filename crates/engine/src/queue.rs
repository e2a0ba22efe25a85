//! The queue: looks at the facts, lets the pure plan decide, opens runs.
//!
//! Woken by commits and by the moment at which something becomes due; never polls. `get_queue_state`
//! reads the same snapshot.

use crate::session::Opening;
use crate::{Caller, Engine};
use jiff::Timestamp;
use std::collections::HashMap;
use std::time::Duration;
use taskyard_domain::agent::Profile;
use taskyard_domain::id::{ProfileId, RepositoryId, RunId, TaskId, WorkspaceId};
use taskyard_domain::list::List;
use taskyard_domain::queue::{Active, Candidate, Snapshot, plan};
use taskyard_domain::run::{Kind, Run, Slot, State};
use taskyard_domain::task::{Status, Task};
use taskyard_domain::workspace::Workspace;
use taskyard_domain::{Class, Result};
use taskyard_store::Read;

/// Everything that the queue decides by, read at one moment.
pub(crate) async fn snapshot(read: &mut Read, now: Timestamp) -> Result<Snapshot> {
    let settings = read.settings_fetch().await?;
    let mut levels = Known::default();
    let mut candidates = Vec::new();
    for (task, blocked) in read.queue_candidates(None).await? {
        candidates.push(levels.candidate(read, &task, blocked).await?);
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
    repositories: HashMap<WorkspaceId, Vec<RepositoryId>>,
}

impl Known {
    async fn candidate(&mut self, read: &mut Read, task: &Task, blocked: bool) -> Result<Candidate> {
        let profile = self.profile(read, task).await?;
        let runnable = self.has_repository(read, task).await?;
        let profile = profile.filter(|_| runnable);
        Ok(Candidate {
            task_id: task.id,
            sort_order: task.sort_order,
            created_at: task.created_at,
            not_before: task.due_at.max(task.not_before),
            manual: task.manual,
            blocked,
            profile_id: profile.as_ref().map(|p| p.id),
            agent_id: profile.map(|p| p.agent_id),
        })
    }

    async fn list(&mut self, read: &mut Read, task: &Task) -> Result<Option<List>> {
        if !self.lists.contains_key(&task.list_id) {
            self.lists.insert(task.list_id, read.list_fetch(task.list_id).await?);
        }
        Ok(self.lists.get(&task.list_id).cloned().flatten())
    }

    async fn profile(&mut self, read: &mut Read, task: &Task) -> Result<Option<Profile>> {
        let list = self.list(read, task).await?;
        let ws = task.workspace_id;
        if !self.workspaces.contains_key(&ws) {
            self.workspaces.insert(ws, read.workspace_fetch(ws).await?);
            self.profiles.insert(ws, read.profile_list(ws).await?);
            self.repositories.insert(ws, read.repository_list(ws).await?.into_iter().map(|r| r.id).collect());
        }
        let default = self.workspaces.get(&ws).and_then(Option::as_ref).and_then(|w| w.default_profile_id);
        let all = self.profiles.get(&ws).map(Vec::as_slice).unwrap_or_default();
        let of_list = list.and_then(|l| l.config.agent_profile_id);
        let only = if let [one] = all { Some(one.id) } else { None };
        let id: Option<ProfileId> = task.config.agent_profile_id.or(of_list).or(default).or(only);
        Ok(id.and_then(|id| all.iter().find(|p| p.id == id).cloned()))
    }

    async fn has_repository(&mut self, read: &mut Read, task: &Task) -> Result<bool> {
        let list = self.list(read, task).await?;
        let set = task.config.repository_id.or(list.and_then(|l| l.config.repository_id));
        let all = self.repositories.get(&task.workspace_id).map(Vec::as_slice).unwrap_or_default();
        Ok(set.map_or(all.len() == 1, |id| all.contains(&id)))
    }
}

impl Engine {
    /// Starts what may start, until shutdown.
    pub(crate) async fn run_queue(self) {
        let mut wake = self.store().subscribe_all();
        loop {
            let wake_at = match self.dispatch().await {
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

    /// One decision, carried out. Returns when time alone will make something eligible.
    pub(crate) async fn dispatch(&self) -> Result<Option<Timestamp>> {
        let now = self.now();
        let facts = self.store().read(move |read| Box::pin(async move { snapshot(read, now).await })).await?;
        let plan = plan(facts, now);
        for run_id in plan.resume {
            self.grant_slot(run_id).await?;
        }
        for task_id in plan.start {
            self.dispatch_task(task_id).await?;
        }
        Ok(plan.wake_at)
    }

    async fn dispatch_task(&self, task_id: TaskId) -> Result<()> {
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
            // What no longer holds when the transaction looks again is picked up by the next plan.
            Err(error) if matches!(error.class, Class::FailedPrecondition | Class::Conflict) => {
                tracing::info!(%task_id, %error, "a queued task couldn't start");
                Ok(())
            }
            other => other,
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
