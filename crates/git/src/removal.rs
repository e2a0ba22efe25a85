//! Removing a worktree's folder without losing anything.
//!
//! The branch always stays. A folder with anything unsaved is refused, or snapshotted first; one with a live process
//! inside is always refused. The folder is moved aside in one step before it is deleted, so a crash can't leave
//! a half-deleted worktree that looks modified. Links are removed, never followed.

use crate::error::{Error, Result};
use crate::fs::{occupied, remove_tree};
use crate::isolation;
use crate::repo::Repo;
use crate::runner::Identity;
use crate::snapshot::{self, Snapshot};
use crate::unsaved::{Known, unsaved};
use crate::worktree::{admin_dir, resolved, restore_lost, unregister};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Name of the mark in the private git folder of a worktree that is being deleted.
const LEAVING: &str = "taskyard-leaving";

/// How to remove.
#[derive(Debug, Clone)]
pub struct Removal<'a> {
    /// The worktree's folder.
    pub path: &'a Path,
    /// What is known about it.
    pub known: Known<'a>,
    /// Name of a snapshot to take of what is unsaved, and by whom; without one anything unsaved refuses.
    pub snapshot: Option<(&'a str, &'a Identity)>,
}

/// What removing came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Whether there was something to remove.
    pub existed: bool,
    /// The snapshot that was taken.
    pub snapshot: Option<Snapshot>,
}

/// Removes a worktree: folder and registration, submodules or not. Doing it again is fine. `repo` is opened anywhere
/// but in the worktree itself. Takes the repository's lock.
///
/// # Errors
/// [`Error::Unsaved`] with what would be lost; [`Error::Isolation`] when the folder isn't a worktree of this
/// repository; [`Error::Io`]; git's. Nothing has changed then, but a snapshot may have been taken.
pub async fn remove(repo: &Repo, removal: &Removal<'_>) -> Result<Removed> {
    let _lock = repo.lock().await;
    let place = resolved(removal.path);
    let aside = aside(&place);
    let Some(admin) = admin_dir(repo, &place) else {
        remove_tree(&aside).await?;
        if occupied(&place) {
            return Err(Error::Isolation { path: place, reason: "it is not a worktree of this repository".into() });
        }
        return Ok(Removed { existed: false, snapshot: None });
    };
    let mut taken = None;
    let leaving = admin.join(LEAVING);
    if !leaving.exists() || occupied(&place) {
        if !occupied(&place) {
            restore_lost(repo, &place).await?;
        }
        taken = saved(repo, &place, &admin, removal).await?;
        std::fs::write(&leaving, "").map_err(Error::io("write", &leaving))?;
        remove_tree(&aside).await?;
        if let Err(source) = std::fs::rename(&place, &aside) {
            let _ = std::fs::remove_file(&leaving);
            return Err(Error::Io { action: "move aside", path: place, source });
        }
    }
    remove_tree(&aside).await?;
    unregister(repo, &admin).await?;
    Ok(Removed { existed: true, snapshot: taken })
}

/// Whether a removal of the worktree at `path` had begun and wasn't ended, or was ended: its folder is gone, and git knows
/// nothing of it or that it is leaving. A folder that its user deleted, and that git still knows, is none.
pub fn was_cut_off(repo: &Repo, path: &Path) -> bool {
    let place = resolved(path);
    !occupied(&place) && admin_dir(repo, &place).is_none_or(|admin| admin.join(LEAVING).exists())
}

/// Makes sure that nothing is lost, by a snapshot where one is wanted.
async fn saved(repo: &Repo, place: &Path, admin: &Path, removal: &Removal<'_>) -> Result<Option<Snapshot>> {
    let tree = isolation::verified(repo, place, None).await?;
    let refused = |what: String| Error::Unsaved { path: place.to_owned(), what };
    if let Ok(why) = std::fs::read_to_string(admin.join("locked")) {
        return Err(refused(format!("it is locked: {}", why.trim())));
    }
    let found = unsaved(&tree, removal.known).await?;
    match removal.snapshot {
        _ if found.is_empty() => Ok(None),
        Some((id, who)) if found.processes.is_empty() => snapshot::take(&tree, id, who, removal.known).await.map(Some),
        _ => Err(refused(found.describe())),
    }
}

/// Where the folder is moved before it is deleted.
fn aside(place: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".removing-");
    name.push(place.file_name().unwrap_or_default());
    place.with_file_name(name)
}
