//! The rules, each in its own words and not by the code that keeps them.

use super::steps::{Step, WORDS};
use super::world::World;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use taskyard_domain::Timestamp;
use taskyard_domain::queue::Plan;

type Checked = Result<(), TestCaseError>;

fn rows<'a>(state: &'a Value, table: &str) -> &'a [Value] {
    state[table].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

fn open_runs(state: &Value) -> impl Iterator<Item = &Value> {
    rows(state, "runs").iter().filter(|run| run["state"] != "ended")
}

/// What has to hold after a step.
pub fn check(before: &Value, after: &Value, step: &Step, outcome: &Value, at: &str) -> Checked {
    check_log(before, after, at)?;
    check_statuses(before, after, step, at)?;
    check_runs(after, at)?;
    check_tasks(before, after, at)?;
    check_outcome(before, after, step, outcome, at)
}

/// Events are numbered without gaps and never change; so is the audit log.
fn check_log(before: &Value, after: &Value, at: &str) -> Checked {
    let (old, new) = (rows(before, "events"), rows(after, "events"));
    prop_assert!(new.starts_with(old), "{}: an event changed", at);
    for (event, number) in new.iter().zip(1..) {
        prop_assert_eq!(event["seq"].as_i64(), Some(number), "{}", at);
    }
    prop_assert_eq!(after["head"].as_u64(), Some(new.len() as u64), "{}", at);
    prop_assert!(rows(after, "audit").ends_with(rows(before, "audit")), "{}: an audit entry changed", at);
    Ok(())
}

/// A task's status is what its events say, and each change is one that the step may bring about.
fn check_statuses(before: &Value, after: &Value, step: &Step, at: &str) -> Checked {
    let mut statuses: BTreeMap<&str, &str> = BTreeMap::new();
    let old = rows(before, "events").len();
    for (number, event) in rows(after, "events").iter().enumerate() {
        let (task, data) = (text(event, "task_id"), &event["data"]);
        match text(event, "kind") {
            "task_created" => drop(statuses.insert(task, text(data, "status"))),
            "task_deleted" => drop(statuses.remove(task)),
            "task_status_changed" => {
                let (from, to) = (text(data, "previous_status"), text(data, "status"));
                prop_assert_eq!(statuses.insert(task, to), Some(from), "{}: a change from a status that it hadn't", at);
                prop_assert!(number < old || is_legal(step, from, to), "{}: {} became {}", at, from, to);
            }
            _ => {}
        }
    }
    for task in rows(after, "tasks") {
        prop_assert_eq!(statuses.remove(text(task, "id")), Some(text(task, "status")), "{}: a status without its event", at);
    }
    prop_assert!(statuses.is_empty(), "{}: a task is gone without an event", at);
    Ok(())
}

/// The lifecycle of product.md, by what may cause each change.
fn is_legal(step: &Step, from: &str, to: &str) -> bool {
    let works = matches!(from, "in_progress" | "waiting_for_input");
    match step {
        Step::Word { word, .. } => match WORDS[usize::from(*word) % WORDS.len()] {
            "ready" => to == "ready" && !works,
            "queued" => to == "queued" && !works && from != "waiting_for_review",
            "done" => to == "done" && !works,
            _ => to == "cancelled" && from != "done",
        },
        Step::Update { .. } => matches!(to, "queued" | "done") && !works,
        Step::Cancel { .. } => to == "cancelled" && from != "done",
        Step::Reset { .. } => from == "failed" && to == "ready",
        Step::Review { .. } => from == "waiting_for_review" && matches!(to, "done" | "queued" | "ready" | "cancelled"),
        Step::RunNow { .. } | Step::Continue { .. } => to == "in_progress" && !works,
        Step::Dispatch => from == "queued" && to == "in_progress",
        Step::Ask { .. } => from == "in_progress" && to == "waiting_for_input",
        Step::Answer { .. } | Step::Withdraw { .. } => from == "waiting_for_input" && to == "in_progress",
        Step::End { outcome, .. } => {
            works
                && match outcome {
                    0..=2 => to == "waiting_for_review",
                    3 => to == "failed",
                    4 => to == "queued",
                    5 => matches!(to, "queued" | "failed"),
                    _ => to == "queued",
                }
        }
        Step::Repair => works && matches!(to, "queued" | "failed" | "cancelled"),
        _ => false,
    }
}

