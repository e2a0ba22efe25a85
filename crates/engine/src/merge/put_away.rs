//! Removing a worktree's folder: refused while anything in it is unsaved, or snapshotted first.

use super::begin::{in_the_way, unfinished};
use super::{Bench, Place};
use crate::{Caller, Engine, change, fold};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind as EventKind, NewEvent};
use taskyard_domain::id::{RepositoryId, RunId, SnapshotId, TaskId, WorktreeId};
use taskyard_domain::merge::{self, Snapshot};
use taskyard_domain::task::Status;
use taskyard_domain::worktree::{State, Worktree};
use taskyard_domain::{Error, Result};
use taskyard_git::refs::Deleted;
use taskyard_git::removal::{self, Removal};
use taskyard_git::unsaved::{Known, unsaved};
use taskyard_git::worktree::{self, Plan};
use taskyard_git::{history, refs, snapshot};
use taskyard_store::{Tx, WorktreeFilter};

/// What happens to work that would be lost.
#[derive(Debug, Clone)]
pub(crate) enum Loss {
    /// The removal is refused.
    Refuse,
    /// A snapshot is taken first, for this reason.
    Snapshot(String),
}

/// A worktree that was put away.
#[derive(Debug, Clone)]
pub(crate) struct Aside {
    /// Its row now.
    pub worktree: Worktree,
    /// The snapshot of what was unsaved.
    pub snapshot: Option<Snapshot>,
    /// Whether its branch went too, because another ref has everything of it.
    pub branch_deleted: bool,
}

/// The worktree of a task that was approved with nothing to merge, as both were then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Release {
    /// The worktree.
    pub worktree_id: WorktreeId,
    /// The task's last run.
    pub last_run: Option<RunId>,
    /// The commit with nothing to merge.
    pub tip: String,
}

impl Engine {
    /// Effect: puts away the worktree of a task that was done with nothing to merge. What has changed since the
    /// approval is somebody's, and then nothing happens; nothing happens either to what is gone already.
    pub(crate) async fn release_worktree(&self, release: &Release) -> Result<()> {
        let (engine, release) = (self.clone(), release.clone());
        self.unbroken(async move { engine.release_now(&release).await }).await
    }

    async fn release_now(&self, release: &Release) -> Result<()> {
        let Some(before) = self.place_of(release.worktree_id).await? else { return Ok(()) };
        if self.repository_is_gone(before.repository.id).await? {
            return Ok(());
        }
        let bench = self.bench(&before.repository).await?;
        let _turn = bench.turn().await;
        let _ground = self.ground_turn(before.task().id).await;
        let Some(place) = self.place_of(release.worktree_id).await? else { return Ok(()) };
        let (task, state) = (place.task(), place.worktree.state);
        let tip = bench.branch_tip(&place.worktree.branch).await?;
        let is_same = matches!(state, State::Active | State::Kept) && tip.is_none_or(|tip| tip.as_str() == release.tip);
        let id = task.id;
        let last = self.store().read(move |read| Box::pin(async move { read.run_latest_for_task(id).await })).await?;
        let is_idle = last.map(|run| run.id) == release.last_run && !place.records.iter().any(unfinished);
        if task.status != Status::Done || !is_same || !is_idle {
            tracing::info!(path = %place.worktree.path, "its task has gone on since the approval, so the worktree stays");
            return Ok(());
        }
        self.put_away_within(&bench, &Caller::system(), place, Loss::Snapshot("its task was done with nothing to merge".into()))
            .await
            .map(|_| ())
    }

    /// Puts away the worktrees of a task that is being deleted. Snapshots what is unsaved; a branch with work of its
    /// own stays.
    pub(crate) async fn release_task(&self, caller: &Caller, task: TaskId) -> Result<()> {
        let filter = WorktreeFilter { task: Some(task), ..WorktreeFilter::default() };
        let all = self.store().read(move |read| Box::pin(async move { read.worktree_list(filter).await })).await?;
        for worktree in all.into_iter().filter(|w| w.has_folder || w.state == State::Active) {
            if self.repository_is_gone(worktree.repository_id).await? {
                tracing::warn!(path = %worktree.path, "its repository is gone, so a worktree's folder stays as it is");
                continue;
            }
            self.put_away(caller, worktree.id, Loss::Snapshot("its task was deleted".into())).await?;
        }
        Ok(())
    }

    /// Whether nothing is left of a repository that a worktree could be removed from.
    pub(super) async fn repository_is_gone(&self, id: RepositoryId) -> Result<bool> {
        let repository = self.store().read(move |read| Box::pin(async move { read.repository_fetch(id).await })).await?;
        Ok(repository.and_then(|r| r.local_path).is_none_or(|path| !Path::new(&path).exists()))
    }

