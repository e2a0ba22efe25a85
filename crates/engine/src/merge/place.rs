//! The worktree that a call is about, with its task, repository and merge records; and what is in its folder.

use super::Bench;
use super::target::Target;
use crate::resolve::Levels;
use crate::{Caller, Engine, fold, handle};
use serde_json::json;
use std::path::Path;
use taskyard_domain::id::WorktreeId;
use taskyard_domain::merge::MergeRecord;
use taskyard_domain::repository::Repository;
use taskyard_domain::task::Task;
use taskyard_domain::worktree::{State, Worktree};
use taskyard_domain::{Error, Result};
use taskyard_git::status::Status;
use taskyard_git::{Oid, Repo, isolation, status};
use taskyard_store::{Read, WorktreeFilter};

/// A worktree with what surrounds it, read in one snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The task with its list and workspace.
    pub levels: Levels,
    /// The worktree.
    pub worktree: Worktree,
    /// Its repository.
    pub repository: Repository,
    /// The task's merges and reverts, oldest first.
    pub records: Vec<MergeRecord>,
}

impl Engine {
    /// The task that `task_id` names and its worktree: the one named, else its newest that isn't discarded.
    ///
    /// # Errors
    /// `NOT_FOUND`; a task without a worktree isn't an error.
    pub(crate) async fn find_place(&self, caller: &Caller, task_id: &str, worktree_id: Option<&str>) -> Result<(Task, Option<Place>)> {
        let (caller, task_id, worktree_id) = (caller.clone(), task_id.to_owned(), worktree_id.map(str::to_owned));
        self.store().read(move |read| Box::pin(async move { find(read, &caller, &task_id, worktree_id.as_deref()).await })).await
    }

    /// The places of several tasks, read in one snapshot; for each what [`Engine::place`] gives.
    ///
    /// # Errors
    /// When the database can't be read.
    pub(crate) async fn places(&self, caller: &Caller, task_ids: &[String]) -> Result<Vec<Result<Place>>> {
        let (caller, task_ids) = (caller.clone(), task_ids.to_vec());
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let mut places = Vec::with_capacity(task_ids.len());
                    for task_id in &task_ids {
                        let found = find(read, &caller, task_id, None).await;
                        places.push(found.and_then(|(task, place)| place.ok_or_else(|| no_worktree(&task))));
                    }
                    Ok(places)
                })
            })
            .await
    }

    /// The same where there must be a worktree.
    ///
    /// # Errors
    /// `NOT_FOUND` also for a task without a worktree.
    pub(crate) async fn place(&self, caller: &Caller, task_id: &str, worktree_id: Option<&str>) -> Result<Place> {
        let (task, place) = self.find_place(caller, task_id, worktree_id).await?;
        place.ok_or_else(|| no_worktree(&task))
    }

    /// The newest of the task's worktrees when all of them were put away.
    pub(crate) async fn place_put_away(&self, task: &Task) -> Result<Option<Place>> {
        let filter = WorktreeFilter { task: Some(task.id), ..WorktreeFilter::default() };
        let all = self.store().read(move |read| Box::pin(async move { read.worktree_list(filter).await })).await?;
        match all.last() {
            Some(last) => self.place_of(last.id).await,
            None => Ok(None),
        }
    }

    /// The place of a worktree by its id; `None` when it is gone.
    pub(crate) async fn place_of(&self, id: WorktreeId) -> Result<Option<Place>> {
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let Some(worktree) = read.worktree_fetch(id).await? else { return Ok(None) };
                    let Some(task) = read.task_fetch(worktree.task_id).await? else { return Ok(None) };
                    around(read, task, worktree).await.map(Some)
                })
            })
            .await
    }
}

async fn find(read: &mut Read, caller: &Caller, task_id: &str, worktree_id: Option<&str>) -> Result<(Task, Option<Place>)> {
    let task = handle::task(read, caller, "task_id", task_id).await?;
    let worktree = match worktree_id {
        Some(id) => Some(named(read, &task, id).await?),
        None => read.worktree_current(task.id).await?,
    };
    let place = match worktree {
        Some(worktree) => Some(around(read, task.clone(), worktree).await?),
        None => None,
    };
    Ok((task, place))
}

fn no_worktree(task: &Task) -> Error {
    Error::not_found("worktree", format!("of {}", task.short_id))
        .with_field("task_id")
        .with_hint("a worktree is made when the task's first run starts")
}

async fn named(read: &mut Read, task: &Task, id: &str) -> Result<Worktree> {
    let parsed: WorktreeId = handle::id("worktree_id", id)?;
    let found = read.worktree_fetch(parsed).await?.filter(|w| w.task_id == task.id);
    found.ok_or_else(|| Error::not_found("worktree", format!("{id} of {}", task.short_id)).with_field("worktree_id"))
}

