//! The result of a merge, computed in private scratch space before anything of the user's moves.
//!
//! Three strategies: a merge commit (always one), one squashed commit, or the commits replayed. Conflicts are
//! found in memory first. Without hooks no strategy needs a checkout; where the repository's hooks are to run, git
//! itself merges, commits or rebases in a private worktree that is gone afterwards, whatever happened. The result is
//! kept by a private ref; [`crate::land`] moves the target. Nothing here moves a branch.

use crate::error::{Error, Result};
use crate::file_path::shown;
use crate::history::{self, Fork};
use crate::hook_dir::HookDir;
use crate::merge_tree::{ObjectStore, merge_tree};
use crate::oid::Oid;
use crate::record::{Author, commit_tree, plain, probe_signing, protect, signing, signs, text};
use crate::replay::{Replay, Replayed, replay};
use crate::repo::Repo;
use crate::runner::{Call, Identity};
use crate::scratch::Tree;
use serde::Serialize;
use std::path::Path;
use taskyard_domain::merge::Strategy;

/// A merge to compute.
#[derive(Debug, Clone)]
pub struct Merge {
    /// Names the private ref and the scratch tree; letters, digits, `-` and `_`. Computing the same id again
    /// replaces what was left of the last attempt.
    pub id: String,
    /// The commit merged onto: the target's, or an earlier result when several land as one.
    pub base: Oid,
    /// The commit merged.
    pub tip: Oid,
    /// By which strategy.
    pub strategy: Strategy,
    /// The message of the merge or squash commit. A rebase keeps the messages there are.
    pub message: String,
    /// Who makes it (a rebase keeps the authors), and under which policy.
    pub author: Author,
}

/// A merge that exists, but hasn't landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Computed {
    /// The new commit, kept by the private ref.
    pub commit: Oid,
    /// Its tree.
    pub tree: Oid,
    /// The strategy.
    pub strategy: Strategy,
    /// The commit merged onto.
    pub target_before: Oid,
    /// The commit merged.
    pub tip: Oid,
    /// Their merge base.
    pub merge_base: Option<Oid>,
}

/// What a merge commit says when nobody says otherwise.
pub fn default_message(strategy: Strategy, branch: &str, target: &str) -> String {
    match strategy {
        Strategy::Merge => format!("Merge branch '{branch}' into {target}"),
        Strategy::Squash => format!("Squash branch '{branch}' into {target}"),
        Strategy::Rebase => format!("Rebase branch '{branch}' onto {target}"),
    }
}

/// Computes a merge. `scratch` is a folder of ours for temporary trees and objects. Takes the repository's lock
/// for moments, so callers must not hold it.
///
/// Hooks that can refuse are run by policy: `pre-merge-commit`, `prepare-commit-msg`, `commit-msg` for a merge;
/// `pre-commit` and the message hooks for a squash; `pre-rebase` and `prepare-commit-msg` for a rebase. Hooks that
/// only announce (`post-…`) aren't run: nothing has landed yet.
///
/// # Errors
/// [`Error::NothingToMerge`], [`Error::Conflict`], [`Error::UnrelatedHistories`], [`Error::HookFailed`],
/// [`Error::SigningFailed`]; nothing is left behind in any case.
pub async fn compute(repo: &Repo, scratch: &Path, merge: &Merge) -> Result<Computed> {
    let fork = Fork::of(repo, &merge.base, &merge.tip).await?;
    let computed = compute_unkept(repo, scratch, merge, &fork).await?;
    protect(repo, &merge.id, &computed.commit).await?;
    Ok(computed)
}

/// The same for a merge of which the start is known, without the private ref: for one that lands at once or not at all.
///
/// # Errors
/// See [`compute`].
pub async fn compute_unkept(repo: &Repo, scratch: &Path, merge: &Merge, fork: &Fork) -> Result<Computed> {
    if fork.merge_base.as_ref() == Some(&merge.tip) {
        return Err(nothing(merge));
    }
    compute_since(repo, scratch, merge, fork, None).await
}

