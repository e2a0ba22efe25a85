//! Committing what an agent left uncommitted.
//!
//! Everything tracked that changed and everything new that git doesn't ignore goes into one commit on whatever the
//! worktree has checked out; copied-in files, repositories of their own and links that stand where an ignored folder
//! would be stay out. When a hook or a signature refuses, index and branch are as before. Never skips hooks or
//! signatures unless the repository's policy says so.

use crate::copy::CopiedFile;
use crate::error::{Error, Result};
use crate::file_path::{FilePath, shown};
use crate::hook_dir::HookDir;
use crate::ignored_links::ignored_links;
use crate::index;
use crate::merge::run_with_hooks;
use crate::merge_tree::ObjectStore;
use crate::oid::Oid;
use crate::record::{Author, plain, probe_signing, signs, text};
use crate::refs;
use crate::repo::{Head, Repo};
use crate::status::{Change, ChangeKind, changes, operation};
use serde::Serialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The user's hooks that take part.
const HOOKS: &[&str] = &["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"];
/// Where the index is kept while a commit is being tried.
const BACKUP: &str = "taskyard-index-before";
/// How long a lock on the index of a worktree without processes is taken for somebody's.
const STALE_AFTER: Duration = Duration::from_secs(2);

/// How to commit.
#[derive(Debug, Clone)]
pub struct AutoCommit<'a> {
    /// The message.
    pub message: &'a str,
    /// By whom, with hooks and signatures or without.
    pub author: &'a Author,
    /// Files that were copied in, which are never committed.
    pub copied: &'a [CopiedFile],
    /// A folder of ours for temporary files.
    pub scratch: &'a Path,
}

/// Why a file stayed out of the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// It was copied in from the user's checkout.
    CopiedIn,
    /// It is a repository of its own.
    EmbeddedRepository,
    /// It is a link where the ignore rules name a folder (`node_modules/`).
    IgnoredLink,
}

impl LeftOut {
    /// The reason in words.
    pub fn as_sentence(self) -> &'static str {
        match self {
            Self::CopiedIn => "it was copied in from your checkout",
            Self::EmbeddedRepository => "it is a repository of its own",
            Self::IgnoredLink => "it is a link where the ignore rules name a folder",
        }
    }
}

/// What committing came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AutoCommitted {
    /// The new commit; `None` when there was nothing to commit.
    pub commit: Option<Oid>,
    /// The files in it.
    pub files: Vec<FilePath>,
    /// What stayed out, and why.
    pub left_out: Vec<(FilePath, LeftOut)>,
    /// Something is wrong now that wasn't before, such as `core.bare` switched on by a hook, with the repair.
    pub warning: Option<String>,
}

/// Commits what is uncommitted in `worktree`. The hooks are those of `project`, the user's own checkout of the same
/// repository. Doing it again commits nothing.
///
/// # Errors
/// [`Error::InProgress`] and [`Error::Unresolved`] while a merge or the like isn't ended; [`Error::HookFailed`],
/// [`Error::SigningFailed`]; [`Error::BareSwitchedOn`] when it failed and a hook broke the main repository on the way;
/// git's.
pub async fn auto_commit(project: &Repo, worktree: &Repo, what: &AutoCommit<'_>) -> Result<AutoCommitted> {
    clear_stale_lock(worktree).await?;
    recover(worktree)?;
    let changes = settled(worktree, changes(worktree, &[]).await?)?;
    let choice = choose(worktree, changes, what.copied).await?;
    let nothing = |left_out| AutoCommitted { commit: None, files: Vec::new(), left_out, warning: None };
    if choice.put.is_empty() && choice.drop.is_empty() {
        return Ok(nothing(choice.left_out));
    }
    let before = worktree.head().await?;
    if let Some(head) = before.oid() {
        let tree = worktree.call("read the last tree").args(["rev-parse", "--verify"]).arg(format!("{head}^{{tree}}")).oid().await?;
        probe_signing(worktree, &ObjectStore::temporary(worktree, what.scratch)?, &tree, what.author).await?;
    }
    back_up(worktree)?;
    let was_switched = project.check_not_switched_bare().is_err();
    let made = commit(project, worktree, &choice, what).await;
    let now = project.again().await?.check_not_switched_bare();
    let switched = if was_switched { Ok(()) } else { now };
    match made {
        Ok(commit) => {
            forget_backup(worktree)?;
            let warning = switched.err().map(|error| error.to_string());
            let Some(commit) = commit else { return Ok(AutoCommitted { warning, ..nothing(choice.left_out) }) };
            Ok(AutoCommitted { commit: Some(commit), files: choice.files(), left_out: choice.left_out, warning })
        }
        Err(error) => {
            recover(worktree)?;
            put_back(worktree, &before).await?;
            switched?;
            Err(error)
        }
    }
}

/// What goes where.
#[derive(Default)]
pub(crate) struct Choice {
    /// To be as it is in the tree.
    pub(crate) put: Vec<Change>,
    /// To be taken out of the index again.
    pub(crate) drop: Vec<FilePath>,
    left_out: Vec<(FilePath, LeftOut)>,
}

impl Choice {
    fn files(&self) -> Vec<FilePath> {
        self.put.iter().map(|change| change.path.clone()).collect()
    }
}

fn settled(worktree: &Repo, changes: Vec<Change>) -> Result<Vec<Change>> {
    let path = worktree.root().to_owned();
    let unmerged: Vec<_> = changes.iter().filter(|change| change.kind == ChangeKind::Unmerged).map(|change| &change.path).collect();
    match operation(worktree) {
        Some(operation) => Err(Error::InProgress { path, operation: operation.as_str() }),
        None if unmerged.is_empty() => Ok(changes),
        None => Err(Error::Unresolved { path, reason: "files are unmerged".into(), files: shown(unmerged) }),
    }
}

