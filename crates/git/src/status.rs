//! What differs between a worktree and its last commit, and where its branch stands.
//!
//! Reads only, without taking git's locks. Names are the bytes git stores.

use crate::copy::CopiedFile;
use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::ignored_links::ignored_links;
use crate::index;
use crate::oid::Oid;
use crate::repo::{Head, Repo};
use crate::runner::{Call, split_nul};
use serde::Serialize;
use std::path::Path;

/// A file that differs from the last commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name.
    pub path: FilePath,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Whether the change, or a part of it, is in the index.
    pub staged: bool,
    /// Whether it is a submodule.
    pub submodule: bool,
}

/// What happened to a file since the last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// New in the index.
    Added,
    /// Other content, mode or kind.
    Modified,
    /// Gone from the tree.
    Deleted,
    /// Not merged yet.
    Unmerged,
    /// Not tracked and not ignored.
    Untracked,
    /// A repository of its own inside the tree, not tracked.
    EmbeddedRepository,
}

/// An operation that was begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// `git merge`.
    Merge,
    /// `git rebase` or `git am`.
    Rebase,
    /// `git cherry-pick`.
    CherryPick,
    /// `git revert`.
    Revert,
    /// `git bisect`.
    Bisect,
}

impl Operation {
    /// Git's name of it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Rebase => "rebase",
            Self::CherryPick => "cherry-pick",
            Self::Revert => "revert",
            Self::Bisect => "bisect",
        }
    }
}

/// How far a branch and a target are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Distance {
    /// Commits that only the worktree has.
    pub ahead: u64,
    /// Commits that only the target has.
    pub behind: u64,
}

/// The state of one worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Branch and commit.
    pub head: Head,
    /// Uncommitted changes, copied-in files left out while they are unchanged.
    pub changes: Vec<Change>,
    /// An operation in progress.
    pub operation: Option<Operation>,
    /// How far it is from the commit or branch asked about.
    pub distance: Option<Distance>,
}

/// The status of the worktree `repo`, compared with `target` (any name of a commit) when one is given. Files of
/// `copied` count only when they have changed since.
///
/// # Errors
/// Git's; [`Error::NotFound`] for an unknown target.
pub async fn status(repo: &Repo, target: Option<&str>, copied: &[CopiedFile]) -> Result<Status> {
    let (head, changes) = (repo.head().await?, meant(repo, changes(repo, copied).await?).await?);
    let distance = match (target, head.oid()) {
        (Some(target), Some(oid)) => Some(distance(repo, oid, target).await?),
        _ => None,
    };
    Ok(Status { head, changes, operation: operation(repo), distance })
}

/// Commits that only `oid` has, and only `target` has.
///
/// # Errors
/// [`Error::NotFound`] for an unknown target.
pub async fn distance(repo: &Repo, oid: &Oid, target: &str) -> Result<Distance> {
    let Some(other) = repo.find_commit(target).await? else {
        return Err(Error::NotFound { path: repo.root().into(), name: target.into(), branches: repo.branch_names().await? });
    };
    let stage = "count commits";
    let text = repo.call_common(stage).args(["rev-list", "--left-right", "--count"]).arg(format!("{oid}...{other}")).text().await?;
    let counts = text.split_once('\t').and_then(|(ahead, behind)| Some((ahead.parse().ok()?, behind.parse().ok()?)));
    let (ahead, behind) = counts.ok_or(Error::Unreadable { stage, what: text })?;
    Ok(Distance { ahead, behind })
}

/// The operation in progress in the worktree `repo`.
pub fn operation(repo: &Repo) -> Option<Operation> {
    let has = |name: &str| repo.git_dir().join(name).exists();
    if has("rebase-merge") || has("rebase-apply") {
        Some(Operation::Rebase)
    } else if has("MERGE_HEAD") {
        Some(Operation::Merge)
    } else if has("CHERRY_PICK_HEAD") {
        Some(Operation::CherryPick)
    } else if has("REVERT_HEAD") {
        Some(Operation::Revert)
    } else if has("BISECT_LOG") {
        Some(Operation::Bisect)
    } else if has("sequencer") {
        Some(Operation::CherryPick)
    } else {
        None
    }
}

/// `changes` without untracked links where the ignore rules name a folder: nobody means those to be committed.
pub(crate) async fn meant(repo: &Repo, mut changes: Vec<Change>) -> Result<Vec<Change>> {
    let is_link = |change: &&Change| change.kind == ChangeKind::Untracked && change.path.within(repo.root()).is_symlink();
    let links: Vec<_> = changes.iter().filter(is_link).map(|change| change.path.clone()).collect();
    let ignored = ignored_links(repo, &links).await?;
    changes.retain(|change| change.kind != ChangeKind::Untracked || !ignored.contains(&change.path));
    Ok(changes)
}

