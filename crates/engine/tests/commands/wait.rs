//! Waiting for changes: woken by the event, nothing lost between two calls.

use crate::support::{Yard, input, size};
use serde_json::json;
use std::time::Duration;
use taskyard_domain::agent::DriverKind;
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::task::Status;
use taskyard_domain::{Class, Result};
use taskyard_engine::Caller;
use taskyard_engine::commands::output::WaitForTaskChangeOutput;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

type Answer = WaitForTaskChangeOutput;

async fn wait_as(yard: &Yard, caller: &Caller, arguments: serde_json::Value, cancel: CancellationToken) -> Result<Answer> {
    yard.engine.wait_for_task_change(caller, input(arguments), cancel).await
}

async fn wait(yard: &Yard, arguments: serde_json::Value) -> Answer {
    wait_as(yard, &yard.me(), arguments, CancellationToken::new()).await.unwrap()
}

/// A wait in the background.
fn begin(yard: &Yard, arguments: serde_json::Value, cancel: CancellationToken) -> JoinHandle<Result<Answer>> {
    let (engine, me) = (yard.engine.clone(), yard.me());
    tokio::spawn(async move { engine.wait_for_task_change(&me, input(arguments), cancel).await })
}

/// A yard whose tasks TY-1 … TY-n are queued.
async fn queued(n: usize) -> (Yard, taskyard_testkit::repo::Repo) {
    let yard = Yard::new().await;
    let (list, repo) = yard.list_with_repo("L").await;
    yard.agent("claude", DriverKind::Claude).await;
    for _ in 0..n {
        yard.engine.add_task(&yard.me(), input(json!({ "list_id": list, "title": "t", "queue": true }))).await.unwrap();
    }
    (yard, repo)
}

fn names(answer: &Answer) -> Vec<(&str, &str)> {
    answer.changed.iter().map(|task| (task.short_id.as_str(), task.status.as_str())).collect()
}

#[tokio::test]
async fn without_a_cursor_what_has_left_already_ends_the_wait() {
    let (yard, _repo) = queued(2).await;
    yard.force("TY-2", Status::WaitingForReview).await;
    let id = yard.task("TY-2").await.id;
    let answer = wait(&yard, json!({ "task_ids": ["TY-1", "TY-2", "TY-2", id] })).await;
    assert_eq!(names(&answer), [("TY-2", "waiting_for_review")]);
    assert_eq!(answer.changed[0].previous_status, None);
    assert!(!answer.settled && !answer.timed_out && answer.hint.unwrap().contains("cursor"));
}

#[tokio::test]
async fn an_unknown_task_ends_a_first_wait_and_is_named() {
    let (yard, _repo) = queued(1).await;
    let answer = wait(&yard, json!({ "task_ids": ["TY-1", "TY-9"] })).await;
    assert_eq!((answer.not_found.as_slice(), answer.settled), (["TY-9".to_owned()].as_slice(), false));
    let cursor = answer.cursor;
    let again = wait(&yard, json!({ "task_ids": ["TY-1", "TY-9"], "cursor": cursor, "timeout_seconds": 0 })).await;
    assert!(again.timed_out, "with a cursor it is no news");
    let alone = wait(&yard, json!({ "task_ids": ["TY-9"], "cursor": cursor })).await;
    assert!(alone.settled && !alone.timed_out);
}

#[tokio::test]
async fn a_change_during_the_wait_ends_it() {
    let (yard, _repo) = queued(2).await;
    let waiting = begin(&yard, json!({ "task_ids": ["TY-1", "TY-2"], "timeout_seconds": 60 }), CancellationToken::new());
    yard.force("TY-1", Status::InProgress).await;
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "a start is no change to wait for");
    yard.force("TY-1", Status::Failed).await;
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!(names(&answer), [("TY-1", "failed")]);
    assert!(!answer.timed_out);
}

