//! How a merge that landed is shown.

use super::Concluded;
use serde::{Deserialize, Serialize};
use taskyard_domain::merge::MergeRecord;

/// A merge or revert that landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeView {
    /// The record's UUID.
    pub merge_id: String,
    /// The strategy.
    pub strategy: String,
    /// The branch merged into.
    pub target: String,
    /// Its commit before.
    pub target_before: String,
    /// Its commit after: the merge, squash or last replayed commit, or the revert.
    pub commit: String,
    /// The task branch's tip that was merged; for a revert the commit that was undone.
    pub tip: String,
    /// The merge base.
    pub merge_base: Option<String>,
    /// The worktree.
    pub worktree_id: String,
    /// What became of it: `merged`, or `kept` after a revert.
    pub worktree_state: String,
}

impl From<&Concluded> for MergeView {
    fn from(done: &Concluded) -> Self {
        let MergeRecord { id, strategy, target, target_before, target_after, tip, merge_base, .. } = &done.record;
        Self {
            merge_id: id.to_string(),
            strategy: strategy.to_string(),
            target: target.clone(),
            target_before: target_before.clone(),
            commit: target_after.clone().unwrap_or_default(),
            tip: tip.clone(),
            merge_base: merge_base.clone(),
            worktree_id: done.worktree.id.to_string(),
            worktree_state: done.worktree.state.to_string(),
        }
    }
}
