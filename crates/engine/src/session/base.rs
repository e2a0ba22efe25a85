//! What new work starts from: a commit that holds the work of every task it waited for.
//!
//! Only asks git; changes nothing.

use super::ground::Site;
use crate::{Engine, fold};
use serde_json::json;
use taskyard_domain::id::{RepositoryId, TaskId};
use taskyard_domain::merge::{Kind, State};
use taskyard_domain::name::ShortId;
use taskyard_domain::{Error, Result};
use taskyard_git::repo::Base;
use taskyard_git::{Oid, Repo, history};
use taskyard_store::Read;

/// A merge of a blocker that is in its target.
struct Landed {
    blocker: ShortId,
    target: String,
    commit: Oid,
}

impl Engine {
    /// The base of a new worktree: what was named, else the repository's default, else a branch that a blocker's work
    /// went to.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` naming both branches when the base lacks a blocker's work and nothing else was left to
    /// choose; git's.
    pub(super) async fn choose_base(&self, site: &Site<'_>) -> Result<Base> {
        let task = &site.levels.task;
        let target = task.config.target_branch.clone().or_else(|| site.levels.list.config.target_branch.clone());
        let (id, parent, repository) = (task.id, task.parent_id, site.repository.id);
        let (parent, landed) = self.store().read(move |read| Box::pin(async move { facts(read, id, parent, repository).await })).await?;
        // A child starts from its parent's base; everything else from where its work will go.
        let named = parent.or(target);
        let base = site.project.base(named.as_deref(), site.repository.default_branch.as_deref()).await.map_err(fold::git)?;
        let Some(missing) = missing(site.project, &base, &landed).await? else { return Ok(base) };
        if named.is_none() {
            for other in &landed {
                let Some(oid) = site.project.tip(&format!("refs/heads/{}", other.target)).await.map_err(fold::git)? else { continue };
                let base = Base { oid, branch: Some(other.target.clone()), source: base.source };
                if self::missing(site.project, &base, &landed).await?.is_none() {
                    return Ok(base);
                }
            }
        }
        Err(lacks(&task.short_id, &base, missing))
    }
}

/// The base that a parent's worktree gives, and the blockers' landed merges in this repository.
async fn facts(read: &mut Read, task: TaskId, parent: Option<TaskId>, repository: RepositoryId) -> Result<(Option<String>, Vec<Landed>)> {
    let parent = match parent {
        Some(parent) => read.worktree_current(parent).await?.and_then(|worktree| worktree.base_branch),
        None => None,
    };
    let mut landed = Vec::new();
    for id in read.blockers_of(task).await? {
        let Some(blocker) = read.task_fetch(id).await? else { continue };
        for record in read.merge_list(id).await?.into_iter().filter(|r| r.kind == Kind::Merge && r.state == State::Landed) {
            let is_here = read.worktree_fetch(record.worktree_id).await?.is_some_and(|w| w.repository_id == repository);
            if let (true, Some(commit)) = (is_here, record.target_after.as_deref().and_then(Oid::parse)) {
                landed.push(Landed { blocker: blocker.short_id.clone(), target: record.target, commit });
            }
        }
    }
    Ok((parent, landed))
}

/// The first of `landed` that `base` doesn't hold. A branch that the work went to counts as holding it: whoever has
/// rewritten it since meant to.
async fn missing<'a>(project: &Repo, base: &Base, landed: &'a [Landed]) -> Result<Option<&'a Landed>> {
    for one in landed.iter().filter(|one| base.branch.as_ref() != Some(&one.target)) {
        let is_known = project.resolve(one.commit.as_str()).await.map_err(fold::git)?.is_some();
        if !is_known || !history::is_ancestor(project, &one.commit, &base.oid).await.map_err(fold::git)? {
            return Ok(Some(one));
        }
    }
    Ok(None)
}

fn lacks(task: &ShortId, base: &Base, missing: &Landed) -> Error {
    let from = base.branch.clone().unwrap_or_else(|| base.oid.short().to_owned());
    let Landed { blocker, target, .. } = missing;
    Error::precondition(format!(
        "{task} can't start from {from}: the work of {blocker}, which it waited for, went to {target} and isn't in {from}"
    ))
    .with_details(json!({ "base": from, "blocker": blocker, "blocker_target": target, "blocker_commit": missing.commit }))
    .with_hint(format!(
        "set target_branch to {target} with set_task_config, or merge {target} into {from}; remove_task_dependency starts without it"
    ))
}
