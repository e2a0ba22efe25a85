//! A person's word about a status, and what stands against it.

use crate::support::{Yard, input};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::agent::DriverKind;
use taskyard_domain::task::Status;
use taskyard_engine::Caller;
use taskyard_engine::commands::output::UpdateTaskStatusOutput;

async fn say(yard: &Yard, caller: &Caller, task: &str, word: &str) -> taskyard_domain::Result<UpdateTaskStatusOutput> {
    yard.engine.update_task_status(caller, input(json!({ "task_id": task, "status": word }))).await
}

#[tokio::test]
async fn words_are_read_in_any_spelling() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let name = yard.add(&list, "t").await;
    for (word, status) in [("Canceled", "cancelled"), ("idle", "ready"), ("COMPLETED", "done"), ("to-do", "ready"), ("ready", "ready")] {
        let said = say(&yard, &yard.me(), &name, word).await.unwrap();
        assert_eq!(said.status, status, "{word}");
    }
    assert!(!say(&yard, &yard.me(), &name, "ready").await.unwrap().updated);
    for word in ["in_progress", "failed", "nonsense", ""] {
        let error = say(&yard, &yard.me(), &name, word).await.unwrap_err();
        assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("status")), "{word}");
        assert!(error.message.contains("queued"), "{error}");
    }
}

#[tokio::test]
async fn the_values_say_which_of_them_can_be_set() {
    let yard = Yard::new().await;
    let values = yard.engine.get_task_status_values(&yard.me(), input(json!({}))).await.unwrap().statuses;
    assert_eq!(values.len(), Status::ALL.len());
    let settable: Vec<&str> = values.iter().filter(|value| value.settable).map(|value| value.status.as_str()).collect();
    assert_eq!(settable, ["ready", "queued", "done", "cancelled"]);
    assert!(values.iter().all(|value| !value.meaning.is_empty()));
}

#[tokio::test]
async fn queueing_names_what_is_missing() {
    let yard = Yard::new().await;
    let bare = yard.list("Bare").await;
    let name = yard.add(&bare, "t").await;
    let error = say(&yard, &yard.me(), &name, "queued").await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::FailedPrecondition, Some("repository_id")));
    let (list, _repo) = yard.list_with_repo("L").await;
    let name = yard.add(&list, "t").await;
    let error = say(&yard, &yard.me(), &name, "queued").await.unwrap_err();
    assert_eq!(error.field.as_deref(), Some("agent_profile_id"));
    yard.agent("claude", DriverKind::Claude).await;
    assert_eq!(say(&yard, &yard.me(), &name, "queued").await.unwrap().previous_status, "ready");
}

#[tokio::test]
async fn an_open_run_stands_against_every_word_but_cancelled() {
    let yard = Yard::new().await;
    let (list, _repo) = yard.list_with_repo("L").await;
    yard.agent("claude", DriverKind::Claude).await;
    let name = yard.add(&list, "t").await;
    yard.open_run(&name).await;
    yard.force(&name, Status::InProgress).await;
    for word in ["ready", "queued", "done"] {
        let error = say(&yard, &yard.me(), &name, word).await.unwrap_err();
        assert_eq!(error.class, Class::FailedPrecondition, "{word}");
        assert!(error.hint.unwrap().contains("cancel_task"), "{word}");
    }
    assert_eq!(say(&yard, &yard.me(), &name, "cancelled").await.unwrap().status, "cancelled");
}

#[tokio::test]
async fn unmerged_work_stands_against_ready_and_done() {
    let yard = Yard::new().await;
    let (list, repo) = yard.list_with_repo("L").await;
    let name = yard.add(&list, "t").await;
    let path = yard.worktree(&name, &repo).await;
    assert_eq!(say(&yard, &yard.me(), &name, "done").await.unwrap().status, "done", "an empty worktree holds nothing");
    yard.force(&name, Status::Failed).await;

    std::fs::write(path.join("new.txt"), "x").unwrap();
    for word in ["ready", "done"] {
        let error = say(&yard, &yard.me(), &name, word).await.unwrap_err();
        assert_eq!(error.class, Class::FailedPrecondition);
        assert!(error.hint.unwrap().contains("merge"), "uncommitted work, {word}");
    }
    repo.git_in(&path, &["add", "."]).await.unwrap();
    repo.git_in(&path, &["commit", "-qm", "work"]).await.unwrap();
    assert!(say(&yard, &yard.me(), &name, "done").await.is_err(), "committed work");

    std::fs::remove_dir_all(&path).unwrap();
    assert!(say(&yard, &yard.me(), &name, "done").await.is_err(), "the branch holds it without the folder too");
    repo.git(&["merge", "-q", "--ff-only", "taskyard/ty-1"]).await.unwrap();
    assert_eq!(say(&yard, &yard.me(), &name, "done").await.unwrap().status, "done", "merged by hand");
}

#[tokio::test]
async fn a_failed_task_is_reset_with_its_work() {
    let yard = Yard::new().await;
    let (list, repo) = yard.list_with_repo("L").await;
    let name = yard.add(&list, "t").await;
    let path = yard.worktree(&name, &repo).await;
    std::fs::write(path.join("new.txt"), "x").unwrap();
    yard.force(&name, Status::Failed).await;
    let reset = yard.engine.reset_failed_task(&yard.me(), input(json!({ "task_id": name }))).await.unwrap();
    assert_eq!((reset.reset, reset.status.as_str(), reset.worktree_kept), (true, "ready", true));
    assert!(path.join("new.txt").exists());
    let again = yard.engine.reset_failed_task(&yard.me(), input(json!({ "task_id": name }))).await.unwrap();
    assert_eq!(again.status, "ready");
    yard.force(&name, Status::Done).await;
    let error = yard.engine.reset_failed_task(&yard.me(), input(json!({ "task_id": name }))).await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
}

#[tokio::test]
async fn every_change_of_status_is_an_event_and_an_audit_entry() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let name = yard.add(&list, "t").await;
    say(&yard, &yard.me(), &name, "done").await.unwrap();
    say(&yard, &yard.me(), &name, "done").await.unwrap();
    let workspace = yard.workspace;
    let events = yard.engine.store().read(move |read| Box::pin(async move { read.events_after(workspace, 0, 100).await })).await.unwrap();
    let changes: Vec<_> = events.iter().filter(|event| event.body.kind.as_str() == "task_status_changed").collect();
    assert_eq!(changes.len(), 1, "saying it twice changes nothing");
    assert_eq!((&changes[0].body.data["status"], &changes[0].body.data["previous_status"]), (&json!("done"), &json!("ready")));
    let audit = input(json!({ "workspace": "main", "target_id": name, "action": "task.status_set" }));
    let audit = yard.engine.get_audit_log(&yard.me(), audit).await.unwrap();
    assert_eq!((audit.entries.len(), audit.entries[0].actor.as_str()), (1, "operator"));
}
