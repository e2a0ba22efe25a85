//! What would be lost if a worktree were removed now.
//!
//! Reads only. Ignored files, links in the place of ignored folders and unchanged copied-in files don't count;
//! everything a person or an agent could miss does, inside submodules and embedded repositories too.

use crate::copy::CopiedFile;
use crate::error::Result;
use crate::file_path::FilePath;
use crate::index;
use crate::oid::Oid;
use crate::repo::Repo;
use crate::runner::split_nul;
use crate::status::{Change, ChangeKind, Operation, all_changes, meant, operation};
use serde::Serialize;
use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;

/// Refs that keep a commit when a worktree goes.
pub(crate) const KEEPING: &[&str] = &["--branches", "--tags", "--remotes", "--glob=refs/taskyard"];

/// What Taskyard knows about a worktree of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// The branch it was made for; HEAD may have moved elsewhere.
    pub branch: Option<&'a str>,
    /// Files that were copied in: they count only when they changed.
    pub copied: &'a [CopiedFile],
}

/// A stash entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stash {
    /// Its commit.
    pub oid: Oid,
    /// Its description.
    pub message: String,
}

/// Work inside a submodule or embedded repository that exists nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inner {
    /// Where it is in the worktree.
    pub path: FilePath,
    /// Commits, stash entries included, that none of its remote-tracking branches reaches.
    pub commits: usize,
}

/// Everything that would be lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Unsaved {
    /// Modified, staged, deleted and untracked files.
    pub changes: Vec<Change>,
    /// Commits that no branch, tag, remote-tracking branch or private ref reaches.
    pub commits: Vec<Oid>,
    /// Stash entries made on the worktree's own branch.
    pub stashes: Vec<Stash>,
    /// An operation in progress.
    pub operation: Option<Operation>,
    /// Processes whose working folder is inside.
    pub processes: Vec<i32>,
    /// Submodules and embedded repositories with work of their own.
    pub inner: Vec<Inner>,
}

impl Unsaved {
    /// Whether nothing would be lost.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// In words, with the first few names.
    pub fn describe(&self) -> String {
        let untracked = |change: &&Change| matches!(change.kind, ChangeKind::Untracked | ChangeKind::EmbeddedRepository);
        let (new, tracked): (Vec<&Change>, Vec<&Change>) = self.changes.iter().partition(untracked);
        let paths = |changes: &[&Change]| changes.iter().map(|change| change.path.to_string()).collect::<Vec<_>>();
        let mut parts = Vec::new();
        let mut part = |what: &str, names: Vec<String>| {
            if !names.is_empty() {
                parts.push(format!("{what} ({})", few(&names)));
            }
        };
        part("modified files", paths(&tracked));
        part("untracked files", paths(&new));
        part("commits no branch reaches", self.commits.iter().map(|oid| oid.short().to_owned()).collect());
        part("stash entries", self.stashes.iter().map(|stash| stash.message.clone()).collect());
        part("operation in progress", self.operation.iter().map(|operation| operation.as_str().to_owned()).collect());
        part("live processes", self.processes.iter().map(i32::to_string).collect());
        part("work inside repositories", self.inner.iter().map(|inner| inner.path.to_string()).collect());
        parts.join(", ")
    }
}

