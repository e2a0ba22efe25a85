//! What is unsaved, snapshots, and removing worktrees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod support;

use pretty_assertions::assert_eq;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use support::{Lab, files, odd_names, read, write, yard};
use taskyard_git::copy::copy_files;
use taskyard_git::removal::{Removal, Removed, remove};
use taskyard_git::snapshot;
use taskyard_git::status::{Distance, Operation, status};
use taskyard_git::unsaved::{Known, Unsaved, unsaved};
use taskyard_git::worktree::{self, Plan};
use taskyard_git::{Error, Oid, Repo};
use taskyard_process::spawn::{Spawn, spawn};

struct Work {
    lab: Lab,
    r: PathBuf,
    w: PathBuf,
    repo: Repo,
}

const BRANCH: &str = "taskyard/w";

async fn work() -> Work {
    let lab = Lab::new();
    let r = lab.repo("r").await;
    let repo = lab.open(&r).await;
    let plan = Plan { path: lab.path("trees/w"), branch: BRANCH.into() };
    let w = worktree::create(&repo, &plan, &lab.oid(&r, "HEAD").await).await.unwrap().path;
    Work { lab, r, w, repo }
}

fn known() -> Known<'static> {
    Known { branch: Some(BRANCH), copied: &[] }
}

impl Work {
    async fn unsaved(&self) -> Unsaved {
        unsaved(&self.lab.open(&self.w).await, known()).await.unwrap()
    }

    async fn remove(&self) -> Result<Removed, Error> {
        remove(&self.repo, &Removal { path: &self.w, known: known(), snapshot: None }).await
    }

    async fn snapshot_and_remove(&self) -> Removed {
        remove(&self.repo, &Removal { path: &self.w, known: known(), snapshot: Some(("s1", &yard())) }).await.unwrap()
    }

    /// Refused first and untouched; then gone after a snapshot, with every object still reachable by refs.
    async fn refused_then_kept(&self, why: &str) {
        let before = files(&self.w);
        let error = self.remove().await.unwrap_err();
        assert!(matches!(&error, Error::Unsaved { what, .. } if what.contains(why)), "{error}");
        assert_eq!(files(&self.w), before);
        let objects = self.objects().await;
        let removed = self.snapshot_and_remove().await;
        assert_eq!((removed.existed, removed.snapshot.map(|s| s.id).as_deref()), (true, Some("s1")));
        assert!(!self.w.exists());
        let fsck = self.lab.git_in(&self.r, &["fsck", "--unreachable", "--no-reflogs", "--no-progress"]).await;
        let lost: Vec<_> = fsck.lines().filter(|line| objects.contains(line.rsplit(' ').next().unwrap())).collect();
        assert_eq!(lost, Vec::<&str>::new());
        assert_eq!(snapshot::list(&self.repo).await.unwrap().len(), 1);
    }

