//! Deleting tasks: what stands against it, and what stays.

use crate::support::{Yard, input};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::task::Status;

#[tokio::test]
async fn children_go_to_the_grandparent() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    yard.add(&list, "grandparent").await;
    for (parent, title) in [("TY-1", "parent"), ("TY-2", "child"), ("TY-2", "child")] {
        yard.engine.add_subtask(&yard.me(), input(json!({ "parent_id": parent, "title": title }))).await.unwrap();
    }
    let deleted = yard.engine.delete_task(&yard.me(), input(json!({ "task_id": "TY-2" }))).await.unwrap();
    let top = yard.task("TY-1").await.id;
    assert_eq!((deleted.deleted, deleted.short_id.as_str(), deleted.title.as_str()), (true, "TY-2", "parent"));
    assert_eq!((deleted.reparented, deleted.new_parent_id), (vec!["TY-3".into(), "TY-4".into()], Some(top.to_string())));
    assert_eq!(yard.task("TY-3").await.parent_id, Some(top));
    let deleted = yard.engine.delete_task(&yard.me(), input(json!({ "task_id": "TY-1" }))).await.unwrap();
    assert_eq!((deleted.reparented.len(), deleted.new_parent_id), (2, None));
    assert_eq!(yard.task("TY-4").await.parent_id, None);
}

#[tokio::test]
async fn a_run_and_dependants_stand_against_it() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let (a, b) = (yard.add(&list, "a").await, yard.add(&list, "b").await);
    yard.open_run(&a).await;
    let error = yard.engine.delete_task(&yard.me(), input(json!({ "task_id": a }))).await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
    assert!(error.hint.unwrap().contains("cancel_task"));

    let c = yard.add(&list, "c").await;
    yard.engine.add_task_dependency(&yard.me(), input(json!({ "task_id": c, "depends_on_task_id": b }))).await.unwrap();
    let error = yard.engine.delete_task(&yard.me(), input(json!({ "task_id": b }))).await.unwrap_err();
    assert!(error.message.contains(&c) && error.hint.unwrap().contains("remove_task_dependency"));
    assert_eq!(yard.task(&b).await.archived_at, None);
    yard.force(&b, Status::Done).await;
    assert!(yard.engine.delete_task(&yard.me(), input(json!({ "task_id": b }))).await.unwrap().deleted);
    let gone = yard.engine.delete_task(&yard.me(), input(json!({ "task_id": b }))).await.unwrap_err();
    assert_eq!(gone.class, Class::NotFound);
}

#[tokio::test]
async fn unsaved_work_is_in_a_snapshot() {
    let yard = Yard::new().await;
    let (list, repo) = yard.list_with_repo("L").await;
    let name = yard.add(&list, "t").await;
    let path = yard.worktree(&name, &repo).await;
    std::fs::write(path.join("precious.txt"), "only copy").unwrap();
    let deleted = yard.engine.delete_task(&yard.me(), input(json!({ "task_id": name }))).await.unwrap();
    assert_eq!(deleted.snapshots.len(), 1);
    assert!(!path.exists());
    let listed = yard.engine.list_snapshots(&yard.me(), input(json!({}))).await.unwrap();
    assert_eq!((listed.total, &listed.snapshots[0].snapshot_id), (1, &deleted.snapshots[0]));
    assert_eq!(listed.snapshots[0].task_id, None);
    let shown = repo.git(&["show", &format!("{}:precious.txt", listed.snapshots[0].ref_name)]).await.unwrap();
    assert_eq!(shown, "only copy");
}

#[tokio::test]
async fn an_agent_deletes_only_what_its_task_made() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let (own, other) = (yard.add(&list, "own").await, yard.add(&list, "other").await);
    let run = yard.open_run(&own).await;
    let agent = yard.run_of(&run);
    let made = yard.engine.add_task(&agent, input(json!({ "list_id": list, "title": "made" }))).await.unwrap();
    for (task, allowed) in [(&other, false), (&made.short_id, true)] {
        let deleted = yard.engine.delete_task(&agent, input(json!({ "task_id": task }))).await;
        assert_eq!(deleted.as_ref().map_err(|error| error.class).err(), (!allowed).then_some(Class::Forbidden), "{task}");
    }
}