/// What of the changes would be committed, and what stays out.
pub(crate) async fn choose(worktree: &Repo, changes: Vec<Change>, copied: &[CopiedFile]) -> Result<Choice> {
    let new = |change: &&Change| matches!(change.kind, ChangeKind::Untracked | ChangeKind::Added);
    let is_link = |change: &&Change| change.path.within(worktree.root()).is_symlink();
    let links: Vec<_> = changes.iter().filter(new).filter(is_link).map(|change| change.path.clone()).collect();
    let ignored = ignored_links(worktree, &links).await?;
    let copied: HashSet<_> = copied.iter().map(|file| &file.path).collect();
    let modules = index::submodule_paths(worktree).await?;
    let mut choice = Choice::default();
    for change in changes {
        let reason = match change.kind {
            ChangeKind::Untracked | ChangeKind::Added if copied.contains(&change.path) => Some(LeftOut::CopiedIn),
            ChangeKind::Untracked | ChangeKind::Added if ignored.contains(&change.path) => Some(LeftOut::IgnoredLink),
            ChangeKind::EmbeddedRepository => Some(LeftOut::EmbeddedRepository),
            ChangeKind::Added if change.submodule && !modules.contains(&change.path) => Some(LeftOut::EmbeddedRepository),
            _ => None,
        };
        match reason {
            None => choice.put.push(change),
            Some(reason) => {
                if change.staged {
                    choice.drop.push(change.path.clone());
                }
                choice.left_out.push((change.path, reason));
            }
        }
    }
    Ok(choice)
}

async fn commit(project: &Repo, worktree: &Repo, choice: &Choice, what: &AutoCommit<'_>) -> Result<Option<Oid>> {
    index::take_out(worktree.call("take files out of the index"), &choice.drop).await?;
    index::put(&|| worktree.call("stage the changes"), &choice.put).await?;
    if worktree.call("look for staged changes").args(["diff", "--cached", "--quiet", "--no-ext-diff"]).yes().await? {
        return Ok(None);
    }
    let sign = signs(worktree, what.author.policy).await?;
    let hooks = HookDir::prepare(project, what.scratch, what.author.policy.hooks, HOOKS).await?;
    let call = plain(worktree.call("commit the changes"), sign).time_limit(worktree.git().limits().hooks);
    let call = hooks.iter().fold(call, |call, hooks| call.arg("-c").arg(hooks.setting()));
    let call = call.args(["commit", "--quiet", "--no-edit", "-F", "-"]).by(&what.author.who).input(text(what.message));
    run_with_hooks(call, hooks.as_ref(), sign).await?;
    worktree.resolve("HEAD").await
}

/// An agent that was ended while it ran git leaves its index, HEAD or branch locked for ever. These locks are taken away
/// when they stay although no process is in the worktree any more.
///
/// # Errors
/// [`Error::Io`] when one can't be removed; git's.
pub async fn clear_stale_lock(worktree: &Repo) -> Result<()> {
    let mut locks = vec![worktree.git_dir().join("index.lock"), worktree.git_dir().join("HEAD.lock")];
    if let Some(branch) = worktree.head().await?.branch() {
        locks.push(worktree.common_dir().join("refs/heads").join(format!("{branch}.lock")));
    }
    locks.extend(partial_commits(worktree.git_dir()));
    let give_up = tokio::time::Instant::now() + STALE_AFTER;
    while locks.iter().any(|lock| lock.exists()) {
        if tokio::time::Instant::now() >= give_up {
            // Somebody who is still there may hold one; git then waits and names it.
            if !taskyard_process::tree::inside(worktree.root()).is_empty() {
                return Ok(());
            }
            for lock in locks.iter().filter(|lock| lock.exists()) {
                std::fs::remove_file(lock).map_err(Error::io("remove", lock))?;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// What a commit of some files locks besides: an index of its own, named after its process.
fn partial_commits(git_dir: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(git_dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix("next-index-").is_some_and(|rest| rest.ends_with(".lock"))
    };
    names.filter(is_one).collect()
}

/// Keeps a copy of the index until the commit is made.
fn back_up(worktree: &Repo) -> Result<()> {
    let (index, backup) = (worktree.git_dir().join("index"), worktree.git_dir().join(BACKUP));
    if !index.exists() {
        return Ok(());
    }
    let half = worktree.git_dir().join(format!("{BACKUP}.new"));
    std::fs::copy(&index, &half).map_err(Error::io("copy", &index))?;
    std::fs::rename(&half, &backup).map_err(Error::io("write", &backup))
}

fn forget_backup(worktree: &Repo) -> Result<()> {
    let backup = worktree.git_dir().join(BACKUP);
    if backup.exists() { std::fs::remove_file(&backup).map_err(Error::io("remove", &backup)) } else { Ok(()) }
}

/// Puts the index back that an attempt which failed, or was killed, had changed.
fn recover(worktree: &Repo) -> Result<()> {
    let (index, backup) = (worktree.git_dir().join("index"), worktree.git_dir().join(BACKUP));
    if backup.exists() { std::fs::rename(&backup, &index).map_err(Error::io("restore", &index)) } else { Ok(()) }
}

/// A hook that commits somewhere by mistake may have moved the branch although the commit failed.
async fn put_back(worktree: &Repo, before: &Head) -> Result<()> {
    let after = worktree.head().await?;
    match (before, after) {
        (Head::Branch { name, oid }, Head::Branch { name: now, oid: moved }) if *name == now && *oid != moved => {
            refs::swap(worktree, &format!("refs/heads/{name}"), Some(oid), &moved).await
        }
        _ => Ok(()),
    }
}
