//! Three-way merges without index, tree or refs: `git merge-tree --write-tree`, and its output as data.
//!
//! Owns nothing. Writes objects only, and those go where the call's [`ObjectStore`] says: into the
//! repository, or into a temporary folder that vanishes with the value.

use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::oid::Oid;
use crate::repo::Repo;
use crate::runner::{Call, split_nul};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Settings that would make our merges differ from machine to machine.
const MERGE_PINS: &[&str] = &["-c", "merge.conflictStyle=merge", "-c", "rerere.enabled=false"];

/// A file that two sides can't agree on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConflictFile {
    /// Its path.
    pub path: FilePath,
    /// Git's short words for what is wrong, such as `contents`, `modify/delete`, `rename/rename`, `binary`.
    pub kinds: Vec<String>,
    /// Git's sentences about it.
    pub messages: Vec<String>,
}

/// What a three-way merge came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The resulting tree; with conflicts, files in it hold conflict markers.
    pub tree: Oid,
    /// Whether it is without conflicts. Not the same as `files` being empty: some conflicts belong to no file.
    pub clean: bool,
    /// The files in conflict, by path.
    pub files: Vec<ConflictFile>,
    /// The sides of the conflicts as lines for `git update-index --index-info`: `<mode> <oid> <stage>\t<path>`.
    pub(crate) stages: Vec<Vec<u8>>,
}

impl Merged {
    /// The paths in conflict.
    pub fn paths(&self) -> Vec<FilePath> {
        self.files.iter().map(|f| f.path.clone()).collect()
    }
}

/// Where new objects go.
#[derive(Debug)]
pub enum ObjectStore {
    /// Into the repository.
    Repository,
    /// Into a folder that is removed with this value; the repository's own objects stay as they are.
    Temporary {
        /// The folder.
        dir: tempfile::TempDir,
        /// `GIT_ALTERNATE_OBJECT_DIRECTORIES`: the repository's objects.
        alternates: OsString,
    },
}

impl ObjectStore {
    /// A temporary store below the folder `scratch`, which is made when missing.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn temporary(repo: &Repo, scratch: &Path) -> Result<Self> {
        std::fs::create_dir_all(scratch).map_err(Error::io("make", scratch))?;
        let dir = tempfile::Builder::new().prefix("objects-").tempdir_in(scratch).map_err(Error::io("make a folder in", scratch))?;
        Ok(Self::Temporary { dir, alternates: quoted(repo.common_dir().join("objects").as_os_str()) })
    }

    /// The call with this store for its objects.
    pub fn apply(&self, call: Call) -> Call {
        match self {
            Self::Repository => call,
            Self::Temporary { dir, alternates } => {
                call.env("GIT_OBJECT_DIRECTORY", dir.path()).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates)
            }
        }
    }
}

/// A path as git reads it in a list separated by `:`.
fn quoted(path: &OsStr) -> OsString {
    let bytes = path.as_bytes();
    if !bytes.contains(&b':') && !bytes.starts_with(b"\"") {
        return path.to_owned();
    }
    let mut text = vec![b'"'];
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            b'\n' => text.extend(b"\\n"),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
    OsString::from_vec(text)
}

/// Merges `theirs` into `ours` by their merge bases, or by `base` when given. All three may be commits; with a
/// `base` they may be trees. Exactly what `git merge` would make of it.
///
/// # Errors
/// [`Error::UnrelatedHistories`]; [`Error::Failed`] when an object is missing.
pub async fn merge_tree(repo: &Repo, store: &ObjectStore, base: Option<&Oid>, ours: &Oid, theirs: &Oid) -> Result<Merged> {
    let stage = "merge in memory";
    let mut call = start(repo, store, stage, ours).args(["--messages", "-z"]);
    if let Some(base) = base {
        call = call.arg(format!("--merge-base={base}"));
    }
    let output = call.arg(ours).arg(theirs).accept(&[0, 1]).await.map_err(|error| unrelated(error, ours, theirs))?;
    let fields = split_nul(&output.stdout);
    let mut fields = fields.iter().map(Vec::as_slice);
    let mut merged = read_merged(&mut fields, stage)?;
    merged.clean = output.ok();
    if merged.clean {
        merged.files.clear();
    }
    Ok(merged)
}

/// Many merges in one process: for each pair `(ours, theirs)` what [`merge_tree`] gives.
///
/// # Errors
/// See [`merge_tree`]; one merge that can't be tried fails them all.
pub async fn merge_trees(repo: &Repo, store: &ObjectStore, attributes: &Oid, pairs: &[(&Oid, &Oid)]) -> Result<Vec<Merged>> {
    let stage = "merge in memory";
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let lines: String = pairs.iter().map(|(ours, theirs)| format!("{ours} {theirs}\n")).collect();
    let output = start(repo, store, stage, attributes).args(["--stdin", "--messages", "-z"]).input(lines).run().await;
    let output = output.map_err(|error| unrelated(error, pairs[0].0, pairs[0].1))?;
    let fields: Vec<&[u8]> = output.stdout.split(|b| *b == 0).collect();
    let mut fields = fields.into_iter();
    let mut all = Vec::with_capacity(pairs.len());
    for _ in pairs {
        let status = fields.next().ok_or_else(|| unreadable(stage, "an answer is missing"))?;
        let mut merged = read_merged(&mut fields, stage)?;
        merged.clean = status == b"1";
        if merged.clean {
            merged.files.clear();
        }
        all.push(merged);
    }
    Ok(all)
}

