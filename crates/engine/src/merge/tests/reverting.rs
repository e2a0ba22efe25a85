//! Taking a merge out again, going on, and merging again.

use super::yard::{Yard, about, operator};
use serde_json::json;
use taskyard_domain::Class;
use taskyard_domain::merge::{Kind, State};
use taskyard_domain::task::Status;
use taskyard_domain::worktree;
use taskyard_git::worktree::{Plan, attach};
use taskyard_git::{Oid, Repo};

/// What the next run does first: puts folder and branch back from the kept tip.
async fn rebuild(yard: &Yard, work: &super::yard::Work) {
    let repo = Repo::open(yard.engine.git(), &yard.repo.path()).await.unwrap();
    let row = yard.worktree(work.worktree).await;
    let plan = Plan { path: work.path.clone(), branch: work.branch.clone() };
    attach(&repo, &plan, row.tip.as_deref().and_then(Oid::parse).as_ref()).await.unwrap();
}

// C11
#[tokio::test]
async fn after_a_revert_the_whole_work_lands_again() {
    for strategy in ["merge", "squash", "rebase"] {
        let yard = Yard::new().await;
        let work = yard.task("Add b").await;
        yard.work(&work, "b.txt", "first\n").await;
        yard.work(&work, "other.txt", "other\n").await;
        yard.others("c.txt", "c\n").await;
        yard.merge(&work, json!({ "strategy": strategy })).await.unwrap();
        yard.effects().await;
        let merged = yard.git(&["rev-parse", "main"]).await;

        let answer = yard.revert(&work).await.unwrap();
        assert!(answer.reverted);
        assert_eq!((answer.status.as_str(), answer.revert.worktree_state.as_str()), ("waiting_for_review", "kept"));
        assert_eq!((&answer.revert.tip, &answer.revert.target_before), (&merged, &merged));
        assert_eq!(yard.git(&["rev-list", "--count", &format!("{merged}..main")]).await, "1", "one commit");
        assert!(!yard.repo.path().join("b.txt").exists() && yard.repo.path().join("c.txt").exists());
        assert_eq!(yard.git(&["status", "--porcelain"]).await, "");
        let states: Vec<_> = yard.records(work.task).await.iter().map(|r| (r.kind, r.state)).collect();
        assert_eq!(states, [(Kind::Merge, State::Reverted), (Kind::Revert, State::Landed)]);

        rebuild(&yard, &work).await;
        yard.work(&work, "b.txt", "first\nsecond\n").await;
        let seen = yard.engine.preview_merge(&operator(), about(&work, json!({}))).await.unwrap().preview;
        assert_eq!((seen.result.as_str(), seen.changed_file_count, seen.nothing_to_merge), ("clean", 2, false), "{strategy}");
        yard.merge(&work, json!({ "strategy": strategy })).await.unwrap();
        yard.effects().await;
        assert_eq!(yard.show("main", "b.txt").await.as_deref(), Some("first\nsecond"), "{strategy}");
        assert_eq!(yard.show("main", "other.txt").await.as_deref(), Some("other"));
        assert_eq!((yard.status(work.task).await, yard.git(&["status", "--porcelain"]).await.as_str()), (Status::Done, ""));
        assert_eq!(yard.git(&["for-each-ref", "refs/taskyard/merges"]).await, "");
        let kept = yard.worktree(work.worktree).await;
        assert_eq!(kept.kept_ref.unwrap(), format!("refs/taskyard/tasks/{}/2", work.task));

        yard.revert(&work).await.unwrap();
        assert!(!yard.repo.path().join("b.txt").exists(), "and out again");
    }
}

#[tokio::test]
async fn reverted_work_can_be_approved_again_as_it_was() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.approve(&work).await.unwrap();
    yard.effects().await;
    yard.revert(&work).await.unwrap();
    let answer = yard.approve(&work).await.unwrap();
    assert!(answer.merged, "{answer:?}");
    assert_eq!(yard.git(&["log", "-1", "--format=%s", "main"]).await, format!("Reapply \"{}: Add b\"", work.short));
    assert!(yard.repo.path().join("b.txt").exists());
    assert_eq!(yard.worktree(work.worktree).await.state, worktree::State::Merged);
}

