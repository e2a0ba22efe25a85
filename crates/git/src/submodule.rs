//! Filling submodules of a new worktree from what the user's checkout already has.
//!
//! Nothing is fetched from anywhere else: not from the URLs in `.gitmodules`, which a task's commit may have changed, nor
//! from the configured ones. A submodule that the user's checkout doesn't have is left empty and reported. Submodules
//! inside submodules are filled alike. To be called before an agent starts in the worktree.

use crate::contents::Contents;
use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::fs::remove_tree;
use crate::index::{Gitlink, gitlinks, submodule_names};
use crate::oid::Oid;
use crate::repo::Repo;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// A commit that keeps the submodule's starting point from looking like work of its own.
const START: &str = "refs/remotes/taskyard/start";

/// How deep submodules are filled: more levels than anybody has, and an end for those that hold themselves.
const DEPTH: usize = 10;

/// What filling came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SubmoduleReport {
    /// Those that hold their files now.
    pub filled: Vec<FilePath>,
    /// Those that stay empty, and why.
    pub empty: Vec<(FilePath, String)>,
}

impl SubmoduleReport {
    /// One sentence about those that stay empty.
    pub fn note(&self) -> Option<String> {
        let list = |(path, why): &(FilePath, String)| format!("{path} ({why})");
        let list = self.empty.iter().map(list).collect::<Vec<_>>().join(", ");
        (!list.is_empty()).then(|| format!("submodules are not initialised: {list}"))
    }
}

/// Fills the submodules of `worktree` from those of `project`, the user's own checkout. Doing it again is fine.
///
/// # Errors
/// Git's; a submodule that can't be filled is no error.
pub async fn fill_submodules(project: &Repo, worktree: &Repo) -> Result<SubmoduleReport> {
    fill_listed(project, worktree, &Contents::of_index(worktree).await?).await
}

/// The same for a worktree whose index is known to hold `contents`.
///
/// # Errors
/// See [`fill_submodules`].
pub async fn fill_listed(project: &Repo, worktree: &Repo, contents: &Contents) -> Result<SubmoduleReport> {
    let mut report = SubmoduleReport::default();
    // Each level by the one above it: the submodule that was filled, the one it was filled from, and where it is.
    let mut level = fill_level(Some(project), worktree, &contents.gitlinks, None, &mut report).await?;
    for _ in 1..DEPTH {
        let mut below = Vec::new();
        for (tree, from, at) in &level {
            let links = gitlinks(tree).await?;
            below.extend(fill_level(from.as_ref(), tree, &links, at.as_ref(), &mut report).await?);
        }
        level = below;
    }
    Ok(report)
}

/// A submodule with its original, where there is one, and its path from the top.
type Filled = (Repo, Option<Repo>, Option<FilePath>);

/// Fills the submodules `links` of `worktree`, `at` its own place below the top; gives those that hold files.
async fn fill_level(
    project: Option<&Repo>,
    worktree: &Repo,
    links: &[Gitlink],
    at: Option<&FilePath>,
    report: &mut SubmoduleReport,
) -> Result<Vec<Filled>> {
    if links.is_empty() {
        return Ok(Vec::new());
    }
    let mut filled = Vec::new();
    let names = submodule_names(worktree).await?;
    for link in links {
        let path = at.map_or_else(|| link.path.clone(), |at| FilePath::new([at.as_bytes(), b"/", link.path.as_bytes()].concat()));
        let name = names.iter().find(|(_, path)| *path == link.path).map(|(name, _)| name.as_str());
        match fill(project, worktree, link, name).await {
            Ok(Ok(())) => {
                // One that git can't open holds nothing to go on with.
                let Ok(tree) = Repo::open(worktree.git(), &link.path.within(worktree.root())).await else { continue };
                let from = match (project, name) {
                    (Some(project), Some(name)) => source(project, &link.path, name).await?,
                    _ => None,
                };
                filled.push((tree, from, Some(path.clone())));
                report.filled.push(path);
            }
            Ok(Err(why)) => report.empty.push((path, why)),
            Err(error) => report.empty.push((path, error.to_string())),
        }
    }
    Ok(filled)
}

