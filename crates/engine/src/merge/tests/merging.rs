//! What lands, what is refused, and what stays as it was.

use super::yard::{Yard, about, operator};
use serde_json::{Value, json};
use taskyard_domain::Class;
use taskyard_domain::merge::State;
use taskyard_domain::task::Status;
use taskyard_domain::worktree;

const STRATEGIES: [&str; 3] = ["merge", "squash", "rebase"];

fn details(error: &taskyard_domain::Error) -> Value {
    error.details.clone().unwrap_or_default()
}

#[tokio::test]
async fn each_strategy_lands_and_the_checkout_shows_it() {
    for strategy in STRATEGIES {
        let yard = Yard::new().await;
        let work = yard.task("Add b").await;
        let tip = yard.work(&work, "b.txt", "b\n").await;
        yard.others("c.txt", "c\n").await;
        let before = yard.git(&["rev-parse", "main"]).await;
        let done = yard.merge(&work, json!({ "strategy": strategy })).await.unwrap();
        let merge = done.merge.unwrap();
        assert!(done.merged && !done.merge_open);
        assert_eq!((done.status.as_str(), merge.worktree_state.as_str(), merge.strategy.as_str()), ("done", "merged", strategy));
        assert_eq!((merge.target.as_str(), &merge.target_before, &merge.tip), ("main", &before, &tip));
        assert_eq!(merge.commit, yard.git(&["rev-parse", "main"]).await);
        assert_eq!(yard.git(&["status", "--porcelain"]).await, "", "{strategy}");
        assert!(yard.repo.path().join("b.txt").is_file() && yard.repo.path().join("c.txt").is_file());
        let parents = yard.git(&["rev-list", "--parents", "-1", "main"]).await.split(' ').count() - 1;
        assert_eq!(parents, if strategy == "merge" { 2 } else { 1 });
        let record = yard.records(work.task).await.remove(0);
        assert_eq!((record.state, record.target_after.as_deref(), record.is_approval), (State::Landed, Some(&*merge.commit), false));
        let kept = yard.worktree(work.worktree).await.kept_ref.unwrap();
        assert_eq!(kept, format!("refs/taskyard/tasks/{}/1", work.task));
        yard.effects().await;
        assert!(!work.path.exists(), "the folder goes");
        assert!(yard.git(&["branch", "--list", &work.branch]).await.is_empty(), "and the branch");
        assert_eq!(yard.git(&["rev-parse", &kept]).await, tip);
        assert_eq!(yard.git(&["for-each-ref", "refs/taskyard/merges"]).await, "");
        assert!(!yard.worktree(work.worktree).await.has_folder);
    }
}

#[tokio::test]
async fn a_fast_forward_is_a_merge_commit_all_the_same() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    let tip = yard.work(&work, "b.txt", "b\n").await;
    let done = yard.approve(&work).await.unwrap();
    assert!(done.approved && done.merged && done.reviewed && !done.nothing_to_merge);
    let merge = done.merge.unwrap();
    assert_ne!(merge.commit, tip);
    let subject = yard.git(&["log", "-1", "--format=%s", "main"]).await;
    assert_eq!(subject, format!("Merge {}: Add b", work.short));
    assert!(yard.records(work.task).await[0].is_approval);
}

// C1
#[tokio::test]
async fn an_unrelated_edit_of_the_users_survives() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.repo.write("k.txt", "edited\n").unwrap();
    yard.approve(&work).await.unwrap();
    assert_eq!(yard.git(&["status", "--porcelain"]).await, "M k.txt");
    assert_eq!(std::fs::read_to_string(yard.repo.path().join("k.txt")).unwrap(), "edited\n");
    assert!(yard.git(&["stash", "list"]).await.is_empty());
}

// C2
#[tokio::test]
async fn an_overlapping_edit_refuses_naming_file_and_tree() {
    let yard = Yard::new().await;
    let work = yard.task("Change a").await;
    yard.work(&work, "a.txt", "task\n").await;
    yard.repo.write("a.txt", "mine\n").unwrap();
    let before = yard.snap().await;
    let error = yard.approve(&work).await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
    assert!(error.message.contains("a.txt") && error.message.contains(yard.repo.path().to_str().unwrap()), "{error}");
    assert_eq!(details(&error)["nothing_changed"], true);
    assert_eq!(yard.snap().await, before);
    assert_eq!((yard.status(work.task).await, yard.records(work.task).await[0].state), (Status::WaitingForReview, State::Aborted));
}