#[tokio::test]
async fn a_revert_that_conflicts_changes_nothing() {
    let yard = Yard::new().await;
    let work = yard.task("Change a").await;
    yard.work(&work, "a.txt", "task\n").await;
    yard.approve(&work).await.unwrap();
    yard.effects().await;
    yard.others("a.txt", "later\n").await;
    let before = yard.snap().await;
    let error = yard.revert(&work).await.unwrap_err();
    let details = error.details.clone().unwrap();
    assert_eq!((error.class, &details["files"], &details["nothing_changed"]), (Class::Conflict, &json!(["a.txt"]), &json!(true)));
    assert_eq!(yard.snap().await, before);
    assert_eq!(yard.status(work.task).await, Status::Done);
    assert_eq!(yard.records(work.task).await.pop().unwrap().state, State::Aborted);
}

#[tokio::test]
async fn reverting_twice_names_the_first_revert() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.approve(&work).await.unwrap();
    let revert = yard.revert(&work).await.unwrap().revert.commit;
    let error = yard.revert(&work).await.unwrap_err();
    assert_eq!((error.class, error.details.clone().unwrap()["revert_commit"].clone()), (Class::FailedPrecondition, json!(revert)));
    assert!(error.message.contains("already reverted"), "{error}");
    assert_eq!(yard.git(&["rev-parse", "main"]).await, revert);
}

#[tokio::test]
async fn only_a_recorded_merge_is_reverted() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    assert_eq!(yard.revert(&work).await.unwrap_err().class, Class::FailedPrecondition);
    yard.set(work.task, |task| task.status = Status::Done).await;
    let error = yard.revert(&work).await.unwrap_err();
    assert!(error.message.contains("no recorded merge"), "{error}");
    yard.set(work.task, |task| task.status = Status::WaitingForReview).await;
    yard.approve(&work).await.unwrap();
    yard.git(&["branch", "elsewhere", "main~1"]).await;
    let error = yard.engine.revert_merge(&operator(), about(&work, json!({ "target_branch": "elsewhere" }))).await.unwrap_err();
    assert_eq!((error.class, yard.status(work.task).await), (Class::FailedPrecondition, Status::Done), "{error}");
}

#[tokio::test]
async fn a_revert_before_the_tidying_keeps_folder_and_branch() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.approve(&work).await.unwrap();
    yard.revert(&work).await.unwrap();
    yard.effects().await;
    assert!(work.path.join("b.txt").exists());
    assert!(!yard.git(&["branch", "--list", &work.branch]).await.is_empty());
    assert_eq!(yard.git(&["for-each-ref", "refs/taskyard/merges"]).await, "");
}

#[tokio::test]
async fn the_diff_of_reverted_work_is_the_whole_of_it() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.approve(&work).await.unwrap();
    yard.effects().await;
    let names = |diff: crate::commands::output::GetTaskDiffOutput| diff.files.into_iter().map(|f| f.path).collect::<Vec<_>>();
    let merged = yard.engine.get_task_diff(&operator(), about(&work, json!({}))).await.unwrap();
    assert_eq!((merged.worktree_state.as_str(), names(merged.clone())), ("merged", vec!["b.txt".to_owned()]));
    yard.revert(&work).await.unwrap();
    let kept = yard.engine.get_task_diff(&operator(), about(&work, json!({}))).await.unwrap();
    assert_eq!((kept.worktree_state.as_str(), names(kept.clone())), ("kept", vec!["b.txt".to_owned()]));
}

#[tokio::test]
async fn the_diff_of_work_merged_again_is_the_whole_of_it() {
    for (strategy, more) in [("merge", false), ("merge", true), ("squash", true), ("rebase", true)] {
        let yard = Yard::new().await;
        let work = yard.task("Add b").await;
        yard.work(&work, "b.txt", "b\n").await;
        yard.merge(&work, json!({ "strategy": strategy })).await.unwrap();
        yard.effects().await;
        yard.revert(&work).await.unwrap();
        yard.others("others.txt", "x\n").await;
        if more {
            rebuild(&yard, &work).await;
            yard.work(&work, "c.txt", "c\n").await;
        }
        yard.merge(&work, json!({ "strategy": strategy })).await.unwrap();
        yard.effects().await;
        let diff = yard.engine.get_task_diff(&operator(), about(&work, json!({}))).await.unwrap();
        let names: Vec<_> = diff.files.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(names, if more { vec!["b.txt", "c.txt"] } else { vec!["b.txt"] }, "{strategy}");
        assert_eq!((diff.worktree_state.as_str(), diff.total_additions), ("merged", if more { 2 } else { 1 }));
    }
}

