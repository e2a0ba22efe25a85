//! `get_task_worktree`: where a task's work is and how it stands.

use crate::merge::{Bench, Place};
use crate::{Caller, Engine, fold};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;
use taskyard_domain::merge::State;
use taskyard_git::history;
use taskyard_git::status::ChangeKind;
use taskyard_git::unsaved::{Known, unsaved};

/// Which worktree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetTaskWorktree {
    /// UUID or short id.
    pub task_id: String,
    /// One of the task's worktrees; its current one by default.
    #[serde(default)]
    pub worktree_id: Option<String>,
}

/// The answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetTaskWorktreeOutput {
    /// Whether the task has a worktree.
    pub found: bool,
    /// UUID of the task.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// The worktree.
    pub worktree: Option<WorktreeView>,
}

/// A worktree in detail.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorktreeView {
    /// UUID.
    pub id: String,
    /// The repository's UUID.
    pub repository_id: String,
    /// The repository's name.
    pub repository: String,
    /// Its folder.
    pub path: String,
    /// Whether the folder is there.
    pub has_folder: bool,
    /// `active`, `merged`, `kept` or `discarded`.
    pub state: String,
    /// Its branch.
    pub branch: String,
    /// The local branch it was made from.
    pub base_branch: Option<String>,
    /// The commit it was made from.
    pub base_commit: String,
    /// The last commit of its branch, or of what keeps it.
    pub tip: Option<String>,
    /// The private ref that keeps the merged tip.
    pub kept_ref: Option<String>,
    /// The branch it would be merged into.
    pub target: Option<String>,
    /// Commits that it has and the target hasn't.
    pub ahead: Option<usize>,
    /// Commits that the target has and it hasn't.
    pub behind: Option<usize>,
    /// Changed, staged or deleted files that aren't committed.
    pub uncommitted_count: usize,
    /// New files that aren't committed.
    pub untracked_count: usize,
    /// A merge, rebase or the like that is in progress in it.
    pub operation: Option<String>,
    /// What would be lost if the folder were removed now.
    pub unsaved: Option<String>,
    /// Whether a merge of it is open for `continue_merge` or `abort_merge`.
    pub merge_open: bool,
    /// Where that merge is to be resolved.
    pub merge_worktree_path: Option<String>,
    /// Why some of this couldn't be found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Engine {
    /// How a task's worktree stands.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown task or worktree. A repository that is missing is a `problem` in the answer.
    pub async fn get_task_worktree(&self, caller: &Caller, input: GetTaskWorktree) -> Result<GetTaskWorktreeOutput> {
        let (task, place) = self.find_place(caller, &input.task_id, input.worktree_id.as_deref()).await?;
        let worktree = match place {
            Some(place) => Some(self.view(&place).await),
            None => None,
        };
        Ok(GetTaskWorktreeOutput { found: worktree.is_some(), task_id: task.id.to_string(), short_id: task.short_id.to_string(), worktree })
    }

    async fn view(&self, place: &Place) -> WorktreeView {
        let mut view = known(place);
        let looked = async {
            let bench = self.bench(&place.repository).await?;
            look(&bench, place, &mut view).await
        };
        if let Err(error) = looked.await {
            view.problem = Some(error.message);
        }
        view
    }
}

/// What the database knows.
fn known(place: &Place) -> WorktreeView {
    let worktree = &place.worktree;
    let open = place.records.iter().find(|r| r.worktree_id == worktree.id && r.state == State::Open);
    WorktreeView {
        id: worktree.id.to_string(),
        repository_id: place.repository.id.to_string(),
        repository: place.repository.name.clone(),
        path: worktree.path.clone(),
        has_folder: std::path::Path::new(&worktree.path).is_dir(),
        state: worktree.state.to_string(),
        branch: worktree.branch.clone(),
        base_branch: worktree.base_branch.clone(),
        base_commit: worktree.base_commit.clone(),
        tip: worktree.tip.clone(),
        kept_ref: worktree.kept_ref.clone(),
        target: None,
        ahead: None,
        behind: None,
        uncommitted_count: 0,
        untracked_count: 0,
        operation: None,
        unsaved: None,
        merge_open: open.is_some(),
        merge_worktree_path: open.and_then(|r| r.merge_worktree_path.clone()),
        problem: None,
    }
}

/// What git knows.
async fn look(bench: &Bench, place: &Place, view: &mut WorktreeView) -> Result<()> {
    let tip = place.tip(bench).await?;
    view.tip = Some(tip.to_string());
    // Without a target there is nothing to compare with; that alone is no problem.
    if let Ok(target) = place.target(bench, None).await {
        let (ahead, behind) = history::ahead_behind(&bench.repo, &tip, &target.tip).await.map_err(fold::git)?;
        (view.ahead, view.behind, view.target) = (Some(ahead), Some(behind), Some(target.branch));
    }
    let Some(tree) = place.tree(bench).await? else { return Ok(()) };
    let copied = crate::facts::copied(&place.worktree);
    let found = unsaved(&tree, Known { branch: Some(&place.worktree.branch), copied: &copied }).await.map_err(fold::git)?;
    let new = |kind: ChangeKind| matches!(kind, ChangeKind::Untracked | ChangeKind::EmbeddedRepository);
    view.untracked_count = found.changes.iter().filter(|change| new(change.kind)).count();
    view.uncommitted_count = found.changes.len() - view.untracked_count;
    view.operation = found.operation.map(|operation| operation.as_str().to_owned());
    view.unsaved = (!found.is_empty()).then(|| found.describe());
    Ok(())
}
