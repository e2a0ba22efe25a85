//! Keeping everything unsaved of a worktree as commits under `refs/taskyard/snapshots/<id>`.
//!
//! A snapshot is one commit: its tree is the worktree's files, its parents are the worktree's commit, the index, and
//! whatever else would be lost (stash entries, commits no ref reaches, the other side of a merge in progress,
//! snapshots of repositories inside). Made with a private index: neither index nor files of the worktree change.

use crate::copy::CopiedFile;
use crate::error::{Error, Result};
use crate::index;
use crate::oid::Oid;
use crate::refs;
use crate::repo::Repo;
use crate::runner::{Identity, split_nul};
use crate::status::{ChangeKind, all_changes};
use crate::unsaved::{Known, inner_repos, own_stashes, unreached};
use crate::worktree::{self, Plan, Ready};
use serde::Serialize;
use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;

const PLACE: &str = "refs/taskyard/snapshots";
/// Where snapshots of inner repositories are handed over.
const PARTS: &str = "refs/taskyard/snapshot-parts";
/// Subject of the commit that keeps the index.
const INDEX: &str = "Index";
/// Files in a git folder that name the other side of an operation in progress.
const OTHER_SIDES: &[&str] = &["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "ORIG_HEAD", "AUTO_MERGE"];

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Its name.
    pub id: String,
    /// Its commit.
    pub oid: Oid,
    /// The commit the worktree was on.
    pub head: Option<Oid>,
    /// The branch the worktree was on.
    pub branch: Option<String>,
    /// When it was made, in seconds since 1970.
    pub made_at: i64,
}

/// The ref of the snapshot `id`.
///
/// # Errors
/// [`Error::Unreadable`] when `id` can't be part of a ref's name.
pub fn snapshot_ref(id: &str) -> Result<String> {
    let plain = !id.is_empty() && !id.starts_with('-') && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if plain {
        Ok(format!("{PLACE}/{id}"))
    } else {
        Err(Error::Unreadable { stage: "name a snapshot", what: format!("{id:?} is no plain identifier") })
    }
}

/// Stores everything unsaved of the worktree `repo` as the snapshot `id`. Where there is one of that name already, it
/// becomes a parent of the new one, so that nothing it holds is lost.
///
/// # Errors
/// [`Error::Failed`] naming the file when one can't be read; git's.
pub async fn take(repo: &Repo, id: &str, who: &Identity, known: Known<'_>) -> Result<Snapshot> {
    let full_ref = snapshot_ref(id)?;
    let old = repo.tip(&full_ref).await?;
    let mut also: Vec<Oid> = old.iter().cloned().collect();
    also.extend(own_stashes(repo, known.branch).await?.into_iter().map(|stash| stash.oid));
    also.extend(unreached(repo).await?);
    let oid = keep(repo, id, who, known.copied, also).await?;
    let before = old.unwrap_or_else(|| oid.null());
    refs::swap(repo, &full_ref, Some(&oid), &before).await?;
    let found = list(repo).await?.into_iter().find(|snapshot| snapshot.id == id);
    found.ok_or(Error::Unreadable { stage: "take a snapshot", what: format!("{full_ref} isn't there") })
}

/// Makes the commit for one repository; boxed because repositories inside are kept the same way.
fn keep<'a>(
    repo: &'a Repo,
    id: &'a str,
    who: &'a Identity,
    copied: &'a [CopiedFile],
    mut also: Vec<Oid>,
) -> Pin<Box<dyn Future<Output = Result<Oid>> + Send + 'a>> {
    Box::pin(async move {
        let mut changes = all_changes(repo, copied).await?;
        let head = repo.head().await?;
        let mut message = format!("Taskyard snapshot {id}\n");
        for (number, (path, inner)) in inner_repos(repo, &changes).await?.into_iter().enumerate() {
            let oid = hand_over(repo, &inner, &format!("{id}-{number}"), who).await?;
            let _ = write!(message, "\nTaskyard-Inner: {oid} {:?}", path.to_string());
            also.push(oid);
        }
        // A repository that isn't tracked is kept by its own commits, not as an entry that leads nowhere.
        changes.retain(|change| change.kind != ChangeKind::EmbeddedRepository);
        also.extend(other_sides(repo).await?);
        let scratch = tempfile::tempdir().map_err(Error::io("make a folder in", std::env::temp_dir()))?;
        let private = scratch.path().join("index");
        let at_index = index::private(repo, &private).await?;
        let staged = repo.call("write the index").env("GIT_INDEX_FILE", &private).args(["write-tree"]).oid().await;
        let call = || repo.call("store the files").env("GIT_INDEX_FILE", &private);
        index::put(&call, &changes).await?;
        let tree = call().arg("write-tree").oid().await?;
        let head_oid = head.oid().cloned();
        let mut parents: Vec<Oid> = head_oid.iter().cloned().collect();
        // An index with unmerged entries can't be written; the sides of the merge are kept above.
        if let (true, Ok(staged)) = (at_index, staged) {
            parents.push(commit(repo, &staged, &parents, INDEX, who).await?);
        }
        parents.extend(also);
        let mut seen = std::collections::HashSet::new();
        parents.retain(|oid| seen.insert(oid.clone()));
        for (name, value) in [("Head", head_oid.as_ref().map(Oid::as_str)), ("Branch", head.branch())] {
            let _ = value.map(|value| write!(message, "\nTaskyard-{name}: {value}"));
        }
        commit(repo, &tree, &parents, &message, who).await
    })
}