/// At most one open run per task; a task works if and only if one is open; sessions and questions follow.
fn check_runs(after: &Value, at: &str) -> Checked {
    let mut open: BTreeMap<&str, &Value> = BTreeMap::new();
    for run in open_runs(after) {
        prop_assert!(open.insert(text(run, "task_id"), run).is_none(), "{}: two open runs of a task", at);
        prop_assert!(run["outcome"].is_null() && run["ended_at"].is_null(), "{}: an open run with an end", at);
        let asks = rows(after, "open_questions").iter().any(|question| question["run_id"] == run["id"]);
        prop_assert_eq!(run["state"] == "waiting", asks, "{}: a run waits exactly while it asks", at);
        prop_assert!(run["slot"].is_string() || run["waiting_since"].is_string(), "{}: a run without a slot that waits for nothing", at);
    }
    for run in rows(after, "runs").iter().filter(|run| run["state"] == "ended") {
        prop_assert!(run["outcome"].is_string() && run["ended_at"].is_string(), "{}: an end without outcome or time", at);
        prop_assert!(
            run["slot"].is_null() && run["wants_slot"] == false && run["token_hash"].is_null(),
            "{}: an ended run holds something",
            at
        );
    }
    let overrides = open.values().filter(|run| run["slot"] == "override").count();
    prop_assert!(overrides <= 1, "{}: {} runs in the override slot", at, overrides);
    for task in rows(after, "tasks") {
        let run = open.remove(text(task, "id"));
        let status = run.map(|run| if run["state"] == "waiting" { "waiting_for_input" } else { "in_progress" });
        let works = Some(text(task, "status")).filter(|status| matches!(*status, "in_progress" | "waiting_for_input"));
        prop_assert_eq!(works, status, "{}: {}", at, text(task, "short_id"));
    }
    prop_assert!(open.is_empty(), "{}: a run of a task that is gone", at);
    for question in rows(after, "open_questions") {
        prop_assert!(open_runs(after).any(|run| run["id"] == question["run_id"]), "{}: an open question of an ended run", at);
    }
    for session in rows(after, "sessions") {
        let lives = open_runs(after).any(|run| run["session_id"] == session["id"]);
        let working = matches!(text(session, "state"), "starting" | "running" | "waiting_for_input");
        prop_assert_eq!(lives, working, "{}: session {}", at, session);
    }
    Ok(())
}

/// Short ids are never used again; parents and blockers are there and form no ring.
fn check_tasks(before: &Value, after: &Value, at: &str) -> Checked {
    let tasks = rows(after, "tasks");
    let ids: BTreeSet<&str> = tasks.iter().map(|task| text(task, "id")).collect();
    let made = rows(after, "events").iter().filter(|event| event["kind"] == "task_created");
    let names: Vec<&str> = made.map(|event| text(&event["data"], "short_id")).collect();
    prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}: a short id was used again", at);
    let mut waits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows(after, "blockers") {
        waits.insert(text(row, "task"), rows(row, "on").iter().filter_map(Value::as_str).collect());
    }
    for task in tasks {
        prop_assert!(task["parent_id"].is_null() || ids.contains(text(task, "parent_id")), "{}: a parent that is gone", at);
    }
    for (task, blockers) in &waits {
        let (mut seen, mut next) = (BTreeSet::new(), blockers.clone());
        while let Some(blocker) = next.pop() {
            prop_assert!(ids.contains(blocker), "{}: a blocker that is gone", at);
            prop_assert!(blocker != *task, "{}: a ring of dependencies", at);
            if seen.insert(blocker) {
                next.extend(waits.get(blocker).into_iter().flatten());
            }
        }
    }
    // What isn't said to be changed stays: nothing of a task's but its own row.
    for task in rows(before, "tasks") {
        let same = tasks.iter().find(|now| now["id"] == task["id"]);
        prop_assert!(same.is_none_or(|now| now["short_id"] == task["short_id"] && now["created_at"] == task["created_at"]), "{}", at);
    }
    Ok(())
}

/// A refusal has a class and changed nothing; a change by a person is in the audit log; a repeated key changes nothing.
fn check_outcome(before: &Value, after: &Value, step: &Step, outcome: &Value, at: &str) -> Checked {
    let is_first = before.is_null();
    if let Some(error) = outcome.get("error") {
        prop_assert!(error["class"] != "INTERNAL", "{}", at);
        prop_assert!(!text(error, "message").is_empty(), "{}", at);
        prop_assert!(is_first || before == after, "{}: refused, and yet\n{}", at, difference(before, after));
        return Ok(());
    }
    if outcome["ok"]["replayed"] == true {
        prop_assert!(before == after, "{}: a repeated key changed\n{}", at, difference(before, after));
    }
    let own = !matches!(
        step,
        Step::Turn { .. } | Step::Ask { .. } | Step::Withdraw { .. } | Step::GiveSlotBack { .. } | Step::Dispatch | Step::Repair
    );
    let audited = rows(after, "audit").len() > rows(before, "audit").len();
    prop_assert!(is_first || !own || before == after || audited, "{}: not in the audit log:\n{}", at, difference(before, after));
    Ok(())
}