async fn around(read: &mut Read, task: Task, worktree: Worktree) -> Result<Place> {
    let repository = read.repository_fetch(worktree.repository_id).await?;
    let repository = repository.ok_or_else(|| Error::internal(format!("the worktree {} has no repository", worktree.id)))?;
    let records = read.merge_list(task.id).await?;
    Ok(Place { levels: Levels::of(read, task).await?, worktree, repository, records })
}

impl Place {
    /// The task.
    pub(crate) fn task(&self) -> &Task {
        &self.levels.task
    }

    /// Refuses a worktree whose work can't be merged (any more).
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` for one that is merged or discarded.
    pub(crate) fn check_mergeable(&self) -> Result<()> {
        let short = &self.task().short_id;
        match self.worktree.state {
            State::Active | State::Kept => Ok(()),
            State::Merged => Err(Error::precondition(format!("the work of {short} is merged already"))
                .with_hint("revert_merge undoes it; continue_task starts new work")),
            State::Discarded => Err(Error::precondition(format!("the worktree of {short} was discarded"))
                .with_hint("list_snapshots shows what was put aside; restore_snapshot brings it back")),
        }
    }

    /// Where its work goes; see [`Target::resolve`].
    pub(crate) async fn target(&self, bench: &Bench, call: Option<&str>) -> Result<Target> {
        Target::resolve(bench, self, call).await
    }

    /// The worktree as git sees it, proven to be the isolated worktree it should be; `None` when its folder is gone.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when something else is in its place.
    pub(crate) async fn tree(&self, bench: &Bench) -> Result<Option<Repo>> {
        let path = Path::new(&self.worktree.path);
        if !path.exists() {
            return Ok(None);
        }
        isolation::verified(&bench.repo, path, None).await.map(Some).map_err(fold::git)
    }

    /// The last commit of the task's work: its branch, else the private ref that keeps it.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when both are gone.
    pub(crate) async fn tip(&self, bench: &Bench) -> Result<Oid> {
        if let Some(tip) = bench.branch_tip(&self.worktree.branch).await? {
            return Ok(tip);
        }
        if let Some(kept) = &self.worktree.kept_ref
            && let Some(tip) = bench.repo.tip(kept).await.map_err(fold::git)?
        {
            return Ok(tip);
        }
        let last = self.worktree.tip.as_deref().unwrap_or("unknown");
        let short = &self.task().short_id;
        Err(Error::precondition(format!("the branch {} of {short} is gone; its last known commit is {last}", self.worktree.branch))
            .with_details(json!({ "branch": self.worktree.branch, "last_commit": self.worktree.tip }))
            .with_hint(format!("`git branch {} {last}` brings it back while git still has the commit", self.worktree.branch)))
    }

    /// What is in the folder: branch, commit, uncommitted changes. `None` when the folder is gone.
    pub(crate) async fn status(&self, bench: &Bench) -> Result<Option<Status>> {
        let Some(tree) = self.tree(bench).await? else { return Ok(None) };
        let copied = crate::facts::copied(&self.worktree);
        status::status(&tree, None, &copied).await.map(Some).map_err(fold::git)
    }

    /// Refuses work that isn't on the branch: uncommitted files, an operation in progress, commits elsewhere.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` naming the files and the folder.
    pub(crate) async fn check_committed(&self, bench: &Bench, tip: &Oid) -> Result<()> {
        let Some(status) = self.status(bench).await? else { return Ok(()) };
        let (short, path) = (&self.task().short_id, &self.worktree.path);
        if let Some(operation) = status.operation {
            let operation = operation.as_str();
            return Err(Error::precondition(format!("a {operation} is in progress in the worktree of {short} at {path}"))
                .with_details(json!({ "worktree_path": path, "operation": operation }))
                .with_hint("finish or abort it there, then repeat the call"));
        }
        if !status.changes.is_empty() {
            let files: Vec<String> = status.changes.iter().map(|change| change.path.to_string()).collect();
            let shown = files.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Error::precondition(format!("{short} has uncommitted work in {path}, which a merge would leave out: {shown}"))
                .with_details(crate::fold::few(json!({ "worktree_path": path, "uncommitted_files": files })))
                .with_hint("commit it there on the task's branch (or remove it), then repeat the call; review_task(reject_rerun) has the agent do it"));
        }
        let Some(head) = status.head.oid() else { return Ok(()) };
        if taskyard_git::history::is_ancestor(&bench.repo, head, tip).await.map_err(fold::git)? {
            return Ok(());
        }
        let branch = &self.worktree.branch;
        Err(Error::precondition(format!(
            "the worktree of {short} stands on {}, which isn't on its branch {branch}: a merge would leave that out",
            head.short()
        ))
        .with_details(json!({ "worktree_path": path, "head": head, "branch": branch, "tip": tip }))
        .with_hint(format!("`git branch -f {branch} HEAD && git checkout {branch}` in that folder puts it there")))
    }
}
