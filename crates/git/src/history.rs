//! Questions about commits: what contains what, how far apart two of them are, which files differ.
//!
//! Pure reads. Takes full object names only, so that nothing moves while it looks.

use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::merge_tree::{Merged, ObjectStore, merge_tree};
use crate::oid::Oid;
use crate::repo::Repo;

/// Whether `commit` is `in_commit` or one of its ancestors.
///
/// # Errors
/// Git's, for instance when one of them isn't a commit of this repository (and they aren't the same).
pub async fn is_ancestor(repo: &Repo, commit: &Oid, in_commit: &Oid) -> Result<bool> {
    if commit == in_commit {
        return Ok(true);
    }
    repo.call_common("compare histories").args(["merge-base", "--is-ancestor"]).arg(commit).arg(in_commit).yes().await
}

/// Whether the branch `branch` (without `refs/heads/`) contains `commit`. `false` when there is no such branch, and
/// when the repository has no such commit.
///
/// # Errors
/// Git's.
pub async fn contains(repo: &Repo, branch: &str, commit: &Oid) -> Result<bool> {
    let Some(tip) = repo.tip(&format!("refs/heads/{branch}")).await? else { return Ok(false) };
    if repo.resolve(commit.as_str()).await?.is_none() {
        return Ok(false);
    }
    is_ancestor(repo, commit, &tip).await
}

/// The best common ancestor, `None` when the histories are unrelated.
///
/// # Errors
/// Git's.
pub async fn merge_base(repo: &Repo, a: &Oid, b: &Oid) -> Result<Option<Oid>> {
    let output = repo.call_common("find the merge base").arg("merge-base").arg(a).arg(b).accept(&[0, 1]).await?;
    Ok(Oid::parse(&String::from_utf8_lossy(&output.stdout)))
}

/// What a merge starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The best common ancestor of base and tip; `None` when the histories are unrelated.
    pub merge_base: Option<Oid>,
    /// The tree of the commit merged onto.
    pub tree: Oid,
    /// What merging them in memory came to, where that was tried already.
    pub merged: Option<Merged>,
}

impl Fork {
    /// The same, with the merge tried meanwhile; where that can't be done the merge itself says why.
    ///
    /// # Errors
    /// Git's.
    pub async fn merging(repo: &Repo, onto: &Oid, tip: &Oid) -> Result<Self> {
        let (fork, merged) = tokio::join!(Self::of(repo, onto, tip), merge_tree(repo, &ObjectStore::Repository, None, onto, tip));
        Ok(Self { merged: merged.ok(), ..fork? })
    }

    /// For merging `tip` onto `onto`, by one call.
    ///
    /// # Errors
    /// Git's.
    pub async fn of(repo: &Repo, onto: &Oid, tip: &Oid) -> Result<Self> {
        let stage = "find the merge base";
        let call =
            repo.call_common(stage).args(["rev-parse", "--revs-only"]).arg(format!("{onto}^{{tree}}")).arg(format!("{onto}...{tip}"));
        let text = call.text().await?;
        // The tree, both commits, and `^` before each merge base, the best one first.
        let merge_base = text.lines().find_map(|line| Oid::parse(line.strip_prefix('^')?));
        let tree = text.lines().next().and_then(Oid::parse).ok_or_else(|| Error::Unreadable { stage, what: text.clone() })?;
        Ok(Self { merge_base, tree, merged: None })
    }
}

/// How many commits only `a` has and how many only `b` has.
///
/// # Errors
/// Git's.
pub async fn ahead_behind(repo: &Repo, a: &Oid, b: &Oid) -> Result<(usize, usize)> {
    let stage = "count commits";
    let text = repo.call_common(stage).args(["rev-list", "--left-right", "--count"]).arg(format!("{a}...{b}")).text().await?;
    let counts = text.split_once('\t').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    counts.ok_or(Error::Unreadable { stage, what: text })
}

/// The tree of a commit.
///
/// # Errors
/// Git's.
pub async fn tree_of(repo: &Repo, commit: &Oid) -> Result<Oid> {
    repo.call_common("read a tree").args(["rev-parse", "--verify"]).arg(format!("{commit}^{{tree}}")).oid().await
}

/// The parents of a commit, first parent first.
///
/// # Errors
/// Git's.
pub async fn parents(repo: &Repo, commit: &Oid) -> Result<Vec<Oid>> {
    let text = repo.call_common("read a commit").args(["rev-list", "--parents", "--max-count=1"]).arg(commit).text().await?;
    Ok(text.split(' ').skip(1).filter_map(Oid::parse).collect())
}

/// A path that differs between two commits or trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its name.
    pub(crate) path: FilePath,
    /// Whether only the second one has it.
    pub(crate) is_new: bool,
}

/// The paths that differ between two commits; both names of a rename.
///
/// # Errors
/// Git's.
pub async fn changes(repo: &Repo, before: &Oid, after: &Oid) -> Result<Vec<Changed>> {
    let call = repo.call_common("list changed files").args(["diff-tree", "-r", "-z", "--no-renames", "--name-status"]);
    let fields = call.arg(before).arg(after).fields().await?;
    let pairs = fields.chunks_exact(2);
    Ok(pairs.map(|pair| Changed { path: FilePath::new(pair[1].as_slice()), is_new: pair[0] == b"A" }).collect())
}

/// The paths that differ between two commits or trees; both names of a rename.
///
/// # Errors
/// Git's.
pub async fn changed_paths(repo: &Repo, store: &ObjectStore, before: &Oid, after: &Oid) -> Result<Vec<FilePath>> {
    let call = repo.call_common("list changed files").args(["diff-tree", "-r", "-z", "--no-renames", "--name-only"]);
    let fields = store.apply(call).arg(before).arg(after).fields().await?;
    Ok(fields.into_iter().map(FilePath::new).collect())
}