/// What the queue means to start is what can start, in order, and `get_queue_state` and the dispatcher mean the same.
pub async fn check_queue(world: &World, after: &Value, step: &Step, planned: &Plan, before: &Value, at: &str) -> Checked {
    let plan = world.planned().await;
    let start: Vec<String> = plan.start.iter().map(ToString::to_string).collect();
    prop_assert_eq!(&start, &can_start(after, world.now(), plan.resume.len()), "{}: the plan", at);
    let queued: BTreeSet<String> = queued(after).map(|task| text(task, "short_id").to_owned()).collect();
    let told = world.queue_state().await;
    let waiting: Vec<&str> = rows(&told, "waiting_task_ids").iter().filter_map(Value::as_str).collect();
    prop_assert_eq!(waiting.len(), queued.len(), "{}: {}", at, told);
    if *step == Step::Dispatch {
        let known: BTreeSet<&str> = rows(before, "runs").iter().map(|run| text(run, "id")).collect();
        let opened: BTreeSet<&str> =
            rows(after, "runs").iter().filter(|run| !known.contains(text(run, "id"))).map(|run| text(run, "task_id")).collect();
        let meant: Vec<String> = planned.start.iter().map(ToString::to_string).collect();
        prop_assert_eq!(opened, meant.iter().map(String::as_str).collect(), "{}: what was started isn't what was planned", at);
    }
    Ok(())
}

fn queued(state: &Value) -> impl Iterator<Item = &Value> {
    let is_open = |task: &Value| open_runs(state).any(|run| run["task_id"] == task["id"]);
    rows(state, "tasks").iter().filter(move |task| task["status"] == "queued" && task["archived_at"].is_null() && !is_open(task))
}

/// The ids of the tasks that can start at `now`, in the queue's order, by the words of product.md.
fn can_start(state: &Value, now: Timestamp, resumed: usize) -> Vec<String> {
    let is_over = |at: &Value| at.as_str().and_then(|at| at.parse::<Timestamp>().ok()).is_none_or(|at| at <= now);
    let status = |id: &str| rows(state, "tasks").iter().find(|task| text(task, "id") == id).map_or("", |task| text(task, "status"));
    let settings = &state["settings"];
    if settings["paused"] == true {
        return Vec::new();
    }
    let taken = open_runs(state).filter(|run| run["slot"] == "queue").count() + resumed;
    let slots = usize::try_from(settings["configured_slots"].as_u64().unwrap_or_default()).unwrap_or_default();
    let mut running: BTreeMap<&str, u64> = BTreeMap::new();
    for run in open_runs(state) {
        *running.entry(text(run, "profile_id")).or_default() += 1;
    }
    let mut tasks: Vec<&Value> = queued(state).collect();
    tasks.sort_by(|a, b| {
        let order = |task: &Value| task["sort_order"].as_f64().unwrap_or_default();
        // Not as texts: a whole second has no fraction, and would come after its own.
        let made = |task: &Value| text(task, "created_at").parse::<Timestamp>().ok();
        order(a).total_cmp(&order(b)).then_with(|| (made(a), text(a, "id")).cmp(&(made(b), text(b, "id"))))
    });
    let mut start = Vec::new();
    for task in tasks {
        let goes_on = matches!(text(task, "last_outcome"), "interrupted" | "limited");
        let blockers = rows(state, "blockers").iter().find(|row| row["task"] == task["id"]).map(|row| rows(row, "on")).unwrap_or_default();
        let blocked = blockers.iter().filter_map(Value::as_str).any(|blocker| status(blocker) != "done");
        if (task["manual"] == true || blocked) && !goes_on || !is_over(&task["due_at"]) || !is_over(&task["not_before"]) {
            continue;
        }
        let profiles = rows(state, "profiles");
        let own = task["config"]["agent_profile_id"].as_str();
        let Some(profile) = profiles.iter().find(|profile| own.map_or(profile["name"] == "first", |own| text(profile, "id") == own)) else {
            continue;
        };
        let agent = rows(state, "agents").iter().find(|agent| agent["id"] == profile["agent_id"]);
        let running = running.entry(text(profile, "id")).or_default();
        let full = profile["max_parallel"].as_u64().is_some_and(|most| *running >= most);
        if agent.is_some_and(|agent| is_over(&agent["limited_until"])) && !full && taken + start.len() < slots {
            *running += 1;
            start.push(text(task, "id").to_owned());
        }
    }
    start
}

/// Where two states differ, for a person.
pub fn difference(a: &Value, b: &Value) -> String {
    let tables: BTreeSet<&String> = a.as_object().into_iter().chain(b.as_object()).flat_map(serde_json::Map::keys).collect();
    let mut out = String::new();
    for table in tables {
        let (old, new) = (rows(a, table), rows(b, table));
        if a[table] != b[table] {
            let gone = old.iter().filter(|row| !new.contains(row)).map(|row| format!("- {table} {row}\n"));
            out.extend(gone.chain(new.iter().filter(|row| !old.contains(row)).map(|row| format!("+ {table} {row}\n"))));
        }
    }
    out
}
