//! Work of a task that no merge has taken, looked for before the task is called done without one. Only asks.

use super::target::Target;
use super::{Bench, Place};
use crate::{Engine, fold};
use serde_json::json;
use taskyard_domain::id::{SnapshotId, WorktreeId};
use taskyard_domain::merge::Snapshot;
use taskyard_domain::task::Task;
use taskyard_domain::worktree::{State, Worktree};
use taskyard_domain::{Error, Result};
use taskyard_git::{Oid, history};
use taskyard_store::WorktreeFilter;

impl Engine {
    /// Refuses while a branch of the task holds commits that the target lacks. `merged` was looked at already; of what
    /// was put aside only the last counts: what came after it was made instead.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` naming branch and snapshots with the way out; git's.
    pub(crate) async fn check_nothing_left(&self, task: &Task, merged: Option<WorktreeId>, target: Option<&str>) -> Result<()> {
        let filter = WorktreeFilter { task: Some(task.id), ..WorktreeFilter::default() };
        let all = self.store().read(move |read| Box::pin(async move { read.worktree_list(filter).await })).await?;
        let last = all.last().map(|worktree| worktree.id);
        let counts = |worktree: &Worktree| match worktree.state {
            State::Active | State::Kept => Some(worktree.id) != merged,
            State::Discarded => Some(worktree.id) == last,
            State::Merged => false,
        };
        for worktree in all.iter().filter(|worktree| counts(worktree)) {
            if self.repository_is_gone(worktree.repository_id).await? {
                continue;
            }
            let Some(place) = self.place_of(worktree.id).await? else { continue };
            let bench = self.bench(&place.repository).await?;
            if let Some((tip, target)) = left(&bench, &place, target).await? {
                return Err(self.left_over(&place, &tip, &target).await?);
            }
        }
        Ok(())
    }

    async fn left_over(&self, place: &Place, tip: &Oid, target: &Target) -> Result<Error> {
        let task = place.task().id;
        let snapshots = self.store().read(move |read| Box::pin(async move { read.snapshot_list(Some(task), None).await })).await?;
        let worktree = &place.worktree;
        let snapshots: Vec<SnapshotId> = snapshots.iter().filter(|s| s.worktree_id == Some(worktree.id)).map(|s: &Snapshot| s.id).collect();
        let (branch, into) = (&worktree.branch, &target.branch);
        let (what, hint) = if worktree.state == State::Discarded {
            let restore = snapshots.first().map(|id| format!("restore_snapshot({id}) brings back what was unsaved; ")).unwrap_or_default();
            let merge = format!("merge {branch} into {into} with git and approve again, or have the agent go on with reject_rerun; ");
            (" (its worktree was discarded)", format!("{merge}{restore}update_task_status(done) finishes without it"))
        } else {
            ("", format!("merge_task(worktree_id: {}) merges it", worktree.id))
        };
        let short = &place.task().short_id;
        Ok(Error::precondition(format!("{short} has work that isn't in {into}: it is on the branch {branch}{what}"))
            .with_details(json!({ "branch": branch, "commit": tip, "target": into, "worktree_id": worktree.id, "snapshot_ids": snapshots }))
            .with_hint(hint))
    }
}

/// The tip of a worktree's branch and the target that lacks it; `None` when nothing is missing there.
async fn left(bench: &Bench, place: &Place, target: Option<&str>) -> Result<Option<(Oid, Target)>> {
    let worktree = &place.worktree;
    let Some(tip) = bench.branch_tip(&worktree.branch).await?.filter(|tip| tip.as_str() != worktree.base_commit) else { return Ok(None) };
    let target = place.target(bench, target).await?;
    let contained = history::is_ancestor(&bench.repo, &tip, &target.tip).await.map_err(fold::git)?;
    Ok((!contained).then_some((tip, target)))
}
