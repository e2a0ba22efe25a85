//! `list_worktrees`: every worktree with its task, state, disk size and what is unsaved in it.

use super::paging;
use crate::merge::Place;
use crate::{Caller, Engine, fold, handle};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use taskyard_domain::alias::Vocabulary;
use taskyard_domain::worktree::{State, Worktree};
use taskyard_domain::{Error, Result};
use taskyard_git::unsaved::{Known, unsaved};
use taskyard_store::{Read, WorktreeFilter};

/// Most worktrees of one answer.
const MOST: usize = 60;
/// Most files that are measured in one folder.
const FILES: usize = 200_000;
/// Worktrees that are looked at together.
const TOGETHER: usize = 4;
/// Longest text about what is unsaved, bytes.
const UNSAVED: usize = 200;

/// Which worktrees.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ListWorktrees {
    /// Slug or UUID; the only workspace by default.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Only those of this repository.
    #[serde(default)]
    pub repository_id: Option<String>,
    /// Only those in this state.
    #[serde(default)]
    pub state: Option<String>,
}

/// A worktree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorktreeRow {
    /// UUID.
    pub id: String,
    /// Its task.
    pub task_id: String,
    /// The task's `TY-42`.
    pub short_id: String,
    /// The task's status.
    pub task_status: String,
    /// Its repository.
    pub repository_id: String,
    /// Its folder.
    pub path: String,
    /// Whether the folder is there.
    pub has_folder: bool,
    /// Its branch.
    pub branch: String,
    /// `active`, `merged`, `kept` or `discarded`.
    pub state: String,
    /// Bytes on disk; null without a folder.
    pub disk_bytes: Option<u64>,
    /// Whether there are more files than were measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disk_is_more: bool,
    /// What would be lost if the folder were removed now.
    pub unsaved: Option<String>,
    /// Why that couldn't be found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The worktrees.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListWorktreesOutput {
    /// Those with a folder first, newest first.
    pub worktrees: Vec<WorktreeRow>,
    /// How many fit the call.
    pub total: usize,
    /// Whether there are more than are listed; narrow by repository or state.
    pub has_more: bool,
}

impl Engine {
    /// The worktrees, as many as fit into 10 KB.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown workspace or repository; `INVALID_ARGUMENT` for an unknown state.
    pub async fn list_worktrees(&self, caller: &Caller, input: ListWorktrees) -> Result<ListWorktreesOutput> {
        let caller = caller.clone();
        let mut found = self.store().read(move |read| Box::pin(async move { find(read, &caller, input).await })).await?;
        let total = found.len();
        found.sort_by_key(|w| (!Path::new(&w.path).is_dir(), std::cmp::Reverse((w.created_at, w.id))));
        found.truncate(MOST);
        let rows = stream::iter(found).map(|worktree| self.row(worktree)).buffered(TOGETHER);
        let mut worktrees: Vec<WorktreeRow> = rows.collect::<Vec<_>>().await.into_iter().collect::<Result<_>>()?;
        let fit = paging::fitting(&worktrees, paging::ROWS);
        worktrees.truncate(fit);
        Ok(ListWorktreesOutput { has_more: worktrees.len() < total, worktrees, total })
    }

    async fn row(&self, worktree: Worktree) -> Result<WorktreeRow> {
        let gone = || Error::not_found("worktree", worktree.id);
        let place = self.place_of(worktree.id).await?.ok_or_else(gone)?;
        let path = PathBuf::from(&place.worktree.path);
        let has_folder = path.is_dir();
        let disk = if has_folder { tokio::task::spawn_blocking(move || measure(&path)).await.ok() } else { None };
        let (unsaved, problem) = match if has_folder { self.look(&place).await } else { Ok(None) } {
            Ok(unsaved) => (unsaved, None),
            Err(error) => (None, Some(error.message)),
        };
        Ok(WorktreeRow {
            id: place.worktree.id.to_string(),
            task_id: place.task().id.to_string(),
            short_id: place.task().short_id.to_string(),
            task_status: place.task().status.to_string(),
            repository_id: place.repository.id.to_string(),
            path: place.worktree.path.clone(),
            has_folder,
            branch: place.worktree.branch.clone(),
            state: place.worktree.state.to_string(),
            disk_bytes: disk.map(|(bytes, _)| bytes),
            disk_is_more: disk.is_some_and(|(_, more)| more),
            unsaved,
            problem,
        })
    }

    async fn look(&self, place: &Place) -> Result<Option<String>> {
        let bench = self.bench(&place.repository).await?;
        let Some(tree) = place.tree(&bench).await? else { return Ok(None) };
        let copied = crate::facts::copied(&place.worktree);
        let found = unsaved(&tree, Known { branch: Some(&place.worktree.branch), copied: &copied }).await.map_err(fold::git)?;
        Ok((!found.is_empty()).then(|| crate::view::cut(&found.describe(), UNSAVED).to_owned()))
    }
}

async fn find(read: &mut Read, caller: &Caller, input: ListWorktrees) -> Result<Vec<Worktree>> {
    let workspace = handle::workspace(read, caller, "workspace_id", input.workspace_id.as_deref()).await?;
    let repository = match &input.repository_id {
        Some(text) => Some(handle::repository(read, workspace.id, "repository_id", text).await?.id),
        None => None,
    };
    let state = input.state.as_deref().map(|text| State::read("state", text)).transpose()?;
    read.worktree_list(WorktreeFilter { workspace: Some(workspace.id), repository, state, task: None }).await
}

/// Bytes that a folder takes on disk, each file once, links not followed; and whether there was more to measure.
fn measure(folder: &Path) -> (u64, bool) {
    let (mut bytes, mut seen) = (0, 0);
    let mut twice = HashSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().filter_map(Result::ok) {
            if seen == FILES {
                return (bytes, true);
            }
            seen += 1;
            let Ok(meta) = entry.metadata() else { continue };
            if meta.nlink() < 2 || meta.is_dir() || twice.insert((meta.dev(), meta.ino())) {
                bytes += meta.blocks() * 512;
            }
            if meta.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    (bytes, false)
}
