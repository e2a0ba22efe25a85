//! Previews, diffs and lists: exact, small, without effect.

use super::yard::{Work, Yard, about, input, operator, operator_ref};
use crate::commands::output::{GetTaskDiffOutput, PreviewMergeSetOutput};
use serde_json::{Value, json};
use taskyard_domain::{Class, Result};

async fn diff(yard: &Yard, work: &Work, more: Value) -> Result<GetTaskDiffOutput> {
    yard.engine.get_task_diff(&operator(), about(work, more)).await
}

fn names(diff: &GetTaskDiffOutput) -> Vec<&str> {
    diff.files.iter().map(|file| file.path.as_str()).collect()
}

// C5
#[tokio::test]
async fn a_preview_is_exact_and_leaves_no_trace() {
    let yard = Yard::new().await;
    let work = yard.task("Change a").await;
    let tip = yard.work(&work, "a.txt", "task\n").await;
    let target = yard.others("a.txt", "main\n").await;
    let before = yard.snap().await;
    let ask = || yard.engine.preview_merge(operator_ref(), about(&work, json!({})));
    let all = futures::future::join_all((0..10).map(|_| ask())).await;
    for seen in all {
        let seen = seen.unwrap().preview;
        assert_eq!((seen.result.as_str(), seen.conflict_files), ("conflict", vec!["a.txt".to_owned()]));
        assert_eq!((seen.target_commit.as_str(), seen.task_commit.as_str(), seen.behind, seen.ahead), (&*target, &*tip, 1, 1));
    }
    assert_eq!(yard.snap().await, before);
    let moved = yard.work(&work, "a.txt", "main\n").await;
    let seen = ask().await.unwrap().preview;
    assert_eq!((seen.result.as_str(), seen.task_commit.as_str()), ("clean", &*moved));
    let error = yard.merge(&work, json!({ "expected_head": tip })).await.unwrap_err();
    assert_eq!(error.class, Class::Conflict);
}

#[tokio::test]
async fn a_preview_of_nothing_is_an_error() {
    let yard = Yard::new().await;
    let bare = yard.bare_task("Bare").await;
    let error = yard.engine.preview_merge(&operator(), input(json!({ "task_id": bare.to_string() }))).await.unwrap_err();
    assert_eq!(error.class, Class::NotFound);
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.write(&work, "loose.txt", "x\n");
    let seen = yard.engine.preview_merge(&operator(), about(&work, json!({}))).await.unwrap().preview;
    assert_eq!((seen.result.as_str(), seen.changed_file_count, seen.uncommitted_file_count), ("clean", 1, 1));
    std::fs::remove_file(work.path.join("loose.txt")).unwrap();
    yard.approve(&work).await.unwrap();
    let error = yard.engine.preview_merge(&operator(), about(&work, json!({}))).await.unwrap_err();
    assert_eq!(error.class, Class::FailedPrecondition);
    let other = yard.task("Other").await;
    yard.set_repository(|repository| repository.local_path = Some("/nowhere/at/all".into())).await;
    let error = yard.engine.preview_merge(&operator(), about(&other, json!({}))).await.unwrap_err();
    assert!(error.class == Class::FailedPrecondition && error.message.contains("/nowhere/at/all"), "{error}");
    let view = yard.engine.get_task_worktree(&operator(), about(&other, json!({}))).await.unwrap();
    assert!(view.found && view.worktree.unwrap().problem.is_some());
}

async fn set(yard: &Yard, tasks: &[&str]) -> Result<PreviewMergeSetOutput> {
    yard.engine.preview_merge_set(&operator(), input(json!({ "task_ids": tasks }))).await
}