// C6
#[tokio::test]
async fn a_conflict_is_an_error_with_the_files_and_changes_nothing() {
    for strategy in STRATEGIES {
        let yard = Yard::new().await;
        let work = yard.task("Change a").await;
        let tip = yard.work(&work, "a.txt", "task\n").await;
        let target = yard.others("a.txt", "main\n").await;
        let before = yard.snap().await;
        let error = yard.merge(&work, json!({ "strategy": strategy })).await.unwrap_err();
        assert_eq!(error.class, Class::Conflict, "{strategy}: {error}");
        let told = details(&error);
        assert_eq!((&told["files"], &told["nothing_changed"]), (&json!(["a.txt"]), &json!(true)));
        assert_eq!((&told["target_commit"], &told["task_commit"]), (&json!(target), &json!(tip)));
        assert_eq!(yard.snap().await, before, "{strategy}");
        assert_eq!(yard.status(work.task).await, Status::WaitingForReview);
        assert_eq!(yard.worktree(work.worktree).await.state, worktree::State::Active);
        let sent = about(&work, json!({ "decision": "reject_rerun", "feedback": "Resolve the conflict" }));
        assert_eq!(yard.engine.review_task(&operator(), sent).await.unwrap().status, "queued");
    }
}

// C13
#[tokio::test]
async fn uncommitted_work_refuses_the_merge_and_is_named() {
    let yard = Yard::new().await;
    std::fs::write(yard.repo.path().join(".git/info/exclude"), "*.log\n").unwrap();
    let work = yard.task("Unfinished").await;
    yard.write(&work, "build.log", "ignored\n");
    yard.write(&work, "new.txt", "untracked\n");
    yard.write(&work, "a.txt", "modified\n");
    let before = yard.snap().await;
    let error = yard.approve(&work).await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
    assert_eq!(details(&error)["uncommitted_files"], json!(["a.txt", "new.txt"]));
    assert!(error.message.contains(work.path.to_str().unwrap()), "{error}");
    assert_eq!((yard.snap().await, yard.status(work.task).await), (before, Status::WaitingForReview));
}

#[tokio::test]
async fn work_outside_the_branch_or_in_progress_refuses_the_merge() {
    let yard = Yard::new().await;
    let work = yard.task("Detached").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.repo.git_in(&work.path, &["checkout", "-q", "--detach"]).await.unwrap();
    let head = yard.work(&work, "c.txt", "c\n").await;
    let error = yard.approve(&work).await.unwrap_err();
    assert_eq!((error.class, &details(&error)["head"]), (Class::FailedPrecondition, &json!(head)));
    yard.repo.git_in(&work.path, &["checkout", "-q", &work.branch]).await.unwrap();
    let dir = yard.repo.git_in(&work.path, &["rev-parse", "--absolute-git-dir"]).await.unwrap();
    std::fs::write(std::path::Path::new(&dir).join("CHERRY_PICK_HEAD"), format!("{head}\n")).unwrap();
    let error = yard.approve(&work).await.unwrap_err();
    assert_eq!(details(&error)["operation"], "cherry-pick");
}

// A4
#[tokio::test]
async fn without_a_target_the_merge_is_refused_naming_the_branches() {
    let yard = Yard::new().await;
    yard.set_repository(|repository| repository.default_branch = None).await;
    yard.git(&["branch", "dev"]).await;
    let work = yard.task_from("From a commit", None).await;
    yard.work(&work, "b.txt", "b\n").await;
    let before = yard.snap().await;
    let error = yard.approve(&work).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("target_branch")));
    assert!(error.message.contains("dev") && error.message.contains("main"), "{error}");
    assert_eq!(yard.snap().await, before);
    let error = yard.merge(&work, json!({ "target_branch": "nowhere" })).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::NotFound, Some("target_branch")));
    let error = yard.merge(&work, json!({ "target_branch": work.branch })).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("target_branch")));
    let done = yard.merge(&work, json!({ "target_branch": "refs/heads/dev" })).await.unwrap();
    assert_eq!(done.merge.unwrap().target, "dev");
    assert!(yard.show("main", "b.txt").await.is_none());
}

#[tokio::test]
async fn the_tasks_own_target_wins_over_the_branch_it_was_made_from() {
    let yard = Yard::new().await;
    yard.git(&["branch", "dev"]).await;
    let work = yard.task("To dev").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.set(work.task, |task| task.config.target_branch = Some("dev".into())).await;
    assert_eq!(yard.approve(&work).await.unwrap().merge.unwrap().target, "dev");
    assert!(yard.show("dev", "b.txt").await.is_some() && yard.show("main", "b.txt").await.is_none());
}

