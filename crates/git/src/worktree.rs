//! Making worktrees: a free folder and branch, the worktree itself, its registration with git.
//!
//! [`create`] and [`attach`] can be run again after a crash at any point. Each finished worktree carries a mark
//! in its private git folder; a registered one without it is half-made and holds nobody's work yet. Never
//! runs `worktree prune`, which would also drop the user's own worktrees whose disk isn't mounted.

use crate::error::{Error, Result};
use crate::fs::{occupied, remove_tree};
use crate::isolation;
use crate::layout::head_in;
use crate::oid::Oid;
use crate::refs;
use crate::repo::Repo;
use crate::runner::{path_from, split_nul};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use taskyard_domain::name::BranchName;

/// Name of the mark in a finished worktree's private git folder.
const FINISHED: &str = "taskyard-finished";
/// How many names are tried before giving up.
const TRIES: u32 = 1000;

/// What a worktree is for.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// Folder that the worktree goes below.
    pub root: &'a Path,
    /// First part of the branch's name, `taskyard` for instance; may be empty.
    pub prefix: &'a str,
    /// The rest of the name of folder and branch: `ty-42-fix-the-title`.
    pub name: &'a str,
}

/// A folder and a branch that were free when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The worktree's folder.
    pub path: PathBuf,
    /// Its branch.
    pub branch: String,
}

/// A worktree as git has it registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registered {
    /// Its folder.
    pub path: PathBuf,
    /// Its commit.
    pub head: Option<Oid>,
    /// Its branch, without `refs/heads/`.
    pub branch: Option<String>,
    /// Whether it is the bare main repository.
    pub bare: bool,
    /// Why it is locked, if it is.
    pub locked: Option<String>,
    /// Why git would prune it (mostly: the folder is missing).
    pub prunable: Option<String>,
}

/// A worktree that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ready {
    /// Its folder, with links resolved.
    pub path: PathBuf,
    /// Its branch.
    pub branch: String,
    /// Its commit.
    pub head: Oid,
    /// Whether it had been there before.
    pub existed: bool,
}

/// Chooses a free folder and a free branch. Changes nothing.
///
/// # Errors
/// Git's; [`Error::RefInTheWay`] when no name can be found.
pub async fn plan(repo: &Repo, wanted: &Wanted<'_>) -> Result<Plan> {
    let refs = refs::names(repo, "refs/heads").await?;
    let registered = places(repo);
    let root = resolved(wanted.root);
    let prefix = wanted.prefix.trim_matches('/');
    // With a branch `taskyard` there can be no `taskyard/…`: fall back to dashes.
    let blocked = !prefix.is_empty() && refs.iter().any(|name| prefix == name || prefix.starts_with(&format!("{name}/")));
    let stem = if blocked { prefix.replace('/', "-") } else { prefix.to_owned() };
    let lead = match (stem.is_empty(), blocked) {
        (true, _) => String::new(),
        (false, true) => format!("{stem}-"),
        (false, false) => format!("{stem}/"),
    };
    for n in 1..=TRIES {
        let name = if n == 1 { wanted.name.to_owned() } else { format!("{}-{n}", wanted.name) };
        let (path, branch) = (root.join(&name), format!("{lead}{name}"));
        let below = format!("{branch}/");
        let taken = refs.iter().any(|name| *name == branch || name.starts_with(&below));
        if BranchName::parse(&branch).is_ok() && !taken && !occupied(&path) && !registered.contains(&path) {
            return Ok(Plan { path, branch });
        }
    }
    let wanted = format!("refs/heads/{lead}{}", wanted.name);
    Err(Error::RefInTheWay { existing: wanted.clone(), wanted })
}

/// A free folder below `root` for a worktree whose branch stays: `name`, or with a number. Changes nothing.
///
/// # Errors
/// Git's; [`Error::PathTaken`] when no name is free.
pub async fn free_path(repo: &Repo, root: &Path, name: &str) -> Result<PathBuf> {
    let registered = places(repo);
    let root = resolved(root);
    let numbered = (2..=TRIES).map(|n| format!("{name}-{n}"));
    let mut places = std::iter::once(name.to_owned()).chain(numbered).map(|name| root.join(name));
    places.find(|place| !occupied(place) && !registered.contains(place)).ok_or_else(|| Error::PathTaken { path: root.join(name) })
}