fn start(repo: &Repo, store: &ObjectStore, stage: &'static str, attributes: &Oid) -> Call {
    // Attributes (merge drivers, line ends) are those of the side merged into, as in a real merge, not those
    // of whatever happens to be checked out.
    let call = repo.call_common(stage).arg(format!("--attr-source={attributes}")).args(MERGE_PINS);
    store.apply(call).args(["merge-tree", "--write-tree"])
}

fn unrelated(error: Error, ours: &Oid, theirs: &Oid) -> Error {
    match error.stderr() {
        Some(text) if text.contains("unrelated histories") => Error::UnrelatedHistories { ours: ours.clone(), theirs: theirs.clone() },
        _ => error,
    }
}

fn unreadable(stage: &'static str, what: &str) -> Error {
    Error::Unreadable { stage, what: what.into() }
}

/// Reads tree, conflicted files and messages up to the empty field (or the end) after them.
pub(crate) fn read_merged<'a>(fields: &mut impl Iterator<Item = &'a [u8]>, stage: &'static str) -> Result<Merged> {
    let tree = fields.next().and_then(|f| Oid::parse(&String::from_utf8_lossy(f))).ok_or_else(|| unreadable(stage, "no tree"))?;
    let (mut files, mut stages): (Vec<ConflictFile>, Vec<Vec<u8>>) = Default::default();
    for field in fields.by_ref().take_while(|f| !f.is_empty()) {
        let tab = field.iter().position(|b| *b == b'\t').ok_or_else(|| unreadable(stage, "a file without a tab"))?;
        at(&mut files, &field[tab + 1..]);
        stages.push(field.to_vec());
    }
    while let Some(count) = fields.next().filter(|f| !f.is_empty()) {
        let count: usize = String::from_utf8_lossy(count).parse().map_err(|_| unreadable(stage, "a message without a count"))?;
        let paths: Vec<&[u8]> = fields.by_ref().take(count).collect();
        let kind = fields.next().ok_or_else(|| unreadable(stage, "a message without a kind"))?;
        let text = fields.next().ok_or_else(|| unreadable(stage, "a message without a text"))?;
        note(&mut files, &paths, &String::from_utf8_lossy(kind), &String::from_utf8_lossy(text));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Merged { tree, clean: false, files, stages })
}

/// Adds a message to the files it is about; remarks such as `Auto-merging` are left out.
fn note(files: &mut Vec<ConflictFile>, paths: &[&[u8]], kind: &str, text: &str) {
    let Some(short) = kind.strip_prefix("CONFLICT (").and_then(|k| k.strip_suffix(')')) else { return };
    // The first path is the one in conflict; others may be where it came from, or names of branches.
    let known: Vec<&[u8]> = paths.iter().copied().filter(|p| files.iter().any(|f| f.path.as_bytes() == *p)).collect();
    let about = if known.is_empty() { paths.iter().copied().take(1).collect() } else { known };
    for path in about {
        let file = at(files, path);
        if !file.kinds.iter().any(|k| k == short) {
            file.kinds.push(short.into());
        }
        file.messages.push(text.trim_end().into());
    }
}

fn at<'f>(files: &'f mut Vec<ConflictFile>, path: &[u8]) -> &'f mut ConflictFile {
    let found = files.iter().position(|f| f.path.as_bytes() == path);
    let index = found.unwrap_or_else(|| {
        files.push(ConflictFile { path: FilePath::new(path), kinds: Vec::new(), messages: Vec::new() });
        files.len() - 1
    });
    &mut files[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_read_by_file() {
        let tree = "0123456789abcdef0123456789abcdef01234567";
        let text = format!(
            "{tree}\0100644 {tree} 1\tä b\0100644 {tree} 2\tä b\0\0\
             1\0ä b\0Auto-merging\0Auto-merging ä b\n\01\0ä b\0CONFLICT (contents)\0CONFLICT (contents): Merge conflict in ä b\n\0"
        );
        let fields = split_nul(text.as_bytes());
        let merged = read_merged(&mut fields.iter().map(Vec::as_slice), "test").unwrap();
        assert_eq!(merged.files.len(), 1);
        assert_eq!(merged.files[0].path, FilePath::from("ä b"));
        assert_eq!(merged.files[0].kinds, ["contents"]);
    }

    #[test]
    fn folders_with_a_colon_are_quoted() {
        assert_eq!(quoted(OsStr::new("/a b")), OsStr::new("/a b"));
        assert_eq!(quoted(OsStr::new("/a:\"b")), OsStr::new("\"/a:\\\"b\""));
    }
}