/// Like [`compute_unkept`]; with `since`, what the tip has up to that commit is in the base already, if not as history.
pub(crate) async fn compute_since(repo: &Repo, scratch: &Path, merge: &Merge, fork: &Fork, since: Option<&Oid>) -> Result<Computed> {
    let (commit, tree) = match merge.strategy {
        Strategy::Merge => merge_commit(repo, scratch, merge, fork, since).await?,
        Strategy::Squash => squash(repo, scratch, merge, fork, since).await?,
        Strategy::Rebase => (rebase(repo, scratch, merge, fork, since).await?, None),
    };
    let tree = match tree {
        Some(tree) => tree,
        None => history::tree_of(repo, &commit).await?,
    };
    let (target_before, tip) = (merge.base.clone(), merge.tip.clone());
    Ok(Computed { commit, tree, strategy: merge.strategy, target_before, tip, merge_base: fork.merge_base.clone() })
}

fn nothing(merge: &Merge) -> Error {
    Error::NothingToMerge { target: merge.base.clone(), what: format!("everything of {}", merge.tip) }
}

fn conflict(merge: &Merge, files: Vec<String>) -> Error {
    Error::Conflict { ours: merge.base.clone(), theirs: merge.tip.clone(), files }
}

/// The merged tree, when it is clean and differs from the base's.
async fn clean_tree(repo: &Repo, merge: &Merge, fork: &Fork, since: Option<&Oid>) -> Result<Oid> {
    let merged = match fork.merged.clone().filter(|_| since.is_none()) {
        Some(merged) => merged,
        None => merge_tree(repo, &ObjectStore::Repository, since, &merge.base, &merge.tip).await?,
    };
    if !merged.clean {
        return Err(conflict(merge, shown(&merged.paths())));
    }
    if merged.tree == fork.tree {
        return Err(nothing(merge));
    }
    Ok(merged.tree)
}

/// A new commit, with its tree where no hook may have changed that.
pub(crate) type Made = (Oid, Option<Oid>);

async fn merge_commit(repo: &Repo, scratch: &Path, merge: &Merge, fork: &Fork, since: Option<&Oid>) -> Result<Made> {
    let (tree, as_git_would) = match (clean_tree(repo, merge, fork, None).await, since) {
        // Work that landed as a squash before has no common history with the tip; git alone would see it twice.
        (Err(Error::Conflict { .. }), Some(_)) => (clean_tree(repo, merge, fork, since).await?, false),
        (tree, _) => (tree?, true),
    };
    let hooks = ["pre-merge-commit", "pre-commit", "prepare-commit-msg", "commit-msg"];
    let Some(hooks) = HookDir::prepare(repo, scratch, merge.author.policy.hooks, &hooks).await? else {
        let parents = [&merge.base, &merge.tip];
        let commit = commit_tree(repo, &ObjectStore::Repository, &tree, &parents, &merge.message, &merge.author).await?;
        return Ok((commit, Some(tree)));
    };
    probe_signing(repo, &ObjectStore::temporary(repo, scratch)?, &tree, &merge.author).await?;
    let sign = signs(repo, merge.author.policy).await?;
    let place = Tree::add(repo, &scratch.join(&merge.id), &merge.base).await?;
    let made = async {
        if as_git_would {
            place.fill(&merge.base).await?;
            git_merge(&place, merge, &hooks, sign).await?;
        } else {
            place.fill(&tree).await?;
            let head = place.git_dir().await?.join("MERGE_HEAD");
            std::fs::write(&head, format!("{}\n", merge.tip)).map_err(Error::io("write", &head))?;
            commit_here(&place, Some(&hooks), sign, &merge.message, &merge.author.who).await?;
        }
        let head = place.head().await?;
        expect_parents(repo, &place, &head, &[&merge.base, &merge.tip]).await?;
        Ok((head, None))
    };
    closing(made.await, place).await
}

