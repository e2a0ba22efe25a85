//! What a branch, or a worktree as it is now, adds to where it started: files with counts, and their patches.
//!
//! A worktree is compared as Taskyard would commit it: uncommitted and untracked files included, ignored and
//! copied-in files not. Index and repository stay as they are. Names are git's bytes from the listing to the patch, so
//! that none gets lost.

mod listing;
mod patch;

pub(crate) use listing::read_listing;
pub use patch::Patch;

use crate::copy::CopiedFile;
use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::history;
use crate::oid::Oid;
use crate::present::Present;
use crate::repo::Repo;
use crate::runner::Call;
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// How many candidates git compares to find renames and copies.
const RENAME_LIMIT: &str = "-l1000";

/// What a diff starts from.
#[derive(Debug, Clone)]
pub enum Start {
    /// The merge base with this commit, usually the target's.
    MergeBase(Oid),
    /// This commit: the recorded merge base of work that has landed.
    Commit(Oid),
}

/// What a diff leads to.
#[derive(Debug, Clone)]
pub enum End<'a> {
    /// A commit.
    Commit(Oid),
    /// The present state of the worktree that the repository was opened from.
    Worktree {
        /// Files that were copied in; they don't count.
        copied: &'a [CopiedFile],
    },
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// New.
    Added,
    /// Other content.
    Modified,
    /// Gone.
    Deleted,
    /// Another name, and perhaps other content.
    Renamed,
    /// Made from a copy of another changed file.
    Copied,
    /// Only the mode is another.
    ModeChanged,
    /// A link instead of a file, or the like.
    TypeChanged,
}

impl Status {
    /// Git's letter for it.
    fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Modified | Self::ModeChanged => 'M',
            Self::Deleted => 'D',
            Self::Renamed => 'R',
            Self::Copied => 'C',
            Self::TypeChanged => 'T',
        }
    }
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Its name; of a deleted file, the one it had.
    pub path: FilePath,
    /// The name it had, or was copied from, when that is another.
    pub old_path: Option<FilePath>,
    /// What happened.
    pub status: Status,
    /// Lines added; `None` for binary files.
    pub additions: Option<u64>,
    /// Lines deleted; `None` for binary files.
    pub deletions: Option<u64>,
    /// Whether git treats it as binary.
    pub binary: bool,
    /// Mode before, such as `100644`; `None` for a new file.
    pub old_mode: Option<String>,
    /// Mode after; `None` for a deleted file.
    pub new_mode: Option<String>,
    /// Whether it is, or was, a symbolic link.
    pub symlink: bool,
    /// Whether it is, or was, a submodule.
    pub submodule: bool,
    /// Bytes after, or before for a deleted file; `None` for submodules.
    pub size: Option<u64>,
    #[serde(skip)]
    oid: Oid,
}

/// A file with its patch, when that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The file.
    #[serde(flatten)]
    pub change: FileChange,
    /// Its patch.
    pub patch: Option<Patch>,
}

/// Some of the files of a diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page {
    /// The commit it starts from.
    pub base: Oid,
    /// The branch's commit.
    pub tip: Oid,
    /// Commits the branch has that the target hasn't.
    pub ahead: usize,
    /// Commits the target has that the branch hasn't.
    pub behind: usize,
    /// Whether it includes changes that aren't committed.
    pub uncommitted: bool,
    /// How many files differ in all.
    pub total_files: usize,
    /// Lines added in all.
    pub total_additions: u64,
    /// Lines deleted in all.
    pub total_deletions: u64,
    /// The files of this page, by name.
    pub files: Vec<Entry>,
    /// Where the next page starts.
    pub next: Option<usize>,
}

/// The side that a diff leads to.
#[derive(Debug)]
enum Side {
    Commit(Oid),
    Present(Present),
}

/// A diff that was taken. Between commits it stays what it is; what isn't committed is read when it is asked for.
#[derive(Debug)]
pub struct Diff {
    repo: Repo,
    end: Side,
    /// The commit it starts from.
    pub base: Oid,
    /// The branch's commit.
    pub tip: Oid,
    /// Commits the branch has that the start hasn't.
    pub ahead: usize,
    /// Commits the start has that the branch hasn't.
    pub behind: usize,
    /// Whether it includes changes that aren't committed.
    pub uncommitted: bool,
}

impl Diff {
    /// Takes a diff. `scratch` is a folder of ours for what is uncommitted.
    ///
    /// # Errors
    /// [`Error::UnrelatedHistories`] when there is no merge base; git's.
    pub async fn take(repo: &Repo, scratch: &Path, start: &Start, end: &End<'_>) -> Result<Self> {
        let (tip, end) = match end {
            End::Commit(tip) => (tip.clone(), Side::Commit(tip.clone())),
            End::Worktree { copied } => {
                let head = repo.resolve("HEAD").await?.ok_or_else(|| Error::NoCommit { path: repo.root().to_owned() })?;
                let present = Present::take(repo, scratch, copied, &head).await?;
                (head.clone(), present.map_or(Side::Commit(head), Side::Present))
            }
        };
        let uncommitted = matches!(end, Side::Present(_));
        let (Start::MergeBase(from) | Start::Commit(from)) = start;
        let base = match start {
            Start::Commit(base) => base.clone(),
            Start::MergeBase(target) => {
                let unrelated = || Error::UnrelatedHistories { ours: target.clone(), theirs: tip.clone() };
                history::merge_base(repo, target, &tip).await?.ok_or_else(unrelated)?
            }
        };
        let (ahead, behind) = history::ahead_behind(repo, &tip, from).await?;
        Ok(Self { repo: repo.clone(), end, base, tip, ahead, behind, uncommitted })
    }

