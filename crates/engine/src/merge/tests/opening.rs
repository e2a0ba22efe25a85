//! Conflicts that are left open, resolved by a person, or given up.

use super::yard::{Work, Yard, about, operator};
use serde_json::json;
use std::path::{Path, PathBuf};
use taskyard_domain::Class;
use taskyard_domain::merge::State;
use taskyard_domain::task::Status;

/// A task in conflict on `a.txt`, its merge open; and the private merge worktree.
async fn open(yard: &Yard, strategy: &str) -> (Work, PathBuf) {
    let work = yard.task("Change a").await;
    yard.work(&work, "a.txt", "task\n").await;
    yard.others("a.txt", "main\n").await;
    let before = yard.snap().await.split_off(1);
    let answer = yard.merge(&work, json!({ "strategy": strategy, "on_conflict": "leave_open" })).await.unwrap();
    assert!(answer.merge_open && !answer.merged);
    assert_eq!((answer.files, answer.status.as_str()), (vec!["a.txt".to_owned()], "waiting_for_review"));
    let after = yard.snap().await.split_off(1);
    let own = |lines: &[String]| lines.iter().filter(|l| !l.starts_with("worktree ")).cloned().collect::<Vec<_>>();
    assert_eq!(own(&after), own(&before), "the user's checkout is untouched");
    (work, answer.merge_worktree_path.unwrap().into())
}

async fn resolve(yard: &Yard, path: &Path) {
    std::fs::write(path.join("a.txt"), "both\n").unwrap();
    yard.repo.git_in(path, &["add", "a.txt"]).await.unwrap();
}

#[tokio::test]
async fn a_resolved_conflict_lands() {
    for strategy in ["merge", "squash", "rebase"] {
        let yard = Yard::new().await;
        let (work, path) = open(&yard, strategy).await;
        let get = yard.engine.get_task(&operator(), about(&work, json!({}))).await.unwrap();
        assert!(get.merge_open);
        let error = yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap_err();
        assert_eq!(
            (error.class, error.details.clone().unwrap()["files"].clone()),
            (Class::FailedPrecondition, json!(["a.txt"])),
            "{error}"
        );
        resolve(&yard, &path).await;
        let done = yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap();
        assert!(done.merged && !done.merge_open, "{strategy}");
        assert_eq!(std::fs::read_to_string(yard.repo.path().join("a.txt")).unwrap(), "both\n");
        assert_eq!((yard.git(&["status", "--porcelain"]).await.as_str(), yard.status(work.task).await), ("", Status::Done));
        yard.effects().await;
        assert!(!path.exists() && !work.path.exists());
        assert_eq!(yard.git(&["for-each-ref", "refs/taskyard/merges"]).await, "");
        assert_eq!(yard.git(&["worktree", "list"]).await.lines().count(), 1);
        let audited = yard.audited(work.task).await;
        assert_eq!(audited[1..], ["merge.begun", "merge.opened", "merge.continued", "task.merged", "worktree.removed"]);
    }
}

#[tokio::test]
async fn giving_up_leaves_no_trace_and_can_be_repeated() {
    let yard = Yard::new().await;
    let (work, path) = open(&yard, "merge").await;
    for was_open in [true, false] {
        let answer = yard.engine.abort_merge(&operator(), about(&work, json!({}))).await.unwrap();
        assert!(answer.aborted && answer.was_open == was_open);
    }
    assert!(!path.exists());
    assert_eq!(yard.records(work.task).await[0].state, State::Aborted);
    let error = yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
    assert_eq!(yard.status(work.task).await, Status::WaitingForReview);
}

#[tokio::test]
async fn while_one_is_open_nothing_else_happens_to_the_work() {
    let yard = Yard::new().await;
    let (work, path) = open(&yard, "merge").await;
    let path = path.to_str().unwrap();
    let told = |error: &taskyard_domain::Error| error.details.clone().unwrap()["merge_worktree_path"].clone();
    let error = yard.merge(&work, json!({})).await.unwrap_err();
    assert_eq!((error.class, told(&error)), (Class::FailedPrecondition, json!(path)));
    let reject = about(&work, json!({ "decision": "reject_rerun", "feedback": "x" }));
    let error = yard.engine.review_task(&operator(), reject).await.unwrap_err();
    assert_eq!((error.class, told(&error)), (Class::FailedPrecondition, json!(path)));
    let discard = about(&work, json!({ "discard_changes": true }));
    assert_eq!(yard.engine.cleanup_task_worktree(&operator(), discard).await.unwrap_err().class, Class::FailedPrecondition);
    let workspace = yard.row(work.task).await.workspace_id;
    let claim = json!({ "workspace": workspace, "backlog_item_id": work.short, "actor_user_id": "ada" });
    let error = yard.engine.claim_task(&operator(), super::yard::input(claim)).await.unwrap_err();
    assert_eq!((error.class, told(&error)), (Class::FailedPrecondition, json!(path)));
    assert!(Path::new(path).exists() && work.path.exists());
}

#[tokio::test]
async fn a_resolution_lands_on_a_target_that_moved() {
    for strategy in ["merge", "squash", "rebase"] {
        let yard = Yard::new().await;
        let (work, path) = open(&yard, strategy).await;
        resolve(&yard, &path).await;
        let moved = yard.others("c.txt", "c\n").await;
        let done = yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap();
        assert_eq!(done.merge.unwrap().target_before, moved, "{strategy}");
        yard.effects().await;
        for (name, content) in [("a.txt", "both"), ("c.txt", "c")] {
            assert_eq!(yard.show("main", name).await.as_deref(), Some(content), "{strategy}");
        }
        let parent = yard.git(&["rev-parse", "main^1"]).await;
        assert_eq!((parent, yard.status(work.task).await), (moved, Status::Done));
        assert_eq!(yard.records(work.task).await.pop().unwrap().state, State::Landed);
        assert!(!path.exists() && snapshots(&yard, &work).await.is_empty(), "nothing was left over");
        yard.revert(&work).await.unwrap();
        assert_eq!(yard.show("main", "a.txt").await.as_deref(), Some("main"));
    }
}