async fn git_merge(place: &Tree, merge: &Merge, hooks: &HookDir, sign: bool) -> Result<()> {
    let message = place.git_dir().await?.join("taskyard-message");
    std::fs::write(&message, text(&merge.message)).map_err(Error::io("write", &message))?;
    let call = with_hooks(place, "merge", Some(hooks), sign).args(["merge", "--no-ff", "--no-edit", "--no-stat", "--no-autostash"]);
    let call = call.args(["--no-verify-signatures", "--no-signoff", "--strategy=ort", "-F"]).arg(&message);
    let call = call.by(&merge.author.who).arg(&merge.tip);
    run_with_hooks(call, Some(hooks), sign).await
}

async fn squash(repo: &Repo, scratch: &Path, merge: &Merge, fork: &Fork, since: Option<&Oid>) -> Result<Made> {
    let tree = clean_tree(repo, merge, fork, since).await?;
    commit_on(repo, scratch, &OneCommit { id: &merge.id, base: &merge.base, tree: &tree, message: &merge.message }, &merge.author).await
}

/// One new commit to be made on a base.
pub(crate) struct OneCommit<'a> {
    /// Names the scratch tree.
    pub(crate) id: &'a str,
    /// Its parent.
    pub(crate) base: &'a Oid,
    /// Its tree, as far as hooks don't change it.
    pub(crate) tree: &'a Oid,
    /// Its message, likewise.
    pub(crate) message: &'a str,
}

/// Makes one commit as `git commit` would, with the hooks of a commit.
pub(crate) async fn commit_on(repo: &Repo, scratch: &Path, what: &OneCommit<'_>, author: &Author) -> Result<Made> {
    let hooks = ["pre-commit", "prepare-commit-msg", "commit-msg"];
    let Some(hooks) = HookDir::prepare(repo, scratch, author.policy.hooks, &hooks).await? else {
        let commit = commit_tree(repo, &ObjectStore::Repository, what.tree, &[what.base], what.message, author).await?;
        return Ok((commit, Some(what.tree.clone())));
    };
    probe_signing(repo, &ObjectStore::temporary(repo, scratch)?, what.tree, author).await?;
    let sign = signs(repo, author.policy).await?;
    let place = Tree::add(repo, &scratch.join(what.id), what.base).await?;
    let made = async {
        place.fill(what.tree).await?;
        commit_here(&place, Some(&hooks), sign, what.message, &author.who).await?;
        let head = place.head().await?;
        expect_parents(repo, &place, &head, &[what.base]).await?;
        Ok((head, None))
    };
    closing(made.await, place).await
}

/// `git commit` of what is in the tree's index.
pub(crate) async fn commit_here(place: &Tree, hooks: Option<&HookDir>, sign: bool, message: &str, who: &Identity) -> Result<()> {
    let call = with_hooks(place, "commit", hooks, sign).args(["commit", "--quiet", "--no-edit", "--allow-empty", "-F", "-"]);
    run_with_hooks(call.by(who).input(text(message)), hooks, sign).await
}

async fn rebase(repo: &Repo, scratch: &Path, merge: &Merge, fork: &Fork, since: Option<&Oid>) -> Result<Oid> {
    let hooks = HookDir::prepare(repo, scratch, merge.author.policy.hooks, &["pre-rebase", "prepare-commit-msg"]).await?;
    let sign = signs(repo, merge.author.policy).await?;
    probe_signing(repo, &ObjectStore::temporary(repo, scratch)?, &fork.tree, &merge.author).await?;
    if hooks.is_none() {
        // A tree that an attempt with hooks left when it was killed.
        let left = scratch.join(&merge.id);
        if left.exists() {
            crate::scratch::remove(repo, &left).await?;
        }
        let upstream = since.unwrap_or(&merge.base);
        let what = Replay { onto: &merge.base, upstream, tip: &merge.tip, committer: &merge.author.who, sign };
        match replay(repo, &what).await? {
            Replayed::Commit(commit) if commit == merge.base => return Err(nothing(merge)),
            Replayed::Commit(commit) => return Ok(commit),
            Replayed::Conflict(merged) => return Err(conflict(merge, shown(&merged.paths()))),
            Replayed::Peculiar => {}
        }
    }
    rebase_in_a_tree(repo, scratch, merge, since, (hooks.as_ref(), sign)).await
}

