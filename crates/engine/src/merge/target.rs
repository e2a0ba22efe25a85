//! Where a task's work goes: named, inherited or known from its making, never simply what is checked out.

use super::{Bench, Place};
use crate::fold;
use serde_json::json;
use taskyard_domain::config::nearest;
use taskyard_domain::{Error, Result};
use taskyard_git::Oid;

/// A local branch that work goes to.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Its name without `refs/heads/`.
    pub branch: String,
    /// Its tip now.
    pub tip: Oid,
}

impl Target {
    /// The target of `place`: the call's, the task's, the list's, the branch the worktree was made from, the
    /// repository's default branch.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` about `target_branch` naming the local branches when nothing says where to;
    /// `NOT_FOUND` when the branch that was said doesn't exist.
    pub(crate) async fn resolve(bench: &Bench, place: &Place, call: Option<&str>) -> Result<Self> {
        let levels = &place.levels;
        let set =
            nearest(call.map(str::to_owned), levels.task.config.target_branch.clone(), levels.list.config.target_branch.clone(), None);
        if let Some(named) = set.value {
            return Self::named(bench, place, &named).await;
        }
        for known in [place.worktree.base_branch.as_deref(), bench.repository.default_branch.as_deref()].into_iter().flatten() {
            if let Some(tip) = bench.branch_tip(known).await? {
                return Self::of(place, known, tip);
            }
        }
        let branches = bench.branches().await?;
        let short = &place.task().short_id;
        Err(Error::invalid(
            "target_branch",
            format!("target_branch is needed: nothing says where the work of {short} goes (local branches: {})", listed(&branches)),
        )
        .with_details(fold::few(json!({ "branches": branches })))
        .with_hint("pass target_branch, or set it on the task or its list"))
    }

    /// The local branch `name`.
    pub(crate) async fn named(bench: &Bench, place: &Place, name: &str) -> Result<Self> {
        let name = name.trim();
        let short = name.strip_prefix("refs/heads/").unwrap_or(name);
        match bench.branch_tip(short).await? {
            Some(tip) => Self::of(place, short, tip),
            None => {
                let branches = bench.branches().await?;
                Err(Error::not_found("local branch", format!("{name:?} to merge into (local branches: {})", listed(&branches)))
                    .with_field("target_branch")
                    .with_details(fold::few(json!({ "branches": branches }))))
            }
        }
    }

    fn of(place: &Place, branch: &str, tip: Oid) -> Result<Self> {
        if branch == place.worktree.branch {
            return Err(Error::invalid("target_branch", format!("target_branch: {branch} is the task's own branch")));
        }
        Ok(Self { branch: branch.to_owned(), tip })
    }
}

/// The first branches in a sentence.
fn listed(branches: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown = branches.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if branches.len() > SHOWN { format!("{shown} and {} more", branches.len() - SHOWN) } else { shown }
}
