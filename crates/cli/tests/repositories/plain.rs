//! Plain git beside Taskyard: a clone of its own in which the same commits are merged, rebased and reverted by hand,
//! and the questions whose answers show that a repository is in order.

use crate::project::Project;
use crate::support::eventually;
use std::path::{Path, PathBuf};

/// A clone that follows the project without touching it.
pub struct Plain<'p> {
    project: &'p Project<'p>,
    folder: PathBuf,
}

impl<'p> Plain<'p> {
    /// Clones the project's repository, without submodules and without a checkout.
    pub async fn beside(project: &'p Project<'p>) -> Self {
        let folder = project.yard.repo.outside().join("plain");
        let clone = ["clone", "-q", "--no-checkout", project.path.to_str().unwrap(), folder.to_str().unwrap()];
        project.git_in(project.yard.repo.outside(), &clone).await;
        Self { project, folder }
    }

    async fn git(&self, args: &[&str]) -> String {
        self.project.git_in(&self.folder, args).await
    }

    /// Takes in what the project has, and stands on `commit`.
    async fn stand_on(&self, commit: &str) {
        self.git(&["fetch", "-q", "--no-recurse-submodules", "origin", "+refs/*:refs/project/*"]).await;
        self.git(&["checkout", "-q", "--force", "--detach", commit]).await;
    }

    /// The tree that merging `tip` into `target` gives, by `strategy`.
    pub async fn merged(&self, strategy: &str, target: &str, tip: &str) -> String {
        match strategy {
            "rebase" => {
                self.stand_on(tip).await;
                self.git(&["rebase", "-q", target]).await;
            }
            "squash" => {
                self.stand_on(target).await;
                self.git(&["merge", "-q", "--squash", tip]).await;
                self.git(&["commit", "-q", "-m", "Squash"]).await;
            }
            _ => {
                self.stand_on(target).await;
                self.git(&["merge", "-q", "--no-ff", "--no-edit", tip]).await;
            }
        }
        self.git(&["rev-parse", "HEAD^{tree}"]).await
    }

    /// The tree that `target` has once `revert` is undone in it and `tip`'s commits since `since` are on top.
    pub async fn merged_again(&self, target: &str, revert: &str, since: &str, tip: &str) -> String {
        self.stand_on(target).await;
        self.git(&["revert", "--no-edit", revert]).await;
        self.git(&["cherry-pick", &format!("{since}..{tip}")]).await;
        self.git(&["rev-parse", "HEAD^{tree}"]).await
    }
}

/// The tree of a commit or branch of the project.
pub async fn tree_of(project: &Project<'_>, what: &str) -> String {
    project.git(&["rev-parse", &format!("{what}^{{tree}}")]).await
}

/// The project is as its user would want it: nothing modified, nothing half done, no refs but the documented ones, no
/// worktrees but those in `trees`, no locks, every object whole, and every commit in `kept` reachable.
pub async fn in_order(project: &Project<'_>, trees: usize, kept: &[String]) {
    // Folder, branch and private refs go a moment after the answer.
    eventually("worktrees to be put away", async || (project.trees().await.len() == trees + 1).then_some(())).await;
    assert_eq!(project.git(&["status", "--porcelain", "--ignore-submodules=all"]).await, "");
    assert_eq!(project.git(&["diff", "--name-only", "--ignore-submodules=all", "HEAD"]).await, "");
    assert_eq!(project.git(&["stash", "list"]).await, "");
    eventually("private refs other than those of merged work to be gone", async || {
        let ours = project.git(&["for-each-ref", "--format=%(refname)", "refs/taskyard"]).await;
        ours.lines().all(|name| name.starts_with("refs/taskyard/tasks/")).then_some(())
    })
    .await;
    let git_dir = project.path.join(".git");
    for trace in ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE", "rebase-merge", "rebase-apply", "sequencer"] {
        assert!(!git_dir.join(trace).exists(), "{trace} was left");
    }
    eventually("locks to be gone", async || locks(&git_dir).is_empty().then_some(())).await;
    let scratch = project.yard.server.data().join("scratch");
    eventually("scratch space to be empty", async || is_empty(&scratch).then_some(())).await;
    // Says what is broken by failing; dangling objects are normal.
    project.git(&["fsck", "--no-progress", "--no-dangling", "--connectivity-only"]).await;
    for commit in kept {
        let by = project.git(&["for-each-ref", "--contains", commit, "--format=%(refname)"]).await;
        assert_ne!(by, "", "no ref reaches {commit}");
    }
}

/// Everything is whole, each object read.
pub async fn sound(project: &Project<'_>) {
    project.git(&["fsck", "--no-progress", "--no-dangling", "--strict"]).await;
}

/// No files or folders in it but one empty folder for each repository.
fn is_empty(scratch: &Path) -> bool {
    let Ok(mut repositories) = std::fs::read_dir(scratch) else { return true };
    repositories.all(|entry| std::fs::read_dir(entry.unwrap().path()).is_ok_and(|mut left| left.next().is_none()))
}

/// Lock files anywhere in the git folder.
fn locks(git_dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![git_dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                if entry.file_name() != "objects" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|ending| ending == "lock") {
                found.push(path);
            }
        }
    }
    found
}
