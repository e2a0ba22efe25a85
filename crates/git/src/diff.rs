//! What a branch, or a worktree as it is now, adds to where it started: files with counts, and their patches.
//!
//! A worktree is compared as Taskyard would commit it: uncommitted and untracked files included, ignored and
//! copied-in files not. For that its files go into a private index and a temporary object store; its own index and
//! the repository stay as they are. Names are git's bytes from the listing to the patch, so that none gets lost.

use crate::commit::choose;
use crate::copy::CopiedFile;
use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::history;
use crate::index;
use crate::merge_tree::ObjectStore;
use crate::oid::Oid;
use crate::repo::Repo;
use crate::runner::Call;
use crate::status::{ChangeKind, changes};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

/// How many candidates git compares to find renames and copies.
const RENAME_LIMIT: &str = "-l1000";

/// Stores many new files in one pack rather than as one file each, which takes several times as long. Files that go
/// through filters are stored singly all the same.
const PACKED: &[&str] = &["-c", "core.bigFileThreshold=1", "-c", "pack.compression=0", "-c", "core.looseCompression=0"];

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

/// A file's patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Patch {
    /// Unified diff with header; bytes that aren't UTF-8 replaced, carriage returns kept.
    pub text: String,
    /// Whether it was cut, after a whole line.
    pub truncated: bool,
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