// A7
#[tokio::test]
async fn a_target_checked_out_in_a_linked_worktree_follows_there() {
    let repo = taskyard_testkit::repo::Repo::new().await.unwrap();
    repo.write("a.txt", "a\n").unwrap();
    repo.commit("a").await.unwrap();
    repo.git(&["branch", "dev"]).await.unwrap();
    let wdev = repo.outside().canonicalize().unwrap().join("wdev");
    repo.git(&["worktree", "add", "-q", wdev.to_str().unwrap(), "dev"]).await.unwrap();
    let yard = Yard::of(repo, &wdev).await;
    let work = yard.task_from("In dev", Some("dev")).await;
    yard.work(&work, "a.txt", "task\n").await;
    std::fs::write(wdev.join("a.txt"), "mine\n").unwrap();
    let error = yard.approve(&work).await.unwrap_err();
    assert!(error.message.contains(wdev.to_str().unwrap()) && error.message.contains("a.txt"), "{error}");
    std::fs::write(wdev.join("a.txt"), "a\n").unwrap();
    yard.approve(&work).await.unwrap();
    assert_eq!(std::fs::read_to_string(wdev.join("a.txt")).unwrap(), "task\n");
    assert_eq!(yard.repo.git_in(&wdev, &["status", "--porcelain"]).await.unwrap(), "");
}

#[tokio::test]
async fn a_moved_head_is_refused() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    let reviewed = yard.work(&work, "b.txt", "b\n").await;
    let now = yard.work(&work, "c.txt", "c\n").await;
    let error = yard.merge(&work, json!({ "expected_head": reviewed })).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::Conflict, Some("expected_head")));
    assert_eq!((&details(&error)["found"], &details(&error)["nothing_changed"]), (&json!(now), &json!(true)));
    let error = yard.merge(&work, json!({ "expected_head": "HEAD" })).await.unwrap_err();
    assert_eq!(error.class, Class::InvalidArgument);
    let input = about(&work, json!({ "decision": "approve", "expected_head": now[..12] }));
    assert!(yard.engine.review_task(&operator(), input).await.unwrap().merged);
}

// G12
#[tokio::test]
async fn an_agent_can_do_none_of_it() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    let agent = yard.agent(&work).await;
    let before = yard.snap().await;
    let engine = &yard.engine;
    let approve = about(&work, json!({ "decision": "approve" }));
    let refused = [
        engine.review_task(&agent, approve).await.err(),
        engine.merge_task(&agent, about(&work, json!({}))).await.err(),
        engine.continue_merge(&agent, about(&work, json!({}))).await.err(),
        engine.abort_merge(&agent, about(&work, json!({}))).await.err(),
        engine.revert_merge(&agent, about(&work, json!({}))).await.err(),
        engine.cleanup_task_worktree(&agent, about(&work, json!({}))).await.err(),
        engine.restore_snapshot(&agent, super::yard::input(json!({ "snapshot_id": "x" }))).await.err(),
    ];
    assert!(refused.iter().all(|error| error.as_ref().is_some_and(|e| e.class == Class::Forbidden)), "{refused:?}");
    assert_eq!(yard.snap().await, before);
    assert!(yard.records(work.task).await.is_empty());
    assert!(engine.preview_merge(&agent, about(&work, json!({}))).await.is_ok(), "looking is allowed");
}

