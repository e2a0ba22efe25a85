//! What comes between two steps: work after an approval, a start during a cleanup, a server that dies in a deletion.

use super::yard::{Yard, about, input, operator};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use taskyard_domain::Class;
use taskyard_domain::task::Status;
use taskyard_domain::worktree::State;
use taskyard_process::Command;
use taskyard_process::spawn::{Child, Spawn, spawn};

/// A process of nobody we know, in `folder`.
fn stranger(yard: &Yard, folder: &Path) -> Child {
    let env = yard.repo.env().clone();
    spawn(Spawn { program: "sleep".into(), args: vec!["600".into()], cwd: folder.into(), env, stdin: false, marker: None }).unwrap()
}

#[tokio::test]
async fn a_late_release_leaves_what_came_after_the_approval() {
    for status in [Status::WaitingForReview, Status::Done] {
        let yard = Yard::new().await;
        let work = yard.task("Nothing at first").await;
        assert!(yard.approve(&work).await.unwrap().nothing_to_merge);
        yard.work(&work, "b.txt", "b\n").await;
        yard.set(work.task, move |task| task.status = status).await;
        yard.effects().await;
        assert!(work.path.join("b.txt").exists(), "{status}");
        assert_eq!(yard.worktree(work.worktree).await.state, State::Active, "{status}");
    }
}

#[tokio::test]
async fn a_release_leaves_a_task_that_went_on_without_a_commit() {
    let yard = Yard::new().await;
    let work = yard.task("Nothing at first").await;
    yard.approve(&work).await.unwrap();
    yard.set(work.task, |task| task.status = Status::Ready).await;
    yard.effects().await;
    assert!(work.path.exists());
    assert_eq!(yard.worktree(work.worktree).await.state, State::Active);
}

#[tokio::test]
async fn a_cleanup_under_way_ends_before_the_next_run_stands_on_its_ground() {
    let yard = Yard::new().await;
    let work = yard.task("Both").await;
    let tip = yard.work(&work, "b.txt", "b\n").await;
    let (entered, go) = (yard.data().join("entered"), yard.data().join("go"));
    for pipe in [&entered, &go] {
        let make = Command::new("mkfifo", yard.data(), yard.repo.env().clone()).arg(pipe);
        assert!(taskyard_process::run(make).await.unwrap().ok());
    }
    let script = format!("echo > {}; read line < {}", entered.display(), go.display());
    yard.set_repository(|repository| repository.cleanup_script = Some(script)).await;
    let stood = {
        let cleanup = yard.engine.cleanup_task_worktree(super::yard::operator_ref(), about(&work, json!({})));
        let start = async {
            tokio::fs::read(&entered).await.unwrap();
            let mut stand = std::pin::pin!(yard.stand(work.task));
            let early = tokio::time::timeout(Duration::from_millis(500), &mut stand).await;
            assert!(early.is_err(), "it stands where the ground is being taken away");
            tokio::fs::write(&go, "\n").await.unwrap();
            stand.await.unwrap()
        };
        let (cleaned, stood) = tokio::join!(cleanup, start);
        assert!(cleaned.unwrap().removed);
        stood
    };
    assert_eq!((stood.id, stood.branch), (work.worktree, work.branch.clone()));
    assert_eq!(yard.repo.git_in(Path::new(&stood.path), &["rev-parse", "HEAD"]).await.unwrap(), tip);
    assert!(Path::new(&stood.path).join("b.txt").exists());
}

#[tokio::test]
async fn what_a_cleanup_script_leaves_running_is_ended() {
    let yard = Yard::new().await;
    let work = yard.task("Daemon").await;
    let pid = yard.data().join("pid");
    let script = format!("setsid sleep 600 >/dev/null 2>&1 & echo $! > {}", pid.display());
    yard.set_repository(|repository| repository.cleanup_script = Some(script)).await;
    yard.engine.cleanup_task_worktree(&operator(), about(&work, json!({}))).await.unwrap();
    let pid = std::fs::read_to_string(pid).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[tokio::test]
async fn a_deletion_that_was_cut_off_is_finished_at_the_next_start() {
    let yard = Yard::new().await;
    let work = yard.task("Deleted").await;
    let workspace = yard.row(work.task).await.workspace_id.to_string();
    yard.write(&work, "new.txt", "untracked\n");
    yard.engine.begin_deletion(&operator(), about(&work, json!({}))).await.unwrap();
    assert!(yard.row(work.task).await.archived_at.is_some(), "nothing starts it now");
    for lane in crate::effect::Lane::ALL {
        yard.restarted().run_due_effects(lane).await.unwrap();
    }
    let error = yard.engine.get_task(&operator(), about(&work, json!({}))).await.unwrap_err();
    assert_eq!(error.class, Class::NotFound);
    assert!(!work.path.exists());
    assert_eq!(yard.engine.list_snapshots(&operator(), input(json!({}))).await.unwrap().snapshots.len(), 1);
    let audit = yard.engine.get_audit_log(&operator(), input(json!({ "workspace": workspace }))).await.unwrap();
    assert!(serde_json::to_string(&audit).unwrap().contains("task.deleted"));
}

#[tokio::test]
async fn a_deletion_that_cant_be_finished_brings_the_task_back() {
    let yard = Yard::new().await;
    let work = yard.task("Busy").await;
    let mut child = stranger(&yard, &work.path);
    yard.engine.begin_deletion(&operator(), about(&work, json!({}))).await.unwrap();
    for lane in crate::effect::Lane::ALL {
        yard.restarted().run_due_effects(lane).await.unwrap();
    }
    assert_eq!(yard.row(work.task).await.archived_at, None);
    let error = yard.engine.delete_task(&operator(), about(&work, json!({}))).await.unwrap_err();
    assert_eq!((error.class, yard.row(work.task).await.archived_at), (Class::FailedPrecondition, None));
    child.end(Duration::ZERO).await;
    yard.engine.delete_task(&operator(), about(&work, json!({}))).await.unwrap();
    assert!(!work.path.exists());
    yard.effects().await;
}
