//! Putting named files into an index and taking them out, by name and nothing else.
//!
//! Works on whichever index the given call is set to; names go in as NUL-terminated bytes.

use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::repo::Repo;
use crate::runner::{Call, split_nul};
use crate::status::Change;
use std::collections::HashSet;
use std::path::Path;

/// Makes the index entries of `changes` what the tree has: new, changed or gone.
pub(crate) async fn put(call: &(dyn Fn() -> Call + Sync), changes: &[Change]) -> Result<()> {
    // What a link now stands in the way of can only be taken out by name, and must be before the link goes in.
    let (gone, there): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(|change| change.kind == crate::status::ChangeKind::Deleted);
    take_out(call(), &gone.into_iter().map(|change| change.path.clone()).collect::<Vec<_>>()).await?;
    if there.is_empty() {
        return Ok(());
    }
    let names = there.iter().flat_map(|change| [change.path.as_bytes(), b"\0"].concat()).collect::<Vec<u8>>();
    call().args(["update-index", "-z", "--add", "--remove", "--replace", "--stdin"]).input(names).run().await?;
    Ok(())
}

/// Takes files out of the index; the files themselves stay.
pub(crate) async fn take_out(call: Call, names: &[FilePath]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let names = names.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect::<Vec<u8>>();
    call.args(["update-index", "-z", "--force-remove", "--stdin"]).input(names).run().await?;
    Ok(())
}

/// Files that are there and that git was told not to look at (`assume-unchanged`, `skip-worktree`), so that it would not
/// say that they changed.
pub(crate) async fn hidden(repo: &Repo) -> Result<Vec<FilePath>> {
    let entries = repo.call("list hidden files").args(["ls-files", "-v", "-z"]).fields().await?;
    let marked = entries.iter().filter(|entry| entry.first().is_some_and(|tag| tag.is_ascii_lowercase() || *tag == b'S'));
    let names = marked.filter_map(|entry| entry.get(2..)).map(FilePath::new);
    Ok(names.filter(|name| crate::fs::occupied(&name.within(repo.root()))).collect())
}

/// Copies the repository's index to `at`, with nothing hidden in the copy; says whether there was one.
pub(crate) async fn private(repo: &Repo, at: &Path) -> Result<bool> {
    let index = repo.git_dir().join("index");
    if !index.exists() {
        return Ok(false);
    }
    std::fs::copy(&index, at).map_err(Error::io("copy", &index))?;
    let hidden = hidden(repo).await?;
    if !hidden.is_empty() {
        let names = hidden.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect::<Vec<u8>>();
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            let call = repo.call("look at hidden files").env("GIT_INDEX_FILE", at);
            call.args(["update-index", flag, "-z", "--stdin"]).input(names.clone()).run().await?;
        }
    }
    Ok(true)
}

/// A submodule, or a repository that was added like one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gitlink {
    pub(crate) path: FilePath,
    pub(crate) oid: crate::oid::Oid,
}

/// The submodules in the index of `repo`.
pub(crate) async fn gitlinks(repo: &Repo) -> Result<Vec<Gitlink>> {
    Ok(crate::contents::Contents::of_index(repo).await?.gitlinks)
}

/// Reads an entry of a listing of the index (`<mode> <oid> <stage>\t<path>`) or of a tree (`<mode> <type> <oid>\t<path>`), when
/// it is a submodule.
pub(crate) fn read_gitlink(entry: &[u8]) -> Option<Gitlink> {
    let rest = entry.strip_prefix(b"160000 ")?;
    let tab = rest.iter().position(|b| *b == b'\t')?;
    let oid = std::str::from_utf8(&rest[..tab]).ok()?.split(' ').find_map(crate::oid::Oid::parse)?;
    Some(Gitlink { path: FilePath::new(&rest[tab + 1..]), oid })
}

/// Paths that `.gitmodules` of the checkout declares.
pub(crate) async fn submodule_paths(repo: &Repo) -> Result<HashSet<FilePath>> {
    Ok(submodule_names(repo).await?.into_iter().map(|(_, path)| path).collect())
}

/// Name and path of each submodule that `.gitmodules` of the checkout declares.
pub(crate) async fn submodule_names(repo: &Repo) -> Result<Vec<(String, FilePath)>> {
    let plain = std::fs::symlink_metadata(repo.root().join(".gitmodules")).is_ok_and(|meta| meta.is_file());
    if !plain {
        return Ok(Vec::new());
    }
    let list = ["config", "-z", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$"];
    let output = repo.call("read .gitmodules").args(list).accept(&[0, 1]).await?;
    let entry = |field: &Vec<u8>| {
        let line = field.iter().position(|b| *b == b'\n')?;
        let key = String::from_utf8_lossy(&field[..line]).into_owned();
        let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?.to_owned();
        Some((name, FilePath::new(&field[line + 1..])))
    };
    Ok(split_nul(&output.stdout).iter().filter_map(entry).collect())
}