#[tokio::test]
async fn approvals_at_once_all_land() {
    let yard = Yard::new().await;
    let mut works = Vec::new();
    for n in 0..4 {
        let work = yard.task(&format!("Add {n}")).await;
        yard.work(&work, &format!("{n}.txt"), "x\n").await;
        works.push(work);
    }
    let done = futures::future::join_all(works.iter().map(|work| yard.approve(work))).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    for n in 0..4 {
        assert!(yard.show("main", &format!("{n}.txt")).await.is_some());
    }
    assert_eq!(yard.git(&["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn a_second_approval_of_the_same_task_is_told_that_it_is_done() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    let (one, two) = tokio::join!(yard.approve(&work), yard.approve(&work));
    let error = [one, two].into_iter().find_map(Result::err).unwrap();
    assert_eq!(error.class, Class::FailedPrecondition);
    assert_eq!(yard.git(&["rev-list", "--count", "--merges", "main"]).await, "1");
}

#[tokio::test]
async fn what_isnt_waiting_for_review_isnt_merged() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    for status in [Status::Ready, Status::Failed, Status::Cancelled, Status::Done, Status::Queued] {
        yard.set(work.task, move |task| task.status = status).await;
        let error = yard.merge(&work, json!({})).await.unwrap_err();
        assert_eq!(error.class, Class::FailedPrecondition);
        assert!(error.message.contains(status.as_str()), "{error}");
    }
    let none = yard.bare_task("Nothing yet").await;
    let error = yard.engine.merge_task(&operator(), super::yard::input(json!({ "task_id": none.to_string() }))).await.unwrap_err();
    assert_eq!(error.class, Class::NotFound);
}

#[tokio::test]
async fn a_merge_with_nothing_in_it_is_no_silent_success() {
    let yard = Yard::new().await;
    let work = yard.task("Nothing").await;
    let error = yard.merge(&work, json!({})).await.unwrap_err();
    assert_eq!((error.class, &details(&error)["nothing_changed"]), (Class::FailedPrecondition, &json!(true)));
    // The same change has come to main in another way: nothing is left to merge.
    let same = yard.task("Same").await;
    yard.work(&same, "b.txt", "b\n").await;
    yard.others("b.txt", "b\n").await;
    assert_eq!(yard.merge(&same, json!({})).await.unwrap_err().class, Class::FailedPrecondition);
    assert_eq!(yard.records(same.task).await[0].state, State::Aborted);
}

#[tokio::test]
async fn a_refusing_hook_refuses_with_its_words() {
    use std::os::unix::fs::PermissionsExt;
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    let hook = yard.repo.path().join(".git/hooks/pre-merge-commit");
    std::fs::write(&hook, "#!/bin/sh\necho secret found >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let before = yard.snap().await;
    let error = yard.approve(&work).await.unwrap_err();
    assert!(error.message.contains("secret found"), "{error}");
    assert_eq!(yard.snap().await, before);
    yard.set_repository(|repository| repository.hook_policy = taskyard_domain::repository::HookPolicy::Skip).await;
    yard.approve(&work).await.unwrap();
}

#[tokio::test]
async fn unsaved_files_after_the_merge_keep_the_folder() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.approve(&work).await.unwrap();
    yard.write(&work, "late.txt", "late\n");
    yard.effects().await;
    assert!(work.path.join("late.txt").exists());
    assert!(!yard.git(&["branch", "--list", &work.branch]).await.is_empty());
    assert!(yard.worktree(work.worktree).await.has_folder);
}

#[tokio::test]
async fn the_cleanup_script_runs_before_the_folder_goes() {
    let yard = Yard::new().await;
    let mark = yard.data().join("cleaned");
    let script = format!("cp b.txt '{}'", mark.display());
    yard.set_repository(move |repository| repository.cleanup_script = Some(script)).await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.approve(&work).await.unwrap();
    yard.effects().await;
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "b\n");
    assert!(!work.path.exists());
}

// C12
#[tokio::test]
async fn an_operation_in_progress_in_the_users_tree_refuses_the_merge() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.git(&["checkout", "-q", "-b", "side"]).await;
    yard.others("a.txt", "side\n").await;
    yard.git(&["checkout", "-q", "main"]).await;
    yard.others("a.txt", "main\n").await;
    assert!(yard.repo.git(&["merge", "-q", "side"]).await.is_err(), "a conflict of the user's own");
    let before = yard.snap().await;
    let error = yard.approve(&work).await.unwrap_err();
    assert!(error.class == Class::FailedPrecondition && error.message.contains("merge is in progress"), "{error}");
    assert_eq!(yard.snap().await, before);
}

// D2
#[tokio::test]
async fn what_a_finished_run_left_running_is_ended_before_the_merge() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    let marker = yard.session(&work).await;
    let (name, value) = marker.split_once('=').unwrap();
    let sleep = taskyard_process::spawn::Spawn {
        program: "sleep".into(),
        args: vec!["600".into()],
        cwd: work.path.clone(),
        env: yard.repo.env().clone().with(name, value),
        stdin: false,
        marker: Some(marker.clone()),
    };
    let mut child = taskyard_process::spawn::spawn(sleep).unwrap();
    assert_eq!(taskyard_process::tree::marked(&marker).len(), 1);
    yard.approve(&work).await.unwrap();
    assert!(taskyard_process::tree::marked(&marker).is_empty());
    child.wait().await.unwrap();
    yard.effects().await;
    assert!(!work.path.exists());
}

#[tokio::test]
async fn commits_are_by_the_configured_person_else_by_taskyard() {
    let yard = Yard::new().await;
    let by = async || yard.git(&["log", "-1", "--format=%an <%ae> %cn", "main"]).await;
    let one = yard.task("One").await;
    yard.work(&one, "one.txt", "x\n").await;
    yard.approve(&one).await.unwrap();
    assert_eq!(by().await, "Taskyard <taskyard@localhost> Taskyard");
    yard.git(&["config", "user.name", "Ada"]).await;
    yard.git(&["config", "user.email", "ada@example.invalid"]).await;
    let two = yard.task("Two").await;
    yard.work(&two, "two.txt", "x\n").await;
    yard.approve(&two).await.unwrap();
    assert_eq!(by().await, "Ada <ada@example.invalid> Ada");
}