    /// The git folder that all worktrees of its repository share.
    pub fn common_dir(&self) -> &Path {
        self.repo.common_dir()
    }

    /// All files that differ, by name, without their patches.
    ///
    /// # Errors
    /// Git's.
    pub async fn files(&self) -> Result<Vec<FileChange>> {
        self.listed(None).await
    }

    /// Those of the files that are `path` or inside it, found without looking at any other. `None` when files were added or
    /// deleted there: where they came from, or went to, only the whole listing says.
    ///
    /// # Errors
    /// Git's.
    pub async fn files_below(&self, path: &FilePath) -> Result<Option<Vec<FileChange>>> {
        let files = self.listed(Some(path)).await?;
        let has_both_sides = |file: &FileChange| !matches!(file.status, Status::Added | Status::Deleted);
        Ok(files.iter().all(has_both_sides).then_some(files))
    }

    async fn listed(&self, below: Option<&FilePath>) -> Result<Vec<FileChange>> {
        let call = self.sides(self.call("list changed files").args(["--raw", "--numstat", "-z"]));
        let call = below.iter().fold(call, |call, path| call.arg("--").arg(path.as_os_str()));
        let output = call.run().await?;
        let mut files = read_listing(&output.stdout)?;
        let sizes = self.sizes(&files).await?;
        for file in &mut files {
            let there = match &self.end {
                Side::Present(present) if file.status != Status::Deleted => present.size(&file.path),
                _ => sizes.get(&file.oid).copied(),
            };
            file.size = there.filter(|_| !file.submodule);
            // Of files that aren't stored git doesn't say whether their content is the same.
            let same = (file.additions, file.deletions) == (Some(0), Some(0));
            if file.status == Status::Modified && file.old_mode != file.new_mode && same {
                file.status = Status::ModeChanged;
            }
        }
        Ok(files)
    }

    /// The file of this name, as [`FilePath`] shows it.
    ///
    /// # Errors
    /// Git's.
    pub async fn file(&self, name: &str) -> Result<Option<FileChange>> {
        Ok(self.files().await?.into_iter().find(|file| file.path.to_string() == name))
    }

    /// The files from number `from` on, at most `limit`, with patches of at most `patch_bytes` each when given.
    ///
    /// # Errors
    /// See [`Diff::patch`].
    pub async fn page(&self, from: usize, limit: usize, patch_bytes: Option<usize>) -> Result<Page> {
        let all = self.files().await?;
        let sum = |count: fn(&FileChange) -> Option<u64>| all.iter().filter_map(count).sum();
        let (total_additions, total_deletions) = (sum(|f| f.additions), sum(|f| f.deletions));
        let total_files = all.len();
        let some: Vec<FileChange> = all.into_iter().skip(from).take(limit).collect();
        let patches = match patch_bytes {
            Some(max) => self.patches(&some, max).await?.into_iter().map(Some).collect(),
            None => vec![None; some.len()],
        };
        let files: Vec<Entry> = some.into_iter().zip(patches).map(|(change, patch)| Entry { change, patch }).collect();
        let next = Some(from.saturating_add(files.len())).filter(|next| *next < total_files && !files.is_empty());
        let (base, tip, ahead, behind) = (self.base.clone(), self.tip.clone(), self.ahead, self.behind);
        let uncommitted = self.uncommitted;
        Ok(Page { base, tip, ahead, behind, uncommitted, total_files, total_additions, total_deletions, files, next })
    }

    fn call(&self, stage: &'static str) -> Call {
        let plain = ["-c", "diff.suppressBlankEmpty=false"];
        let call = match &self.end {
            Side::Commit(end) => self.repo.call_common(stage).arg(format!("--attr-source={end}")).args(plain).args(["diff-tree", "-r"]),
            Side::Present(present) => present.call(stage).args(plain).args(["diff-index", "--ignore-submodules=dirty"]),
        };
        call.args(["-M", "-C", RENAME_LIMIT, "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--submodule=short"])
    }

    /// Adds what is compared: after the options, before any names.
    fn sides(&self, call: Call) -> Call {
        match &self.end {
            Side::Commit(end) => call.arg(&self.base).arg(end),
            Side::Present(_) => call.arg(&self.base),
        }
    }

    /// Bytes of each object.
    async fn sizes(&self, files: &[FileChange]) -> Result<HashMap<Oid, u64>> {
        let stored = |file: &&FileChange| !file.submodule && (matches!(self.end, Side::Commit(_)) || file.status == Status::Deleted);
        let wanted: String = files.iter().filter(stored).map(|f| format!("{}\n", f.oid)).collect();
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        let call = self.repo.call_common("measure files").args(["cat-file", "--batch-check=%(objectname) %(objectsize)"]);
        let text = call.input(wanted).text().await?;
        let size = |line: &str| line.split_once(' ').and_then(|(oid, size)| Some((Oid::parse(oid)?, size.parse().ok()?)));
        Ok(text.lines().filter_map(size).collect())
    }
}
