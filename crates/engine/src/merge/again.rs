//! Work that was merged before and taken out again: git counts it as merged and would leave it out without a word.

use super::Bench;
use super::bench::oid;
use super::target::Target;
use crate::fold;
use taskyard_domain::Result;
use taskyard_domain::merge::{Kind, MergeRecord, State};
use taskyard_git::history;
use taskyard_git::revert::Earlier;

/// The last merge among `records` (oldest first) whose revert the target still contains; `None` for work that was
/// never merged there, or is in it.
pub(super) async fn earlier(bench: &Bench, records: &[MergeRecord], target: &Target) -> Result<Option<Earlier>> {
    let reverts = records.iter().rev().filter(|r| r.kind == Kind::Revert && r.state == State::Landed);
    for revert in reverts {
        let undone = records.iter().find(|r| Some(r.id) == revert.reverts && r.state == State::Reverted);
        let (Some(undone), Some(commit)) = (undone, revert.target_after.as_deref()) else { continue };
        let commit = oid(commit)?;
        if history::contains(&bench.repo, &target.branch, &commit).await.map_err(fold::git)? {
            return Ok(Some(Earlier { tip: oid(&undone.tip)?, revert: commit }));
        }
    }
    Ok(None)
}
