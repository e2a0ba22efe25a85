//! Copying untracked files (local configuration, keys for development) from the user's checkout into a worktree.
//!
//! Only files git doesn't track are copied, and never over anything tracked or already there. The repository's
//! own ignore rules stay as they are: copied files are instead left out by name wherever Taskyard looks for
//! changes or commits. A copied file that git doesn't ignore is reported, because an agent that adds
//! everything would commit it.

use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::ignored_links::ask;
use crate::repo::Repo;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A file that was copied in, and what it was like then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedFile {
    /// Its name in the worktree, as in the checkout.
    #[serde(with = "path_bytes")]
    pub path: FilePath,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
}

/// A file that matched and wasn't copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedFile {
    /// Its name.
    pub path: FilePath,
    /// Why.
    pub reason: &'static str,
}

/// What copying came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    /// What the worktree holds now because of it.
    pub copied: Vec<CopiedFile>,
    /// Patterns that matched no file at all.
    pub missing: Vec<String>,
    /// What matched and stayed out.
    pub skipped: Vec<SkippedFile>,
    /// Copied files that git doesn't ignore in the worktree.
    pub not_ignored: Vec<FilePath>,
}

impl CopiedFile {
    /// Whether the file in the tree `root` is still as it was copied.
    pub fn is_unchanged(&self, root: &Path) -> bool {
        let path = self.path.within(root);
        let plain = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
        plain && std::fs::read(&path).is_ok_and(|content| hash(&content) == self.sha256)
    }
}

/// Copies the untracked files of the checkout `from` that match `patterns` into the worktree `to`. Patterns are
/// relative to the top, `*` and `?` stay within a folder, `**` crosses folders, and a pattern without a slash
/// matches at the top only; a pattern that names a folder takes what is in it. Doing it again copies
/// nothing twice: files that are there with the same content are reported as copied.
///
/// # Errors
/// [`Error::BadPattern`]; [`Error::Io`] when a file can't be read or written; git's.
pub async fn copy_files(from: &Repo, to: &Repo, patterns: &[String]) -> Result<CopyReport> {
    let mut report = CopyReport::default();
    if patterns.is_empty() || from.is_bare() {
        report.missing = patterns.to_vec();
        return Ok(report);
    }
    let globs = compile(patterns)?;
    let tracked = tracked(from, to).await?;
    let mut matched = vec![false; patterns.len()];
    for path in candidates(from, patterns, &tracked).await? {
        let hits = globs.matches(Path::new(path.as_os_str()));
        if hits.is_empty() {
            continue;
        }
        // Two globs stand for each pattern: itself and what is below it.
        hits.iter().for_each(|hit| matched[hit / 2] = true);
        copy_one(from.root(), to.root(), path, &tracked, &mut report)?;
    }
    report.missing = patterns.iter().zip(matched).filter(|(_, hit)| !hit).map(|(pattern, _)| pattern.clone()).collect();
    report.not_ignored = not_ignored(to, &report.copied).await?;
    Ok(report)
}

fn compile(patterns: &[String]) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let bad = |reason: String| Error::BadPattern { pattern: pattern.clone(), reason };
        let plain = pattern.trim_start_matches("./").trim_start_matches('/').trim_end_matches('/');
        if plain.is_empty() || Path::new(plain).components().any(|part| matches!(part, std::path::Component::ParentDir)) {
            return Err(bad("it must name something inside the repository".into()));
        }
        for glob in [plain.to_owned(), format!("{plain}/**")] {
            let glob = GlobBuilder::new(&glob).literal_separator(true).backslash_escape(true).build();
            set.add(glob.map_err(|error| bad(error.kind().to_string()))?);
        }
    }
    set.build().map_err(|error| Error::BadPattern { pattern: patterns.join(", "), reason: error.to_string() })
}

/// Names tracked in either tree.
async fn tracked(from: &Repo, to: &Repo) -> Result<HashSet<FilePath>> {
    let mut names = HashSet::new();
    for repo in [from, to] {
        let listed = repo.call("list tracked files").args(["ls-files", "-z"]).fields().await?;
        names.extend(listed.into_iter().map(FilePath::new));
    }
    Ok(names)
}