/// Makes the planned worktree from the commit `base`, or finds it made. On failure nothing is left: neither folder
/// nor registration nor a branch of ours. Takes the repository's lock.
///
/// # Errors
/// [`Error::PathTaken`] and [`Error::BranchTaken`] when the plan is no longer free (make a new one);
/// [`Error::RefInTheWay`], [`Error::BranchInUse`]; git's.
pub async fn create(repo: &Repo, plan: &Plan, base: &Oid) -> Result<Ready> {
    let _lock = repo.lock().await;
    if let Some(ready) = present(repo, plan).await? {
        return Ok(ready);
    }
    if let Some(ready) = take_over(repo, plan).await? {
        return Ok(ready);
    }
    let full_ref = format!("refs/heads/{}", plan.branch);
    let made = match refs::make(repo, &full_ref, base).await {
        Err(Error::Moved { .. }) => return Err(Error::BranchTaken { branch: plan.branch.clone() }),
        made => made?,
    };
    let done = add(repo, plan).await;
    if done.is_err() && made {
        refs::delete_if_at(repo, &full_ref, base).await?;
    }
    done
}

/// Puts a worktree for a branch that exists back at `plan.path`; where the branch is gone it is made again at
/// `fallback` (a kept tip). What git still knows of a folder that was lost, staged changes included, is restored.
/// Takes the repository's lock.
///
/// # Errors
/// [`Error::NotFound`] without branch and fallback; [`Error::PathTaken`], [`Error::BranchInUse`]; git's.
pub async fn attach(repo: &Repo, plan: &Plan, fallback: Option<&Oid>) -> Result<Ready> {
    let _lock = repo.lock().await;
    if let Some(ready) = present(repo, plan).await? {
        return Ok(ready);
    }
    if let Some(ready) = take_over(repo, plan).await? {
        return Ok(ready);
    }
    let full_ref = format!("refs/heads/{}", plan.branch);
    let made = match (repo.tip(&full_ref).await?, fallback) {
        (Some(_), _) => None,
        (None, Some(tip)) => {
            refs::create(repo, &full_ref, tip).await?;
            Some(tip)
        }
        (None, None) => {
            let branches = repo.branch_names().await?;
            return Err(Error::NotFound { path: repo.root().into(), name: plan.branch.clone(), branches });
        }
    };
    let done = add(repo, plan).await;
    if let (Err(_), Some(tip)) = (&done, made) {
        refs::delete_if_at(repo, &full_ref, tip).await?;
    }
    done
}

/// Ends a move to the planned place that a crash cut off before git was told of it: a finished worktree of ours on the
/// planned branch, whose own folder somebody else has replaced, gets the place. Whether there was one. Takes the
/// repository's lock.
///
/// # Errors
/// What git refuses; the worktree stays registered where it was.
pub async fn finish_move(repo: &Repo, plan: &Plan) -> Result<bool> {
    let _lock = repo.lock().await;
    Ok(!occupied(&resolved(&plan.path)) && take_over(repo, plan).await?.is_some())
}

/// The finished worktree at the planned place, if it is there; what is half-made or lost there is cleared or
/// restored first.
async fn present(repo: &Repo, plan: &Plan) -> Result<Option<Ready>> {
    let place = resolved(&plan.path);
    let Some(admin) = admin_dir(repo, &place) else { return free_place(&place).map(|()| None) };
    let finished = admin.join(FINISHED).exists();
    if !finished && branch_in(repo, &admin, &place).await?.is_some_and(|branch| branch != plan.branch) {
        return Err(Error::PathTaken { path: place });
    }
    if !finished {
        discard(repo, &place).await?;
        return Ok(None);
    }
    if is_replaced(repo, &place) {
        free_place(&place)?;
        restore_lost(repo, &place).await?;
    }
    let tree = isolation::verified(repo, &place, Some(&plan.branch)).await?;
    ready(&tree, plan, true).await.map(Some)
}