/// Fills one; gives the reason when it can't be.
async fn fill(project: Option<&Repo>, worktree: &Repo, link: &Gitlink, name: Option<&str>) -> Result<Result<(), String>> {
    let place = link.path.within(worktree.root());
    if place.join(".git").exists() {
        return Ok(Ok(()));
    }
    let Some(name) = name.filter(|name| inside(Path::new(name))) else {
        return Ok(Err(".gitmodules doesn't declare it".into()));
    };
    let home = worktree.git_dir().join("modules").join(name);
    if put_back(worktree, &home, &place, &link.oid).await? {
        return Ok(Ok(()));
    }
    let original = match project {
        Some(project) => source(project, &link.path, name).await?,
        None => None,
    };
    let Some(source) = original else {
        return Ok(Err("the project's own checkout doesn't have it".into()));
    };
    if source.resolve(link.oid.as_str()).await?.is_none() {
        return Ok(Err(format!("the project's own checkout doesn't have its commit {}", link.oid.short())));
    }
    // A leftover of an attempt that was cut short.
    remove_tree(&home).await?;
    let made = clone(&source, worktree, &home, &place, &link.oid).await;
    if made.is_err() {
        remove_tree(&home).await?;
        remove_tree(&place).await?;
        std::fs::create_dir_all(&place).map_err(Error::io("make the folder", &place))?;
    }
    made.map(Ok)
}

/// Puts a submodule back whose folder was lost with the worktree's: one that stands where it should, or that holds
/// commits of its own. Says whether there was one.
async fn put_back(worktree: &Repo, home: &Path, place: &Path, oid: &Oid) -> Result<bool> {
    if !home.join("HEAD").is_file() || !home.join("index").is_file() {
        return Ok(false);
    }
    let at_home = |stage| worktree.git().call(stage, home).arg("--git-dir").arg(home);
    let head = at_home("read a submodule's commit").args(["rev-parse", "-q", "--verify", "HEAD^{commit}"]).accept(&[0, 1]).await?;
    let stands = String::from_utf8_lossy(&head.stdout).trim() == oid.as_str();
    if !stands {
        let own = at_home("count commits nobody else has").args(["rev-list", "--count", "--branches", "HEAD", "--not", "--remotes"]);
        if !head.ok() || own.text().await? == "0" {
            return Ok(false);
        }
    }
    std::fs::create_dir_all(place).map_err(Error::io("make the folder", place))?;
    let link = place.join(".git");
    let target = [b"gitdir: ", home.as_os_str().as_bytes(), b"\n"].concat();
    std::fs::write(&link, target).map_err(Error::io("write", &link))?;
    worktree.git().call("put a submodule back", place).args(["checkout-index", "-a", "-f", "-q"]).run().await?;
    Ok(true)
}

/// The submodule as the user's checkout has it.
async fn source(project: &Repo, path: &FilePath, name: &str) -> Result<Option<Repo>> {
    let places: [PathBuf; 3] =
        [project.git_dir().join("modules").join(name), project.common_dir().join("modules").join(name), path.within(project.root())];
    for place in places {
        // An empty folder in the checkout would open the checkout itself.
        let is_repo = place.join("HEAD").is_file() || place.join(".git").exists();
        if is_repo {
            let repo = Repo::open(project.git(), &place).await?;
            if repo.common_dir() != project.common_dir() {
                return Ok(Some(repo));
            }
        }
    }
    Ok(None)
}

async fn clone(source: &Repo, worktree: &Repo, home: &Path, place: &Path, oid: &Oid) -> Result<()> {
    if let Some(parent) = home.parent() {
        std::fs::create_dir_all(parent).map_err(Error::io("make the folder", parent))?;
    }
    let call = worktree.call("fill a submodule").args(["clone", "-q", "--local", "--no-checkout", "--no-tags", "--separate-git-dir"]);
    call.arg(home).arg("--").arg(source.common_dir()).arg(place).run().await?;
    let call = |stage| worktree.git().call(stage, place);
    // The copy's "origin" is the local original; it is to be what the original has, branches and address.
    let fetch = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--prune", "--no-auto-maintenance"];
    call("read a submodule's branches")
        .args(fetch)
        .arg(source.common_dir())
        .arg("+refs/remotes/origin/*:refs/remotes/origin/*")
        .run()
        .await?;
    let url = source.call_common("read a submodule's address").args(["config", "--get", "remote.origin.url"]).accept(&[0, 1]).await?;
    let url = String::from_utf8_lossy(&url.stdout).trim_end().to_owned();
    if url.is_empty() {
        call("drop a submodule's address").args(["remote", "remove", "origin"]).run().await?;
    } else {
        call("set a submodule's address").args(["config", "remote.origin.url", &url]).run().await?;
    }
    call("mark a submodule's start").args(["update-ref", START]).arg(oid).run().await?;
    call("check a submodule out").args(["checkout", "-q", "--detach"]).arg(oid).run().await?;
    Ok(())
}

/// Whether a submodule's name stays inside the folder it is put in.
fn inside(name: &Path) -> bool {
    name.components().next().is_some() && name.components().all(|part| matches!(part, Component::Normal(_)))
}
