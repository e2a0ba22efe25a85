//! Moving refs by compare-and-swap: keeping tips, deleting branches that lose nothing.

use crate::error::{Error, Result};
use crate::oid::Oid;
use crate::repo::Repo;
use crate::runner::Call;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// What became of a branch that was to be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Deleted {
    /// Gone; it was at this commit.
    Yes {
        /// Its last tip.
        tip: Oid,
    },
    /// It wasn't there.
    Absent,
    /// Kept: no other ref reaches its tip.
    OnlyReach {
        /// Its tip.
        tip: Oid,
    },
    /// Kept: it is checked out.
    CheckedOut {
        /// In this tree.
        path: std::path::PathBuf,
    },
}

/// Names below `below` (`refs/heads`), without it.
pub(crate) async fn names(repo: &Repo, below: &str) -> Result<Vec<String>> {
    let text = repo.call_common("list refs").args(["for-each-ref", "--format=%(refname)", below]).text().await?;
    Ok(text.lines().filter_map(|name| name.strip_prefix(below)?.strip_prefix('/')).map(str::to_owned).collect())
}

/// Runs a call that writes a ref of Taskyard's own. Such calls take turns by the repository's lock, so where the ref stays
/// locked although git has waited for it, whoever locked it is dead, and the lock goes. The lock of all packed refs may be
/// anybody's, an agent's that was killed while it deleted a ref, say; it goes when no git that runs here is as old as it.
///
/// # Errors
/// Git's; [`Error::Io`] when the lock can't be removed.
pub(crate) async fn past_dead_lock(repo: &Repo, full_ref: &str, call: Call) -> Result<()> {
    let Err(error) = call.clone().run().await else { return Ok(()) };
    if !matches!(error, Error::Locked { .. }) {
        return Err(error);
    }
    let (own, packed) = (repo.common_dir().join(format!("{full_ref}.lock")), repo.common_dir().join("packed-refs.lock"));
    let dead: Vec<_> = [(own.exists(), &own), (is_nobodys(&packed), &packed)].into_iter().filter(|(dead, _)| *dead).collect();
    if dead.is_empty() {
        return Err(error);
    }
    for (_, lock) in dead {
        tracing::warn!(lock = %lock.display(), "refs were still locked by a git that is dead");
        std::fs::remove_file(lock).map_err(Error::io("remove", lock))?;
    }
    call.run().await.map(drop)
}

/// How much older than a lock the git must be that may have made it: the clocks of files and processes differ a little.
const SLACK: Duration = Duration::from_secs(2);

/// Whether `lock` is there, and every git that runs on this machine is younger than it.
fn is_nobodys(lock: &Path) -> bool {
    let Some(age) = lock.metadata().and_then(|meta| meta.modified()).ok().and_then(|made| made.elapsed().ok()) else { return false };
    age > SLACK && taskyard_process::tree::oldest("git").is_none_or(|oldest| oldest + SLACK < age)
}

/// Makes a ref that must not exist yet; one that is there at the same commit is fine.
pub(crate) async fn create(repo: &Repo, full_ref: &str, oid: &Oid) -> Result<()> {
    swap(repo, full_ref, Some(oid), &oid.null()).await
}

/// Makes a ref that must not exist yet, or finds it made at the same commit; says whether it was made here.
///
/// # Errors
/// [`Error::Moved`] when it is there at another commit, [`Error::RefInTheWay`]; git's.
pub(crate) async fn make(repo: &Repo, full_ref: &str, oid: &Oid) -> Result<bool> {
    let absent = oid.null();
    let call = repo.call_common("make a ref").args(["update-ref", "--no-deref", "-m", "taskyard", "--create-reflog"]);
    let error = match past_dead_lock(repo, full_ref, call.args([full_ref, oid.as_str(), absent.as_str()])).await {
        Ok(()) => return Ok(true),
        Err(error @ Error::RefInTheWay { .. }) => return Err(error),
        Err(error) => error,
    };
    match repo.tip(full_ref).await? {
        Some(found) if found == *oid => Ok(false),
        None => Err(error),
        found => Err(Error::Moved { name: full_ref.into(), expected: absent, found }),
    }
}

/// Deletes a ref if it is at `oid`; one that is gone is fine.
pub(crate) async fn delete_if_at(repo: &Repo, full_ref: &str, oid: &Oid) -> Result<()> {
    swap(repo, full_ref, None, oid).await
}

/// Moves a ref from `old` (all zeros: absent) to `new` (`None`: deletes it). One that is where it should be is fine.
pub(crate) async fn swap(repo: &Repo, full_ref: &str, new: Option<&Oid>, old: &Oid) -> Result<()> {
    let update = |call: Call| match new {
        Some(new) => call.args(["-m", "taskyard", "--create-reflog", full_ref, new.as_str(), old.as_str()]),
        None => call.args(["-d", full_ref, old.as_str()]),
    };
    let error = match past_dead_lock(repo, full_ref, update(repo.call_common("move a ref").args(["update-ref", "--no-deref"]))).await {
        Ok(()) => return Ok(()),
        Err(error @ Error::RefInTheWay { .. }) => return Err(error),
        Err(error) => error,
    };
    let found = repo.tip(full_ref).await?;
    if found.as_ref() == new {
        return Ok(());
    }
    if found.as_ref().map_or(old.is_null(), |found| found == old) {
        return Err(error);
    }
    Err(Error::Moved { name: full_ref.into(), expected: old.clone(), found })
}

/// Keeps `oid` reachable at `full_ref` (`refs/taskyard/tasks/<task>/<n>`); doing it again is fine.
///
/// # Errors
/// [`Error::Moved`] when the ref is there at another commit; git's.
pub async fn keep_tip(repo: &Repo, full_ref: &str, oid: &Oid) -> Result<()> {
    create(repo, full_ref, oid).await
}

/// Deletes a local branch if it is checked out nowhere and another ref (branch, remote-tracking branch, tag or private
/// ref of ours) reaches its tip. Doing it again is fine.
///
/// # Errors
/// [`Error::Moved`] when somebody moved it in between; git's.
pub async fn delete_branch_if_reached(repo: &Repo, branch: &str) -> Result<Deleted> {
    let full_ref = format!("refs/heads/{branch}");
    let Some(tip) = repo.tip(&full_ref).await? else { return Ok(Deleted::Absent) };
    let tree = repo.branches().await?.into_iter().find(|other| other.name == branch).and_then(|found| found.checked_out_at);
    if let Some(path) = tree {
        return Ok(Deleted::CheckedOut { path });
    }
    let contains = format!("--contains={tip}");
    let list = ["for-each-ref", "--count=2", "--format=%(refname)", &contains];
    let places = ["refs/heads", "refs/remotes", "refs/tags", "refs/taskyard"];
    let reached = repo.call_common("look who reaches a branch").args(list).args(places).text().await?;
    if !reached.lines().any(|name| name != full_ref) {
        return Ok(Deleted::OnlyReach { tip });
    }
    delete_if_at(repo, &full_ref, &tip).await?;
    // What the user's git would also drop: the branch's section of the configuration. One that isn't there is fine.
    let section = format!("branch.{branch}");
    repo.call_common("drop a branch's settings").args(["config", "--remove-section", &section]).accept(&[0, 1, 128]).await?;
    Ok(Deleted::Yes { tip })
}