/// Untracked names, ignored or not, and the tracked ones that a pattern spells out (to report them as such).
async fn candidates(from: &Repo, patterns: &[String], tracked: &HashSet<FilePath>) -> Result<Vec<FilePath>> {
    let listed = from.call("list untracked files").args(["ls-files", "-z", "--others"]).fields().await?;
    let mut names: Vec<FilePath> = listed.into_iter().filter(|name| !name.ends_with(b"/")).map(FilePath::new).collect();
    let spelled = patterns.iter().map(|pattern| FilePath::from(pattern.trim_start_matches("./").trim_start_matches('/')));
    names.extend(spelled.filter(|name| tracked.contains(name)));
    names.sort();
    names.dedup();
    Ok(names)
}

fn copy_one(from: &Path, to: &Path, path: FilePath, tracked: &HashSet<FilePath>, report: &mut CopyReport) -> Result<()> {
    let (source, target) = (path.within(from), path.within(to));
    match obstacle(from, to, &path, tracked)? {
        Some(reason) => report.skipped.push(SkippedFile { path, reason }),
        None => {
            let content = std::fs::read(&source).map_err(Error::io("read", &source))?;
            let copied = CopiedFile { path, sha256: hash(&content) };
            if target.exists() && !copied.is_unchanged(to) {
                report.skipped.push(SkippedFile { path: copied.path, reason: "the worktree has another file of that name" });
                return Ok(());
            }
            if !target.exists() {
                write_like(&source, &target, &content)?;
            }
            report.copied.push(copied);
        }
    }
    Ok(())
}

/// Why a file can't be copied, if so.
fn obstacle(from: &Path, to: &Path, path: &FilePath, tracked: &HashSet<FilePath>) -> Result<Option<&'static str>> {
    if tracked.contains(path) {
        return Ok(Some("git tracks it"));
    }
    if leads_through_link(to, path) {
        return Ok(Some("a link in the worktree leads elsewhere"));
    }
    let source = path.within(from);
    let meta = std::fs::symlink_metadata(&source).map_err(Error::io("look at", &source))?;
    if meta.is_symlink() {
        let inside = source.canonicalize().is_ok_and(|real| real.starts_with(from) && real.is_file());
        return Ok((!inside).then_some("it is a link to something outside the repository, or to nothing"));
    }
    Ok((!meta.is_file()).then_some("it is not a plain file"))
}

/// Whether a folder above `path` in the tree `root` is a link.
fn leads_through_link(root: &Path, path: &FilePath) -> bool {
    let full = path.within(root);
    full.ancestors().skip(1).take_while(|above| *above != root).any(Path::is_symlink)
}

/// Writes whole or not at all, with the modes of `source`; folders that are missing are made.
fn write_like(source: &Path, target: &Path, content: &[u8]) -> Result<()> {
    let folder = target.parent().map_or_else(PathBuf::new, Path::to_owned);
    std::fs::create_dir_all(&folder).map_err(Error::io("make the folder", &folder))?;
    let mode = std::fs::metadata(source).map_err(Error::io("look at", source))?.permissions().mode() & 0o7777;
    let file = tempfile::NamedTempFile::new_in(&folder).map_err(Error::io("write in", &folder))?;
    std::fs::write(file.path(), content).map_err(Error::io("write", target))?;
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).map_err(Error::io("set the mode of", target))?;
    file.persist_noclobber(target).map_err(|error| Error::Io { action: "write", path: target.into(), source: error.error })?;
    Ok(())
}

async fn not_ignored(to: &Repo, copied: &[CopiedFile]) -> Result<Vec<FilePath>> {
    if copied.is_empty() {
        return Ok(Vec::new());
    }
    let names = copied.iter().map(|file| file.path.as_bytes().to_vec()).collect::<Vec<_>>();
    let ignored = ask(to.call("check what is ignored").arg("check-ignore"), &names).await?;
    let ignored: HashSet<Vec<u8>> = ignored.into_iter().collect();
    Ok(copied.iter().filter(|file| !ignored.contains(file.path.as_bytes())).map(|file| file.path.clone()).collect())
}

fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// File names in stored records: text when they are UTF-8, else their bytes.
mod path_bytes {
    use crate::file_path::FilePath;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(path: &FilePath, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = match std::str::from_utf8(path.as_bytes()) {
            Ok(text) => Stored::Text(text.into()),
            Err(_) => Stored::Bytes(path.as_bytes().to_vec()),
        };
        stored.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FilePath, D::Error> {
        Ok(match Stored::deserialize(deserializer)? {
            Stored::Text(text) => FilePath::new(text.into_bytes()),
            Stored::Bytes(bytes) => FilePath::new(bytes),
        })
    }
}