#[tokio::test]
async fn a_change_between_two_waits_is_not_lost() {
    let (yard, _repo) = queued(2).await;
    let first = wait(&yard, json!({ "task_ids": ["TY-1", "TY-2"], "timeout_seconds": 0 })).await;
    assert!(first.timed_out && first.changed.is_empty());
    yard.force("TY-1", Status::WaitingForReview).await;
    yard.force("TY-1", Status::Queued).await;
    let second = wait(&yard, json!({ "task_ids": ["TY-1", "TY-2"], "cursor": first.cursor })).await;
    assert_eq!(names(&second), [("TY-1", "queued")], "it left and came back: its latest status");
    assert_eq!(second.changed[0].previous_status.as_deref(), Some("queued"));
    let third = wait(&yard, json!({ "task_ids": ["TY-1", "TY-2"], "cursor": second.cursor, "timeout_seconds": 0 })).await;
    assert!(third.timed_out && third.changed.is_empty(), "what was told isn't told again");
}

#[tokio::test]
async fn with_a_cursor_tasks_outside_end_the_wait_only_when_all_are() {
    let (yard, _repo) = queued(2).await;
    yard.force("TY-1", Status::Done).await;
    let first = wait(&yard, json!({ "task_ids": ["TY-1", "TY-2"] })).await;
    let call = |timeout: i64| json!({ "task_ids": ["TY-1", "TY-2"], "cursor": first.cursor, "timeout_seconds": timeout });
    assert!(wait(&yard, call(0)).await.timed_out);
    let waiting = begin(&yard, call(60), CancellationToken::new());
    yard.force("TY-2", Status::Done).await;
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!((names(&answer), answer.settled, &answer.hint), (vec![("TY-2", "done")], true, &None));
    let after = wait(&yard, json!({ "task_ids": ["TY-1", "TY-2"], "cursor": answer.cursor })).await;
    assert!(after.settled && !after.timed_out && after.changed.is_empty());
}

#[tokio::test]
async fn a_task_that_is_deleted_meanwhile_ends_the_wait() {
    let (yard, _repo) = queued(2).await;
    let first = wait(&yard, json!({ "task_ids": ["TY-1", "TY-2"], "timeout_seconds": 0 })).await;
    let id = yard.task("TY-2").await.id;
    let call = json!({ "task_ids": ["TY-1", id], "cursor": first.cursor, "timeout_seconds": 60 });
    let waiting = begin(&yard, call, CancellationToken::new());
    yard.engine.delete_task(&yard.me(), input(json!({ "task_id": "TY-2" }))).await.unwrap();
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!((answer.not_found, answer.timed_out), (vec![id.to_string()], false));
}

#[tokio::test]
async fn a_task_that_is_deleted_between_two_waits_ends_the_second() {
    let (yard, _repo) = queued(3).await;
    let second = yard.task("TY-2").await.id;
    let first = wait(&yard, json!({ "task_ids": ["TY-1", "TY-2", "TY-3"], "timeout_seconds": 0 })).await;
    for name in ["TY-2", "TY-3"] {
        yard.engine.delete_task(&yard.me(), input(json!({ "task_id": name }))).await.unwrap();
    }
    for gone in [json!(second), json!("ty-3")] {
        let answer = wait(&yard, json!({ "task_ids": ["TY-1", gone], "cursor": first.cursor })).await;
        assert_eq!((answer.not_found.len(), answer.timed_out), (1, false), "{gone}");
        let call = json!({ "task_ids": ["TY-1", gone], "cursor": answer.cursor, "timeout_seconds": 0 });
        assert!(wait(&yard, call).await.timed_out, "{gone} was told of");
    }
}

#[tokio::test]
async fn a_cursor_beyond_the_log_answers_at_once() {
    let (yard, _repo) = queued(1).await;
    let first = wait(&yard, json!({ "task_ids": ["TY-1"], "timeout_seconds": 0 })).await;
    let other = Yard::new().await;
    let list = other.list("L").await;
    other.add(&list, "t").await;
    other.force("TY-1", Status::InProgress).await;
    let answer = wait(&other, json!({ "task_ids": ["TY-1"], "cursor": first.cursor })).await;
    assert!(answer.resync && !answer.timed_out && answer.changed.is_empty());
    let next = wait(&other, json!({ "task_ids": ["TY-1"], "cursor": answer.cursor, "timeout_seconds": 0 })).await;
    assert!(!next.resync && next.timed_out);
    let bad = wait_as(&yard, &yard.me(), json!({ "task_ids": ["TY-1"], "cursor": "?" }), CancellationToken::new()).await;
    assert_eq!(bad.unwrap_err().field.as_deref(), Some("cursor"));
}

