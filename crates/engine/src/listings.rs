//! Listings of diffs between two commits, kept for the pages after the first one.
//!
//! What lies between two commits never changes, so nothing here can be out of date. Bounded; in memory only.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use taskyard_git::diff::{Diff, FileChange};

/// Most files in all listings together; the newest listing is kept whatever its size, up to [`LARGEST`].
const FILES: usize = 50_000;
/// Most listings.
const LISTINGS: usize = 32;
/// Most files of one listing that is kept.
const LARGEST: usize = 200_000;

/// Which diff: repository, start, end.
type Key = (PathBuf, String, String);
type Files = Arc<Vec<FileChange>>;

/// The listings, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Listings(Mutex<VecDeque<(Key, Files)>>);

impl Listings {
    /// The files of `diff`, if they are known.
    pub(crate) fn get(&self, diff: &Diff) -> Option<Files> {
        let key = key(diff)?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|(known, _)| *known == key)?;
        let found = all.remove(at)?;
        let files = found.1.clone();
        all.push_back(found);
        Some(files)
    }

    /// Keeps the files of `diff` where it is one between commits.
    pub(crate) fn keep(&self, diff: &Diff, files: &Files) {
        let Some(key) = key(diff).filter(|_| files.len() <= LARGEST) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _)| *known != key);
        all.push_back((key, files.clone()));
        let mut sum: usize = all.iter().map(|(_, files)| files.len()).sum();
        while all.len() > LISTINGS || (sum > FILES && all.len() > 1) {
            sum -= all.pop_front().map_or(0, |(_, files)| files.len());
        }
    }
}

fn key(diff: &Diff) -> Option<Key> {
    (!diff.uncommitted).then(|| (diff.common_dir().to_owned(), diff.base.to_string(), diff.tip.to_string()))
}
