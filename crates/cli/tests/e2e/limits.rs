//! Usage limits: one account pauses, everything else goes on, and the pause ends by time or by a person.

use crate::support::{Yard, eventually, work};
use serde_json::{Value, json};
use taskyard_domain::Timestamp;

/// Two agents with accounts of their own, one slot.
async fn two_agents() -> Yard {
    let yard = Yard::new().await;
    yard.later_turns("ada", json!([[], work("later.txt", "later\n")])).await;
    yard.agent("bob", json!({})).await;
    yard.server.set("configured_slots", 1).await;
    yard
}

async fn queued(yard: &Yard, title: &str, agent: &str, steps: Value) -> String {
    yard.add(title, steps, json!({ "queue": true, "agent_profile_id": agent })).await
}

/// Waits until the task is paused by a limit; gives until when.
async fn paused(yard: &Yard, task: &str) -> String {
    eventually("the task to be paused", async || {
        let shown = yard.get(task).await;
        assert_ne!(shown["status"], "failed", "{shown}");
        (shown["status"] == "queued" && shown["last_outcome"] == "limited").then(|| shown["not_before"].as_str().unwrap().to_owned())
    })
    .await
}

async fn reason(yard: &Yard, task: &str) -> String {
    let state = yard.server.call("get_queue_state", json!({})).await;
    let row = state["waiting"].as_array().unwrap().iter().find(|row| row["task_id"] == *task).cloned();
    row.unwrap_or_else(|| panic!("{task} doesn't wait: {state}"))["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_limit_with_a_reset_time_pauses_that_account_only_and_resumes_by_itself() {
    let yard = two_agents().await;
    let limited = queued(&yard, "Hit the limit", "ada", json!([{ "limit": { "reset_in_s": 12 } }])).await;
    let same = queued(&yard, "Same account", "ada", work("same.txt", "same\n")).await;
    let other = queued(&yard, "Other account", "bob", work("other.txt", "other\n")).await;
    let until = paused(&yard, &limited).await;
    assert_eq!(reason(&yard, &same).await, "agent_limited");
    assert!(["not_before", "agent_limited"].contains(&reason(&yard, &limited).await.as_str()));
    yard.reviewable(&other).await;
    assert_eq!(yard.get(&limited).await["failure"], Value::Null);
    yard.reviewable(&limited).await;
    yard.reviewable(&same).await;
    // Once, after the time, in the same session; the one that waited along is no run richer.
    assert_eq!(yard.outcomes(&limited).await, ["succeeded", "limited"]);
    assert_eq!(yard.outcomes(&same).await, ["succeeded"]);
    let started = yard.run(&limited).await["started_at"].as_str().unwrap().to_owned();
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    assert!(time(&started) >= time(&until), "{started} is before {until}");
    assert!(yard.worktree(&limited).await.join("later.txt").exists());
    let agents = yard.server.call("list_agents", json!({})).await;
    let ada = agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "ada").cloned().unwrap();
    assert_eq!(ada["limited_until"], Value::Null, "{ada}");
    let of_account = yard.audited(ada["id"].as_str().unwrap()).await;
    assert_eq!(of_account, ["agent.saved", "agent.saved", "agent.limited", "agent.unlimited"]);
}

#[tokio::test]
async fn a_limit_told_in_words_pauses_until_a_person_lifts_it() {
    let mut yard = two_agents().await;
    yard.server.set("limit_backoff", 3600).await;
    let limited = queued(&yard, "Hit the limit", "ada", json!([{ "limit": { "as_text": true } }])).await;
    let dropped = queued(&yard, "Called off", "ada", work("x.txt", "x\n")).await;
    paused(&yard, &limited).await;
    // A person can call off what waits; the account stays paused, also over a restart.
    yard.server.call("cancel_task", json!({ "task_id": dropped })).await;
    assert_eq!(yard.status(&dropped).await, "cancelled");
    yard.server.restart().await;
    let same = queued(&yard, "Same account", "ada", work("same.txt", "same\n")).await;
    let other = queued(&yard, "Other account", "bob", work("other.txt", "other\n")).await;
    yard.reviewable(&other).await;
    assert_eq!((yard.status(&same).await.as_str(), reason(&yard, &same).await.as_str()), ("queued", "agent_limited"));
    let told = yard.server.cli(&["agent", "unlimit", "ada"]).await;
    assert_eq!(told.code, 0, "{told:?}");
    yard.reviewable(&limited).await;
    yard.reviewable(&same).await;
    assert_eq!(yard.outcomes(&limited).await, ["succeeded", "limited"]);
}

#[tokio::test]
async fn without_leave_to_resume_the_pause_has_no_end_of_its_own() {
    let yard = two_agents().await;
    yard.server.set("resume_limited", false).await;
    let limited = queued(&yard, "Hit the limit", "ada", json!([{ "limit": { "reset_in_s": 1 } }])).await;
    let until = paused(&yard, &limited).await;
    assert!(until.starts_with("9999-"), "{until}");
    let other = queued(&yard, "Other account", "bob", work("other.txt", "other\n")).await;
    yard.reviewable(&other).await;
    assert_eq!(yard.status(&limited).await, "queued");
    yard.server.call("agent_unlimit", json!({ "name": "ada" })).await;
    yard.reviewable(&limited).await;
}

/// D13: what a person calls off while its account is paused stays so when the pause ends; its work is kept.
#[tokio::test]
async fn a_limited_task_that_is_called_off_never_starts_again() {
    let yard = two_agents().await;
    let mut steps = work("half.txt", "half\n");
    steps.as_array_mut().unwrap().push(json!({ "limit": { "reset_in_s": 600 } }));
    let limited = queued(&yard, "Hit the limit", "ada", steps).await;
    paused(&yard, &limited).await;
    let folder = yard.worktree(&limited).await;
    yard.server.call("cancel_task", json!({ "task_id": limited })).await;
    assert_eq!(yard.status(&limited).await, "cancelled");
    let told = yard.server.cli(&["agent", "unlimit", "ada"]).await;
    assert_eq!(told.code, 0, "{told:?}");
    // The account works again, on what comes after.
    let next = queued(&yard, "Next", "ada", work("next.txt", "next\n")).await;
    yard.reviewable(&next).await;
    assert_eq!((yard.status(&limited).await.as_str(), yard.outcomes(&limited).await), ("cancelled", vec!["limited".to_owned()]));
    assert!(folder.join("half.txt").exists());
}
