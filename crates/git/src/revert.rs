//! Takes a landed merge out of its target again, and puts it back in.
//!
//! A revert is always one new commit: the way from after the merge to before it, applied to where the target is
//! now. That is what `git revert -m 1` makes of a merge commit and `git revert` of a squash commit, and it works
//! the same for the replayed commits of a rebase and for several merges that landed as one. Merging again
//! ([`compute_again`]) first undoes the revert, because git counts reverted work as merged and would leave it
//! out without a word. Like [`crate::merge`] this computes in scratch space; [`crate::land`] moves the target.

use crate::error::{Error, Result};
use crate::file_path::{FilePath, shown};
use crate::history::{self, Fork};
use crate::merge::{Computed, Merge, OneCommit, commit_on, compute_since};
use crate::merge_tree::{ObjectStore, merge_tree};
use crate::oid::Oid;
use crate::record::{Author, protect};
use crate::repo::Repo;
use serde::Serialize;
use std::path::Path;

pub use crate::history::contains;

/// A revert to compute.
#[derive(Debug, Clone)]
pub struct Revert {
    /// Names the private ref and the scratch tree; see [`Merge::id`].
    pub id: String,
    /// The target's commit now.
    pub onto: Oid,
    /// The target's commit before the merge, from its record.
    pub before: Oid,
    /// The target's commit after the merge, from its record.
    pub after: Oid,
    /// The message.
    pub message: String,
    /// By whom, under which policy.
    pub author: Author,
}

/// A revert that exists, but hasn't landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reverted {
    /// The new commit, kept by the private ref; its only parent is `target_before`.
    pub commit: Oid,
    /// Its tree.
    pub tree: Oid,
    /// The commit it was made on.
    pub target_before: Oid,
}

/// What a revert says when nobody says otherwise.
pub fn default_message(subject: &str, after: &Oid) -> String {
    format!("Revert \"{subject}\"\n\nThis takes out {after} and everything that landed with it.")
}

/// The subject in what [`default_message`] made.
pub fn subject(message: &str) -> Option<&str> {
    message.lines().next()?.strip_prefix("Revert \"")?.strip_suffix('"')
}

/// Computes a revert. Runs the hooks of a commit by policy. Takes the repository's lock for moments, so callers
/// must not hold it.
///
/// # Errors
/// [`Error::NotContained`] when the target doesn't contain the merge; [`Error::Conflict`] with the files that later work
/// has changed too; [`Error::NothingToMerge`] when there is nothing left of it; [`Error::HookFailed`],
/// [`Error::SigningFailed`]. Nothing is left behind in any case.
pub async fn compute(repo: &Repo, scratch: &Path, revert: &Revert) -> Result<Reverted> {
    let reverted = compute_unkept(repo, scratch, revert).await?;
    protect(repo, &revert.id, &reverted.commit).await?;
    Ok(reverted)
}

/// The same without the private ref; see [`crate::merge::compute_unkept`].
///
/// # Errors
/// See [`compute`].
pub async fn compute_unkept(repo: &Repo, scratch: &Path, revert: &Revert) -> Result<Reverted> {
    if !history::is_ancestor(repo, &revert.after, &revert.onto).await? {
        return Err(Error::NotContained { commit: revert.after.clone(), target: revert.onto.clone() });
    }
    let undo = Undo { id: &revert.id, onto: &revert.onto, before: &revert.before, after: &revert.after };
    let made = undo_commit(repo, scratch, &undo, &revert.message, &revert.author).await?;
    let Some((commit, tree)) = made else {
        let what = format!("nothing of {} any more", revert.after);
        return Err(Error::NothingToMerge { target: revert.onto.clone(), what });
    };
    Ok(Reverted { commit, tree, target_before: revert.onto.clone() })
}

/// The last merge of the same work that landed and was taken out since.
#[derive(Debug, Clone)]
pub struct Earlier {
    /// The tip it merged.
    pub tip: Oid,
    /// The target's commit before it.
    pub before: Oid,
    /// The commit that took it out, and is in the target.
    pub revert: Oid,
    /// Whose work it is, in a few words.
    pub subject: String,
}

impl Earlier {
    /// The commit that the whole work starts from: by it a merge of `tip` takes in what landed before, too.
    ///
    /// # Errors
    /// Git's.
    pub(crate) async fn start(&self, repo: &Repo, tip: &Oid) -> Result<Option<Oid>> {
        history::merge_base(repo, &self.before, tip).await
    }

    /// The files that merging the whole of `tip` onto `onto` in one go would change, those in conflict included.
    ///
    /// # Errors
    /// Git's.
    pub async fn changed_paths(&self, repo: &Repo, scratch: &Path, onto: &Oid, tip: &Oid) -> Result<Vec<FilePath>> {
        let (store, start) = (ObjectStore::temporary(repo, scratch)?, self.start(repo, tip).await?);
        let merged = merge_tree(repo, &store, start.as_ref(), onto, tip).await?;
        history::changed_paths(repo, &store, onto, &merged.tree).await
    }
}