#[tokio::test]
async fn a_conflict_with_a_revert_can_be_left_open_and_resolved() {
    for strategy in ["merge", "squash", "rebase"] {
        let yard = Yard::new().await;
        let work = yard.task("Change a").await;
        yard.work(&work, "a.txt", "task\n").await;
        yard.work(&work, "b.txt", "b\n").await;
        yard.merge(&work, json!({ "strategy": strategy })).await.unwrap();
        yard.effects().await;
        yard.revert(&work).await.unwrap();
        yard.others("a.txt", "main\n").await;
        let seen = yard.engine.preview_merge(&operator(), about(&work, json!({}))).await.unwrap().preview;
        assert_eq!((seen.result.as_str(), seen.conflict_file_count, seen.changed_file_count), ("conflict", 1, 2));
        let open = yard.merge(&work, json!({ "strategy": strategy, "on_conflict": "leave_open" })).await.unwrap();
        assert!(open.merge_open && open.files == ["a.txt"], "{strategy}: {open:?}");
        let path = std::path::PathBuf::from(open.merge_worktree_path.unwrap());
        std::fs::write(path.join("a.txt"), "both\n").unwrap();
        yard.repo.git_in(&path, &["add", "a.txt"]).await.unwrap();
        assert!(yard.engine.continue_merge(&operator(), about(&work, json!({}))).await.unwrap().merged);
        for (name, content) in [("a.txt", "both"), ("b.txt", "b")] {
            assert_eq!(yard.show("main", name).await.as_deref(), Some(content), "{strategy}");
        }
    }
}

#[tokio::test]
async fn work_begun_anew_after_a_revert_doesnt_bring_the_old_work_back() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "rejected\n").await;
    yard.approve(&work).await.unwrap();
    yard.effects().await;
    yard.revert(&work).await.unwrap();
    rebuild(&yard, &work).await;
    yard.repo.git_in(&work.path, &["reset", "-q", "--hard", "main"]).await.unwrap();
    yard.work(&work, "c.txt", "another way\n").await;
    yard.approve(&work).await.unwrap();
    assert!(yard.show("main", "b.txt").await.is_none());
    assert_eq!(yard.show("main", "c.txt").await.as_deref(), Some("another way"));
}

#[tokio::test]
async fn a_last_commit_amended_after_a_revert_lands_with_what_was_before_it() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.work(&work, "c.txt", "first\n").await;
    yard.approve(&work).await.unwrap();
    yard.effects().await;
    yard.revert(&work).await.unwrap();
    rebuild(&yard, &work).await;
    yard.write(&work, "d.txt", "amended\n");
    yard.repo.git_in(&work.path, &["add", "-A"]).await.unwrap();
    yard.repo.git_in(&work.path, &["commit", "-q", "--amend", "--no-edit"]).await.unwrap();
    yard.approve(&work).await.unwrap();
    for (name, content) in [("b.txt", "b"), ("c.txt", "first"), ("d.txt", "amended")] {
        assert_eq!(yard.show("main", name).await.as_deref(), Some(content), "{name}");
    }
}

#[tokio::test]
async fn a_discarded_worktrees_reverted_work_stays_out() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.approve(&work).await.unwrap();
    yard.effects().await;
    yard.revert(&work).await.unwrap();
    yard.engine.cleanup_task_worktree(&operator(), about(&work, json!({ "discard_changes": true }))).await.unwrap();
    let answer = yard.approve(&work).await.unwrap();
    assert!(answer.nothing_to_merge && answer.note.is_some());
    assert!(yard.show("main", "b.txt").await.is_none());
}
