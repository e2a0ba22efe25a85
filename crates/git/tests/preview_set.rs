//! The truth about a set of branches: order, who is in whose way, overlap, and that looking is cheap and harmless.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "support/merging.rs"]
mod merging;
mod support;

use merging::Yard;
use pretty_assertions::assert_eq;
use support::{files, write};
use taskyard_git::preview_set::{Objects, Opponent, preview_set};
use taskyard_git::{Error, Oid};

/// Branches from main, each with one commit that writes these files.
async fn branches(yard: &Yard, contents: &[&[(&str, &str)]]) -> Vec<Oid> {
    let mut tips = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        yard.lab.git_in(&yard.task, &["checkout", "-q", "-B", &format!("b{index}"), "main"]).await;
        for (name, text) in *content {
            write(&yard.task, name, text);
        }
        tips.push(yard.lab.commit(&yard.task, &format!("branch {index}")).await);
    }
    tips
}

#[tokio::test]
async fn conflicting_branches_are_left_out_and_the_sequence_goes_on() {
    let yard = Yard::new().await;
    let contents: [&[(&str, &str)]; 5] = [
        &[("x.txt", "0\n"), ("own0.txt", "0\n")],
        &[("y.txt", "1\n")],
        &[("x.txt", "2\n"), ("y.txt", "2\n")],
        &[("own0.txt", "0\n"), ("own3.txt", "3\n")],
        &[("a.txt", "4\n")],
    ];
    let tips = branches(&yard, &contents).await;
    let target = yard.others("a.txt", "main\n").await;
    let before = (yard.snap().await, files(&yard.main.join(".git")));
    let seen = preview_set(&yard.repo, &yard.scratch, Objects::Discard, &target, &tips).await.unwrap();
    assert_eq!((yard.snap().await, files(&yard.main.join(".git"))), before);

    assert_eq!(seen.order_ok, [0, 1, 3]);
    let left: Vec<_> = seen.left_out.iter().map(|l| (l.index, l.conflicts_with.clone())).collect();
    assert_eq!(left, [(2, vec![Opponent::Branch(0), Opponent::Branch(1)]), (4, vec![Opponent::Target])]);
    let named: Vec<_> = seen.left_out[0].files.iter().map(|f| f.path.to_string()).collect();
    assert_eq!(named, ["x.txt", "y.txt"]);
    let overlap: Vec<_> = seen.overlap.iter().map(|o| (o.path.to_string(), o.branches.clone())).collect();
    assert_eq!(overlap, [("own0.txt".into(), vec![0, 3]), ("x.txt".to_owned(), vec![0, 2]), ("y.txt".into(), vec![1, 2])]);
    let each: Vec<_> = seen.each.iter().map(|s| (s.clean, s.changed_files, s.ahead, s.behind)).collect();
    assert_eq!(each, [(true, 2, 1, 1), (true, 1, 1, 1), (true, 2, 1, 1), (true, 2, 1, 1), (false, 1, 1, 1)]);
}

#[tokio::test]
async fn a_renamed_file_still_leads_to_the_branch_in_the_way() {
    let yard = Yard::new().await;
    yard.others("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\n").await;
    let mut tips = branches(&yard, &[&[("long.txt", "1\n2\n3\n4\n5\n6\n7\neight\n")]]).await;
    yard.lab.git_in(&yard.task, &["checkout", "-q", "-B", "renaming", "main"]).await;
    yard.lab.git_in(&yard.task, &["mv", "long.txt", "moved.txt"]).await;
    write(&yard.task, "moved.txt", "1\n2\n3\n4\n5\n6\n7\nacht\n");
    tips.push(yard.lab.commit(&yard.task, "rename").await);
    let seen = preview_set(&yard.repo, &yard.scratch, Objects::Discard, &yard.target().await, &tips).await.unwrap();
    assert_eq!(seen.left_out.len(), 1);
    assert_eq!((seen.left_out[0].index, &seen.left_out[0].conflicts_with[..]), (1, &[Opponent::Branch(0)][..]));
}

#[tokio::test]
async fn the_combined_commit_can_be_kept_and_checked_out() {
    let yard = Yard::new().await;
    let tips = branches(&yard, &[&[("x.txt", "0\n")], &[("y.txt", "1\n")]]).await;
    let target = yard.target().await;
    let seen = preview_set(&yard.repo, &yard.scratch, Objects::Keep, &target, &tips).await.unwrap();
    let before = yard.snap().await;
    let place = taskyard_git::scratch::Tree::check_out(&yard.repo, &yard.scratch.join("verify"), &seen.commit).await.unwrap();
    assert_eq!((support::read(place.path(), "x.txt"), support::read(place.path(), "y.txt")), ("0\n".into(), "1\n".into()));
    place.close().await.unwrap();
    assert_eq!(yard.snap().await, before);
}