/// The uncommitted changes of the worktree `repo`, without those of `copied` that are as they were copied.
pub(crate) async fn changes(repo: &Repo, copied: &[CopiedFile]) -> Result<Vec<Change>> {
    read_changes(repo, repo.call("read the status"), copied).await
}

/// The same with changes of files that git was told not to look at.
pub(crate) async fn all_changes(repo: &Repo, copied: &[CopiedFile]) -> Result<Vec<Change>> {
    if index::hidden(repo).await?.is_empty() {
        return changes(repo, copied).await;
    }
    let scratch = tempfile::tempdir().map_err(Error::io("make a folder in", std::env::temp_dir()))?;
    let private = scratch.path().join("index");
    index::private(repo, &private).await?;
    read_changes(repo, repo.call("read the status").env("GIT_INDEX_FILE", &private), copied).await
}

async fn read_changes(repo: &Repo, call: Call, copied: &[CopiedFile]) -> Result<Vec<Change>> {
    let all = ["status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no", "--no-renames", "--ignore-submodules=none"];
    let output = call.args(all).run().await?;
    let mut changes = split_nul(&output.stdout).iter().filter_map(|record| change(record, repo.root())).collect::<Vec<_>>();
    changes.retain(|change| {
        let copy = copied.iter().find(|file| file.path == change.path);
        change.kind != ChangeKind::Untracked || copy.is_none_or(|copy| !copy.is_unchanged(repo.root()))
    });
    Ok(changes)
}

/// Reads one record of `status --porcelain=v2 -z --no-renames`.
pub(crate) fn change(record: &[u8], root: &Path) -> Option<Change> {
    let (&kind, rest) = (record.first()?, record.get(2..)?);
    if kind == b'?' {
        let (path, embedded) = match rest.strip_suffix(b"/") {
            Some(path) => (FilePath::new(path), true),
            None => (FilePath::new(rest), false),
        };
        let embedded = embedded && path.within(root).is_dir();
        let kind = if embedded { ChangeKind::EmbeddedRepository } else { ChangeKind::Untracked };
        return Some(Change { path, kind, staged: false, submodule: false });
    }
    // `XY sub mode… hash… path`: eight fields for ordinary entries, ten for unmerged ones, the path last.
    let fields = match kind {
        b'1' => 8,
        b'u' => 10,
        _ => return None,
    };
    let mut parts = rest.splitn(fields, |b| *b == b' ');
    let (xy, sub) = (parts.next()?, parts.next()?);
    let path = FilePath::new(parts.last()?);
    let kind = match (kind, xy) {
        (b'u', _) => ChangeKind::Unmerged,
        (_, [_, b'D'] | [b'D', b'.']) => ChangeKind::Deleted,
        (_, [b'A', _] | [b'.', b'A']) => ChangeKind::Added,
        _ => ChangeKind::Modified,
    };
    Some(Change { path, kind, staged: xy.first() != Some(&b'.'), submodule: sub.first() == Some(&b'S') })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(record: &str) -> Option<(String, ChangeKind, bool, bool)> {
        change(record.as_bytes(), Path::new("/nowhere")).map(|c| (c.path.to_string(), c.kind, c.staged, c.submodule))
    }

    #[test]
    fn records_are_read_with_odd_names() {
        let h = "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d";
        let one = |xy: &str, sub: &str, path: &str| read(&format!("1 {xy} {sub} 100644 100644 100644 {h} {h} {path}"));
        assert_eq!(one(".M", "N...", "a b\nc"), Some(("a b\nc".into(), ChangeKind::Modified, false, false)));
        assert_eq!(one("A.", "N...", "x"), Some(("x".into(), ChangeKind::Added, true, false)));
        assert_eq!(one("AD", "N...", "x"), Some(("x".into(), ChangeKind::Deleted, true, false)));
        assert_eq!(one(".M", "S..U", "sub"), Some(("sub".into(), ChangeKind::Modified, false, true)));
        let unmerged = read(&format!("u UU N... 100644 100644 100644 100644 {h} {h} {h} my file"));
        assert_eq!(unmerged, Some(("my file".into(), ChangeKind::Unmerged, true, false)));
        assert_eq!(read("? -n"), Some(("-n".into(), ChangeKind::Untracked, false, false)));
        assert_eq!(read("! ignored"), None);
        assert_eq!(read(""), None);
    }
}