    /// Removes a worktree's folder. Again: changes nothing more. Goes on to its end even when the caller stops waiting.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` with what would be lost, for a live process inside, an open run or an open merge.
    pub(crate) async fn put_away(&self, caller: &Caller, worktree: WorktreeId, loss: Loss) -> Result<Aside> {
        let (engine, caller) = (self.clone(), caller.clone());
        self.unbroken(async move { engine.put_away_now(&caller, worktree, loss).await }).await
    }

    async fn put_away_now(&self, caller: &Caller, worktree: WorktreeId, loss: Loss) -> Result<Aside> {
        let gone = || Error::not_found("worktree", worktree);
        let before = self.place_of(worktree).await?.ok_or_else(gone)?;
        let bench = self.bench(&before.repository).await?;
        let _turn = bench.turn().await;
        let _ground = self.ground_turn(before.task().id).await;
        self.settle_worktree(&bench, worktree).await?;
        let place = self.place_of(worktree).await?.ok_or_else(gone)?;
        self.put_away_within(&bench, caller, place, loss).await
    }

    /// The same within the turns of the repository and of the task's ground. A run that is opened from here on waits
    /// for the latter, and then finds what is left.
    async fn put_away_within(&self, bench: &Bench, caller: &Caller, place: Place, loss: Loss) -> Result<Aside> {
        self.check_unused(&place).await?;
        self.end_leftovers(place.task().id).await?;
        let has_work = has_own_commits(bench, &place).await?;
        let snapshot = self.remove_folder(bench, &place, &loss).await?;
        let worktree = &place.worktree;
        let branch_deleted = if has_work && worktree.state != State::Merged {
            false
        } else {
            let deleted = refs::delete_branch_if_reached(&bench.repo, &worktree.branch).await.map_err(fold::git)?;
            matches!(deleted, Deleted::Yes { .. })
        };
        let state = match worktree.state {
            State::Active if matches!(loss, Loss::Snapshot(_)) || !has_work => State::Discarded,
            State::Kept if matches!(loss, Loss::Snapshot(_)) => State::Discarded,
            state => state,
        };
        self.record_removal(caller, &place, state, snapshot, branch_deleted).await
    }

    async fn check_unused(&self, place: &Place) -> Result<()> {
        let open = place.records.iter().find(|r| r.worktree_id == place.worktree.id && r.state == merge::State::Open);
        if let Some(open) = open {
            return Err(in_the_way(open));
        }
        let task = place.task().id;
        let run = self.store().read(move |read| Box::pin(async move { read.run_open_for_task(task).await })).await?;
        let Some(run) = run else { return Ok(()) };
        Err(Error::precondition(format!("{} has an open run that may be working in its worktree", place.task().short_id))
            .with_details(json!({ "run_id": run.id, "state": run.state }))
            .with_hint("wait for its end, or cancel_task"))
    }

    /// Removes folder and registration; gives the snapshot that keeps what was unsaved.
    async fn remove_folder(&self, bench: &Bench, place: &Place, loss: &Loss) -> Result<Option<Snapshot>> {
        let worktree = &place.worktree;
        let (path, copied) = (Path::new(&worktree.path), crate::facts::copied(worktree));
        let known = Known { branch: Some(&worktree.branch), copied: &copied };
        let name = worktree.id.to_string();
        let author = self.author(&bench.repository, &bench.repo).await?;
        let snapshot = match loss {
            Loss::Refuse => None,
            Loss::Snapshot(_) => Some((name.as_str(), &author.who)),
        };
        if let Some(tree) = place.tree(bench).await? {
            let found = unsaved(&tree, known).await.map_err(fold::git)?;
            let lost = !found.is_empty() && (snapshot.is_none() || !found.processes.is_empty());
            if lost {
                let what = found.describe();
                let error = taskyard_git::Error::Unsaved { path: path.to_owned(), what };
                return Err(fold::git(error));
            }
            self.run_cleanup(bench, worktree).await?;
        }
        removal::remove(&bench.repo, &Removal { path, known, snapshot }).await.map_err(fold::git)?;
        let reason = match loss {
            Loss::Refuse => "its removal was cut off",
            Loss::Snapshot(reason) => reason,
        };
        self.snapshot_row(bench, place, &name, reason).await
    }

    /// Ends the removals that a crash cut off: what git has done is recorded, with the snapshot that was taken. A worktree
    /// with commits of its own can be merged afterwards. For the start alone: what is being removed looks the same.
    ///
    /// # Errors
    /// When the store can't be read.
    pub(super) async fn finish_removals(&self) -> Result<()> {
        let all = self.store().read(|read| Box::pin(async move { read.worktree_list(WorktreeFilter::default()).await })).await?;
        for worktree in all.into_iter().filter(|w| w.has_folder && !Path::new(&w.path).exists()) {
            if let Err(error) = self.finish_removal(worktree.id).await {
                tracing::warn!(path = %worktree.path, %error, "a removal that was cut off can't be ended now");
            }
        }
        Ok(())
    }

