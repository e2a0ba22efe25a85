//! Removing folders, snapshots, and bringing them back.

use super::yard::{Yard, about, input, operator, operator_ref};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::worktree::State;

// D6
#[tokio::test]
async fn unsaved_work_refuses_the_cleanup_or_goes_into_a_snapshot_that_can_be_restored() {
    let yard = Yard::new().await;
    let work = yard.task("Unsaved").await;
    let tip = yard.work(&work, "b.txt", "b\n").await;
    yard.write(&work, "a.txt", "modified\n");
    yard.write(&work, "new.txt", "untracked\n");
    let clean = |discard: bool| yard.engine.cleanup_task_worktree(operator_ref(), about(&work, json!({ "discard_changes": discard })));
    let error = clean(false).await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
    assert!(error.message.contains("a.txt") && error.message.contains("new.txt"), "{error}");
    assert!(work.path.join("new.txt").exists());

    let done = clean(true).await.unwrap();
    assert!(done.removed && !done.branch_deleted && !work.path.exists());
    assert_eq!(done.worktree_state, "discarded");
    assert_eq!(yard.git(&["rev-parse", &work.branch]).await, tip, "the branch keeps what was committed");
    let listed = yard.engine.list_snapshots(&operator(), input(json!({ "task_id": work.short }))).await.unwrap();
    let snapshot = done.snapshot_id.unwrap();
    assert_eq!((listed.snapshots.len(), &listed.snapshots[0].snapshot_id), (1, &snapshot));
    let again = clean(true).await.unwrap();
    assert_eq!((again.removed, again.snapshot_id.as_deref()), (true, Some(&*snapshot)), "again: the same answer");
    assert_eq!(yard.audited(work.task).await[1..], ["snapshot.taken", "worktree.removed"], "and no entry of its own");

    let back = yard.engine.restore_snapshot(&operator(), input(json!({ "snapshot_id": snapshot }))).await.unwrap();
    let path = std::path::PathBuf::from(&back.path);
    assert_eq!((back.restored, back.commit), (true, tip));
    assert_ne!(back.branch, work.branch);
    assert_eq!(std::fs::read_to_string(path.join("a.txt")).unwrap(), "modified\n");
    assert_eq!(std::fs::read_to_string(path.join("new.txt")).unwrap(), "untracked\n");
    let twice = yard.engine.restore_snapshot(&operator(), input(json!({ "snapshot_id": snapshot }))).await.unwrap();
    assert_ne!(twice.path, back.path);
    let error = yard.engine.restore_snapshot(&operator(), input(json!({ "snapshot_id": work.task.to_string() }))).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::NotFound, Some("snapshot_id")));
}

#[tokio::test]
async fn a_removal_that_a_crash_cut_off_is_ended_at_the_next_start() {
    let yard = Yard::new().await;
    let (begun, lost) = (yard.task("Begun").await, yard.task("Lost").await);
    for work in [&begun, &lost] {
        yard.work(work, "b.txt", "b\n").await;
        yard.write(work, "new.txt", "untracked\n");
    }
    // Git has done its part, and the server died before it wrote that down.
    let project = taskyard_git::Repo::open(yard.engine.git(), &yard.repo.path()).await.unwrap();
    let who = taskyard_git::runner::Identity { name: "Test".into(), email: "test@example.invalid".into() };
    let (name, known) = (begun.worktree.to_string(), taskyard_git::unsaved::Known { branch: Some(&begun.branch), copied: &[] });
    let removal = taskyard_git::removal::Removal { path: &begun.path, known, snapshot: Some((&name, &who)) };
    taskyard_git::removal::remove(&project, &removal).await.unwrap();
    // This one its user has deleted: git knows it, and the next run puts it back.
    std::fs::remove_dir_all(&lost.path).unwrap();
    for _ in 0..2 {
        yard.restarted().sweep_merges().await.unwrap();
        let (ended, kept) = (yard.worktree(begun.worktree).await, yard.worktree(lost.worktree).await);
        assert_eq!((ended.state, ended.has_folder, kept.has_folder), (State::Active, false, true));
        let listed = yard.engine.list_snapshots(&operator(), input(json!({ "task_id": begun.short }))).await.unwrap();
        assert_eq!(listed.snapshots.len(), 1);
    }
    assert!(yard.approve(&begun).await.unwrap().merged);
}

#[tokio::test]
async fn a_move_that_a_crash_cut_off_is_ended_at_the_next_start() {
    let yard = Yard::new().await;
    let work = yard.task("Moves").await;
    yard.work(&work, "b.txt", "b\n").await;
    // Its folder isn't a worktree any more, so it was to go to another; the server died before git knew.
    std::fs::remove_file(work.path.join(".git")).unwrap();
    yard.write(&work, "b.txt", "somebody else's\n");
    let mut moving = yard.worktree(work.worktree).await;
    let place = work.path.with_file_name("elsewhere");
    moving.path = place.to_string_lossy().into_owned();
    yard.engine
        .store()
        .write(move |tx| {
            Box::pin(async move {
                tx.fixture();
                tx.worktree_update(&moving).await
            })
        })
        .await
        .unwrap();
    for _ in 0..2 {
        yard.restarted().sweep_merges().await.unwrap();
        let moved = yard.worktree(work.worktree).await;
        assert_eq!((moved.state, moved.has_folder), (State::Active, true));
        let listed = yard.git(&["worktree", "list", "--porcelain"]).await;
        assert!(listed.contains("/elsewhere\n") && !listed.contains("prunable"), "{listed}");
    }
    assert_eq!(std::fs::read_to_string(place.join("b.txt")).unwrap(), "b\n");
    assert_eq!(std::fs::read_to_string(work.path.join("b.txt")).unwrap(), "somebody else's\n");
}

