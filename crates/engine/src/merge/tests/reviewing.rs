//! A person's decision on a task that waits for review.

use super::yard::{Yard, about, input, operator, operator_ref};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::id::WorktreeId;
use taskyard_domain::task::{Fact, Status};
use taskyard_domain::worktree::{State, Worktree};

#[tokio::test]
async fn approving_without_work_is_an_explicit_no_op() {
    let yard = Yard::new().await;
    let bare = yard.bare_task("No worktree").await;
    yard.set(bare, |task| task.status = Status::WaitingForReview).await;
    let answer = yard.engine.review_task(&operator(), input(json!({ "task_id": bare.to_string(), "decision": "approve" }))).await.unwrap();
    assert!(answer.approved && answer.nothing_to_merge && !answer.merged && answer.merge.is_none());
    assert_eq!((answer.status.as_str(), yard.status(bare).await), ("done", Status::Done));

    let work = yard.task("No changes").await;
    let main = yard.git(&["rev-parse", "main"]).await;
    let answer = yard.approve(&work).await.unwrap();
    assert!(answer.nothing_to_merge && answer.note.is_none());
    yard.effects().await;
    assert_eq!(yard.git(&["rev-parse", "main"]).await, main);
    assert!(!work.path.exists() && yard.git(&["branch", "--list", &work.branch]).await.is_empty());
    assert_eq!(yard.worktree(work.worktree).await.state, State::Discarded);
    let diff = yard.engine.get_task_diff(&operator(), about(&work, json!({}))).await.unwrap();
    assert_eq!((diff.total_files, diff.worktree_state.as_str(), diff.base_commit), (0, "discarded", main));
}

#[tokio::test]
async fn parked_work_is_told_its_ways_out_and_they_work() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.engine.review_task(&operator(), about(&work, json!({ "decision": "reject_park" }))).await.unwrap();
    let error = yard.merge(&work, json!({})).await.unwrap_err();
    let hint = error.hint.clone().unwrap();
    assert!(error.class == Class::FailedPrecondition && hint.contains("with git") && hint.contains("update_task_status"), "{error} {hint}");
    let done = || yard.engine.update_task_status(operator_ref(), about(&work, json!({ "status": "done" })));
    assert_eq!(done().await.unwrap_err().class, Class::FailedPrecondition, "its work isn't in the target yet");
    yard.git(&["merge", "-q", &work.branch]).await;
    done().await.unwrap();
    assert_eq!(yard.status(work.task).await, Status::Done);
}

#[tokio::test]
async fn discarded_work_is_not_approved_away() {
    let yard = Yard::new().await;
    let work = yard.task("Discarded").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.write(&work, "new.txt", "untracked\n");
    let cleanup = about(&work, json!({ "discard_changes": true }));
    let snapshot = yard.engine.cleanup_task_worktree(&operator(), cleanup).await.unwrap().snapshot_id.unwrap();
    let error = yard.approve(&work).await.unwrap_err();
    assert!(error.class == Class::FailedPrecondition && error.message.contains(&work.branch), "{error}");
    assert!(error.hint.unwrap().contains(&snapshot));
    assert_eq!(yard.status(work.task).await, Status::WaitingForReview);
    // One way out: the person takes it over.
    yard.git(&["merge", "-q", &work.branch]).await;
    let answer = yard.approve(&work).await.unwrap();
    assert!(answer.nothing_to_merge && answer.note.unwrap().contains(&work.branch));
}

#[tokio::test]
async fn work_behind_a_merged_worktree_is_not_approved_away() {
    let yard = Yard::new().await;
    let work = yard.task("Two").await;
    yard.work(&work, "b.txt", "b\n").await;
    let older = yard.worktree(work.worktree).await;
    let (id, created_at) = (WorktreeId::new(yard.engine.ids()), older.created_at + jiff::SignedDuration::from_secs(1));
    let newer =
        Worktree { id, state: State::Merged, has_folder: false, branch: "gone".into(), path: "/nowhere".into(), created_at, ..older };
    yard.engine
        .store()
        .write(move |tx| {
            Box::pin(async move {
                tx.fixture();
                tx.worktree_insert(&newer).await
            })
        })
        .await
        .unwrap();
    let error = yard.approve(&work).await.unwrap_err();
    assert!(error.class == Class::FailedPrecondition && error.message.contains(&work.branch), "{error}");
    assert!(error.hint.unwrap().contains(&work.worktree.to_string()));
    assert!(yard.merge(&work, json!({ "worktree_id": work.worktree.to_string() })).await.unwrap().merged);
    assert_eq!(yard.status(work.task).await, Status::Done);
}

#[tokio::test]
async fn rejecting_needs_feedback_and_the_session_goes_on_with_it() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    let reject = |more: serde_json::Value| yard.engine.review_task(operator_ref(), about(&work, more));
    let error = reject(json!({ "decision": "reject_rerun", "feedback": "  " })).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("feedback")));
    let error = reject(json!({ "decision": "maybe" })).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("decision")));
    let answer = reject(json!({ "decision": "reject_rerun", "feedback": "Use tabs" })).await.unwrap();
    assert_eq!((answer.status.as_str(), answer.approved), ("queued", false));
    assert_eq!(yard.row(work.task).await.next_prompt.as_deref(), Some("Use tabs"));
    assert!(work.path.exists() && yard.worktree(work.worktree).await.state == State::Active);
    let error = reject(json!({ "decision": "reject_park" })).await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
}

#[tokio::test]
async fn parking_and_cancelling_keep_the_worktree() {
    let yard = Yard::new().await;
    for (decision, status) in [("reject_park", Status::Ready), ("cancel", Status::Cancelled)] {
        let work = yard.task(decision).await;
        yard.work(&work, "b.txt", "b\n").await;
        let answer = yard.engine.review_task(&operator(), about(&work, json!({ "decision": decision }))).await.unwrap();
        assert_eq!((answer.status.as_str(), yard.status(work.task).await), (status.as_str(), status));
        yard.effects().await;
        assert!(work.path.join("b.txt").exists());
        assert_eq!(yard.worktree(work.worktree).await.state, State::Active);
    }
}

#[tokio::test]
async fn a_parent_waits_until_units_can_land() {
    let yard = Yard::new().await;
    let (parent, child) = (yard.task("Parent").await, yard.task("Child").await);
    yard.work(&parent, "b.txt", "b\n").await;
    let id = parent.task;
    yard.set(child.task, move |task| task.parent_id = Some(id)).await;
    let error = yard.approve(&parent).await.unwrap_err();
    assert_eq!((error.class, error.details.unwrap()["children"].clone()), (Class::FailedPrecondition, json!([child.short])));
    let empty = yard.task("Empty parent").await;
    let id = empty.task;
    yard.set(child.task, move |task| task.parent_id = Some(id)).await;
    assert_eq!(yard.approve(&empty).await.unwrap_err().class, Class::FailedPrecondition);
}

#[tokio::test]
async fn the_decision_and_the_merge_are_audited_with_their_events() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.approve(&work).await.unwrap();
    let workspace = yard.row(work.task).await.workspace_id;
    let audit = yard.engine.get_audit_log(&operator(), input(json!({ "workspace": workspace.to_string() }))).await.unwrap();
    let text = serde_json::to_string(&audit).unwrap();
    assert!(text.contains("task.merged") && text.contains("merge.begun"), "{text}");
    assert!(taskyard_domain::task::next(Status::Done, Fact::Approved, taskyard_domain::task::Context::default()).is_err());
}
