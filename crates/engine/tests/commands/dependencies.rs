//! What waits for what: no rings, and dead ends are said.

use crate::support::{Yard, input};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::task::Status;
use taskyard_engine::commands::output::DependencyOutput;

async fn depend(yard: &Yard, task: &str, on: &str) -> taskyard_domain::Result<DependencyOutput> {
    yard.engine.add_task_dependency(&yard.me(), input(json!({ "task_id": task, "depends_on_task_id": on }))).await
}

#[tokio::test]
async fn rings_are_refused_and_named() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    for title in ["a", "b", "c"] {
        yard.add(&list, title).await;
    }
    depend(&yard, "TY-1", "TY-2").await.unwrap();
    depend(&yard, "TY-2", "TY-3").await.unwrap();
    let error = depend(&yard, "TY-3", "TY-1").await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
    assert!(error.message.ends_with("TY-3 → TY-1 → TY-2 → TY-3"), "{error}");
    let own = depend(&yard, "TY-1", "TY-1").await.unwrap_err();
    assert!(own.message.ends_with("TY-1 → TY-1"), "{own}");
    let three = yard.engine.get_task(&yard.me(), input(json!({ "task_id": "TY-3" }))).await.unwrap();
    assert_eq!(three.blocked_by.count, 0, "nothing of it is stored");
}

#[tokio::test]
async fn a_parent_may_wait_for_its_children_but_not_they_for_it() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let parent = yard.add(&list, "p").await;
    for _ in 0..2 {
        yard.engine.add_subtask(&yard.me(), input(json!({ "parent_id": parent, "title": "c" }))).await.unwrap();
    }
    assert_eq!(depend(&yard, "TY-1", "TY-2").await.unwrap().added, Some(true));
    assert_eq!(depend(&yard, "TY-3", "TY-2").await.unwrap().blocked_by, ["TY-2"]);
    let error = depend(&yard, "TY-3", "TY-1").await.unwrap_err();
    assert!(error.message.contains("TY-3 → TY-1 → TY-3"), "{error}");
}

#[tokio::test]
async fn two_updates_at_once_cannot_close_a_ring_together() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    for round in 0..10 {
        let (a, b) = (yard.add(&list, "a").await, yard.add(&list, "b").await);
        let one = tokio::spawn({
            let (engine, me) = (yard.engine.clone(), yard.me());
            let call = input(json!({ "task_id": a, "depends_on_task_id": b }));
            async move { engine.add_task_dependency(&me, call).await.is_ok() }
        });
        let other = depend(&yard, &b, &a).await.is_ok();
        assert!(one.await.unwrap() != other, "exactly one of them, round {round}");
    }
}

#[tokio::test]
async fn adding_and_removing_twice_is_no_error() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let (a, b) = (yard.add(&list, "a").await, yard.add(&list, "b").await);
    assert_eq!(depend(&yard, &a, &b).await.unwrap().added, Some(true));
    let again = depend(&yard, &a, &b).await.unwrap();
    assert_eq!((again.added, again.unfinished.as_slice()), (Some(false), [b.clone()].as_slice()));
    yard.force(&b, Status::Done).await;
    let remove = || input(json!({ "task_id": a, "depends_on_task_id": b }));
    let removed = yard.engine.remove_task_dependency(&yard.me(), remove()).await.unwrap();
    assert_eq!((removed.removed, removed.blocked_by.len()), (Some(true), 0));
    assert_eq!(yard.engine.remove_task_dependency(&yard.me(), remove()).await.unwrap().removed, Some(false));
    let error = depend(&yard, &a, "TY-77").await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::NotFound, Some("depends_on_task_id")));
}

#[tokio::test]
async fn a_dead_blocker_is_said_with_the_way_out() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let (a, b) = (yard.add(&list, "a").await, yard.add(&list, "b").await);
    depend(&yard, &a, &b).await.unwrap();
    let reasons = async || yard.engine.get_task(&yard.me(), input(json!({ "task_id": a }))).await.unwrap().blocked_reasons;
    assert!(reasons().await.is_empty());
    for status in [Status::Failed, Status::Cancelled] {
        yard.force(&b, status).await;
        let said = reasons().await.join("\n");
        assert!(said.contains(&b) && said.contains(status.as_str()) && said.contains("a person has to decide"), "{said}");
    }
    yard.force(&b, Status::Done).await;
    assert!(reasons().await.is_empty());
}