/// The branch of the worktree registered at `place`.
async fn branch_in(repo: &Repo, admin: &Path, place: &Path) -> Result<Option<String>> {
    match head_in(admin) {
        Some(branch) => Ok(branch),
        None => Ok(list(repo).await?.into_iter().find(|tree| tree.path == place).and_then(|tree| tree.branch)),
    }
}

/// Whether what stands at a registered place, if anything, doesn't lead to any worktree of the repository.
fn is_replaced(repo: &Repo, place: &Path) -> bool {
    let home = repo.common_dir().join("worktrees");
    let home = home.canonicalize().unwrap_or(home);
    place.is_symlink() || !isolation::link_target(place).is_ok_and(|admin| admin.parent() == Some(&*home))
}

/// Gives the planned, free place to a finished worktree of ours on the planned branch whose own folder somebody else has
/// replaced. Index and HEAD are those it had; what stands in its old place stays.
async fn take_over(repo: &Repo, plan: &Plan) -> Result<Option<Ready>> {
    let head = format!("ref: refs/heads/{}\n", plan.branch);
    let ours = |admin: &PathBuf| {
        let on_branch = std::fs::read(admin.join("HEAD")).is_ok_and(|text| text == head.as_bytes());
        on_branch && admin.join(FINISHED).exists() && registered_at(admin).is_some_and(|at| occupied(&at) && is_replaced(repo, &at))
    };
    let Ok(entries) = std::fs::read_dir(repo.common_dir().join("worktrees")) else { return Ok(None) };
    let Some(admin) = entries.filter_map(|entry| Some(entry.ok()?.path())).find(ours) else { return Ok(None) };
    let place = resolved(&plan.path);
    let (link, target) = (admin.join("gitdir"), [place.join(".git").as_os_str().as_bytes(), b"\n"].concat());
    std::fs::write(&link, target).map_err(Error::io("write", &link))?;
    restore_lost(repo, &place).await?;
    let tree = isolation::verified(repo, &place, Some(&plan.branch)).await?;
    ready(&tree, plan, false).await.map(Some)
}

/// An empty folder is as good as none; anything else belongs to somebody.
fn free_place(place: &Path) -> Result<()> {
    let empty = place.is_dir() && !place.is_symlink() && std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_none());
    if !occupied(place) || empty { Ok(()) } else { Err(Error::PathTaken { path: place.into() }) }
}

async fn add(repo: &Repo, plan: &Plan) -> Result<Ready> {
    let place = resolved(&plan.path);
    let existed = occupied(&place);
    if let Some(parent) = place.parent() {
        std::fs::create_dir_all(parent).map_err(Error::io("make the folder", parent))?;
    }
    // Parents that were just made may resolve differently from what was planned.
    let place = resolved(&plan.path);
    let call = repo.call_common("make the worktree").args(["worktree", "add", "-q"]).arg(&place).arg(&plan.branch);
    let made = call.once().time_limit(repo.git().limits().hooks);
    let done = match retried(repo, &place, made).await {
        Ok(()) => finish(repo, plan).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(ready) => Ok(ready),
        Err(error) => {
            // The place was free, so whatever is there now came from this attempt.
            discard(repo, &place).await?;
            remove_tree(&place).await?;
            if existed {
                std::fs::create_dir_all(&place).map_err(Error::io("make the folder", &place))?;
            }
            Err(in_use(error, &plan.branch))
        }
    }
}