/// A diff that was taken: it stays what it is while the worktree goes on changing.
#[derive(Debug)]
pub struct Diff {
    repo: Repo,
    store: ObjectStore,
    end: Oid,
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
        let store = ObjectStore::temporary(repo, scratch)?;
        let (tip, end, uncommitted) = match end {
            End::Commit(tip) => (tip.clone(), tip.clone(), false),
            End::Worktree { copied } => present(repo, &store, scratch, copied).await?,
        };
        let (Start::MergeBase(from) | Start::Commit(from)) = start;
        let base = match start {
            Start::Commit(base) => base.clone(),
            Start::MergeBase(target) => {
                let unrelated = || Error::UnrelatedHistories { ours: target.clone(), theirs: tip.clone() };
                history::merge_base(repo, target, &tip).await?.ok_or_else(unrelated)?
            }
        };
        let (ahead, behind) = history::ahead_behind(repo, &tip, from).await?;
        Ok(Self { repo: repo.clone(), store, end, base, tip, ahead, behind, uncommitted })
    }

    /// All files that differ, by name, without their patches.
    ///
    /// # Errors
    /// Git's.
    pub async fn files(&self) -> Result<Vec<FileChange>> {
        let output = self.call("list changed files").args(["--raw", "--numstat", "-z"]).arg(&self.base).arg(&self.end).run().await?;
        let mut files = read_listing(&output.stdout)?;
        let sizes = self.sizes(&files).await?;
        for file in &mut files {
            file.size = sizes.get(&file.oid).copied().filter(|_| !file.submodule);
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

    /// The patch of one file, at most about `max_bytes` of it, cut after a whole line. Never empty.
    ///
    /// # Errors
    /// Git's; [`Error::Unreadable`] when git has nothing to show.
    pub async fn patch(&self, file: &FileChange, max_bytes: usize) -> Result<Patch> {
        let stage = "show a patch";
        // The source of a copy may have changes of its own; the filter leaves them out.
        let only = format!("--diff-filter={}", file.status.letter());
        let call = self.call(stage).args(["-p", "--src-prefix=a/", "--dst-prefix=b/"]).arg(only).arg(&self.base).arg(&self.end).arg("--");
        let call = file.old_path.iter().fold(call, |call, old| call.arg(old.as_os_str())).arg(file.path.as_os_str());
        let output = call.output_cap(max_bytes.max(1)).output().await?;
        if !output.ok() {
            let stderr = output.stderr_tail();
            return Err(Error::Failed { stage, argv: format!("git diff-tree -p -- {}", file.path), code: output.code, stderr });
        }
        let whole = if output.truncated { whole_lines(&output.stdout) } else { &output.stdout[..] };
        if output.stdout.is_empty() {
            return Err(Error::Unreadable { stage, what: format!("an empty patch for {}", file.path) });
        }
        Ok(Patch { text: String::from_utf8_lossy(whole).into_owned(), truncated: output.truncated })
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
        let mut files = Vec::new();
        for change in all.into_iter().skip(from).take(limit) {
            let patch = match patch_bytes {
                Some(max) => Some(self.patch(&change, max).await?),
                None => None,
            };
            files.push(Entry { change, patch });
        }
        let next = Some(from.saturating_add(files.len())).filter(|next| *next < total_files && !files.is_empty());
        let (base, tip, ahead, behind) = (self.base.clone(), self.tip.clone(), self.ahead, self.behind);
        let uncommitted = self.uncommitted;
        Ok(Page { base, tip, ahead, behind, uncommitted, total_files, total_additions, total_deletions, files, next })
    }

    fn call(&self, stage: &'static str) -> Call {
        let call = self.repo.call_common(stage).arg(format!("--attr-source={}", self.end));
        let call = call.args(["-c", "diff.suppressBlankEmpty=false", "diff-tree", "-r", "-M", "-C", RENAME_LIMIT]);
        self.store.apply(call).args(["--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--submodule=short"])
    }

    /// Bytes of each object.
    async fn sizes(&self, files: &[FileChange]) -> Result<HashMap<Oid, u64>> {
        let wanted: String = files.iter().filter(|f| !f.submodule).map(|f| format!("{}\n", f.oid)).collect();
        let call = self.repo.call_common("measure files").args(["cat-file", "--batch-check=%(objectname) %(objectsize)"]);
        let text = self.store.apply(call).input(wanted).text().await?;
        let size = |line: &str| line.split_once(' ').and_then(|(oid, size)| Some((Oid::parse(oid)?, size.parse().ok()?)));
        Ok(text.lines().filter_map(size).collect())
    }
}

/// The worktree's commit, its present state as a tree, and whether the two differ.
async fn present(repo: &Repo, store: &ObjectStore, scratch: &Path, copied: &[CopiedFile]) -> Result<(Oid, Oid, bool)> {
    let head = repo.resolve("HEAD").await?.ok_or_else(|| Error::NoCommit { path: repo.root().to_owned() })?;
    let mut choice = choose(repo, changes(repo, copied).await?, copied).await?;
    choice.put.retain(|change| change.kind != ChangeKind::EmbeddedRepository);
    let folder = tempfile::Builder::new().prefix("index-").tempdir_in(scratch).map_err(Error::io("make a folder in", scratch))?;
    let private = folder.path().join("index");
    let own = repo.git_dir().join("index");
    if own.exists() {
        std::fs::copy(&own, &private).map_err(Error::io("copy", &own))?;
    }
    let call = || store.apply(repo.call("store the files").env("GIT_INDEX_FILE", &private)).args(PACKED);
    index::take_out(call(), &choice.drop).await?;
    index::put(&call, &choice.put).await?;
    let tree = call().arg("write-tree").oid().await?;
    let uncommitted = tree != history::tree_of(repo, &head).await?;
    Ok((head, tree, uncommitted))
}

/// Reads `--raw --numstat -z`: all raw records first, then all counts.
pub(crate) fn read_listing(bytes: &[u8]) -> Result<Vec<FileChange>> {
    let fields = crate::runner::split_nul(bytes);
    let mut fields = fields.iter().map(Vec::as_slice).peekable();
    let mut files = Vec::new();
    while let Some(raw) = fields.next_if(|field| field.starts_with(b":")) {
        files.push(read_raw(raw, &mut fields)?);
    }
    let mut place: HashMap<FilePath, usize> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        place.insert(file.path.clone(), index);
    }
    while let Some(counts) = fields.next() {
        let mut parts = counts.splitn(3, |b| *b == b'\t');
        let (added, deleted, name) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
        // Of a rename, both names follow as fields of their own.
        let name = if name.is_empty() { fields.nth(1).unwrap_or_default() } else { name };
        let index = place.get(&FilePath::new(name)).ok_or_else(|| unreadable("counts of a file that isn't listed"))?;
        let number = |text: Option<&[u8]>| text.and_then(|t| String::from_utf8_lossy(t).parse::<u64>().ok());
        files[*index].additions = number(added);
        files[*index].deletions = number(deleted);
        files[*index].binary = added == Some(b"-");
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Reads `:<mode> <mode> <oid> <oid> <status>` and the one or two names after it.
fn read_raw<'a>(raw: &[u8], names: &mut impl Iterator<Item = &'a [u8]>) -> Result<FileChange> {
    let text = String::from_utf8_lossy(raw);
    let words: Vec<&str> = text.trim_start_matches(':').split(' ').collect();
    let [old_mode, new_mode, old_oid, new_oid, status] = words[..] else { return Err(unreadable("a file without its five facts")) };
    let (Some(old_oid), Some(new_oid)) = (Oid::parse(old_oid), Oid::parse(new_oid)) else { return Err(unreadable("no object names")) };
    let mut name = || names.next().map(FilePath::new).ok_or_else(|| unreadable("a file without a name"));
    let first = name()?;
    let two = status.starts_with(['R', 'C']);
    let (path, old_path) = if two { (name()?, Some(first)) } else { (first, None) };
    let status = match status.chars().next() {
        Some('A') => Status::Added,
        Some('D') => Status::Deleted,
        Some('R') => Status::Renamed,
        Some('C') => Status::Copied,
        Some('T') => Status::TypeChanged,
        Some('M') if old_oid == new_oid && old_mode != new_mode => Status::ModeChanged,
        Some('M') => Status::Modified,
        _ => return Err(unreadable("an unknown status")),
    };
    let mode = |mode: &str| (mode != "000000").then(|| mode.to_owned());
    let either = |wanted: &str| old_mode == wanted || new_mode == wanted;
    Ok(FileChange {
        path,
        old_path,
        status,
        additions: None,
        deletions: None,
        binary: false,
        old_mode: mode(old_mode),
        new_mode: mode(new_mode),
        symlink: either("120000"),
        submodule: either("160000"),
        size: None,
        oid: if new_oid.is_null() { old_oid } else { new_oid },
    })
}

fn unreadable(what: &str) -> Error {
    Error::Unreadable { stage: "list changed files", what: what.into() }
}

/// Up to the last line end; all of it when there is none.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    bytes.iter().rposition(|b| *b == b'\n').map_or(bytes, |end| &bytes[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_have_two_names_in_both_halves() {
        let (old, new) = ("1".repeat(40), "2".repeat(40));
        let text =
            format!(":100644 100644 {old} {new} R090\0a\tb\0c => d\0:100644 100755 {old} {old} M\0x\x001\t2\t\0a\tb\0c => d\x000\t0\tx\0");
        let files = read_listing(text.as_bytes()).unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!((files[0].path.to_string(), files[0].old_path.clone()), ("c => d".into(), Some("a\tb".into())));
        assert_eq!((files[0].status, files[0].additions, files[0].deletions), (Status::Renamed, Some(1), Some(2)));
        assert_eq!(files[1].status, Status::ModeChanged);
    }

    #[test]
    fn a_cut_patch_ends_in_a_line_end() {
        assert_eq!(whole_lines(b"a\nb\nc"), b"a\nb\n");
        assert_eq!(whole_lines(b"abc"), b"abc");
    }
}