    async fn finish_removal(&self, id: WorktreeId) -> Result<()> {
        let Some(place) = self.place_of(id).await? else { return Ok(()) };
        let bench = self.bench(&place.repository).await?;
        // A worktree that was about to move looks removed, too.
        let plan = Plan { path: place.worktree.path.clone().into(), branch: place.worktree.branch.clone() };
        if worktree::finish_move(&bench.repo, &plan).await.map_err(fold::git)? {
            return Ok(());
        }
        if removal::was_cut_off(&bench.repo, Path::new(&place.worktree.path)) {
            self.put_away(&Caller::system(), id, Loss::Refuse).await?;
        }
        Ok(())
    }

    /// The row for the snapshot `name`, if there is one: taken now, or by an attempt that a crash cut off.
    async fn snapshot_row(&self, bench: &Bench, place: &Place, name: &str, reason: &str) -> Result<Option<Snapshot>> {
        let taken = snapshot::list(&bench.repo).await.map_err(fold::git)?.into_iter().find(|s| s.id == name);
        let Some(taken) = taken else { return Ok(None) };
        Ok(Some(Snapshot {
            id: SnapshotId::new(self.ids()),
            workspace_id: place.worktree.workspace_id,
            repository_id: place.repository.id,
            task_id: Some(place.worktree.task_id),
            worktree_id: Some(place.worktree.id),
            ref_name: snapshot::snapshot_ref(name).map_err(fold::git)?,
            commit: taken.oid.to_string(),
            reason: reason.to_owned(),
            created_at: self.now(),
            restored_to: None,
        }))
    }

    async fn record_removal(
        &self,
        caller: &Caller,
        place: &Place,
        state: State,
        snapshot: Option<Snapshot>,
        branch_deleted: bool,
    ) -> Result<Aside> {
        let (caller, id) = (caller.clone(), place.worktree.id);
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let mut worktree = tx.worktree_lock(id).await?.ok_or_else(|| Error::not_found("worktree", id))?;
                    let snapshot = keep_row(tx, &caller, snapshot).await?;
                    if worktree.has_folder || worktree.state != state {
                        worktree.has_folder = false;
                        worktree.state = state;
                        worktree.updated_at = tx.now();
                        tx.worktree_update(&worktree).await?;
                        let data = json!({ "worktree_id": worktree.id, "state": state, "branch": worktree.branch, "has_folder": false });
                        tx.event(NewEvent::new(worktree.workspace_id, EventKind::WorktreeChanged).task(worktree.task_id).data(data));
                        let metadata = json!({
                            "task_id": worktree.task_id, "path": worktree.path, "branch": worktree.branch, "branch_deleted": branch_deleted,
                            "snapshot_id": snapshot.as_ref().map(|s| s.id),
                        });
                        change::audit(tx, &caller, worktree.workspace_id, Action::WorktreeRemoved, About::from(&worktree), metadata)
                            .await?;
                    }
                    Ok(Aside { worktree, snapshot, branch_deleted })
                })
            })
            .await
    }
}

/// Stores a snapshot's row unless there is one of the same ref and commit.
pub(super) async fn keep_row(tx: &mut Tx, caller: &Caller, snapshot: Option<Snapshot>) -> Result<Option<Snapshot>> {
    let Some(snapshot) = snapshot else { return Ok(None) };
    let known = tx.snapshot_list(None, Some(snapshot.repository_id)).await?;
    if let Some(known) = known.into_iter().find(|s| s.ref_name == snapshot.ref_name && s.commit == snapshot.commit) {
        return Ok(Some(known));
    }
    tx.snapshot_insert(&snapshot).await?;
    let data = json!({ "snapshot_id": snapshot.id, "ref": snapshot.ref_name, "commit": snapshot.commit });
    let event = NewEvent::new(snapshot.workspace_id, EventKind::SnapshotTaken).data(data);
    tx.event(match snapshot.task_id {
        Some(task) => event.task(task),
        None => event,
    });
    let metadata = json!({ "ref": snapshot.ref_name, "commit": snapshot.commit, "reason": snapshot.reason });
    let about = About::Snapshot(snapshot.id, snapshot.task_id);
    change::audit(tx, caller, snapshot.workspace_id, Action::SnapshotTaken, about, metadata).await?;
    Ok(Some(snapshot))
}

/// Whether the branch holds commits that neither where it came from nor the default branch has.
async fn has_own_commits(bench: &Bench, place: &Place) -> Result<bool> {
    let Some(tip) = bench.branch_tip(&place.worktree.branch).await? else { return Ok(false) };
    let branches = [place.worktree.base_branch.as_deref(), bench.repository.default_branch.as_deref()];
    for branch in branches.into_iter().flatten() {
        if history::contains(&bench.repo, branch, &tip).await.map_err(fold::git)? {
            return Ok(false);
        }
    }
    Ok(tip.as_str() != place.worktree.base_commit)
}