fn few(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

/// What would be lost if the worktree `repo` were removed now.
///
/// # Errors
/// Git's.
pub async fn unsaved(repo: &Repo, known: Known<'_>) -> Result<Unsaved> {
    let changes = meant(repo, all_changes(repo, known.copied).await?).await?;
    Ok(Unsaved {
        commits: unreached(repo).await?,
        stashes: own_stashes(repo, known.branch).await?,
        operation: operation(repo),
        processes: taskyard_process::tree::inside(repo.root()),
        inner: inner(repo, &changes).await?,
        changes,
    })
}

/// Commits that only HEAD reaches, or that were left behind when a detached HEAD moved on to a branch.
pub(crate) async fn unreached(repo: &Repo) -> Result<Vec<Oid>> {
    let mut starts = left_behind(repo).await?;
    starts.extend(repo.head().await?.oid().cloned());
    if starts.is_empty() {
        return Ok(Vec::new());
    }
    let starts = starts.iter().map(Oid::as_str);
    let text = repo.call("look for commits no ref reaches").arg("rev-list").args(starts).arg("--not").args(KEEPING).text().await?;
    Ok(text.lines().filter_map(Oid::parse).collect())
}

/// Commits that HEAD stood on, detached, when something else was checked out. Amended and rebased commits are not
/// meant: whoever rewrites has the new version.
async fn left_behind(repo: &Repo) -> Result<Vec<Oid>> {
    let log = repo.call("read HEAD's log").args(["log", "-g", "-z", "--format=%gs", "HEAD"]).accept(&[0, 128]).await?;
    let mut found = Vec::new();
    for entry in split_nul(&log.stdout) {
        let text = String::from_utf8_lossy(&entry).into_owned();
        let from = text.strip_prefix("checkout: moving from ").and_then(|rest| rest.split(' ').next()).and_then(Oid::parse);
        found.extend(from);
    }
    found.sort();
    found.dedup();
    let mut there = Vec::new();
    for oid in found {
        there.extend(repo.resolve(oid.as_str()).await?);
    }
    Ok(there)
}

/// Stash entries made on the worktree's branches: the one it was made for and the one that is checked out.
pub(crate) async fn own_stashes(repo: &Repo, branch: Option<&str>) -> Result<Vec<Stash>> {
    if repo.resolve("refs/stash").await?.is_none() {
        return Ok(Vec::new());
    }
    let head = repo.head().await?;
    let branches: Vec<&str> = branch.into_iter().chain(head.branch()).collect();
    let fields = repo.call("list stash entries").args(["stash", "list", "-z", "--format=%H %gs"]).fields().await?;
    let all = fields.iter().filter_map(|field| {
        let text = String::from_utf8_lossy(field).into_owned();
        let (oid, message) = text.split_once(' ')?;
        Some(Stash { oid: Oid::parse(oid)?, message: message.to_owned() })
    });
    let starts: Vec<_> = branches.iter().flat_map(|branch| [format!("WIP on {branch}: "), format!("On {branch}: ")]).collect();
    Ok(all.filter(|stash| starts.iter().any(|start| stash.message.starts_with(start))).collect())
}

/// Repositories inside the worktree: submodules that are filled, and untracked ones.
pub(crate) async fn inner_repos(repo: &Repo, changes: &[Change]) -> Result<Vec<(FilePath, Repo)>> {
    let links = index::gitlinks(repo).await?.into_iter().map(|link| link.path);
    let embedded = changes.iter().filter(|change| change.kind == ChangeKind::EmbeddedRepository).map(|change| change.path.clone());
    let mut found = Vec::new();
    for path in links.chain(embedded) {
        let place = path.within(repo.root());
        if place.join(".git").exists() {
            let inner = Repo::open(repo.git(), &place).await?;
            // A broken one would be taken for a folder of the worktree itself.
            if inner.root() == place {
                found.push((path, inner));
            }
        }
    }
    Ok(found)
}

/// Work of their own in the repositories inside, and in those inside them.
async fn inner(repo: &Repo, changes: &[Change]) -> Result<Vec<Inner>> {
    let mut found = Vec::new();
    let mut waiting: VecDeque<(FilePath, Repo)> = inner_repos(repo, changes).await?.into();
    let mut seen = HashSet::new();
    while let Some((path, inner)) = waiting.pop_front() {
        // One that holds itself by way of a link would never end.
        if !seen.insert(inner.git_dir().to_owned()) {
            continue;
        }
        let commits = if goes_with(repo, &inner) { own_commits(&inner).await? } else { 0 };
        for (below, deeper) in inner_repos(&inner, &[]).await? {
            waiting.push_back((FilePath::new([path.as_bytes(), b"/", below.as_bytes()].concat()), deeper));
        }
        if commits > 0 {
            found.push(Inner { path, commits });
        }
    }
    Ok(found)
}

/// Whether the inner repository's own git folder goes when the worktree does.
pub(crate) fn goes_with(repo: &Repo, inner: &Repo) -> bool {
    let homes: [PathBuf; 2] = [repo.root().to_owned(), repo.git_dir().to_owned()];
    homes.iter().any(|home| inner.common_dir().starts_with(home))
}

async fn own_commits(inner: &Repo) -> Result<usize> {
    let mut starts = vec!["--branches", "--tags"];
    for rev in ["HEAD", "refs/stash"] {
        if inner.resolve(rev).await?.is_some() {
            starts.push(rev);
        }
    }
    let call = inner.call("count commits nobody else has").args(["rev-list", "--count"]).args(starts);
    let text = call.args(["--not", "--remotes"]).text().await?;
    Ok(text.parse().unwrap_or(usize::MAX))
}