    async fn objects(&self) -> BTreeSet<String> {
        let all = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];
        self.lab.git_in(&self.r, &all).await.lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_clean_worktree_goes_its_branch_stays_and_twice_is_fine() {
    let work = work().await;
    write(&work.w, "b", "b");
    let tip = work.lab.commit(&work.w, "work").await;
    assert!(work.unsaved().await.is_empty());
    let before = files(&work.r);
    assert_eq!(work.remove().await.unwrap(), Removed { existed: true, snapshot: None });
    assert!(!work.w.exists() && !work.r.join(".git/worktrees").exists());
    assert_eq!(work.lab.oid(&work.r, BRANCH).await, tip);
    assert_eq!(files(&work.r), before);
    assert_eq!(work.remove().await.unwrap(), Removed { existed: false, snapshot: None });
}

#[tokio::test]
async fn d6_a_modified_file() {
    let work = work().await;
    write(&work.w, "a.txt", "changed");
    work.refused_then_kept("modified files (a.txt)").await;
    let file = work.lab.git_in(&work.r, &["show", "refs/taskyard/snapshots/s1:a.txt"]).await;
    assert_eq!(file, "changed");
}

#[tokio::test]
async fn d6_only_untracked_files_whatever_their_names() {
    let work = work().await;
    for name in odd_names() {
        write(&work.w, &name, "only here");
    }
    work.refused_then_kept("untracked files").await;
    let listed = work.lab.git_in(&work.r, &["ls-tree", "-r", "-z", "--name-only", "refs/taskyard/snapshots/s1"]).await;
    assert_eq!(listed.split_terminator('\0').count(), odd_names().len() + 1);
}

#[tokio::test]
async fn d6_a_commit_on_a_detached_head() {
    let work = work().await;
    work.lab.git_in(&work.w, &["checkout", "-q", "--detach"]).await;
    write(&work.w, "b", "b");
    let oid = work.lab.commit(&work.w, "detached").await;
    assert_eq!(work.unsaved().await.commits, std::slice::from_ref(&oid));
    work.lab.git_in(&work.w, &["checkout", "-q", BRANCH]).await;
    assert_eq!(work.unsaved().await.commits, [oid], "also when HEAD has moved on");
    work.refused_then_kept("commits no branch reaches").await;
}

#[tokio::test]
async fn d6_a_stash_on_the_own_branch_but_not_on_another() {
    let work = work().await;
    write(&work.r, "a.txt", "users");
    work.lab.git_in(&work.r, &["stash", "-q"]).await;
    assert!(work.unsaved().await.is_empty(), "the user's stash isn't ours");
    write(&work.w, "a.txt", "stashed");
    write(&work.w, "new", "stashed too");
    work.lab.git_in(&work.w, &["stash", "-q", "-u"]).await;
    work.lab.git_in(&work.w, &["checkout", "-q", "--detach"]).await;
    assert_eq!(work.unsaved().await.stashes.len(), 1);
    work.lab.git_in(&work.w, &["checkout", "-q", BRANCH]).await;
    let error = work.remove().await.unwrap_err();
    assert!(error.to_string().contains("stash entries (WIP on taskyard/w"), "{error}");
    let stash = work.lab.oid(&work.r, "stash@{0}").await;
    work.snapshot_and_remove().await;
    work.lab.git_in(&work.r, &["stash", "clear"]).await;
    let reached = work.lab.git_in(&work.r, &["rev-list", "refs/taskyard/snapshots/s1"]).await;
    assert!(reached.contains(stash.as_str()));
}

#[tokio::test]
async fn d6_an_unmerged_branch_is_not_unsaved_and_outlives_the_folder() {
    let work = work().await;
    write(&work.w, "b", "b");
    let tip = work.lab.commit(&work.w, "unpushed").await;
    work.remove().await.unwrap();
    assert_eq!(work.lab.oid(&work.r, BRANCH).await, tip);
}

#[tokio::test]
async fn d6_a_live_process_inside_refuses_even_a_snapshot() {
    let work = work().await;
    let env = work.lab.env();
    let sleeper = Spawn { program: "sleep".into(), args: vec!["1000".into()], cwd: work.w.clone(), env, stdin: false, marker: None };
    let mut child = spawn(sleeper).unwrap();
    let removal = Removal { path: &work.w, known: known(), snapshot: Some(("s1", &yard())) };
    let error = remove(&work.repo, &removal).await.unwrap_err();
    assert!(error.to_string().contains(&format!("live processes ({})", child.pid())), "{error}");
    assert!(work.w.exists());
    child.end(std::time::Duration::from_secs(5)).await;
    work.remove().await.unwrap();
}

#[tokio::test]
async fn staged_changes_and_an_open_merge_are_kept_and_restored() {
    let work = work().await;
    write(&work.w, "staged", "one");
    work.lab.git_in(&work.w, &["add", "staged"]).await;
    write(&work.w, "staged", "two");
    write(&work.w, "new", "x");
    std::fs::remove_file(work.w.join("a.txt")).unwrap();
    let before = (work.lab.git_in(&work.w, &["status", "--porcelain"]).await, files(&work.w));
    let index = std::fs::read(work.r.join(".git/worktrees/w/index")).unwrap();
    let tree = work.lab.open(&work.w).await;
    snapshot::take(&tree, "s1", &yard(), known()).await.unwrap();
    assert_eq!((work.lab.git_in(&work.w, &["status", "--porcelain"]).await, files(&work.w)), before);
    assert_eq!(std::fs::read(work.r.join(".git/worktrees/w/index")).unwrap(), index, "the index is not touched");
    let plan = Plan { path: work.lab.path("trees/back"), branch: "taskyard/back".into() };
    for _ in 0..2 {
        let ready = snapshot::restore(&work.repo, "s1", &plan).await.unwrap();
        assert_eq!(work.lab.git_in(&ready.path, &["status", "--porcelain"]).await, before.0);
        assert_eq!((read(&ready.path, "staged"), read(&ready.path, "new")), ("two".into(), "x".into()));
    }
}

#[tokio::test]
async fn an_open_merge_counts_and_its_sides_are_kept() {
    let work = work().await;
    write(&work.w, "a.txt", "mine");
    work.lab.commit(&work.w, "mine").await;
    work.lab.git_in(&work.r, &["checkout", "-q", "--detach"]).await;
    write(&work.r, "a.txt", "theirs");
    let theirs = work.lab.commit(&work.r, "theirs").await;
    work.lab.git_in(&work.r, &["checkout", "-q", "main"]).await;
    assert!(!work.lab.try_git(&work.w, &["merge", theirs.as_str()]).await.ok());
    assert_eq!(work.unsaved().await.operation, Some(Operation::Merge));
    work.snapshot_and_remove().await;
    assert!(work.lab.git_in(&work.r, &["rev-list", "refs/taskyard/snapshots/s1"]).await.contains(theirs.as_str()));
}

#[tokio::test]
async fn a_second_snapshot_of_the_same_name_loses_nothing_of_the_first() {
    let work = work().await;
    let tree = work.lab.open(&work.w).await;
    write(&work.w, "one", "1");
    let first = snapshot::take(&tree, "s1", &yard(), known()).await.unwrap();
    std::fs::remove_file(work.w.join("one")).unwrap();
    write(&work.w, "two", "2");
    let second = snapshot::take(&tree, "s1", &yard(), known()).await.unwrap();
    assert!(work.lab.git_in(&work.r, &["rev-list", second.oid.as_str()]).await.contains(first.oid.as_str()));
    snapshot::drop(&work.repo, "s1").await.unwrap();
    snapshot::drop(&work.repo, "s1").await.unwrap();
    assert_eq!(snapshot::list(&work.repo).await.unwrap(), []);
}

#[tokio::test]
async fn a_repository_inside_is_kept_with_all_its_history() {
    let work = work().await;
    let inner = work.w.join("inner");
    write(&inner, "f", "1");
    work.lab.git_in(&inner, &["init", "-q"]).await;
    let oid = work.lab.commit(&inner, "inner").await;
    write(&inner, "dirty", "2");
    assert!(work.unsaved().await.describe().contains("work inside repositories (inner)"));
    work.snapshot_and_remove().await;
    assert!(work.lab.git_in(&work.r, &["rev-list", "refs/taskyard/snapshots/s1"]).await.contains(oid.as_str()));
    let message = work.lab.git_in(&work.r, &["log", "-1", "--format=%B", "refs/taskyard/snapshots/s1"]).await;
    let kept = message.lines().find_map(|line| line.strip_prefix("Taskyard-Inner: ")).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(work.lab.git_in(&work.r, &["show", &format!("{kept}:dirty")]).await, "2");
}

#[tokio::test]
async fn b6_links_are_removed_not_followed() {
    let work = work().await;
    write(&work.lab.path("shared"), "f", "keep");
    write(&work.w, ".gitignore", "node_modules\n");
    work.lab.commit(&work.w, "rules").await;
    symlink(work.lab.path("shared"), work.w.join("node_modules")).unwrap();
    work.remove().await.unwrap();
    assert_eq!(read(&work.lab.path("shared"), "f"), "keep");
}

#[tokio::test]
async fn a_folder_that_is_not_the_worktree_is_never_deleted() {
    let work = work().await;
    std::fs::rename(&work.w, work.lab.path("aside")).unwrap();
    write(&work.w, "users", "keep");
    assert!(matches!(work.remove().await, Err(Error::Isolation { .. })));
    let foreign = Removal { path: &work.r, known: known(), snapshot: None };
    assert!(matches!(remove(&work.repo, &foreign).await, Err(Error::Isolation { .. })), "nor the user's own checkout");
    assert_eq!((read(&work.w, "users"), read(&work.r, "a.txt")), ("keep".into(), "a\n".into()));
}

#[tokio::test]
async fn a_removal_that_was_cut_in_two_is_finished() {
    let work = work().await;
    let admin = work.r.join(".git/worktrees/w");
    // Killed after moving the folder aside and deleting half of it.
    std::fs::write(admin.join("taskyard-leaving"), "").unwrap();
    let aside = work.lab.path("trees/.removing-w");
    std::fs::rename(&work.w, &aside).unwrap();
    std::fs::remove_file(aside.join("a.txt")).unwrap();
    assert_eq!(work.remove().await.unwrap(), Removed { existed: true, snapshot: None });
    assert!(!aside.exists() && !admin.exists());
}

#[tokio::test]
async fn what_git_knows_of_a_lost_folder_is_looked_at_before_it_is_forgotten() {
    let work = work().await;
    work.lab.git_in(&work.w, &["checkout", "-q", "--detach"]).await;
    write(&work.w, "b", "b");
    work.lab.commit(&work.w, "detached").await;
    std::fs::remove_dir_all(&work.w).unwrap();
    assert!(matches!(work.remove().await, Err(Error::Unsaved { .. })));
    let removed = work.snapshot_and_remove().await;
    assert!(removed.snapshot.is_some());
}

#[tokio::test]
async fn copied_files_are_unsaved_only_when_they_changed() {
    let work = work().await;
    write(&work.r, ".env", "secret");
    let tree = work.lab.open(&work.w).await;
    let copied = copy_files(&work.repo, &tree, &[".env".into()]).await.unwrap().copied;
    let known = Known { branch: Some(BRANCH), copied: &copied };
    assert!(unsaved(&tree, known).await.unwrap().is_empty());
    write(&work.w, ".env", "changed");
    assert_eq!(unsaved(&tree, known).await.unwrap().describe(), "untracked files (.env)");
}

#[tokio::test]
async fn status_counts_ahead_and_behind() {
    let work = work().await;
    for name in ["one", "two"] {
        write(&work.w, name, "x");
        work.lab.commit(&work.w, name).await;
    }
    let tip: Oid = work.lab.commit(&work.r, "base moves on").await;
    let tree = work.lab.open(&work.w).await;
    for target in ["main", tip.as_str()] {
        let seen = status(&tree, Some(target), &[]).await.unwrap();
        assert_eq!(seen.distance, Some(Distance { ahead: 2, behind: 1 }));
        assert_eq!((seen.head.branch(), seen.changes.len()), (Some(BRANCH), 0));
    }
    assert!(matches!(status(&tree, Some("nope"), &[]).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn changes_hidden_from_git_count_and_are_kept() {
    let work = work().await;
    write(&work.w, "b", "b");
    work.lab.commit(&work.w, "b").await;
    work.lab.git_in(&work.w, &["update-index", "--assume-unchanged", "a.txt"]).await;
    work.lab.git_in(&work.w, &["update-index", "--skip-worktree", "b"]).await;
    write(&work.w, "a.txt", "hidden a");
    write(&work.w, "b", "hidden b");
    assert_eq!(work.lab.git_in(&work.w, &["status", "--porcelain"]).await, "");
    work.refused_then_kept("modified files (a.txt, b)").await;
    assert_eq!(work.lab.git_in(&work.r, &["show", "refs/taskyard/snapshots/s1:b"]).await, "hidden b");
}