#[tokio::test]
async fn a_target_that_moved_into_the_resolution_leaves_it_untouched_and_says_what_to_do() {
    let yard = Yard::new().await;
    let (work, path) = open(&yard, "merge").await;
    resolve(&yard, &path).await;
    yard.others("a.txt", "later\n").await;
    let error = yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap_err();
    assert_eq!((error.class, &error.details.clone().unwrap()["files"]), (Class::Conflict, &json!(["a.txt"])), "{error}");
    assert!(error.hint.unwrap().contains("git merge main"));
    assert_eq!(std::fs::read_to_string(path.join("a.txt")).unwrap(), "both\n");
    assert_eq!(yard.records(work.task).await[0].state, State::Open);
    yard.repo.git_in(&path, &["merge", "-q", "main"]).await.unwrap_err();
    resolve(&yard, &path).await;
    assert!(yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap().merged);
    assert_eq!(yard.show("main", "a.txt").await.as_deref(), Some("both"));
}

async fn snapshots(yard: &Yard, work: &Work) -> Vec<crate::commands::output::SnapshotRow> {
    let about = super::yard::input(json!({ "task_id": work.short }));
    yard.engine.list_snapshots(&operator(), about).await.unwrap().snapshots
}

#[tokio::test]
async fn giving_up_keeps_what_was_resolved() {
    for strategy in ["merge", "squash", "rebase"] {
        let yard = Yard::new().await;
        let (work, path) = open(&yard, strategy).await;
        resolve(&yard, &path).await;
        std::fs::write(path.join("notes.txt"), "mine\n").unwrap();
        yard.work(&work, "late.txt", "late\n").await;
        let error = yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap_err();
        assert_eq!((error.class, yard.records(work.task).await[0].state), (Class::Conflict, State::Open), "{error}");
        assert!(error.hint.unwrap().contains("snapshot"));
        let answer = yard.engine.abort_merge(&operator(), about(&work, json!({}))).await.unwrap();
        let id = answer.snapshot_id.unwrap();
        assert!(!path.exists() && answer.note.unwrap().contains(&id));
        assert_eq!(snapshots(&yard, &work).await.iter().map(|s| s.snapshot_id.clone()).collect::<Vec<_>>(), std::slice::from_ref(&id));
        let restore = super::yard::input(json!({ "snapshot_id": id }));
        let restored = PathBuf::from(yard.engine.restore_snapshot(&operator(), restore).await.unwrap().path);
        for (name, content) in [("a.txt", "both\n"), ("notes.txt", "mine\n")] {
            assert_eq!(std::fs::read_to_string(restored.join(name)).unwrap(), content, "{strategy}");
        }
        let again = yard.engine.abort_merge(&operator(), about(&work, json!({}))).await.unwrap();
        assert!(!again.was_open && again.snapshot_id.is_none());
        let audited = yard.audited(work.task).await;
        assert_eq!(audited[1..], ["merge.begun", "merge.opened", "snapshot.taken", "merge.aborted", "snapshot.restored"]);
    }
}

#[tokio::test]
async fn what_is_put_into_the_folder_after_the_landing_is_kept() {
    let yard = Yard::new().await;
    let (work, path) = open(&yard, "merge").await;
    resolve(&yard, &path).await;
    yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap();
    std::fs::write(path.join("notes.txt"), "mine\n").unwrap();
    yard.effects().await;
    assert!(!path.exists());
    let kept = snapshots(&yard, &work).await;
    assert_eq!(yard.show(&kept[0].commit, "notes.txt").await.as_deref(), Some("mine"));
}

#[tokio::test]
async fn a_tree_in_the_way_keeps_the_resolution_for_another_try() {
    let yard = Yard::new().await;
    let (work, path) = open(&yard, "merge").await;
    resolve(&yard, &path).await;
    yard.repo.write("a.txt", "mine\n").unwrap();
    let error = yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap_err();
    assert_eq!((error.class, yard.records(work.task).await[0].state), (Class::FailedPrecondition, State::Open), "{error}");
    yard.git(&["checkout", "-q", "a.txt"]).await;
    assert!(yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap().merged);
    let audited = yard.audited(yard.records(work.task).await[0].id).await;
    assert_eq!(audited, ["merge.begun", "merge.opened", "merge.continued", "merge.reopened", "merge.continued"]);
}

#[tokio::test]
async fn a_restart_keeps_an_open_merge_and_forgets_one_whose_folder_is_gone() {
    let yard = Yard::new().await;
    let (work, path) = open(&yard, "merge").await;
    resolve(&yard, &path).await;
    let after = yard.restarted();
    after.reconcile_merges().await.unwrap();
    assert_eq!(std::fs::read_to_string(path.join("a.txt")).unwrap(), "both\n");
    assert_eq!(yard.records(work.task).await[0].state, State::Open);
    std::fs::remove_dir_all(&path).unwrap();
    after.reconcile_merges().await.unwrap();
    assert_eq!(yard.records(work.task).await[0].state, State::Aborted);
    assert!(!yard.git(&["worktree", "list"]).await.contains("open-"));
}