/// Has git itself rebase, in a private worktree.
async fn rebase_in_a_tree(
    repo: &Repo,
    scratch: &Path,
    merge: &Merge,
    since: Option<&Oid>,
    (hooks, sign): (Option<&HookDir>, bool),
) -> Result<Oid> {
    let place = Tree::add(repo, &scratch.join(&merge.id), &merge.tip).await?;
    let made = async {
        place.fill(&merge.tip).await?;
        let ran = start_rebase(&place, merge, since, hooks, sign).await;
        if let Err(error) = ran {
            let stuck = place.unmerged().await?;
            return Err(if stuck.is_empty() { error } else { conflict(merge, shown(&stuck)) });
        }
        let head = place.head().await?;
        if head == merge.base {
            return Err(nothing(merge));
        }
        Ok(head)
    };
    closing(made.await, place).await
}

/// `git rebase` in a tree that stands on the tip.
pub(crate) async fn start_rebase(place: &Tree, merge: &Merge, since: Option<&Oid>, hooks: Option<&HookDir>, sign: bool) -> Result<()> {
    let call = with_hooks(place, "rebase", hooks, sign);
    let call = call.args(["rebase", "--merge", "--no-autosquash", "--no-autostash", "--no-update-refs", "--no-rebase-merges"]);
    let call = call.args(["--no-fork-point", "--no-stat", "--empty=drop", "--onto"]).arg(&merge.base).arg(since.unwrap_or(&merge.base));
    run_with_hooks(committer(call, &merge.author.who), hooks, sign).await
}

/// Sets the committer only: replayed commits keep their authors.
pub(crate) fn committer(call: Call, who: &Identity) -> Call {
    call.env("GIT_COMMITTER_NAME", &who.name).env("GIT_COMMITTER_EMAIL", &who.email)
}

/// A call in the scratch tree that runs the wrapped hooks and nobody else's.
pub(crate) fn with_hooks(place: &Tree, stage: &'static str, hooks: Option<&HookDir>, sign: bool) -> Call {
    let call = plain(place.call(stage), sign).time_limit(place.hook_limit()).once();
    hooks.iter().fold(call, |call, hooks| call.arg("-c").arg(hooks.setting()))
}

/// Runs it and says whether a hook or the signing program is to blame when it fails.
pub(crate) async fn run_with_hooks(call: Call, hooks: Option<&HookDir>, sign: bool) -> Result<()> {
    let Err(error) = call.run().await else { return Ok(()) };
    match (&error, hooks.and_then(HookDir::refused), hooks.and_then(HookDir::running)) {
        (Error::Failed { stderr, .. }, Some(hook), _) => Err(Error::HookFailed { hook, text: stderr.clone() }),
        (Error::TimedOut { limit, stderr, .. }, _, Some(hook)) => {
            let text = format!("it didn't end within {} s; {stderr}", limit.as_secs_f32());
            Err(Error::HookFailed { hook, text: text.trim_end_matches("; ").into() })
        }
        _ if sign => Err(signing(error)),
        _ => Err(error),
    }
}

/// A hook may do anything, even commit in our tree; the result must still be the commit asked for.
async fn expect_parents(repo: &Repo, place: &Tree, commit: &Oid, parents: &[&Oid]) -> Result<()> {
    let found = history::parents(repo, commit).await?;
    if found.iter().eq(parents.iter().copied()) {
        return Ok(());
    }
    let reason = format!("a hook moved HEAD: {commit} doesn't follow {}", parents.first().map_or("anything", |p| p.as_str()));
    Err(Error::NotTheMerge { path: place.path().to_owned(), reason })
}

/// Closes the scratch tree, whatever the work came to.
pub(crate) async fn closing<T>(made: Result<T>, place: Tree) -> Result<T> {
    let closed = place.close().await;
    let made = made?;
    closed?;
    Ok(made)
}