/// `worktree add` may have registered something before it met a lock, so what it left is cleared before each new try.
async fn retried(repo: &Repo, place: &Path, call: crate::runner::Call) -> Result<()> {
    let give_up = tokio::time::Instant::now() + repo.git().limits().lock;
    loop {
        match call.clone().run().await {
            Err(Error::Locked { .. }) if tokio::time::Instant::now() < give_up => discard(repo, place).await?,
            other => return other.map(|_| ()),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

async fn finish(repo: &Repo, plan: &Plan) -> Result<Ready> {
    let place = resolved(&plan.path);
    let tree = isolation::verified(repo, &place, Some(&plan.branch)).await?;
    let dir = admin_dir(repo, &place).ok_or_else(|| Error::Isolation { path: place, reason: "git has no record of it".into() })?;
    let mark = dir.join(FINISHED);
    std::fs::write(&mark, "").map_err(Error::io("write", &mark))?;
    ready(&tree, plan, false).await
}

async fn ready(tree: &Repo, plan: &Plan, existed: bool) -> Result<Ready> {
    let path = resolved(&plan.path);
    let head = tree.head().await?.oid().cloned().ok_or_else(|| Error::NoCommit { path: path.clone() })?;
    Ok(Ready { path, branch: plan.branch.clone(), head, existed })
}

/// `'x' is already used by worktree at '/path'` becomes [`Error::BranchInUse`].
fn in_use(error: Error, branch: &str) -> Error {
    let place = |stderr: &str| {
        let (_, rest) = stderr.split_once("already used by worktree at '").or_else(|| stderr.split_once("already checked out at '"))?;
        Some(PathBuf::from(rest.trim_end().trim_end_matches('\'')))
    };
    match error.stderr().and_then(place) {
        Some(path) => Error::BranchInUse { branch: branch.into(), path },
        None => error,
    }
}

/// All worktrees of the repository, the main one first.
///
/// # Errors
/// Git's.
pub async fn list(repo: &Repo) -> Result<Vec<Registered>> {
    let output = repo.call_common("list worktrees").args(["worktree", "list", "--porcelain", "-z"]).run().await?;
    Ok(read_list(&output.stdout))
}

/// Reads `worktree list --porcelain -z`.
pub(crate) fn read_list(bytes: &[u8]) -> Vec<Registered> {
    let mut trees: Vec<Registered> = Vec::new();
    for field in split_nul(bytes) {
        let (key, value) = match field.iter().position(|b| *b == b' ') {
            Some(at) => (&field[..at], &field[at + 1..]),
            None => (&field[..], &b""[..]),
        };
        let text = || String::from_utf8_lossy(value).into_owned();
        if key == b"worktree" {
            let path = path_from(value);
            trees.push(Registered { path, head: None, branch: None, bare: false, locked: None, prunable: None });
        }
        let Some(tree) = trees.last_mut() else { continue };
        match key {
            b"HEAD" => tree.head = Oid::parse(&text()).filter(|oid| !oid.is_null()),
            b"branch" => tree.branch = text().strip_prefix("refs/heads/").map(str::to_owned),
            b"bare" => tree.bare = true,
            b"locked" => tree.locked = Some(text()),
            b"prunable" => tree.prunable = Some(text()),
            _ => {}
        }
    }
    trees
}

/// Worktrees registered below `root`, and whether each is finished: what a reconciler looks at after a crash.
///
/// # Errors
/// Git's.
pub async fn below(repo: &Repo, root: &Path) -> Result<Vec<(Registered, bool)>> {
    let root = resolved(root);
    let ours = list(repo).await?.into_iter().filter(|tree| tree.path.starts_with(&root));
    let finished = |tree: &Registered| admin_dir(repo, &tree.path).is_some_and(|dir| dir.join(FINISHED).exists());
    Ok(ours.map(|tree| (finished(&tree), tree)).map(|(finished, tree)| (tree, finished)).collect())
}

/// Clears a half-made worktree after a crash: folder, registration, and the branch if it holds nothing of its own.
/// Refuses one that was finished. Takes the repository's lock.
///
/// # Errors
/// [`Error::Unsaved`] for a finished one; [`Error::Io`]; git's.
pub async fn discard_half_made(repo: &Repo, plan: &Plan) -> Result<()> {
    let _lock = repo.lock().await;
    let place = resolved(&plan.path);
    match admin_dir(repo, &place) {
        Some(dir) if dir.join(FINISHED).exists() => {
            return Err(Error::Unsaved { what: "it was finished and may hold work".into(), path: place });
        }
        Some(_) => discard(repo, &place).await?,
        None => {}
    }
    refs::delete_branch_if_reached(repo, &plan.branch).await.map(|_| ())
}

/// What a folder that was being put back when a crash came is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutBack {
    /// Git had finished it, and it may hold something.
    Stands,
    /// It isn't there: git hadn't come to it, or what it had begun was cleared. The branch is as it was.
    Gone,
}

/// Settles a worktree whose folder [`attach`] was putting back when a crash came. A folder that isn't registered here
/// is somebody else's and left alone. Takes the repository's lock.
///
/// # Errors
/// [`Error::Io`]; git's.
pub async fn settle_put_back(repo: &Repo, plan: &Plan) -> Result<PutBack> {
    let _lock = repo.lock().await;
    let place = resolved(&plan.path);
    let Some(dir) = admin_dir(repo, &place).filter(|_| place.is_dir()) else { return Ok(PutBack::Gone) };
    // Git locks a worktree while it fills it, with this word; any other lock is a person's.
    let lock = std::fs::read(dir.join("locked")).ok();
    let is_begun = lock.as_deref().map(<[u8]>::trim_ascii_end) == Some(b"initializing");
    let is_ours = branch_in(repo, &dir, &place).await?.is_none_or(|branch| branch == plan.branch);
    if !dir.join(FINISHED).exists() && is_begun && is_ours {
        discard(repo, &place).await?;
        return Ok(PutBack::Gone);
    }
    match finish(repo, plan).await {
        Ok(_) => Ok(PutBack::Stands),
        // On another branch, or no worktree at all: somebody put it there.
        Err(Error::Isolation { .. }) => Ok(PutBack::Gone),
        Err(error) => Err(error),
    }
}

/// Removes a registered worktree's folder and registration; a folder that isn't registered here is left alone.
async fn discard(repo: &Repo, place: &Path) -> Result<()> {
    if let Some(dir) = admin_dir(repo, place) {
        remove_tree(place).await?;
        unregister(repo, &dir).await?;
    }
    Ok(())
}

/// Forgets a worktree whose folder is gone. Removing the private folder is what git itself does here; `worktree
/// remove` would refuse a half-made one.
pub(crate) async fn unregister(repo: &Repo, admin: &Path) -> Result<()> {
    remove_tree(admin).await?;
    // Git removes the common folder along with the last entry; not empty is fine.
    let _ = std::fs::remove_dir(repo.common_dir().join("worktrees"));
    Ok(())
}

/// The private git folder registered for the worktree at `place`, whether or not the folder is there.
pub(crate) fn admin_dir(repo: &Repo, place: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(repo.common_dir().join("worktrees")).ok()?;
    entries.filter_map(Result::ok).map(|entry| entry.path()).find(|dir| registered_at(dir).is_some_and(|at| at == place))
}

/// The folders that linked worktrees are registered for.
pub(crate) fn places(repo: &Repo) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(repo.common_dir().join("worktrees")) else { return Vec::new() };
    entries.filter_map(|entry| registered_at(&entry.ok()?.path())).collect()
}

/// The folder that an entry of `worktrees/` is for.
pub(crate) fn registered_at(admin: &Path) -> Option<PathBuf> {
    let text = std::fs::read(admin.join("gitdir")).ok()?;
    let link = path_from(text.trim_ascii_end());
    // Relative since git 2.48 where the user wants it so.
    let link = if link.is_absolute() { link } else { admin.join(link) };
    link.parent().map(resolved)
}

/// Rebuilds a lost folder from what git's private folder still has, so that staged changes and a detached
/// commit are not dropped with the registration.
pub(crate) async fn restore_lost(repo: &Repo, place: &Path) -> Result<()> {
    let Some(admin) = admin_dir(repo, place) else { return Ok(()) };
    std::fs::create_dir_all(place).map_err(Error::io("make the folder", place))?;
    let link = place.join(".git");
    let target = [b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"].concat();
    std::fs::write(&link, target).map_err(Error::io("write", &link))?;
    let call = |stage| repo.git().call(stage, place);
    if !admin.join("index").exists() {
        call("read the last commit").args(["read-tree", "HEAD"]).run().await?;
    }
    call("restore the files").args(["checkout-index", "-a", "-f", "-q"]).run().await?;
    call("refresh the index").args(["update-index", "-q", "--refresh"]).accept(&[0, 1]).await.map(|_| ())
}

/// `path` with the links in its existing part resolved, the last part itself left as it is.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
    if let Ok(parent) = parent.canonicalize() {
        return parent.join(name);
    }
    resolved(parent).join(name)
}
