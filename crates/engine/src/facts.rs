//! Facts from git that rules about tasks depend on. Only asks; changes nothing.

use crate::{Engine, fold};
use std::path::Path;
use taskyard_domain::Result;
use taskyard_domain::repository::Repository;
use taskyard_domain::task::Task;
use taskyard_domain::worktree::{State, Worktree};
use taskyard_git::Repo;
use taskyard_git::error::Error as Git;
use taskyard_git::file_path::FilePath;

impl Engine {
    /// Whether the task's active worktree holds work that no merge has taken: commits of its own, uncommitted
    /// changes, an operation in progress.
    ///
    /// # Errors
    /// When git can't say. A repository that is gone altogether holds nothing any more.
    pub(crate) async fn unmerged_changes(&self, task: &Task) -> Result<bool> {
        let id = task.id;
        let found = self
            .store()
            .read(move |read| {
                Box::pin(async move {
                    let Some(worktree) = read.worktree_current(id).await?.filter(|w| w.state == State::Active) else { return Ok(None) };
                    let repository = read.repository_fetch(worktree.repository_id).await?;
                    Ok(Some((worktree, repository)))
                })
            })
            .await?;
        match found {
            Some((worktree, repository)) => self.holds_work(&worktree, repository.as_ref()).await.map_err(fold::git),
            None => Ok(false),
        }
    }

    async fn holds_work(&self, worktree: &Worktree, repository: Option<&Repository>) -> Result<bool, Git> {
        let folder = Path::new(&worktree.path);
        if worktree.has_folder && folder.is_dir() {
            let repo = Repo::open(self.git(), folder).await?;
            let copied = copied(worktree);
            let status = taskyard_git::status::status(&repo, None, &copied).await?;
            if !status.changes.is_empty() || status.operation.is_some() {
                return Ok(true);
            }
            return branch_ahead(&repo, worktree, "HEAD").await;
        }
        let Some(path) = repository.and_then(|r| r.local_path.as_deref()) else { return Ok(false) };
        match Repo::open(self.git(), Path::new(path)).await {
            Ok(repo) => branch_ahead(&repo, worktree, &format!("refs/heads/{}", worktree.branch)).await,
            Err(Git::NoFolder { .. } | Git::NotARepository { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether `rev` has commits that neither its base branch nor the commit it was made from has.
async fn branch_ahead(repo: &Repo, worktree: &Worktree, rev: &str) -> Result<bool, Git> {
    let Some(tip) = repo.resolve(rev).await? else { return Ok(false) };
    for base in worktree.base_branch.as_deref().into_iter().chain([worktree.base_commit.as_str()]) {
        if let Some(base) = repo.find_commit(base).await?
            && taskyard_git::history::is_ancestor(repo, &tip, &base).await?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The files that were copied into a worktree, as git's questions want them.
pub(crate) fn copied(worktree: &Worktree) -> Vec<taskyard_git::copy::CopiedFile> {
    let one = |file: &taskyard_domain::worktree::CopiedFile| taskyard_git::copy::CopiedFile {
        path: FilePath::new(file.path.as_bytes()),
        sha256: file.hash.clone(),
    };
    worktree.copied_files.iter().map(one).collect()
}