#[tokio::test]
async fn arguments_have_bounds() {
    let (yard, _repo) = queued(1).await;
    let many: Vec<String> = (0..101).map(|n| format!("TY-{n}")).collect();
    for (arguments, field) in [
        (json!({ "task_ids": [] }), "task_ids"),
        (json!({ "task_ids": many }), "task_ids"),
        (json!({ "task_ids": ["TY-1"], "timeout_seconds": -1 }), "timeout_seconds"),
        (json!({ "task_ids": ["x"] }), "task_ids"),
    ] {
        let error = wait_as(&yard, &yard.me(), arguments, CancellationToken::new()).await.unwrap_err();
        assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some(field)));
    }
}

#[tokio::test]
async fn the_setting_caps_the_timeout() {
    let (yard, _repo) = queued(1).await;
    yard.engine.settings_update(&yard.me(), input(json!({ "settings": { "wait_limit": 1 } }))).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(30), wait(&yard, json!({ "task_ids": ["TY-1"], "timeout_seconds": 3600 })));
    assert!(answer.await.unwrap().timed_out);
}

#[tokio::test]
async fn a_wait_that_is_called_off_ends_and_loses_nothing() {
    let (yard, _repo) = queued(1).await;
    let first = wait(&yard, json!({ "task_ids": ["TY-1"], "timeout_seconds": 0 })).await;
    let cancel = CancellationToken::new();
    let call = json!({ "task_ids": ["TY-1"], "cursor": first.cursor, "timeout_seconds": 60 });
    let waiting = begin(&yard, call.clone(), cancel.clone());
    cancel.cancel();
    assert_eq!(waiting.await.unwrap().unwrap_err().class, Class::Unavailable);
    yard.force("TY-1", Status::Failed).await;
    assert_eq!(names(&wait(&yard, call).await), [("TY-1", "failed")]);
}

#[tokio::test]
async fn a_dead_blocker_ends_the_wait() {
    let (yard, _repo) = queued(2).await;
    yard.engine.add_task_dependency(&yard.me(), input(json!({ "task_id": "TY-2", "depends_on_task_id": "TY-1" }))).await.unwrap();
    let first = wait(&yard, json!({ "task_ids": ["TY-2"], "timeout_seconds": 0 })).await;
    assert!(first.timed_out && first.stuck.is_empty());
    let call = json!({ "task_ids": ["TY-2"], "cursor": first.cursor, "timeout_seconds": 60 });
    let waiting = begin(&yard, call, CancellationToken::new());
    yard.force("TY-1", Status::Failed).await;
    let answer = waiting.await.unwrap().unwrap();
    assert!(!answer.timed_out && !answer.settled);
    assert_eq!(answer.stuck[0].short_id, "TY-2");
    assert!(answer.stuck[0].reason.contains("TY-1"), "{}", answer.stuck[0].reason);
}

