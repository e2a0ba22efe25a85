//! Everything that can go wrong with git, as a closed list that the engine folds into classes and hints.
//!
//! A variant says what happened to which file, branch or folder. File names are shown as they are, with
//! bytes that aren't UTF-8 replaced; they are for people, never fed back to git.

use crate::oid::Oid;
use std::path::PathBuf;
use std::time::Duration;

/// What the functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why git, or the file system below it, didn't do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No repository at or above the folder.
    #[error("{} is not in a git repository", path.display())]
    NotARepository {
        /// The folder that was given.
        path: PathBuf,
    },
    /// The folder isn't there.
    #[error("{} doesn't exist", path.display())]
    NoFolder {
        /// The folder that was given.
        path: PathBuf,
    },
    /// Git refuses to use a repository that another user owns.
    #[error("git doesn't trust the repository at {}: {stderr}", path.display())]
    Untrusted {
        /// The folder that was given.
        path: PathBuf,
        /// Git's explanation, with the setting that allows it.
        stderr: String,
    },
    /// The repository has no commit yet, so nothing can be based on it.
    #[error("the repository at {} has no commit yet: make a first commit", path.display())]
    NoCommit {
        /// The repository's folder.
        path: PathBuf,
    },
    /// No base was named, there is no default branch, and no branch is checked out.
    #[error(
        "no base to start from: HEAD of {} is detached and no default branch is set; name a base or check out a branch (branches: {})",
        path.display(), listed(branches)
    )]
    DetachedNoBase {
        /// The repository's folder.
        path: PathBuf,
        /// Its local branches.
        branches: Vec<String>,
    },
    /// A branch, tag or commit that was named doesn't exist.
    #[error("{name:?} is no branch or commit of {} (branches: {})", path.display(), listed(branches))]
    NotFound {
        /// The repository's folder.
        path: PathBuf,
        /// The name as it was given.
        name: String,
        /// The local branches there are.
        branches: Vec<String>,
    },
    /// A name can't be a ref because another ref occupies it or a parent or child of it.
    #[error("can't make {wanted}: the ref {existing} is in the way")]
    RefInTheWay {
        /// The ref that was to be made.
        wanted: String,
        /// The ref that exists.
        existing: String,
    },
    /// A worktree's folder is somebody else's.
    #[error("{} is taken by something else", path.display())]
    PathTaken {
        /// The folder.
        path: PathBuf,
    },
    /// A worktree's branch exists already, at another commit.
    #[error("the branch {branch} exists already")]
    BranchTaken {
        /// The branch.
        branch: String,
    },
    /// The branch is checked out in another tree.
    #[error("the branch {branch} is checked out at {}", path.display())]
    BranchInUse {
        /// The branch.
        branch: String,
        /// The tree that has it.
        path: PathBuf,
    },
    /// A ref isn't where it was expected: somebody moved it in between.
    #[error("{name} has moved: expected {expected}, found {}", found.as_ref().map_or("nothing", Oid::as_str))]
    Moved {
        /// The ref.
        name: String,
        /// Where it should have been.
        expected: Oid,
        /// Where it is; `None` when it is gone.
        found: Option<Oid>,
    },
    /// A hook of the user's refused.
    #[error("the {hook} hook refused: {text}")]
    HookFailed {
        /// The hook's name.
        hook: String,
        /// What it printed.
        text: String,
    },
    /// A commit couldn't be signed.
    #[error("signing the commit failed: {text}")]
    SigningFailed {
        /// What git or the signing program said.
        text: String,
    },
    /// A folder isn't the isolated worktree it should be.
    #[error("{} is not isolated: {reason}", path.display())]
    Isolation {
        /// The worktree's folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Something (usually a user's hook or test) turned the main repository into a bare one.
    #[error("core.bare was switched on in {}: repair it with `{repair}`", path.display())]
    BareSwitchedOn {
        /// The main repository's git folder.
        path: PathBuf,
        /// The command that repairs it.
        repair: String,
    },
    /// Another process held one of git's locks for longer than we wait.
    #[error("{stage}: {lock} stayed locked; if no git process is running there, remove it")]
    Locked {
        /// What we were doing.
        stage: &'static str,
        /// The lock file, or what git said about it.
        lock: String,
    },
    /// It took longer than its limit and was ended.
    #[error("{stage} took longer than {} s and was ended ({argv}){}", limit.as_secs_f32(), said(stderr))]
    TimedOut {
        /// What we were doing.
        stage: &'static str,
        /// The command.
        argv: String,
        /// The limit.
        limit: Duration,
        /// The end of what it said.
        stderr: String,
    },
    /// A tree has changes that stand in the way.
    #[error("uncommitted changes in {} are in the way: {}", tree.display(), listed(files))]
    Dirty {
        /// The tree that has them.
        tree: PathBuf,
        /// The files.
        files: Vec<String>,
    },
    /// Removing a worktree would lose something.
    #[error("{} holds unsaved work: {what}", path.display())]
    Unsaved {
        /// The worktree's folder.
        path: PathBuf,
        /// What would be lost, in words.
        what: String,
    },
    /// An operation is in progress in a tree.
    #[error("a {operation} is in progress in {}: finish or abort it first", path.display())]
    InProgress {
        /// The tree.
        path: PathBuf,
        /// `merge`, `rebase`, `cherry-pick`, `revert` or `bisect`.
        operation: &'static str,
    },
    /// A filter that a file must go through (Git LFS for instance) can't be run, or failed.
    #[error("{file} can't go through the filter {filter}, which .gitattributes asks for: {text}")]
    FilterFailed {
        /// The filter's name.
        filter: String,
        /// The file, as git said it.
        file: String,
        /// What git and the filter said.
        text: String,
    },
    /// Two commits can't be merged cleanly.
    #[error("merging {theirs} into {ours} conflicts in {}", listed(files))]
    Conflict {
        /// The target's commit.
        ours: Oid,
        /// The commit that was to be merged.
        theirs: Oid,
        /// The files in conflict.
        files: Vec<String>,
    },
    /// Two commits have no history in common.
    #[error("{theirs} and {ours} have no history in common, so there is nothing to merge by")]
    UnrelatedHistories {
        /// The target's commit.
        ours: Oid,
        /// The commit that was to be merged.
        theirs: Oid,
    },
    /// The target already contains what was to be merged, or undone.
    #[error("nothing to do: {target} already contains {what}")]
    NothingToMerge {
        /// The target's commit.
        target: Oid,
        /// What it contains, in words.
        what: String,
    },
    /// A commit that is to be undone isn't part of the target.
    #[error("{commit} is not part of {target}, so it can't be undone there")]
    NotContained {
        /// The commit.
        commit: Oid,
        /// The target's commit.
        target: Oid,
    },
    /// The target moved, but a tree that has it checked out couldn't follow.
    #[error(
        "{branch} moved from {before} to {after}, but {} still shows the old files, because of {}; set those aside and try again",
        tree.display(), listed(files)
    )]
    NotRefreshed {
        /// The target branch.
        branch: String,
        /// Its commit before.
        before: Oid,
        /// Its commit now.
        after: Oid,
        /// The tree.
        tree: PathBuf,
        /// The files in the way.
        files: Vec<String>,
    },
    /// An open merge isn't resolved yet.
    #[error("the merge in {} isn't resolved: {reason}: {}", path.display(), listed(files))]
    Unresolved {
        /// The private merge worktree.
        path: PathBuf,
        /// What is missing, in words.
        reason: String,
        /// The files.
        files: Vec<String>,
    },
    /// No merge is open in a folder.
    #[error("no merge is open in {}", path.display())]
    NoOpenMerge {
        /// The folder.
        path: PathBuf,
    },
    /// Commits in a private merge worktree aren't what concluding the merge would make.
    #[error("{} isn't at a conclusion of its merge: {reason}", path.display())]
    NotTheMerge {
        /// The private merge worktree.
        path: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// A script ended with an error.
    #[error("the {name} script ended with {status}{}", said(tail))]
    ScriptFailed {
        /// `setup`, `cleanup` or `verify`.
        name: &'static str,
        /// Its exit code or signal in words.
        status: String,
        /// The end of what it printed.
        tail: String,
    },
    /// A pattern of the files to copy is malformed.
    #[error("{pattern:?} is not a usable file pattern: {reason}")]
    BadPattern {
        /// The pattern as configured.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file system refused.
    #[error("can't {action} {}: {source}", path.display())]
    Io {
        /// What we were doing, a verb.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// Git couldn't be started, or was lost.
    #[error("{stage}: {source}")]
    Process {
        /// What we were doing.
        stage: &'static str,
        /// Why.
        source: taskyard_process::Error,
    },
    /// Git ended with an error that has no class of its own.
    #[error("{stage} failed ({argv}){}", said(stderr))]
    Failed {
        /// What we were doing.
        stage: &'static str,
        /// The command.
        argv: String,
        /// Exit code; `None` when a signal ended it.
        code: Option<i32>,
        /// The end of what it said.
        stderr: String,
    },
    /// Git's output was longer than what we keep.
    #[error("{stage}: the output of {argv} is longer than {cap} bytes")]
    TooLong {
        /// What we were doing.
        stage: &'static str,
        /// The command.
        argv: String,
        /// The limit in bytes.
        cap: usize,
    },
    /// Git's output wasn't in the documented form.
    #[error("{stage}: git's answer can't be read: {what}")]
    Unreadable {
        /// What we were doing.
        stage: &'static str,
        /// What was found.
        what: String,
    },
}

impl Error {
    /// For `map_err` on file system calls.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// The end of what git said, when this is a [`Error::Failed`].
    pub fn stderr(&self) -> Option<&str> {
        if let Self::Failed { stderr, .. } = self { Some(stderr) } else { None }
    }
}

fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    if names.is_empty() {
        return "none".into();
    }
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