#[tokio::test]
async fn a_set_says_what_merges_in_order_and_who_is_in_the_way() {
    let yard = Yard::new().await;
    let mut works = Vec::new();
    for (title, name, content) in [("One", "a.txt", "one\n"), ("Two", "a.txt", "two\n"), ("Three", "c.txt", "three\n")] {
        let work = yard.task(title).await;
        yard.work(&work, name, content).await;
        works.push(work);
    }
    let bare = yard.bare_task("Bare").await.to_string();
    let before = yard.snap().await;
    let [one, two, three] = [&works[0], &works[1], &works[2]];
    let (one_id, two_id, three_id) = (one.task.to_string(), two.task.to_string(), three.task.to_string());
    let seen = set(&yard, &[&one.short, &bare, &two.short, "TY-999", &three.short]).await.unwrap();
    assert_eq!(seen.order_ok, [one_id.clone(), three_id]);
    assert_eq!(seen.left_out.len(), 1);
    let left = &seen.left_out[0];
    assert_eq!((&left.task_id, &left.files, &left.conflicts_with), (&two_id, &vec!["a.txt".to_owned()], &vec![one_id.clone()]));
    assert_eq!((seen.overlap[0].path.as_str(), &seen.overlap[0].task_ids), ("a.txt", &vec![one_id, two_id]));
    let results: Vec<_> = seen.tasks.iter().map(|t| (t.result.as_deref(), t.error.as_ref().map(|e| e.class))).collect();
    let clean = (Some("clean"), None);
    assert_eq!(results, [clean, (None, Some(Class::NotFound)), clean, (None, Some(Class::NotFound)), clean]);
    assert_eq!(yard.snap().await, before);
    let error = set(&yard, &[&one.short, &one.task.to_string()]).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("task_ids")));
    assert_eq!(set(&yard, &[]).await.unwrap_err().class, Class::InvalidArgument);
    let many = vec![one.short.as_str(); 101];
    assert_eq!(set(&yard, &many).await.unwrap_err().class, Class::InvalidArgument);
    let verify = json!({ "task_ids": [one.short], "verify": true });
    assert_eq!(yard.engine.preview_merge_set(&operator(), input(verify)).await.unwrap_err().class, Class::FailedPrecondition);
}

#[tokio::test]
async fn a_set_counts_reverted_work_as_work() {
    let yard = Yard::new().await;
    let work = yard.task("Add b").await;
    yard.work(&work, "b.txt", "b\n").await;
    yard.approve(&work).await.unwrap();
    yard.effects().await;
    yard.revert(&work).await.unwrap();
    yard.effects().await;
    let other = yard.task("Also b").await;
    yard.work(&other, "b.txt", "other\n").await;
    let seen = set(&yard, &[&work.short, &other.short]).await.unwrap();
    assert_eq!(seen.order_ok, [work.task.to_string()]);
    assert_eq!(seen.left_out[0].conflicts_with, [work.task.to_string()]);
    assert_eq!(yard.git(&["for-each-ref", "refs/taskyard/merges"]).await, "");
}

// C8
#[tokio::test]
async fn a_diff_starts_at_the_merge_base_and_says_how_far_behind_it_is() {
    let yard = Yard::new().await;
    let (one, two) = (yard.task("One").await, yard.task("Two").await);
    yard.work(&one, "one.txt", "one\n").await;
    yard.work(&two, "two.txt", "two\n").await;
    yard.approve(&one).await.unwrap();
    let seen = diff(&yard, &two, json!({})).await.unwrap();
    assert_eq!((names(&seen), seen.behind, seen.ahead, seen.uncommitted), (vec!["two.txt"], 2, 1, false));
    assert!(seen.files[0].patch.as_deref().unwrap().contains("+two"));
    yard.write(&two, "loose.txt", "loose\n");
    let seen = diff(&yard, &two, json!({})).await.unwrap();
    assert_eq!((names(&seen), seen.uncommitted), (vec!["loose.txt", "two.txt"], true));
}

