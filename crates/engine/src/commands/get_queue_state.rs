//! `get_queue_state`: what runs, what waits and why, computed by the code that picks.

use crate::{Caller, Engine, queue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use taskyard_domain::id::TaskId;
use taskyard_domain::queue::{Active, Hold, Plan};
use taskyard_domain::run::{Kind, Slot};
use taskyard_domain::task::Task;
use taskyard_domain::{Result, Timestamp};
use taskyard_store::Read;

/// Most waiting tasks that are named.
const NAMED: usize = 50;
/// Most of them with their reason.
const EXPLAINED: usize = 20;
/// Most claims that are named.
const CLAIMS: usize = 10;

/// No arguments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetQueueState {}

/// A run that takes a place, or has given it back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ActiveSlot {
    /// `queue` or `override`; null while it has given its slot back.
    pub slot: Option<String>,
    /// The task.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The run.
    pub run_id: String,
    /// When it was opened.
    pub started_at: Timestamp,
    /// Whether it waits for a slot to go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wants_slot: bool,
}

/// Why a queued task waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WaitingTask {
    /// The task.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// `starting`, `not_before`, `agent_limited`, `manual`, `blocked`, `no_profile`, `profile_cap`, `paused`, `no_slot`.
    pub reason: String,
    /// Until when, where time decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetQueueStateOutput {
    /// The setting.
    pub configured_slots: usize,
    /// How many may be used now.
    pub effective_slots: usize,
    /// Why that differs, and what else holds the queue back.
    pub reasons: Vec<String>,
    /// Whether a person paused the queue.
    pub paused: bool,
    /// Runs that take a slot.
    pub active_slots: Vec<ActiveSlot>,
    /// Runs that wait for a person or for other tasks and have given their slot back.
    pub without_slot: Vec<ActiveSlot>,
    /// Queued tasks in pick order; the first of them where there are many.
    pub waiting_task_ids: Vec<String>,
    /// How many are queued.
    pub waiting_count: usize,
    /// Why the first of them wait.
    pub waiting: Vec<WaitingTask>,
    /// When something becomes due by time alone.
    pub next_due_at: Option<Timestamp>,
}

impl Engine {
    /// The queue as it is now.
    ///
    /// # Errors
    /// Only the store's.
    pub async fn get_queue_state(&self, caller: &Caller, _input: GetQueueState) -> Result<GetQueueStateOutput> {
        let (caller, now) = (caller.clone(), self.now());
        self.store().read(move |read| Box::pin(async move { state(read, &caller, now).await })).await
    }
}

async fn state(read: &mut Read, caller: &Caller, now: Timestamp) -> Result<GetQueueStateOutput> {
    let snapshot = queue::snapshot(read, now).await?;
    // Candidates come in pick order.
    let order: Vec<TaskId> = snapshot.candidates.iter().map(|candidate| candidate.task_id).collect();
    let (configured, paused, active) = (snapshot.configured, snapshot.paused, snapshot.active.clone());
    let plan = taskyard_domain::queue::plan(snapshot, now);
    let mut seen = Seen { caller, read };
    let mut slots = Vec::new();
    for run in &active {
        slots.extend(seen.task(run.task_id).await?.map(|task| slot(run, &task)));
    }
    let (active_slots, without_slot) = slots.into_iter().partition(|run| run.slot.is_some());
    let mut reasons = plan.reasons.clone();
    reasons.extend(claims(&mut seen).await?);
    let mut output = GetQueueStateOutput {
        configured_slots: configured,
        effective_slots: plan.effective,
        reasons,
        paused,
        active_slots,
        without_slot,
        waiting_task_ids: Vec::new(),
        waiting_count: order.len(),
        waiting: Vec::new(),
        next_due_at: plan.wake_at,
    };
    let holds = holds(plan);
    for id in order {
        if output.waiting_task_ids.len() >= NAMED {
            break;
        }
        let Some(task) = seen.task(id).await? else { continue };
        output.waiting_task_ids.push(task.id.to_string());
        if output.waiting.len() < EXPLAINED {
            output.waiting.push(waiting(&task, holds.get(&task.id)));
        }
    }
    Ok(output)
}

struct Seen<'a> {
    caller: &'a Caller,
    read: &'a mut Read,
}

impl Seen<'_> {
    /// The task, if the caller sees its workspace.
    async fn task(&mut self, id: TaskId) -> Result<Option<Task>> {
        let task = self.read.task_fetch(id).await?;
        let own = self.caller.workspace_id();
        Ok(task.filter(|task| own.is_none_or(|own| own == task.workspace_id)))
    }
}

/// What outside agents hold: it takes no slot, and the queue leaves it alone.
async fn claims(seen: &mut Seen<'_>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for run in seen.read.run_open_all().await?.iter().filter(|run| run.kind == Kind::Claimed) {
        if let Some(task) = seen.task(run.task_id).await? {
            let who = run.actor.as_deref().unwrap_or("anonymous");
            found.push(format!("{} is claimed by {who} since {}: it takes no slot and isn't queued", task.short_id, run.started_at));
        }
    }
    let more = found.len().saturating_sub(CLAIMS);
    found.truncate(CLAIMS);
    found.extend((more > 0).then(|| format!("{more} more tasks are claimed")));
    Ok(found)
}

fn holds(plan: Plan) -> BTreeMap<TaskId, Hold> {
    plan.waiting.into_iter().collect()
}

fn slot(run: &Active, task: &Task) -> ActiveSlot {
    ActiveSlot {
        slot: run.slot.map(|slot: Slot| slot.to_string()),
        task_id: task.id.to_string(),
        short_id: task.short_id.to_string(),
        run_id: run.run_id.to_string(),
        started_at: run.started_at,
        wants_slot: run.wants_slot,
    }
}

fn waiting(task: &Task, hold: Option<&Hold>) -> WaitingTask {
    let (reason, until) = match hold {
        None => ("starting", None),
        Some(Hold::NotBefore { until }) => ("not_before", Some(*until)),
        Some(Hold::AgentLimited { until }) => ("agent_limited", Some(*until)),
        Some(Hold::Manual) => ("manual", None),
        Some(Hold::Blocked) => ("blocked", None),
        Some(Hold::NoProfile) => ("no_profile", None),
        Some(Hold::NoRepository) => ("no_repository", None),
        Some(Hold::WrongModel) => ("wrong_model", None),
        Some(Hold::ProfileCap) => ("profile_cap", None),
        Some(Hold::Paused) => ("paused", None),
        Some(Hold::NoSlot) => ("no_slot", None),
    };
    WaitingTask { task_id: task.id.to_string(), short_id: task.short_id.to_string(), reason: reason.into(), until }
}
