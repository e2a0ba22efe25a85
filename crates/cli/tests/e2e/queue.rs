//! The queue: order, slots, caps, pause, time, blockers, and that its state says what it does.

use crate::support::{Task, Yard, eventually, work};
use serde_json::{Value, json};
use taskyard_domain::Timestamp;

/// Steps that note their name in the gate `order`.
fn note(yard: &Yard, name: &str) -> Value {
    json!([{ "append": { "path": yard.gate("order"), "content": format!("{name} ") } }])
}

/// Steps that say that they run and wait to be let go.
fn held(yard: &Yard, name: &str) -> Value {
    json!([{ "text": "At it." }, { "signal": yard.gate(name) }, { "wait_file": yard.gate(&format!("{name}-go")) }])
}

async fn state(yard: &Yard) -> Value {
    yard.server.call("get_queue_state", json!({})).await
}

async fn reason(yard: &Yard, task: &Task) -> String {
    let state = state(yard).await;
    let row = state["waiting"].as_array().unwrap().iter().find(|row| row["task_id"] == **task).cloned();
    row.unwrap_or_else(|| panic!("{task} doesn't wait: {state}"))["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn tasks_start_in_the_order_that_the_queue_tells() {
    let yard = Yard::new().await;
    yard.server.set("configured_slots", 1).await;
    yard.server.call("queue_pause", json!({})).await;
    let mut tasks = Vec::new();
    for name in ["a", "b", "c", "d"] {
        tasks.push(yard.queue(name, note(&yard, name)).await);
    }
    yard.server.call("update_task", json!({ "task_id": tasks[3], "sort_order": -1.0 })).await;
    let paused = state(&yard).await;
    assert_eq!((&paused["paused"], &paused["effective_slots"], &paused["active_slots"]), (&json!(true), &json!(0), &json!([])), "{paused}");
    assert_eq!(paused["waiting_task_ids"], json!([tasks[3], tasks[0], tasks[1], tasks[2]]));
    assert_eq!(reason(&yard, &tasks[0]).await, "paused");
    yard.server.call("queue_resume", json!({})).await;
    for task in &tasks {
        yard.reviewable(task).await;
    }
    assert_eq!(std::fs::read_to_string(yard.gate("order")).unwrap(), "d a b c ");
}

#[tokio::test]
async fn no_more_run_at_once_than_slots_and_caps_allow() {
    let yard = Yard::new().await;
    yard.server.set("configured_slots", 2).await;
    yard.agent("solo", json!({ "max_parallel": 1 })).await;
    let solo = |name: &str| (json!({ "queue": true, "agent_profile_id": "solo" }), held(&yard, name), name.to_owned());
    let (more, steps, title) = solo("solo-1");
    let first = yard.add(&title, steps, more).await;
    yard.reached("solo-1").await;
    let (more, steps, title) = solo("solo-2");
    let second = yard.add(&title, steps, more).await;
    let other = yard.queue("other", held(&yard, "other")).await;
    let third = yard.queue("third", held(&yard, "third")).await;
    yard.reached("other").await;
    assert_eq!((reason(&yard, &second).await.as_str(), reason(&yard, &third).await.as_str()), ("profile_cap", "no_slot"));
    let now = state(&yard).await;
    let running: Vec<&Value> = now["active_slots"].as_array().unwrap().iter().map(|slot| &slot["task_id"]).collect();
    assert_eq!((running, &now["configured_slots"]), (vec![&json!(first), &json!(other)], &json!(2)));
    yard.open("solo-1-go");
    yard.reached("solo-2").await;
    assert!(!yard.gate("third").exists());
    for name in ["solo-2-go", "other-go", "third-go"] {
        yard.open(name);
    }
    for task in [&first, &second, &other, &third] {
        yard.reviewable(task).await;
    }
}

#[tokio::test]
async fn manual_tasks_wait_for_a_person_and_due_ones_for_their_time() {
    let yard = Yard::new().await;
    let soon = Timestamp::try_from(std::time::SystemTime::now()).unwrap() + std::time::Duration::from_secs(4);
    let due = yard.add("due", work("due.txt", "due\n"), json!({ "queue": true, "due_at": soon.to_string() })).await;
    let manual = yard.add("manual", work("manual.txt", "m\n"), json!({ "queue": true, "manual": true })).await;
    assert_eq!((reason(&yard, &manual).await.as_str(), reason(&yard, &due).await.as_str()), ("manual", "not_before"));
    yard.reviewable(&due).await;
    assert!(yard.run(&due).await["started_at"].as_str().unwrap().parse::<Timestamp>().unwrap() >= soon);
    assert_eq!(yard.status(&manual).await, "queued");
    yard.server.call("run_task_now", json!({ "task_id": manual })).await;
    yard.reviewable(&manual).await;
}

#[tokio::test]
async fn a_blocked_task_starts_when_its_blocker_is_merged_from_a_base_with_that_work() {
    let yard = Yard::new().await;
    let first = yard.queue("First", work("first.txt", "from the first\n")).await;
    let steps =
        json!([{ "shell": "cat first.txt" }, { "text": "I see: ${last}" }, { "write": { "path": "second.txt", "content": "2\n" } }]);
    let second = yard.add("Second", steps, json!({ "queue": true, "blocked_by": [first] })).await;
    yard.reviewable(&first).await;
    assert_eq!(reason(&yard, &second).await, "blocked");
    yard.server.call("review_task", json!({ "task_id": first, "decision": "approve" })).await;
    yard.reviewable(&second).await;
    assert!(yard.log(&second).await.contains("I see: from the first"), "{}", yard.log(&second).await);
    yard.server.call("review_task", json!({ "task_id": second, "decision": "approve" })).await;
    assert_eq!(yard.repo.git(&["ls-tree", "--name-only", "main"]).await.unwrap(), "README.md\nfirst.txt\nsecond.txt");
}

#[tokio::test]
async fn the_override_slot_takes_one_and_says_who_has_it() {
    let yard = Yard::new().await;
    yard.server.set("configured_slots", 1).await;
    let queued = yard.queue("Queued", held(&yard, "queued")).await;
    yard.reached("queued").await;
    let now = yard.task("Now", held(&yard, "now")).await;
    let started = yard.server.call("run_task_now", json!({ "task_id": now })).await;
    assert_eq!(started["slot"], "override");
    yard.reached("now").await;
    // The same again is the same run; another is told who runs there.
    assert_eq!(yard.server.call("run_task_now", json!({ "task_id": now })).await["run_id"], started["run_id"]);
    let more = yard.task("More", json!([])).await;
    let error = yard.server.refused("run_task_now", json!({ "task_id": more }), "RESOURCE_EXHAUSTED").await;
    assert!(error["message"].as_str().unwrap().contains("Now") && error["details"]["task_id"] == json!(now), "{error}");
    assert_eq!(yard.status(&more).await, "ready");
    let state = state(&yard).await;
    let slots: Vec<&Value> = state["active_slots"].as_array().unwrap().iter().map(|slot| &slot["slot"]).collect();
    assert_eq!(slots, ["queue", "override"], "{state}");
    yard.open("queued-go");
    yard.open("now-go");
    yard.reviewable(&queued).await;
    yard.reviewable(&now).await;
}

#[tokio::test]
async fn six_tasks_on_three_slots_all_come_through() {
    let yard = Yard::new().await;
    let mut tasks = Vec::new();
    for n in 0..6 {
        tasks.push(yard.queue(&format!("Task {n}"), work(&format!("{n}.txt"), "x\n")).await);
    }
    let most = std::cell::Cell::new(0);
    eventually("all six", async || {
        let running = state(&yard).await["active_slots"].as_array().unwrap().len();
        most.set(most.get().max(running));
        let mut waiting = 0;
        for task in &tasks {
            waiting += usize::from(yard.status(task).await == "waiting_for_review");
        }
        (waiting == tasks.len()).then_some(())
    })
    .await;
    assert!(most.get() <= 3, "{} ran at once", most.get());
    let set = yard.server.call("preview_merge_set", json!({ "task_ids": tasks })).await;
    assert_eq!(set["order_ok"], json!(tasks), "{set}");
}

#[tokio::test]
async fn an_agent_that_waits_for_another_task_gives_it_its_slot() {
    let yard = Yard::new().await;
    yard.server.set("configured_slots", 1).await;
    yard.later_turns("ada", json!([work("child.txt", "child\n")])).await;
    let steps = json!([
        { "mcp": { "tool": "add_task", "args": { "list_id": yard.list, "title": "Child", "queue": true } } },
        { "mcp": { "tool": "wait_for_task_change", "args": { "task_ids": ["TY-2"], "timeout_seconds": 80 } } },
        { "text": "The wait says: ${last}" },
        { "write": { "path": "parent.txt", "content": "parent\n" } },
    ]);
    let parent = yard.queue("Parent", steps).await;
    yard.reviewable(&parent).await;
    yard.reviewable("TY-2").await;
    assert_eq!(yard.outcomes(&parent).await, ["succeeded"]);
    let log = yard.log(&parent).await;
    assert!(log.contains("waiting_for_review") && !log.contains("timed_out\":true"), "{log}");
}
