//! What a branch, or a worktree as it is now, adds to where it started: files with counts, and their patches.
//!
//! A worktree is compared as Taskyard would commit it: uncommitted and untracked files included, ignored and
//! copied-in files not. Index and repository stay as they are. Names are git's bytes from the listing to the patch, so
//! that none gets lost.

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
use taskyard_process::Output;

/// How many candidates git compares to find renames and copies.
const RENAME_LIMIT: &str = "-l1000";

/// How git writes a patch.
const PATCH: &[&str] = &["-p", "--src-prefix=a/", "--dst-prefix=b/"];

/// Bytes of files whose patches are fetched together.
const SMALL: usize = 64 << 10;

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

    /// The patch of one file, at most about `max_bytes` of it, cut after a whole line. Empty, and marked as cut, only for
    /// a file that isn't committed and has changed back since it was listed.
    ///
    /// # Errors
    /// Git's; [`Error::Unreadable`] when git has nothing to show.
    pub async fn patch(&self, file: &FileChange, max_bytes: usize) -> Result<Patch> {
        let output = self.one(file, max_bytes).await?;
        let whole = if output.truncated { whole_lines(&output.stdout) } else { &output.stdout[..] };
        let truncated = output.truncated || output.stdout.is_empty();
        Ok(Patch { text: String::from_utf8_lossy(whole).into_owned(), truncated })
    }

    /// What git prints for one file, at most `max_bytes` of it.
    async fn one(&self, file: &FileChange, max_bytes: usize) -> Result<Output> {
        let stage = "show a patch";
        // The source of a copy may have changes of its own; the filter leaves them out. Of two copies of a file that is gone,
        // git calls one renamed, and each of them when it is asked for alone.
        let only = match file.status {
            Status::Renamed | Status::Copied => "--diff-filter=RC".to_owned(),
            status => format!("--diff-filter={}", status.letter()),
        };
        let call = self.sides(self.call(stage).args(PATCH).arg(only)).arg("--");
        let call = file.old_path.iter().fold(call, |call, old| call.arg(old.as_os_str())).arg(file.path.as_os_str());
        let output = call.output_cap(max_bytes.max(1)).output().await?;
        if !output.ok() {
            let stderr = output.stderr_tail();
            return Err(Error::Failed { stage, argv: format!("git diff -p -- {}", file.path), code: output.code, stderr });
        }
        if output.stdout.is_empty() && matches!(self.end, Side::Commit(_)) {
            return Err(Error::Unreadable { stage, what: format!("an empty patch for {}", file.path) });
        }
        Ok(output)
    }

    /// A part of the patch of one file, from byte `skip` of it on, at most `max_bytes`: whole lines where there are any. With
    /// it the byte where the next part starts. Parts read one after another are the whole patch.
    ///
    /// # Errors
    /// See [`Diff::patch`].
    pub async fn part(&self, file: &FileChange, skip: usize, max_bytes: usize) -> Result<(Patch, usize)> {
        let cap = skip.saturating_add(max_bytes.max(1));
        let output = self.one(file, cap).await?;
        let rest = output.stdout.get(skip..).unwrap_or_default();
        let cut = if output.truncated { whole_part(rest) } else { rest };
        let truncated = output.truncated || output.stdout.is_empty();
        Ok((Patch { text: String::from_utf8_lossy(cut).into_owned(), truncated }, skip + cut.len()))
    }

    /// The patches of several files, in their order, each as [`Diff::patch`] gives it; small ones in one call.
    ///
    /// # Errors
    /// See [`Diff::patch`].
    pub async fn patches(&self, files: &[FileChange], max_bytes: usize) -> Result<Vec<Patch>> {
        let small: Vec<&FileChange> = files.iter().filter(|file| is_small(file)).collect();
        let mut together = self.together(&small).await?.unwrap_or_default().into_iter();
        let mut patches = Vec::with_capacity(files.len());
        for file in files {
            let text = if is_small(file) { together.next() } else { None };
            let fits = text.filter(|text| text.len() <= max_bytes);
            patches.push(match fits {
                Some(text) => Patch { text, truncated: false },
                None => self.patch(file, max_bytes).await?,
            });
        }
        Ok(patches)
    }

    /// The whole patches of small files by one call; `None` when git's answer can't be told apart by file.
    async fn together(&self, files: &[&FileChange]) -> Result<Option<Vec<String>>> {
        if files.len() < 2 {
            return Ok(None);
        }
        let call = self.sides(self.call("show patches").args(PATCH).arg("--no-renames")).arg("--");
        let call = files.iter().fold(call, |call, file| call.arg(file.path.as_os_str()));
        let output = call.output_cap(files.len().saturating_mul(4 * SMALL)).output().await?;
        if !output.ok() || output.truncated {
            return Ok(None);
        }
        let texts = split_patches(&output.stdout);
        Ok((texts.len() == files.len()).then_some(texts))
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

/// Whether the file's patch is small, and one of its own under its one name.
fn is_small(file: &FileChange) -> bool {
    let alone = matches!(file.status, Status::Added | Status::Modified | Status::Deleted | Status::ModeChanged);
    let lines = file.additions.unwrap_or(0).saturating_add(file.deletions.unwrap_or(0));
    alone && file.old_path.is_none() && !file.submodule && lines < 500 && file.size.is_some_and(|size| size < SMALL as u64)
}

/// One text for each file of a patch. Lines of a file's content begin with a sign or a space, never like a header.
fn split_patches(bytes: &[u8]) -> Vec<String> {
    let mut texts: Vec<Vec<u8>> = Vec::new();
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b"diff --git ") {
            texts.push(Vec::new());
        }
        if let Some(text) = texts.last_mut() {
            text.extend_from_slice(line);
        }
    }
    texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
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

/// Up to the last line end; where a single line fills it all, up to the last character that is whole.
fn whole_part(bytes: &[u8]) -> &[u8] {
    if let Some(end) = bytes.iter().rposition(|b| *b == b'\n') {
        return &bytes[..=end];
    }
    match std::str::from_utf8(bytes) {
        // The end is in the middle of a character.
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
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
    fn patches_are_told_apart_by_their_headers_only() {
        let (one, two) = ("diff --git a/x b/x\n@@ -1 +1 @@\n-diff --git a/y b/y\n+x\n", "diff --git a/y b/y\nold mode 100644\n");
        assert_eq!(split_patches(format!("{one}{two}").as_bytes()), [one, two]);
        assert!(split_patches(b"").is_empty());
    }

    #[test]
    fn a_cut_patch_ends_in_a_line_end() {
        assert_eq!(whole_lines(b"a\nb\nc"), b"a\nb\n");
        assert_eq!(whole_lines(b"abc"), b"abc");
        assert_eq!((whole_part(b"a\nb"), whole_part("aé".as_bytes())), (&b"a\n"[..], "aé".as_bytes()));
        assert_eq!((whole_part(&"aé".as_bytes()[..2]), whole_part(b"\xff\xc3")), (&b"a"[..], &b"\xff\xc3"[..]));
    }
}
