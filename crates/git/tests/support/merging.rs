//! Shorthands for tests that merge: a repository with a task branch, requests with the usual values.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "shared by several test binaries")]

use crate::support::{Lab, write, yard};
use std::path::{Path, PathBuf};
use taskyard_domain::merge::Strategy;
use taskyard_git::land::{Landed, Landing, land};
use taskyard_git::merge::{Computed, Merge, compute};
use taskyard_git::record::Author;
use taskyard_git::revert::{self, Earlier, Revert, Reverted};
use taskyard_git::{Oid, Policy, Repo, Result};

/// Every strategy.
pub const STRATEGIES: [Strategy; 3] = [Strategy::Merge, Strategy::Squash, Strategy::Rebase];

/// A repository with `main` checked out and a task's linked worktree on the branch `task`.
pub struct Yard {
    pub lab: Lab,
    pub main: PathBuf,
    pub task: PathBuf,
    pub repo: Repo,
    pub scratch: PathBuf,
}

impl Yard {
    pub async fn new() -> Self {
        let lab = Lab::new();
        let main = lab.repo("r").await;
        Self::around(lab, main).await
    }

    pub async fn around(lab: Lab, main: PathBuf) -> Self {
        let task = lab.path("task");
        lab.git_in(&main, &["worktree", "add", "-q", "-b", "task", task.to_str().unwrap()]).await;
        let repo = lab.open(&main).await;
        let scratch = lab.path("scratch");
        Self { lab, main, task, repo, scratch }
    }

    /// The task's agent writes a file and commits.
    pub async fn work(&self, name: &str, content: &str) -> Oid {
        write(&self.task, name, content);
        self.lab.commit(&self.task, &format!("task: {name}")).await
    }

    /// A person commits on main.
    pub async fn others(&self, name: &str, content: &str) -> Oid {
        write(&self.main, name, content);
        self.lab.commit(&self.main, &format!("main: {name}")).await
    }

    pub async fn target(&self) -> Oid {
        self.lab.oid(&self.main, "refs/heads/main").await
    }

    pub async fn request(&self, strategy: Strategy) -> Merge {
        Merge {
            id: "m1".into(),
            base: self.target().await,
            tip: self.lab.oid(&self.main, "refs/heads/task").await,
            strategy,
            message: "Merge the task\n\nWith a body.".into(),
            author: author(),
        }
    }

    pub async fn compute(&self, strategy: Strategy) -> Result<Computed> {
        compute(&self.repo, &self.scratch, &self.request(strategy).await).await
    }

    pub async fn land(&self, before: &Oid, after: &Oid) -> Result<Landed> {
        land(&self.repo, &self.scratch, &landing("main", before, after)).await
    }

    /// Computes and lands.
    pub async fn merge(&self, strategy: Strategy) -> Computed {
        let computed = self.compute(strategy).await.unwrap();
        self.land(&computed.target_before, &computed.commit).await.unwrap();
        self.release().await;
        computed
    }

    pub async fn compute_revert(&self, merged: &Computed) -> Result<Reverted> {
        let revert = Revert {
            id: "r1".into(),
            onto: self.target().await,
            before: merged.target_before.clone(),
            after: merged.commit.clone(),
            message: revert::default_message("the task", &merged.commit),
            author: author(),
        };
        revert::compute(&self.repo, &self.scratch, &revert).await
    }

    /// Takes a merge out again and lands that.
    pub async fn revert(&self, merged: &Computed) -> Reverted {
        let reverted = self.compute_revert(merged).await.unwrap();
        self.land(&reverted.target_before, &reverted.commit).await.unwrap();
        self.release().await;
        reverted
    }

    pub async fn release(&self) {
        for id in ["m1", "r1"] {
            taskyard_git::record::release(&self.repo, id).await.unwrap();
        }
    }

    /// The user's checkout, the task's tree and what is in the scratch folder.
    pub async fn snap(&self) -> Vec<String> {
        let mut all = self.lab.snap(&self.main).await;
        all.extend(self.lab.snap(&self.task).await);
        let left: Vec<_> = std::fs::read_dir(&self.scratch).into_iter().flatten().map(|e| e.unwrap().path()).collect();
        all.push(format!("scratch {left:?}"));
        let objects = self.lab.git_in(&self.main, &["worktree", "prune", "-n", "-v"]).await;
        all.push(objects);
        all
    }

    /// `git status` of a tree; empty when clean.
    pub async fn status(&self, at: &Path) -> String {
        self.lab.git_in(at, &["status", "--porcelain"]).await
    }

    /// A file's content in a commit.
    pub async fn show(&self, commit: &Oid, name: &str) -> String {
        self.lab.git_in(&self.main, &["show", &format!("{commit}:{name}")]).await
    }
}

/// A merge that was taken out again.
pub fn earlier(merged: &Computed, reverted: &Reverted) -> Earlier {
    let (tip, before, revert) = (merged.tip.clone(), merged.target_before.clone(), reverted.commit.clone());
    Earlier { tip, before, revert, subject: "TY-1: the task".into() }
}

pub fn author() -> Author {
    Author { who: yard(), policy: Policy::default() }
}

pub fn landing(branch: &str, before: &Oid, after: &Oid) -> Landing {
    Landing {
        branch: branch.into(),
        expected: before.clone(),
        commit: after.clone(),
        reason: "taskyard: merge".into(),
        policy: Policy::default(),
        keep: None,
        changed: None,
    }
}
