//! What a merge of two commits would come to, exactly and without effect.
//!
//! Takes commits, not branches: the answer names both, and a merge later can insist on them. Touches no ref,
//! index or worktree; the objects of the trial go into a temporary folder.

use crate::error::Result;
use crate::history;
use crate::merge_tree::{ConflictFile, ObjectStore, merge_tree};
use crate::oid::Oid;
use crate::repo::Repo;
use serde::Serialize;
use std::path::Path;

/// What a merge would come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Whether it merges without conflicts.
    pub clean: bool,
    /// The commit merged into.
    pub target: Oid,
    /// The commit merged.
    pub tip: Oid,
    /// Their merge base.
    pub merge_base: Option<Oid>,
    /// The files in conflict.
    pub files: Vec<ConflictFile>,
    /// How many files of the target would change. A renamed file counts twice.
    pub changed_files: usize,
    /// How many commits the target has that the tip hasn't.
    pub behind: usize,
    /// How many commits the tip has that the target hasn't; 0 means that it is merged already.
    pub ahead: usize,
}

/// Tries merging `tip` into `target`. `scratch` is a folder of ours for temporary objects, made when missing.
///
/// # Errors
/// [`crate::Error::UnrelatedHistories`]; git's, when a commit is missing.
pub async fn preview(repo: &Repo, scratch: &Path, target: &Oid, tip: &Oid) -> Result<Preview> {
    let store = ObjectStore::temporary(repo, scratch)?;
    let (merged, merge_base, distance) = tokio::try_join!(
        merge_tree(repo, &store, None, target, tip),
        history::merge_base(repo, target, tip),
        history::ahead_behind(repo, target, tip),
    )?;
    let changed = history::changed_paths(repo, &store, target, &merged.tree).await?;
    let (behind, ahead) = distance;
    let (target, tip) = (target.clone(), tip.clone());
    Ok(Preview { clean: merged.clean, target, tip, merge_base, files: merged.files, changed_files: changed.len(), behind, ahead })
}
