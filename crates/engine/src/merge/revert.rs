//! Taking a landed merge out again: the same saga as a merge, about the record of one that landed.

use super::bench::oid;
use super::target::Target;
use super::{Bench, Concluded, Place, unchanged};
use crate::{Caller, Engine};
use serde_json::json;
use taskyard_domain::id::{MergeId, WorktreeId};
use taskyard_domain::merge::{Kind, MergeRecord, State};
use taskyard_domain::task::Status;
use taskyard_domain::{Error, Result};

impl Engine {
    /// Undoes the merge of a worktree on `target`, by default the branch it went to. Goes on to its end even when
    /// the caller stops waiting.
    pub(crate) async fn revert_worktree(&self, caller: &Caller, worktree: WorktreeId, target: Option<String>) -> Result<Concluded> {
        let (engine, caller) = (self.clone(), caller.clone());
        self.unbroken(async move { engine.revert_now(&caller, worktree, target.as_deref()).await }).await
    }

    async fn revert_now(&self, caller: &Caller, worktree: WorktreeId, target: Option<&str>) -> Result<Concluded> {
        let _asking = self.merges_asked().ask();
        let gone = || Error::not_found("worktree", worktree);
        let before = self.place_of(worktree).await?.ok_or_else(gone)?;
        let bench = self.bench(&before.repository).await?;
        let _turn = bench.turn().await;
        if let Some(done) = self.settle_worktree(&bench, worktree).await?
            && done.record.kind == Kind::Revert
        {
            return Ok(done);
        }
        let place = self.place_of(worktree).await?.ok_or_else(gone)?;
        let record = self.begin_revert(caller, &bench, &place, target).await.map_err(unchanged)?;
        self.finish_prepared(caller, &bench, record, &place.worktree.branch).await
    }

    /// Checks everything and writes the intent. The caller holds the repository's turn.
    pub(super) async fn begin_revert(&self, caller: &Caller, bench: &Bench, place: &Place, target: Option<&str>) -> Result<MergeRecord> {
        let merged = landed(place)?;
        let target = Target::named(bench, place, target.unwrap_or(&merged.target)).await?;
        let lost = || Error::internal(format!("the merge {} landed without a commit", merged.id));
        let after = merged.target_after.as_deref().ok_or_else(lost)?;
        let task = place.task();
        let subject = format!("{}: {}", task.short_id, task.title);
        let record = MergeRecord {
            id: MergeId::new(self.ids()),
            unit_id: None,
            workspace_id: merged.workspace_id,
            task_id: merged.task_id,
            worktree_id: merged.worktree_id,
            kind: Kind::Revert,
            reverts: Some(merged.id),
            state: State::Prepared,
            strategy: merged.strategy,
            target: target.branch,
            target_before: target.tip.to_string(),
            target_after: None,
            tip: after.to_owned(),
            merge_base: None,
            message: Some(taskyard_git::revert::default_message(&subject, &oid(after)?)),
            merge_worktree_path: None,
            actor: caller.actor.label(),
            is_approval: false,
            created_at: self.now(),
            landed_at: None,
        };
        self.write_intent(caller, record).await
    }
}

fn named(merged: &MergeRecord) -> &str {
    merged.target_after.as_deref().unwrap_or("a commit that wasn't recorded")
}

fn standing(merged: &MergeRecord) -> serde_json::Value {
    json!({ "worktree_id": merged.worktree_id, "commit": merged.target_after, "target": merged.target })
}

/// The merge of this worktree that is in its target now.
fn landed(place: &Place) -> Result<&MergeRecord> {
    let short = &place.task().short_id;
    let own = || place.records.iter().rev().filter(|r| r.worktree_id == place.worktree.id);
    if let Some(merged) = own().find(|r| r.kind == Kind::Merge && r.state == State::Landed) {
        return Ok(merged);
    }
    // Of earlier work in a worktree of its own: another merge, which only its name can mean.
    let earlier =
        place.records.iter().rev().find(|r| r.worktree_id != place.worktree.id && r.kind == Kind::Merge && r.state == State::Landed);
    let undo_earlier = "revert_merge(worktree_id) undoes the earlier one while the task is done";
    if let Some(revert) = own().find(|r| r.kind == Kind::Revert && r.state == State::Landed) {
        let details = json!({ "revert_commit": revert.target_after, "target": revert.target, "reverted_at": revert.landed_at, "earlier": earlier.map(standing) });
        let (also, hint) = match earlier {
            Some(earlier) => (format!("; that of its earlier work, {}, stands", named(earlier)), undo_earlier),
            None => {
                (String::new(), "review_task or merge_task merges the work again; review_task(reject_rerun) has the agent go on with it")
            }
        };
        return Err(Error::precondition(format!("the merge of {short} is already reverted{also}")).with_details(details).with_hint(hint));
    }
    if let Some(earlier) = earlier {
        let text = format!("what {short} works on now isn't merged; its earlier work is, as {}", named(earlier));
        return Err(Error::precondition(text).with_details(json!({ "earlier": standing(earlier) })).with_hint(undo_earlier));
    }
    let status = place.task().status;
    let why = if status == Status::Done { "it was done without a merge" } else { "it wasn't merged" };
    Err(Error::precondition(format!("there is no recorded merge of {short} to revert: {why}")))
}