#[tokio::test]
async fn a_clean_folder_goes_and_its_branch_can_still_be_merged() {
    let yard = Yard::new().await;
    let work = yard.task("Clean").await;
    yard.work(&work, "b.txt", "b\n").await;
    let done = yard.engine.cleanup_task_worktree(&operator(), about(&work, json!({}))).await.unwrap();
    assert_eq!((done.removed, done.branch_deleted, done.worktree_state.as_str(), done.snapshot_id), (true, false, "active", None));
    assert!(!work.path.exists());
    assert!(yard.approve(&work).await.unwrap().merged);
    yard.effects().await;
    assert!(yard.repo.path().join("b.txt").exists());
    assert!(yard.git(&["branch", "--list", &work.branch]).await.is_empty());
}

#[tokio::test]
async fn a_folder_without_any_work_goes_with_its_branch() {
    let yard = Yard::new().await;
    let work = yard.task("Nothing").await;
    let done = yard.engine.cleanup_task_worktree(&operator(), about(&work, json!({}))).await.unwrap();
    assert!(done.removed && done.branch_deleted);
    assert_eq!(yard.worktree(work.worktree).await.state, State::Discarded);
}

#[tokio::test]
async fn a_folder_deleted_by_hand_is_cleaned_up_and_merged() {
    let yard = Yard::new().await;
    let (one, two) = (yard.task("One").await, yard.task("Two").await);
    yard.work(&one, "one.txt", "one\n").await;
    yard.work(&two, "two.txt", "two\n").await;
    for work in [&one, &two] {
        std::fs::remove_dir_all(&work.path).unwrap();
    }
    assert!(yard.approve(&one).await.unwrap().merged);
    yard.effects().await;
    assert!(yard.engine.cleanup_task_worktree(&operator(), about(&two, json!({}))).await.unwrap().removed);
    assert!(!yard.git(&["worktree", "list"]).await.contains("two"));
    assert!(yard.approve(&two).await.unwrap().merged);
}

/// A process of nobody's that stands in `folder`.
fn asleep(yard: &Yard, folder: &std::path::Path) -> taskyard_process::Child {
    let sleep = taskyard_process::Spawn {
        program: "sleep".into(),
        args: vec!["600".into()],
        cwd: folder.to_owned(),
        env: yard.repo.env().clone(),
        stdin: false,
        marker: None,
    };
    taskyard_process::spawn(sleep).unwrap()
}

#[tokio::test]
async fn a_process_inside_is_never_pulled_out_from_under() {
    let yard = Yard::new().await;
    let work = yard.task("Busy").await;
    let mut child = asleep(&yard, &work.path);
    let error = yard.engine.cleanup_task_worktree(&operator(), about(&work, json!({ "discard_changes": true }))).await.unwrap_err();
    assert!(error.class == Class::FailedPrecondition && error.message.contains("live processes"), "{error}");
    assert!(work.path.exists());
    child.end(std::time::Duration::ZERO).await;
    assert!(yard.engine.cleanup_task_worktree(&operator(), about(&work, json!({}))).await.unwrap().removed);
}

#[tokio::test]
async fn deleting_a_task_keeps_its_unsaved_work_and_its_branch() {
    let yard = Yard::new().await;
    let work = yard.task("Deleted").await;
    let tip = yard.work(&work, "b.txt", "b\n").await;
    yard.write(&work, "new.txt", "untracked\n");
    yard.engine.delete_task(&operator(), about(&work, json!({}))).await.unwrap();
    let told = ["task.created", "task.deletion_begun", "snapshot.taken", "worktree.removed", "task.deleted"];
    assert_eq!(yard.audited(&work.short).await, told);
    assert!(!work.path.exists());
    assert_eq!(yard.git(&["rev-parse", &work.branch]).await, tip);
    let listed = yard.engine.list_snapshots(&operator(), input(json!({}))).await.unwrap();
    assert_eq!(listed.snapshots.len(), 1);
    let id = listed.snapshots[0].snapshot_id.clone();
    let back = yard.engine.restore_snapshot(&operator(), input(json!({ "snapshot_id": id }))).await.unwrap();
    assert!(std::path::Path::new(&back.path).join("new.txt").exists() && back.task_id.is_none());
}

#[tokio::test]
async fn a_deletion_that_cannot_be_ended_is_taken_back_and_both_are_told() {
    let yard = Yard::new().await;
    let work = yard.task("Stays").await;
    yard.write(&work, "new.txt", "untracked\n");
    // Somebody works in there: nothing may be pulled out from under them.
    let mut child = asleep(&yard, &work.path);
    yard.engine.delete_task(&operator(), about(&work, json!({}))).await.unwrap_err();
    assert!(yard.row(work.task).await.archived_at.is_none() && work.path.join("new.txt").exists());
    assert_eq!(yard.audited(&work.short).await, ["task.created", "task.deletion_begun", "task.deletion_undone"]);
    child.end(std::time::Duration::ZERO).await;
}
