//! What the queue would start next, as a pure function. `get_queue_state` and the dispatcher share it.

use crate::id::{AgentId, ProfileId, RunId, TaskId};
use crate::run::Slot;
use jiff::Timestamp;
use serde::Serialize;

/// A queued task that could be started.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The task.
    pub task_id: TaskId,
    /// Place in the queue, lower first.
    pub sort_order: f64,
    /// Then by age.
    pub created_at: Timestamp,
    /// Not before: the later of its due time and its limit.
    pub not_before: Option<Timestamp>,
    /// Never started by the queue.
    pub manual: bool,
    /// An unfinished blocker.
    pub blocked: bool,
    /// Whether a repository resolves.
    pub has_repository: bool,
    /// Whether its model may be one of its agent's.
    pub fits_model: bool,
    /// The profile that it would run by, when that resolves.
    pub profile_id: Option<ProfileId>,
    /// That profile's agent.
    pub agent_id: Option<AgentId>,
}

/// An open managed run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Active {
    /// The run.
    pub run_id: RunId,
    /// Its task.
    pub task_id: TaskId,
    /// The place it takes; `None` while it has given it back.
    pub slot: Option<Slot>,
    /// Its profile.
    pub profile_id: Option<ProfileId>,
    /// It gave its slot back and wants to go on.
    pub wants_slot: bool,
    /// When it was opened.
    pub started_at: Timestamp,
}

/// Everything that the decision depends on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Queued tasks without an open run.
    pub candidates: Vec<Candidate>,
    /// Open managed runs.
    pub active: Vec<Active>,
    /// The setting.
    pub configured: usize,
    /// Whether the queue is paused.
    pub paused: bool,
    /// Limited accounts with the end of the limit.
    pub limited: Vec<(AgentId, Timestamp)>,
    /// Caps per profile.
    pub caps: Vec<(ProfileId, usize)>,
}

/// Why a task in the queue waits although slots may be free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Hold {
    /// Due later, or held by a limit.
    NotBefore {
        /// Until then.
        until: Timestamp,
    },
    /// Its agent's account is limited.
    AgentLimited {
        /// Until then.
        until: Timestamp,
    },
    /// Started by hand only.
    Manual,
    /// Waits for a blocker.
    Blocked,
    /// No profile resolves.
    NoProfile,
    /// No repository resolves.
    NoRepository,
    /// Its model is none of its agent's.
    WrongModel,
    /// Its profile runs as often as it may.
    ProfileCap,
    /// The queue is paused.
    Paused,
    /// All slots are taken.
    NoSlot,
}

/// The decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Runs that get their slot back, first.
    pub resume: Vec<RunId>,
    /// Tasks to start now, in order.
    pub start: Vec<TaskId>,
    /// Tasks that wait, in pick order, with the reason.
    pub waiting: Vec<(TaskId, Hold)>,
    /// Slots that may be used now.
    pub effective: usize,
    /// Why that differs from the setting.
    pub reasons: Vec<String>,
    /// The next moment at which something becomes eligible by time alone.
    pub wake_at: Option<Timestamp>,
}

/// Decides what to start now.
pub fn plan(mut snapshot: Snapshot, now: Timestamp) -> Plan {
    snapshot
        .candidates
        .sort_by(|a, b| a.sort_order.total_cmp(&b.sort_order).then(a.created_at.cmp(&b.created_at)).then(a.task_id.cmp(&b.task_id)));
    let taken = snapshot.active.iter().filter(|a| a.slot == Some(Slot::Queue)).count();
    let (effective, reasons) = effective_slots(&snapshot, now);
    // A run that goes on is nothing new: neither a pause nor a limit that starves the queue keeps a free slot from it.
    let places = snapshot.configured.saturating_sub(taken);
    let wanting = snapshot.active.iter().filter(|a| a.wants_slot && a.slot.is_none());
    let resume: Vec<RunId> = wanting.take(places).map(|run| run.run_id).collect();
    let mut free = effective.saturating_sub(taken + resume.len());
    let mut used: Vec<(ProfileId, usize)> = Vec::new();
    for profile in snapshot.active.iter().filter_map(|a| a.profile_id) {
        count(&mut used, profile);
    }
    let (mut start, mut waiting, mut wake_at) = (Vec::new(), Vec::new(), None);
    for candidate in &snapshot.candidates {
        match hold(candidate, &snapshot, &used, free, now) {
            None => {
                start.push(candidate.task_id);
                free -= 1;
                if let Some(profile) = candidate.profile_id {
                    count(&mut used, profile);
                }
            }
            Some(reason) => {
                if let Hold::NotBefore { until } | Hold::AgentLimited { until } = reason {
                    wake_at = Some(wake_at.map_or(until, |at: Timestamp| at.min(until)));
                }
                waiting.push((candidate.task_id, reason));
            }
        }
    }
    Plan { resume, start, waiting, effective, reasons, wake_at }
}