#[tokio::test]
async fn an_empty_set_is_the_target_and_an_unrelated_branch_an_error() {
    let yard = Yard::new().await;
    let target = yard.target().await;
    let seen = preview_set(&yard.repo, &yard.scratch, Objects::Discard, &target, &[]).await.unwrap();
    assert_eq!((seen.commit, seen.order_ok.len()), (target.clone(), 0));
    yard.lab.git_in(&yard.task, &["checkout", "-q", "--orphan", "other"]).await;
    let other = yard.lab.commit(&yard.task, "root").await;
    let error = preview_set(&yard.repo, &yard.scratch, Objects::Discard, &target, &[other]).await.unwrap_err();
    assert!(matches!(error, Error::UnrelatedHistories { .. }), "{error}");
}

/// Counted, not timed, so that a busy machine doesn't matter.
#[tokio::test]
async fn a_set_takes_one_process_for_each_branch() {
    let mut yard = Yard::new().await;
    let names: Vec<String> = (0..60).map(|n| format!("f{n}.txt")).collect();
    let contents: Vec<Vec<(&str, &str)>> = names.iter().map(|name| vec![(name.as_str(), "x\n")]).collect();
    let contents: Vec<&[(&str, &str)]> = contents.iter().map(Vec::as_slice).collect();
    let tips = branches(&yard, &contents).await;
    let count = yard.lab.path("count");
    let real = yard.lab.git_in(&yard.main, &["--exec-path"]).await;
    support::script(&yard.lab.path("bin/git"), &format!("echo x >> '{}'\nexec '{real}/git' \"$@\"", count.display()));
    let mut path = yard.lab.path("bin").into_os_string();
    path.push(":");
    path.push(yard.lab.env().get("PATH").unwrap());
    let git = taskyard_git::Git::new(yard.lab.env().with("PATH", path));
    yard.repo = taskyard_git::Repo::open(&git, &yard.main).await.unwrap();
    std::fs::write(&count, "").unwrap();
    let target = yard.target().await;
    let seen = preview_set(&yard.repo, &yard.scratch, Objects::Discard, &target, &tips).await.unwrap();
    assert_eq!(seen.order_ok.len(), 60);
    let calls = std::fs::read_to_string(&count).unwrap().lines().count();
    assert!((60..=70).contains(&calls), "{calls} calls of git");
}

/// Branches that build on one another, and on each other's merges: whatever the shape, the combined tree is git's.
#[tokio::test]
async fn stacked_and_crossed_branches_come_out_as_git_merges_them() {
    let yard = Yard::new().await;
    let git = async |args: &[&str]| yard.lab.git_in(&yard.task, args).await;
    let tips = branches(&yard, &[&[("x.txt", "0\n")], &[("y.txt", "1\n")]]).await;
    git(&["checkout", "-q", "-B", "stacked", "b0"]).await;
    let stacked = yard.work("x.txt", "0\nstacked\n").await;
    git(&["checkout", "-q", "-B", "cross-a", "b0"]).await;
    git(&["merge", "-q", "--no-ff", "-m", "a", "b1"]).await;
    let cross_a = yard.work("z.txt", "a\n").await;
    git(&["checkout", "-q", "-B", "cross-b", "b1"]).await;
    git(&["merge", "-q", "--no-ff", "-m", "b", "b0"]).await;
    let cross_b = yard.work("w.txt", "b\n").await;
    let target = yard.others("c.txt", "main\n").await;
    let all = [tips[0].clone(), cross_a, stacked, tips[1].clone(), cross_b];
    let seen = preview_set(&yard.repo, &yard.scratch, Objects::Keep, &target, &all).await.unwrap();
    assert_eq!(seen.order_ok, [0, 1, 2, 3, 4]);
    git(&["checkout", "-q", "--detach", "main"]).await;
    for tip in &all {
        git(&["merge", "-q", "-m", "x", tip.as_str()]).await;
    }
    assert_eq!(yard.lab.git_in(&yard.task, &["rev-parse", "HEAD^{tree}"]).await, seen.tree.to_string());
}
