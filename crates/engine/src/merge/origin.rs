//! Where the work of a worktree starts, by the records of its merges. Only reads.

use super::Bench;
use super::bench::oid;
use crate::fold;
use taskyard_domain::Result;
use taskyard_domain::id::WorktreeId;
use taskyard_domain::merge::{Kind, MergeRecord, State};
use taskyard_git::{Oid, history};

/// The commit that the work starts from that `worktree` merged last, by `records` (oldest first). A merge of work that was
/// taken out before starts for git where that ended; what it brought back counts too. `None` when nothing was merged.
pub(crate) async fn origin(bench: &Bench, records: &[MergeRecord], worktree: WorktreeId) -> Result<Option<Oid>> {
    let merges = records.iter().rev().filter(|r| r.worktree_id == worktree && r.kind == Kind::Merge);
    let mut landed = merges.filter(|r| matches!(r.state, State::Landed | State::Reverted));
    let Some(mut start) = landed.next().and_then(|last| last.merge_base.as_deref()).map(oid).transpose()? else { return Ok(None) };
    for before in landed.take_while(|r| r.state == State::Reverted) {
        let Some(base) = before.merge_base.as_deref().map(oid).transpose()? else { break };
        // Work that was begun anew starts beside what landed before, and has nothing of it.
        let goes_on = history::is_ancestor(&bench.repo, &start, &oid(&before.tip)?).await.map_err(fold::git)?
            && !history::is_ancestor(&bench.repo, &start, &oid(&before.target_before)?).await.map_err(fold::git)?;
        if !goes_on {
            break;
        }
        start = base;
    }
    Ok(Some(start))
}
