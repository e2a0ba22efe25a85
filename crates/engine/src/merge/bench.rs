//! Where a merge is worked on: the open repository with private space for trees and objects in progress.

use crate::{Engine, fold};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use taskyard_domain::id::{RepositoryId, TaskId};
use taskyard_domain::repository::Repository;
use taskyard_domain::{Error, Result};
use taskyard_git::{Oid, Repo};

/// A repository that is open for merging.
#[derive(Debug, Clone)]
pub(crate) struct Bench {
    /// Its row.
    pub repository: Repository,
    /// The user's checkout or bare repository.
    pub repo: Repo,
    /// A folder of ours.
    pub scratch: PathBuf,
    /// The local branches at one moment, where many of them are asked for.
    tips: Option<Arc<BTreeMap<String, Oid>>>,
}

/// Held while a merge of one repository, or the making or removal of one task's worktree, is under way in this process.
pub(crate) struct Turn {
    _lock: taskyard_git::runner::RepoLock,
}

impl Engine {
    /// Opens `repository`.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when it has no local path, isn't there, or was switched to bare by accident.
    pub(crate) async fn bench(&self, repository: &Repository) -> Result<Bench> {
        let name = &repository.name;
        let Some(path) = repository.local_path.as_deref() else {
            return Err(Error::precondition(format!("the repository {name} has no local path yet")).with_field("repository_id"));
        };
        let missing = |error| {
            let mut error = fold::git(error);
            error.message = format!("the repository {name} can't be used: {}", error.message);
            error
        };
        let repo = Repo::open(self.git(), Path::new(path)).await.map_err(missing)?;
        repo.check_not_switched_bare().map_err(missing)?;
        let scratch = self.scratch(repository.id);
        Ok(Bench { repository: repository.clone(), repo, scratch, tips: None })
    }

    /// Waits until no worktree of `task` is being made or taken away. Finer than a repository's turn, which may be
    /// held by another task's cleanup script; whoever needs both takes the repository's first.
    pub(crate) async fn ground_turn(&self, task: TaskId) -> Turn {
        Turn { _lock: self.git().lock(&self.paths().worktrees().join(task.to_string())).await }
    }

    /// The folder for merges of one repository.
    pub(super) fn scratch(&self, repository: RepositoryId) -> PathBuf {
        self.paths().scratch().join(repository.to_string())
    }
}

impl Bench {
    /// Waits for this repository's turn to merge.
    pub(crate) async fn turn(&self) -> Turn {
        Turn { _lock: self.repo.git().lock(&self.turn_key()).await }
    }

    /// This repository's turn to merge, unless somebody has it.
    pub(super) fn try_turn(&self) -> Option<Turn> {
        self.repo.git().try_lock(&self.turn_key()).map(|lock| Turn { _lock: lock })
    }

    /// Not git's own lock on the repository: the steps of a merge take that one for moments.
    fn turn_key(&self) -> PathBuf {
        self.repo.common_dir().join("taskyard-merges")
    }

    /// The same with the tips of all local branches read once, for looking at many tasks as of one moment.
    ///
    /// # Errors
    /// When git can't list them.
    pub(crate) async fn at_once(self) -> Result<Self> {
        let branches = self.repo.branches().await.map_err(fold::git)?;
        let tips = branches.into_iter().map(|branch| (branch.name, branch.oid)).collect();
        Ok(Self { tips: Some(Arc::new(tips)), ..self })
    }

    /// The tip of a local branch.
    pub(super) async fn branch_tip(&self, branch: &str) -> Result<Option<Oid>> {
        if let Some(tips) = &self.tips {
            return Ok(tips.get(branch).cloned());
        }
        self.repo.tip(&format!("refs/heads/{branch}")).await.map_err(fold::git)
    }

    /// The names of the local branches, for answers.
    pub(super) async fn branches(&self) -> Result<Vec<String>> {
        self.repo.branch_names().await.map_err(fold::git)
    }
}

/// Reads a commit id that a record holds.
pub(super) fn oid(text: &str) -> Result<Oid> {
    Oid::parse(text).ok_or_else(|| Error::internal(format!("a record holds {text:?}, which is no commit id")))
}
