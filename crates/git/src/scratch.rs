//! Private worktrees for work in progress: checked out, detached, registered while they are needed and gone after.
//!
//! Every such tree lies in a folder of ours and is named after what it is for, so that one that a crash left
//! behind is found and replaced by the next attempt or by [`sweep`]. Never touches any other tree.

use crate::error::{Error, Result};
use crate::oid::Oid;
use crate::repo::Repo;
use crate::runner::{Call, path_from, split_nul};
use std::path::{Path, PathBuf};

/// A private, detached worktree.
#[derive(Debug, Clone)]
pub struct Tree {
    repo: Repo,
    path: PathBuf,
}

impl Tree {
    /// Makes the worktree at `path` with HEAD at `commit` and no files yet; a leftover there is removed first.
    /// Takes the repository's lock for a moment.
    ///
    /// # Errors
    /// Git's.
    pub async fn add(repo: &Repo, path: &Path, commit: &Oid) -> Result<Self> {
        remove(repo, path).await?;
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io("make", parent))?;
        }
        let _lock = repo.lock().await;
        let call = repo.call_common("make a scratch tree").args(["worktree", "add", "--quiet", "--detach", "--no-checkout"]);
        call.arg(path).arg(commit).run().await?;
        Ok(Self { repo: repo.clone(), path: path.to_owned() })
    }

    /// The same with the files of `commit`, for instance to run a verify script in.
    ///
    /// # Errors
    /// Git's.
    pub async fn check_out(repo: &Repo, path: &Path, commit: &Oid) -> Result<Self> {
        let tree = Self::add(repo, path, commit).await?;
        match tree.fill(commit).await {
            Ok(()) => Ok(tree),
            Err(error) => {
                tree.close().await?;
                Err(error)
            }
        }
    }

    /// A tree made earlier.
    pub(crate) fn at(repo: &Repo, path: &Path) -> Self {
        Self { repo: repo.clone(), path: path.to_owned() }
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A call of git in it.
    pub fn call(&self, stage: &'static str) -> Call {
        self.repo.git().call(stage, &self.path)
    }

    /// How long a call in it that may run hooks, or replay many commits, may take.
    pub(crate) fn hook_limit(&self) -> std::time::Duration {
        self.repo.git().limits().hooks
    }

    /// Makes index and files those of a commit or tree, whatever they were. HEAD stays.
    pub(crate) async fn fill(&self, tree: &Oid) -> Result<()> {
        self.call("fill the scratch tree").args(["read-tree", "--reset", "-u"]).arg(tree).run().await?;
        Ok(())
    }

    /// Its HEAD.
    pub(crate) async fn head(&self) -> Result<Oid> {
        self.call("read the result").args(["rev-parse", "--verify", "HEAD^{commit}"]).oid().await
    }

    /// The paths that are unmerged in its index.
    pub(crate) async fn unmerged(&self) -> Result<Vec<crate::file_path::FilePath>> {
        let fields = self.call("list unmerged files").args(["diff", "--name-only", "--diff-filter=U", "-z"]).fields().await?;
        Ok(fields.into_iter().map(crate::file_path::FilePath::new).collect())
    }

    /// Its git folder.
    pub(crate) async fn git_dir(&self) -> Result<PathBuf> {
        let call = self.call("find the scratch tree").args(["rev-parse", "--absolute-git-dir"]);
        let output = call.run().await?;
        Ok(path_from(output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout)))
    }

    /// Removes it with everything in it.
    ///
    /// # Errors
    /// Git's, or the file system's.
    pub async fn close(self) -> Result<()> {
        remove(&self.repo, &self.path).await
    }
}

/// Removes the private worktree at `path`, its registration and its folder; fine when any of them is missing.
/// Takes the repository's lock for a moment.
///
/// # Errors
/// Git's, or the file system's.
pub async fn remove(repo: &Repo, path: &Path) -> Result<()> {
    let _lock = repo.lock().await;
    let registered = registered(repo).await?.iter().any(|known| same(known, path));
    if path.exists() {
        std::fs::remove_dir_all(path).map_err(Error::io("remove", path))?;
    }
    if registered {
        // The folder is gone already: this takes away only the registration, and works for trees with submodules too.
        repo.call_common("remove a scratch tree").args(["worktree", "remove", "--force", "--force"]).arg(path).run().await?;
    }
    Ok(())
}

/// Makes the folder for private trees and objects. It stays, so that a start knows where there may be something to sweep.
///
/// # Errors
/// [`Error::Io`].
pub fn make(scratch: &Path) -> Result<()> {
    std::fs::create_dir_all(scratch).map_err(Error::io("make", scratch))
}

/// Removes every private worktree of this repository below `scratch` except those in `keep`: after a crash, before
/// anything new is computed. Returns how many there were.
///
/// # Errors
/// Git's, or the file system's.
pub async fn sweep(repo: &Repo, scratch: &Path, keep: &[PathBuf]) -> Result<usize> {
    let inside = |path: &PathBuf| resolved(path).starts_with(resolved(scratch));
    let left: Vec<PathBuf> = registered(repo).await?.into_iter().filter(inside).filter(|p| !keep.iter().any(|k| same(k, p))).collect();
    for path in &left {
        remove(repo, path).await?;
    }
    Ok(left.len())
}

/// Names that temporary files and folders in a scratch folder begin with.
const TEMPORARY: &[&str] = &["objects-", "hooks-", "index-"];

/// Removes what calls that a crash cut off left in `scratch`: private objects, hook folders, indexes. For when no call is
/// under way. Returns how many there were.
///
/// # Errors
/// The file system's.
pub fn clear_temporary(scratch: &Path) -> Result<usize> {
    let entries = match std::fs::read_dir(scratch) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(Error::io("list", scratch)(error)),
    };
    let mut cleared = 0;
    for entry in entries {
        let entry = entry.map_err(Error::io("list", scratch))?;
        let name = entry.file_name();
        if TEMPORARY.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = if is_folder { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(Error::io("remove", &path))?;
            cleared += 1;
        }
    }
    Ok(cleared)
}

async fn registered(repo: &Repo) -> Result<Vec<PathBuf>> {
    let output = repo.call_common("list worktrees").args(["worktree", "list", "--porcelain", "-z"]).run().await?;
    Ok(split_nul(&output.stdout).iter().filter_map(|field| field.strip_prefix(b"worktree ").map(path_from)).collect())
}

fn same(a: &Path, b: &Path) -> bool {
    a == b || resolved(a) == resolved(b)
}

/// With links resolved as far as the path exists.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dead_calls_left_goes_and_trees_stay() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(clear_temporary(&scratch.path().join("never made")).unwrap(), 0);
        for folder in ["objects-a1/pack", "hooks-b2", "index-c3", "01a2-open-merge"] {
            std::fs::create_dir_all(scratch.path().join(folder)).unwrap();
        }
        std::fs::write(scratch.path().join("index-d4"), "x").unwrap();
        assert_eq!(clear_temporary(scratch.path()).unwrap(), 4);
        let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["01a2-open-merge"]);
    }
}