#[tokio::test]
async fn a_large_diff_comes_in_pages_that_fit() {
    let yard = Yard::new().await;
    let work = yard.task("Large").await;
    std::fs::create_dir(work.path.join("dir")).unwrap();
    for n in 0..12 {
        yard.write(&work, &format!("dir/{n:02}.txt"), &"a \"quoted\" line\n".repeat(100));
    }
    yard.write(&work, "huge.txt", &"line\n".repeat(20_000));
    yard.commit_at(&work.path, "Large").await;
    let (mut cursor, mut seen, mut pages) = (Value::Null, Vec::new(), 0);
    loop {
        let page = diff(&yard, &work, json!({ "cursor": cursor })).await.unwrap();
        let size = serde_json::to_vec(&page).unwrap().len();
        assert!(size <= 10_000, "{size}");
        assert_eq!(page.total_files, 13);
        seen.extend(page.files.iter().map(|f| f.path.clone()));
        pages += 1;
        assert_eq!(page.truncated, page.next_cursor.is_some() || page.files.iter().any(|f| f.patch_truncated));
        let Some(next) = page.next_cursor else { break };
        cursor = json!(next);
    }
    assert!(pages > 2);
    assert_eq!(seen.len(), 13);
    let one = diff(&yard, &work, json!({ "path": "huge.txt", "max_bytes": 262_144 })).await.unwrap();
    assert_eq!((names(&one), one.truncated, one.total_additions), (vec!["huge.txt"], false, 20_000));
    let folder = diff(&yard, &work, json!({ "path": "dir/", "stat_only": true })).await.unwrap();
    assert_eq!((folder.files.len(), folder.files[0].patch.as_deref()), (12, None));
    let first = diff(&yard, &work, json!({ "path": "dir" })).await.unwrap();
    yard.work(&work, "more.txt", "x\n").await;
    let error = diff(&yard, &work, json!({ "cursor": first.next_cursor })).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::InvalidArgument, Some("cursor")));
    assert_eq!(diff(&yard, &work, json!({ "max_bytes": 0 })).await.unwrap_err().class, Class::InvalidArgument);
}

#[tokio::test]
async fn a_worktree_is_described_as_it_is() {
    let yard = Yard::new().await;
    let bare = yard.bare_task("Bare").await;
    let none = yard.engine.get_task_worktree(&operator(), input(json!({ "task_id": bare.to_string() }))).await.unwrap();
    assert!(!none.found && none.worktree.is_none());
    let work = yard.task("Add b").await;
    let tip = yard.work(&work, "b.txt", "b\n").await;
    yard.others("c.txt", "c\n").await;
    yard.write(&work, "a.txt", "edited\n");
    yard.write(&work, "new.txt", "new\n");
    let seen = yard.engine.get_task_worktree(&operator(), about(&work, json!({}))).await.unwrap().worktree.unwrap();
    assert_eq!((seen.tip.as_deref(), seen.ahead, seen.behind), (Some(&*tip), Some(1), Some(1)));
    assert_eq!((seen.uncommitted_count, seen.untracked_count, seen.state.as_str(), seen.has_folder), (1, 1, "active", true));
    assert!(seen.unsaved.unwrap().contains("new.txt") && seen.problem.is_none());
    let other = yard.task("Other").await;
    let error =
        yard.engine.get_task_worktree(&operator(), about(&other, json!({ "worktree_id": work.worktree.to_string() }))).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (Class::NotFound, Some("worktree_id")));
}

#[tokio::test]
async fn the_list_names_size_and_unsaved_work() {
    let yard = Yard::new().await;
    let (one, two) = (yard.task("One").await, yard.task("Two").await);
    yard.write(&one, "new.bin", &"x".repeat(100_000));
    yard.work(&two, "b.txt", "b\n").await;
    yard.approve(&two).await.unwrap();
    yard.effects().await;
    let list = |more: Value| yard.engine.list_worktrees(operator_ref(), input(more));
    let all = list(json!({})).await.unwrap();
    assert_eq!((all.total, all.has_more, all.worktrees.len()), (2, false, 2));
    let (first, second) = (&all.worktrees[0], &all.worktrees[1]);
    assert_eq!((&first.short_id, first.state.as_str(), first.has_folder), (&one.short, "active", true));
    assert!(first.disk_bytes.unwrap() >= 100_000 && first.unsaved.as_deref().unwrap().contains("new.bin"));
    assert_eq!((&second.short_id, second.state.as_str(), second.disk_bytes), (&two.short, "merged", None));
    assert_eq!(list(json!({ "state": "merged" })).await.unwrap().total, 1);
    assert_eq!(list(json!({ "state": "odd" })).await.unwrap_err().class, Class::InvalidArgument);
}
