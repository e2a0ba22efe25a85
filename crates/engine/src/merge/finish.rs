//! Tidying up after a merge: folder, branch and private refs go where nothing is lost by it.

use super::{Bench, Place};
use crate::{Caller, Engine, change, fold};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind as EventKind, NewEvent};
use taskyard_domain::id::MergeId;
use taskyard_domain::merge::{Kind, MergeRecord, State};
use taskyard_domain::worktree::{self, Worktree};
use taskyard_domain::{Class, Error, Result};
use taskyard_git::script::{Script, run_script};
use taskyard_git::unsaved::Known;
use taskyard_git::{Error as Git, refs, removal};

/// The variable that marks the processes of a cleanup script; its value is the worktree's id.
const CLEANUP_MARK: &str = "TASKYARD_CLEANUP_ID";
/// How much of a cleanup script's output its log keeps, bytes.
const LOG_LIMIT: u64 = 1 << 20;

impl Engine {
    /// Effect: tidies up after a landed merge or revert. Again, or after the merge was reverted: changes nothing more.
    pub(crate) async fn finish_merge(&self, id: MergeId) -> Result<()> {
        let record = self.store().read(move |read| Box::pin(async move { read.merge_fetch(id).await })).await?;
        let Some(record) = record else { return Ok(()) };
        let Some(place) = self.place_of(record.worktree_id).await? else { return Ok(()) };
        let bench = self.bench(&place.repository).await?;
        let _turn = bench.turn().await;
        self.take_away(&Caller::system(), &bench, &record, true).await?;
        taskyard_git::record::release(&bench.repo, &id.to_string()).await.map_err(fold::git)?;
        // Read within the turn: a revert may have made the worktree `kept` meanwhile, which keeps branch and folder.
        let Some(place) = self.place_of(record.worktree_id).await? else { return Ok(()) };
        let landed = |r: &&MergeRecord| r.worktree_id == record.worktree_id && r.state == State::Landed;
        let is_last = place.records.iter().rev().find(landed).is_some_and(|last| last.id == id);
        if record.kind == Kind::Revert || !is_last || place.worktree.state != worktree::State::Merged {
            return Ok(());
        }
        if self.remove_merged(&bench, &place).await? {
            let deleted = refs::delete_branch_if_reached(&bench.repo, &place.worktree.branch).await.map_err(fold::git)?;
            tracing::debug!(branch = %place.worktree.branch, ?deleted, "the branch of a merged task");
        }
        Ok(())
    }

    /// Removes the folder unless something in it is unsaved; says whether it is gone.
    async fn remove_merged(&self, bench: &Bench, place: &Place) -> Result<bool> {
        let worktree = &place.worktree;
        let copied = crate::facts::copied(worktree);
        let known = Known { branch: Some(&worktree.branch), copied: &copied };
        let tree = match place.tree(bench).await {
            Err(error) if error.class != Class::Unavailable => {
                tracing::warn!(path = %worktree.path, %error, "a merged worktree's folder is not what it was, and stays");
                return Ok(false);
            }
            tree => tree?,
        };
        // The removal itself looks for what is unsaved; before it only a script must not run over it.
        if let Some(tree) = tree.filter(|_| has_cleanup(bench)) {
            let unsaved = taskyard_git::unsaved::unsaved(&tree, known).await.map_err(fold::git)?;
            if !unsaved.is_empty() {
                tracing::info!(path = %worktree.path, unsaved = %unsaved.describe(), "a merged worktree's folder stays");
                return Ok(false);
            }
            self.run_cleanup(bench, worktree).await?;
        }
        let path = PathBuf::from(&worktree.path);
        let removed = removal::remove(&bench.repo, &removal::Removal { path: &path, known, snapshot: None }).await;
        match removed {
            Ok(_) => {
                self.folder_gone(worktree.clone()).await?;
                Ok(true)
            }
            Err(Git::Unsaved { what, .. }) => {
                tracing::info!(path = %worktree.path, unsaved = %what, "a merged worktree's folder stays");
                Ok(false)
            }
            Err(error) => Err(fold::git(error)),
        }
    }

    /// Runs the repository's cleanup script in the worktree. A script that fails is logged and stops nothing.
    pub(super) async fn run_cleanup(&self, bench: &Bench, worktree: &Worktree) -> Result<()> {
        let Some(script) = bench.repository.cleanup_script.as_deref().filter(|_| has_cleanup(bench)) else { return Ok(()) };
        let settings = self.store().read(|read| Box::pin(async move { read.settings_fetch().await })).await?;
        let limit = Duration::from_secs(u64::try_from(settings.script_limit).unwrap_or(600));
        let folder = Path::new(&worktree.path);
        // By the mark whatever the script leaves running is found and ended, however far it got away.
        let (mark, id) = (CLEANUP_MARK, worktree.id.to_string());
        let env = self.environment().without_agents().with("TASKYARD_TASK_ID", worktree.task_id.to_string());
        let script = Script {
            name: "cleanup",
            text: script,
            folder,
            env: env.with("TASKYARD_WORKTREE", folder).with(mark, &id),
            log: &self.paths().cleanup_log(worktree.id),
            log_limit: LOG_LIMIT,
            time_limit: limit,
            marker: Some(format!("{mark}={id}")),
        };
        if let Err(error) = run_script(&script).await {
            tracing::warn!(path = %worktree.path, %error, "the cleanup script failed");
        }
        Ok(())
    }

    /// Records that a worktree's folder is gone.
    pub(super) async fn folder_gone(&self, worktree: Worktree) -> Result<()> {
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let gone = || Error::not_found("worktree", worktree.id);
                    let mut row = tx.worktree_lock(worktree.id).await?.ok_or_else(gone)?;
                    if !row.has_folder {
                        return Ok(());
                    }
                    row.has_folder = false;
                    row.updated_at = tx.now();
                    tx.worktree_update(&row).await?;
                    let data = json!({ "worktree_id": row.id, "state": row.state, "branch": row.branch, "has_folder": false });
                    tx.event(NewEvent::new(row.workspace_id, EventKind::WorktreeChanged).task(row.task_id).data(data));
                    let metadata = json!({ "path": row.path, "branch": row.branch, "reason": "its work is merged" });
                    change::audit(tx, &Caller::system(), row.workspace_id, Action::WorktreeRemoved, About::from(&row), metadata).await
                })
            })
            .await
    }
}

/// Whether the repository has a cleanup script.
pub(super) fn has_cleanup(bench: &Bench) -> bool {
    bench.repository.cleanup_script.as_deref().is_some_and(|script| !script.trim().is_empty())
}