/// Keeps a repository inside the worktree: its files, branches and stash, brought over into the outer repository.
async fn hand_over(outer: &Repo, inner: &Repo, part: &str, who: &Identity) -> Result<Oid> {
    let heads = inner.call("list what is inside").args(["for-each-ref", "--format=%(objectname)", "refs/heads", "refs/tags", "refs/stash"]);
    let mut also: Vec<Oid> = Vec::new();
    for oid in heads.text().await?.lines().filter_map(Oid::parse) {
        also.extend(inner.resolve(oid.as_str()).await?);
    }
    if inner.resolve("refs/stash").await?.is_some() {
        let stashes = inner.call("list stash entries").args(["stash", "list", "-z", "--format=%H"]).run().await?;
        also.extend(split_nul(&stashes.stdout).iter().filter_map(|oid| Oid::parse(&String::from_utf8_lossy(oid))));
    }
    also.extend(unreached(inner).await?);
    let oid = keep(inner, part, who, &[], also).await?;
    let place = format!("{PARTS}/{part}");
    inner.call("hand a snapshot over").args(["update-ref", &place]).arg(&oid).run().await?;
    let fetch = outer.call("take a snapshot over").args(["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"]);
    fetch.arg("--no-auto-maintenance").arg(inner.git_dir()).arg(format!("+{place}:{place}")).run().await?;
    Ok(oid)
}

async fn other_sides(repo: &Repo) -> Result<Vec<Oid>> {
    let mut found = Vec::new();
    for name in OTHER_SIDES {
        let text = std::fs::read_to_string(repo.git_dir().join(name)).unwrap_or_default();
        for oid in text.lines().filter_map(Oid::parse) {
            found.extend(repo.resolve(oid.as_str()).await?);
        }
    }
    Ok(found)
}

async fn commit(repo: &Repo, tree: &Oid, parents: &[Oid], message: &str, who: &Identity) -> Result<Oid> {
    let call = repo.call("store the snapshot").args(["commit-tree", "-F", "-"]).by(who);
    let call = parents.iter().fold(call, |call, parent| call.arg("-p").arg(parent));
    call.arg(tree).input(format!("{message}\n")).oid().await
}

/// All snapshots of the repository.
///
/// # Errors
/// Git's.
pub async fn list(repo: &Repo) -> Result<Vec<Snapshot>> {
    let format = "--format=%(refname)%00%(objectname)%00%(committerdate:unix)%00%(contents)%00";
    let output = repo.call_common("list snapshots").args(["for-each-ref", format, PLACE]).run().await?;
    Ok(read_list(&output.stdout))
}

/// Reads the refs of snapshots: name, commit, date and message of each, with a line end behind it.
pub(crate) fn read_list(bytes: &[u8]) -> Vec<Snapshot> {
    let fields = split_nul(bytes);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let read = |record: &[Vec<u8>]| {
        let [name, oid, date, message] = record else { return None };
        let message = text(message);
        let value = |key: &str| message.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
        Some(Snapshot {
            id: text(name).trim_start_matches('\n').strip_prefix(PLACE)?.strip_prefix('/')?.to_owned(),
            oid: Oid::parse(&text(oid))?,
            head: value("Taskyard-Head: ").and_then(|oid| Oid::parse(&oid)),
            branch: value("Taskyard-Branch: "),
            made_at: text(date).parse().ok()?,
        })
    };
    fields.chunks(4).filter_map(read).collect()
}

/// Puts the snapshot `id` back as a new worktree: its branch starts at the commit the old one was on, with the
/// files and the index as they were. Takes the repository's lock.
///
/// # Errors
/// [`Error::NotFound`]; those of [`worktree::create`]; git's.
pub async fn restore(repo: &Repo, id: &str, plan: &Plan) -> Result<Ready> {
    let full_ref = snapshot_ref(id)?;
    let Some(snapshot) = list(repo).await?.into_iter().find(|snapshot| snapshot.id == id) else {
        let known = list(repo).await?.into_iter().map(|snapshot| snapshot.id).collect();
        return Err(Error::NotFound { path: repo.root().into(), name: full_ref, branches: known });
    };
    let base = snapshot.head.clone().unwrap_or_else(|| snapshot.oid.clone());
    let ready = worktree::create(repo, plan, &base).await?;
    let call = |stage| repo.git().call(stage, &ready.path);
    call("restore the files").args(["read-tree", "--reset", "-u"]).arg(&snapshot.oid).run().await?;
    let index = index_of(repo, &snapshot).await?.unwrap_or(base);
    call("restore the index").arg("read-tree").arg(&index).run().await?;
    call("refresh the index").args(["update-index", "-q", "--refresh"]).accept(&[0, 1]).await?;
    Ok(ready)
}

/// The commit that keeps the index, if the index could be kept.
async fn index_of(repo: &Repo, snapshot: &Snapshot) -> Result<Option<Oid>> {
    let second = format!("{}^2", snapshot.oid);
    let Some(oid) = repo.resolve(&second).await?.filter(|_| snapshot.head.is_some()) else { return Ok(None) };
    let subject = repo.call_common("read a snapshot").args(["log", "-1", "--format=%s"]).arg(&oid).text().await?;
    Ok((subject == INDEX).then_some(oid))
}

/// Forgets the snapshot `id`, and with it what only it keeps; fine when there is none.
///
/// # Errors
/// Git's.
pub async fn drop(repo: &Repo, id: &str) -> Result<()> {
    let full_ref = snapshot_ref(id)?;
    match repo.tip(&full_ref).await? {
        Some(oid) => refs::delete_if_at(repo, &full_ref, &oid).await,
        None => Ok(()),
    }
}