fn count(used: &mut Vec<(ProfileId, usize)>, profile: ProfileId) {
    match used.iter_mut().find(|(p, _)| *p == profile) {
        Some((_, n)) => *n += 1,
        None => used.push((profile, 1)),
    }
}

fn hold(task: &Candidate, snapshot: &Snapshot, used: &[(ProfileId, usize)], free: usize, now: Timestamp) -> Option<Hold> {
    if task.manual {
        return Some(Hold::Manual);
    }
    if task.blocked {
        return Some(Hold::Blocked);
    }
    if let Some(until) = task.not_before.filter(|at| *at > now) {
        return Some(Hold::NotBefore { until });
    }
    if !task.has_repository {
        return Some(Hold::NoRepository);
    }
    let Some(profile) = task.profile_id else { return Some(Hold::NoProfile) };
    if !task.fits_model {
        return Some(Hold::WrongModel);
    }
    let limit = snapshot.limited.iter().find(|(agent, until)| Some(*agent) == task.agent_id && *until > now);
    if let Some((_, until)) = limit {
        return Some(Hold::AgentLimited { until: *until });
    }
    if snapshot.paused {
        return Some(Hold::Paused);
    }
    let cap = snapshot.caps.iter().find(|(p, _)| *p == profile).map(|(_, cap)| *cap);
    let running = used.iter().find(|(p, _)| *p == profile).map_or(0, |(_, n)| *n);
    if cap.is_some_and(|cap| running >= cap) {
        return Some(Hold::ProfileCap);
    }
    (free == 0).then_some(Hold::NoSlot)
}

