//! Work that was merged before and taken out again: git counts it as merged and would leave it out without a word.

use super::Bench;
use super::bench::oid;
use super::target::Target;
use crate::fold;
use taskyard_domain::Result;
use taskyard_domain::id::WorktreeId;
use taskyard_domain::merge::{Kind, MergeRecord, State};
use taskyard_git::revert::Earlier;
use taskyard_git::{Oid, history};

/// The last merge of `worktree` among `records` (oldest first) whose revert the target still contains. `None` for work
/// that was never merged there, is in it, or was begun anew.
pub(super) async fn earlier(
    bench: &Bench,
    records: &[MergeRecord],
    worktree: WorktreeId,
    target: &Target,
    tip: &Oid,
) -> Result<Option<Earlier>> {
    let reverts = records.iter().rev().filter(|r| r.worktree_id == worktree && r.kind == Kind::Revert && r.state == State::Landed);
    for revert in reverts {
        let undone = records.iter().find(|r| Some(r.id) == revert.reverts && r.state == State::Reverted);
        let (Some(undone), Some(commit)) = (undone, revert.target_after.as_deref()) else { continue };
        let commit = oid(commit)?;
        if !history::contains(&bench.repo, &target.branch, &commit).await.map_err(fold::git)? {
            continue;
        }
        let (landed, before) = (oid(&undone.tip)?, oid(&undone.target_before)?);
        let goes_on = goes_on(bench, tip, &commit, &landed, &before).await?;
        let subject = revert.message.as_deref().and_then(taskyard_git::revert::subject).unwrap_or("work merged before");
        return Ok(goes_on.then(|| Earlier { tip: landed, before, revert: commit, subject: subject.to_owned() }));
    }
    Ok(None)
}

/// Whether `tip` still has commits of the work that landed up to `landed` onto `before`. A branch that has taken in
/// the revert itself was made with it in sight: what it holds is what is meant.
async fn goes_on(bench: &Bench, tip: &Oid, revert: &Oid, landed: &Oid, before: &Oid) -> Result<bool> {
    if history::is_ancestor(&bench.repo, revert, tip).await.map_err(fold::git)? {
        return Ok(false);
    }
    let Some(shared) = history::merge_base(&bench.repo, tip, landed).await.map_err(fold::git)? else { return Ok(false) };
    Ok(!history::is_ancestor(&bench.repo, &shared, before).await.map_err(fold::git)?)
}
