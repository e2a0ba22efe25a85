//! A mark that a worktree's folder was furnished: files copied in, submodules filled, setup script run.
//!
//! The mark names the folder it is about. One that was put back later, from the branch or from what git still knew,
//! isn't that folder any more and has to be furnished again.

use crate::error::{Error, Result};
use crate::repo::Repo;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

const MARK: &str = "taskyard-furnished";

/// Whether the folder of `worktree`, as it is now, was furnished.
pub fn is_furnished(worktree: &Repo) -> bool {
    let marked = std::fs::read_to_string(mark(worktree)).ok();
    marked.is_some_and(|marked| identity(worktree).is_ok_and(|now| now == marked))
}

/// Marks the folder of `worktree` as furnished.
///
/// # Errors
/// [`Error::Io`].
pub fn mark_furnished(worktree: &Repo) -> Result<()> {
    let identity = identity(worktree).map_err(Error::io("look at", worktree.root()))?;
    std::fs::write(mark(worktree), identity).map_err(Error::io("write", mark(worktree)))
}

fn mark(worktree: &Repo) -> PathBuf {
    worktree.git_dir().join(MARK)
}

/// What tells a folder from a later one at the same place: its number, which may be given again, and its birth.
fn identity(worktree: &Repo) -> io::Result<String> {
    let folder = std::fs::metadata(worktree.root())?;
    let born = folder.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, |age| age.as_nanos());
    Ok(format!("{} {} {born}\n", folder.dev(), folder.ino()))
}