/// Computes a merge of work that was merged and reverted before, so that the whole of it lands.
///
/// `earlier` is the last such merge whose revert the target still contains (a revert before that one was undone by
/// that merge). On `merge.base` the revert is undone by a commit of its own; where somebody has undone it by hand
/// there is nothing to do. Then the tip is merged onto that. A merge commit usually needs nothing more: git merges
/// what is new, and the rest is there again. A squash or rebase takes only what the tip has beyond the tip that
/// landed, as long as the branch still contains that; a branch that was rewritten is merged as a whole. When the
/// tip has nothing new, the result is the commit that undid the revert.
///
/// [`Computed::target_before`] is the original base: before..after of the record covers it all, so that
/// [`compute`] takes it all out again.
///
/// # Errors
/// See [`crate::merge::compute`]. A conflict names the files; the target's later work has changed them too.
pub async fn compute_again(repo: &Repo, scratch: &Path, merge: &Merge, earlier: &Earlier) -> Result<Computed> {
    let computed = compute_again_unkept(repo, scratch, merge, earlier).await?;
    protect(repo, &merge.id, &computed.commit).await?;
    Ok(computed)
}

/// The same without the private ref; see [`crate::merge::compute_unkept`].
///
/// # Errors
/// See [`compute_again`].
pub async fn compute_again_unkept(repo: &Repo, scratch: &Path, merge: &Merge, earlier: &Earlier) -> Result<Computed> {
    let reapply = reapply(repo, scratch, merge, earlier).await?;
    let base = reapply.as_ref().unwrap_or(&merge.base).clone();
    let merge_base = history::merge_base(repo, &merge.base, &merge.tip).await?;
    let onto = Merge { base, ..merge.clone() };
    let made = add_rest(repo, scratch, &onto, merge_base.as_ref(), &earlier.tip).await;
    let computed = match (made, reapply) {
        (Err(Error::NothingToMerge { .. }), Some(commit)) => reapplied(repo, merge, commit, merge_base).await?,
        (Err(Error::Conflict { theirs, files, .. }), _) => return Err(Error::Conflict { ours: merge.base.clone(), theirs, files }),
        (other, _) => other?,
    };
    Ok(Computed { target_before: merge.base.clone(), ..computed })
}

/// The commit on the base that undoes the revert; `None` when it is undone already.
pub(crate) async fn reapply(repo: &Repo, scratch: &Path, merge: &Merge, earlier: &Earlier) -> Result<Option<Oid>> {
    let revert = &earlier.revert;
    let [before] = &history::parents(repo, revert).await?[..] else {
        return Err(Error::Unreadable { stage: "undo a revert", what: format!("{revert} has not exactly one parent") });
    };
    let undo = Undo { id: &merge.id, onto: &merge.base, before, after: revert };
    let message = format!("Reapply \"{}\"\n\nThis brings back what {revert} took out.", earlier.subject);
    Ok(undo_commit(repo, scratch, &undo, &message, &merge.author).await?.map(|(commit, _)| commit))
}

/// Merges what the tip has beyond what is back already.
async fn add_rest(repo: &Repo, scratch: &Path, onto: &Merge, merge_base: Option<&Oid>, landed: &Oid) -> Result<Computed> {
    if history::is_ancestor(repo, &onto.tip, &onto.base).await? || *landed == onto.tip {
        return Err(Error::NothingToMerge { target: onto.base.clone(), what: format!("everything of {}", onto.tip) });
    }
    let since = history::is_ancestor(repo, landed, &onto.tip).await?.then_some(landed);
    let fork = Fork { merge_base: merge_base.cloned(), tree: history::tree_of(repo, &onto.base).await?, merged: None };
    compute_since(repo, scratch, onto, &fork, since).await
}

async fn reapplied(repo: &Repo, merge: &Merge, commit: Oid, merge_base: Option<Oid>) -> Result<Computed> {
    let tree = history::tree_of(repo, &commit).await?;
    let (target_before, tip) = (merge.base.clone(), merge.tip.clone());
    Ok(Computed { commit, tree, strategy: merge.strategy, target_before, tip, merge_base })
}

/// The way from `after` back to `before`, to be applied to `onto`.
struct Undo<'a> {
    id: &'a str,
    onto: &'a Oid,
    before: &'a Oid,
    after: &'a Oid,
}

/// One commit on `onto` that undoes it, and its tree; `None` when that would be empty.
async fn undo_commit(repo: &Repo, scratch: &Path, undo: &Undo<'_>, message: &str, author: &Author) -> Result<Option<(Oid, Oid)>> {
    let merged = merge_tree(repo, &ObjectStore::Repository, Some(undo.after), undo.onto, undo.before).await?;
    if !merged.clean {
        return Err(Error::Conflict { ours: undo.onto.clone(), theirs: undo.after.clone(), files: shown(&merged.paths()) });
    }
    if merged.tree == history::tree_of(repo, undo.onto).await? {
        return Ok(None);
    }
    let commit = OneCommit { id: undo.id, base: undo.onto, tree: &merged.tree, message };
    let (made, tree) = commit_on(repo, scratch, &commit, author).await?;
    let tree = match tree {
        Some(tree) => tree,
        None => history::tree_of(repo, &made).await?,
    };
    Ok(Some((made, tree)))
}