fn effective_slots(snapshot: &Snapshot, now: Timestamp) -> (usize, Vec<String>) {
    let mut reasons = Vec::new();
    if snapshot.paused {
        reasons.push("the queue is paused".to_owned());
        return (0, reasons);
    }
    let limited: Vec<AgentId> = snapshot.limited.iter().filter(|(_, until)| *until > now).map(|(agent, _)| *agent).collect();
    for (agent, until) in snapshot.limited.iter().filter(|(_, until)| *until > now) {
        reasons.push(format!("agent {agent} is limited until {until}"));
    }
    // Slots are shared: a limit lowers them only when everything that waits belongs to limited accounts.
    let starved = !snapshot.candidates.is_empty() && snapshot.candidates.iter().all(|c| c.agent_id.is_some_and(|a| limited.contains(&a)));
    let busy = snapshot.active.iter().filter(|a| a.slot == Some(Slot::Queue)).count();
    (if starved { busy.min(snapshot.configured) } else { snapshot.configured }, reasons)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_second(s).unwrap()
    }
    fn profile() -> ProfileId {
        ProfileId(Uuid::from_u128(7))
    }
    fn agent() -> AgentId {
        AgentId(Uuid::from_u128(8))
    }
    fn task(n: u128) -> Candidate {
        Candidate {
            task_id: TaskId(Uuid::from_u128(n)),
            sort_order: 0.0,
            created_at: at(i64::try_from(n).unwrap()),
            not_before: None,
            manual: false,
            blocked: false,
            has_repository: true,
            fits_model: true,
            profile_id: Some(profile()),
            agent_id: Some(agent()),
        }
    }
    fn active(n: u128, slot: Option<Slot>, wants_slot: bool) -> Active {
        Active {
            run_id: RunId(Uuid::from_u128(n)),
            task_id: TaskId(Uuid::from_u128(n)),
            slot,
            profile_id: Some(profile()),
            wants_slot,
            started_at: at(0),
        }
    }
    fn ids(plan: &Plan) -> Vec<u128> {
        plan.start.iter().map(|id| id.0.as_u128()).collect()
    }
    fn snapshot(candidates: Vec<Candidate>, configured: usize) -> Snapshot {
        Snapshot { candidates, configured, ..Snapshot::default() }
    }

    #[test]
    fn order_is_sort_order_then_age_then_id() {
        let mut late = task(1);
        late.sort_order = 1.0;
        let plan = plan(snapshot(vec![late, task(3), task(2)], 2), at(100));
        assert_eq!(ids(&plan), [2, 3]);
        assert_eq!(plan.waiting[0].1, Hold::NoSlot);
    }

    #[test]
    fn the_override_slot_takes_no_queue_slot_and_waiting_runs_go_first() {
        let mut s = snapshot(vec![task(1), task(2)], 2);
        s.active = vec![active(10, Some(Slot::Override), false), active(11, None, true)];
        let plan = plan(s, at(100));
        assert_eq!(plan.resume.len(), 1);
        assert_eq!(ids(&plan), [1]);
    }

    #[test]
    fn a_run_that_goes_on_is_kept_up_by_neither_pause_nor_limits() {
        let mut s = snapshot(vec![task(1)], 2);
        s.active = vec![active(10, Some(Slot::Queue), false), active(11, None, true), active(12, None, true)];
        s.paused = true;
        let paused = plan(s.clone(), at(100));
        assert_eq!((paused.resume, paused.start), (vec![RunId(Uuid::from_u128(11))], Vec::new()));
        s.paused = false;
        s.limited = vec![(agent(), at(300))];
        let starved = plan(s, at(100));
        assert_eq!((starved.resume.len(), starved.start.len()), (1, 0));
    }

    #[test]
    fn ineligible_tasks_say_why() {
        let (mut manual, mut blocked, mut due, mut homeless) = (task(1), task(2), task(3), task(4));
        manual.manual = true;
        blocked.blocked = true;
        due.not_before = Some(at(200));
        homeless.profile_id = None;
        let (mut placeless, mut foreign) = (task(6), task(7));
        placeless.has_repository = false;
        foreign.fits_model = false;
        let plan = plan(snapshot(vec![manual, blocked, due, homeless, task(5), placeless, foreign], 4), at(100));
        assert_eq!(ids(&plan), [5]);
        let holds: Vec<Hold> = plan.waiting.into_iter().map(|(_, h)| h).collect();
        let lacks = [Hold::NoProfile, Hold::NoRepository, Hold::WrongModel];
        assert_eq!(holds, [&[Hold::Manual, Hold::Blocked, Hold::NotBefore { until: at(200) }][..], &lacks].concat());
        assert_eq!(plan.wake_at, Some(at(200)));
    }

    #[test]
    fn a_limited_account_holds_its_tasks_only() {
        let mut other = task(2);
        other.agent_id = Some(AgentId(Uuid::from_u128(9)));
        let mut s = snapshot(vec![task(1), other], 2);
        s.limited = vec![(agent(), at(300))];
        let held = plan(s.clone(), at(100));
        assert_eq!(ids(&held), [2]);
        assert_eq!(held.wake_at, Some(at(300)));
        assert_eq!(ids(&plan(s, at(301))), [1, 2]);
    }

    #[test]
    fn caps_and_pause() {
        let mut s = snapshot(vec![task(1), task(2)], 5);
        s.caps = vec![(profile(), 1)];
        let capped = plan(s.clone(), at(100));
        assert_eq!((ids(&capped), capped.waiting[0].1.clone()), (vec![1], Hold::ProfileCap));
        s.paused = true;
        let paused = plan(s, at(100));
        assert_eq!((paused.start.len(), paused.effective, paused.reasons.len()), (0, 0, 1));
    }
}