#[tokio::test]
async fn a_run_that_waits_has_no_slot_meanwhile() {
    let (yard, _repo) = queued(2).await;
    let mut run = yard.open_run("TY-1").await;
    yard.force("TY-1", Status::InProgress).await;
    run.slot = Some(taskyard_domain::run::Slot::Queue);
    let stored = run.clone();
    yard.write(move |tx| Box::pin(async move { tx.run_update(&stored).await })).await;
    let agent = yard.run_of(&run);
    let engine = yard.engine.clone();
    let call = json!({ "task_ids": ["TY-2"], "timeout_seconds": 60 });
    let waiting = tokio::spawn(async move { engine.wait_for_task_change(&agent, input(call), CancellationToken::new()).await });
    let mut wake = yard.engine.store().subscribe_all();
    let id = run.id;
    let slot = async || yard.engine.store().read(move |read| Box::pin(async move { read.run_fetch(id).await })).await.unwrap().unwrap();
    while slot().await.slot.is_some() {
        wake.changed().await;
    }
    yard.force("TY-2", Status::Done).await;
    while !slot().await.wants_slot {
        wake.changed().await;
    }
    assert!(!waiting.is_finished(), "it goes on when it has a slot again");
    let mut granted = slot().await;
    granted.slot = Some(taskyard_domain::run::Slot::Queue);
    granted.wants_slot = false;
    yard.write(move |tx| {
        Box::pin(async move {
            tx.run_update(&granted).await?;
            let event = taskyard_domain::event::NewEvent::new(granted.workspace_id, taskyard_domain::event::Kind::RunChanged);
            tx.event(event.run(granted.id));
            Ok(())
        })
    })
    .await;
    assert_eq!(names(&waiting.await.unwrap().unwrap()), [("TY-2", "done")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_waits_do_not_keep_others_out() {
    let (yard, _repo) = queued(3).await;
    let waits: Vec<_> = (0..500)
        .map(|n| begin(&yard, json!({ "task_ids": [format!("TY-{}", n % 2 + 1)], "timeout_seconds": 120 }), CancellationToken::new()))
        .collect();
    for _ in 0..5 {
        let me = yard.me();
        let call = yard.engine.get_task(&me, input(json!({ "task_id": "TY-3" })));
        tokio::time::timeout(Duration::from_secs(10), call).await.expect("a read gets through").unwrap();
    }
    yard.force("TY-1", Status::Done).await;
    yard.force("TY-2", Status::Failed).await;
    for wait in waits {
        let answer = tokio::time::timeout(Duration::from_secs(30), wait).await.expect("woken").unwrap().unwrap();
        assert_eq!((answer.changed.len(), answer.timed_out), (1, false));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn growing_transcripts_cost_waits_nothing() {
    let (yard, _repo) = queued(3).await;
    let (workspace, rounds) = (yard.workspace, 50);
    let begun = yard.engine.store().read_count();
    let waits: Vec<_> = (0..200)
        .map(|n| begin(&yard, json!({ "task_ids": [format!("TY-{}", n % 2 + 1)], "timeout_seconds": 120 }), CancellationToken::new()))
        .collect();
    for _ in 0..rounds {
        yard.write(move |tx| {
            Box::pin(async move {
                tx.event(NewEvent::new(workspace, Kind::TranscriptAdvanced));
                Ok(())
            })
        })
        .await;
        // Those who were woken before this read are served before it.
        yard.engine.get_task(&yard.me(), input(json!({ "task_id": "TY-3" }))).await.unwrap();
    }
    yard.force("TY-1", Status::Done).await;
    yard.force("TY-2", Status::Failed).await;
    for wait in waits {
        assert_eq!(wait.await.unwrap().unwrap().changed.len(), 1);
    }
    // Each wait reads the settings, looks, begins to listen, and reads and looks again for either of the two changes.
    let reads = yard.engine.store().read_count() - begun;
    assert!(reads <= 200 * 7 + rounds, "{reads} reads");
}

#[tokio::test]
async fn a_hundred_changes_come_in_small_answers_and_none_is_lost() {
    let yard = Yard::new().await;
    let (list, _repo) = yard.list_with_repo("L").await;
    let mut ids = Vec::new();
    for n in 1..=90 {
        let name = yard.add(&list, "t").await;
        yard.force(&name, if n % 3 == 0 { Status::Queued } else { Status::WaitingForReview }).await;
        ids.push(yard.task(&name).await.id.to_string());
    }
    ids.extend((0..10).map(|n| uuid::Uuid::from_u128(n).to_string()));
    let fresh = told(&yard, ids.clone(), None).await;
    assert_eq!(fresh.len(), 60);
    let start = wait(&yard, json!({ "task_ids": [&ids[2]], "timeout_seconds": 0 })).await.cursor;
    for n in 1..=90 {
        yard.force(&format!("TY-{n}"), Status::Failed).await;
    }
    assert_eq!(told(&yard, ids[..90].to_vec(), Some(start)).await.len(), 90);
}

/// What all answers together tell of, each of them small, going on as each says.
async fn told(yard: &Yard, mut ids: Vec<String>, mut cursor: Option<String>) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let answer = wait(yard, json!({ "task_ids": ids, "timeout_seconds": 0, "cursor": cursor })).await;
        assert!(size(&answer) <= 10_000, "{} bytes", size(&answer));
        ids.retain(|id| !answer.not_found.contains(id) && !answer.changed.iter().any(|c| c.task_id == *id));
        told.extend(answer.changed.into_iter().map(|changed| changed.task_id));
        if !answer.truncated {
            return told;
        }
        assert!(answer.hint.unwrap().contains("without the tasks named here"));
        cursor = Some(answer.cursor);
    }
}
