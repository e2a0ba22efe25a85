//! Moves a target branch to a computed commit, and has git refresh every tree in which it is checked out.
//!
//! A step of a saga: run again after a crash at any point it completes what is missing. First every tree is asked
//! whether it could follow, without changing anything; then the branch moves by compare-and-swap; then the trees
//! follow. A refusal leaves everything as it was. Never forces a tree: what the user has uncommitted stays.

use crate::error::{Error, Result};
use crate::file_path::{FilePath, shown};
use crate::history::{self, Changed};
use crate::hook_dir::HookDir;
use crate::oid::Oid;
use crate::refresh::{self, Checkout, paths};
use crate::repo::Repo;
use crate::runner::Policy;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A landing to make.
#[derive(Debug, Clone)]
pub struct Landing {
    /// The branch to move, without `refs/heads/`.
    pub branch: String,
    /// Where it must be.
    pub expected: Oid,
    /// Where it goes; must contain `expected`.
    pub commit: Oid,
    /// For the reflog.
    pub reason: String,
    /// Whether the `reference-transaction` hook runs.
    pub policy: Policy,
    /// A private ref that may be made along with it, and its commit. Whoever needs it makes sure of it afterwards.
    pub keep: Option<(String, Oid)>,
    /// What changes from `expected` to `commit`, where that is known already ([`history::changes`]).
    pub changed: Option<Vec<Changed>>,
}

/// What landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Landed {
    /// The branch.
    pub branch: String,
    /// Where it was.
    pub before: Oid,
    /// Where it is.
    pub after: Oid,
    /// The trees that show it now.
    pub trees: Vec<PathBuf>,
    /// The branch contained the commit already: an earlier attempt had moved it.
    pub already: bool,
}

/// Lands a commit. Holds the repository's lock while it does, so callers must not hold it. `scratch` is a folder of
/// ours. To be driven to its end: a git that is killed while it writes a tree leaves its lock there.
///
/// # Errors
/// [`Error::Moved`] when the branch is elsewhere; [`Error::Dirty`] naming tree and files, [`Error::InProgress`] when a
/// tree can't follow; [`Error::HookFailed`]. Nothing has changed then. [`Error::NotRefreshed`] when an earlier attempt
/// moved the branch and a tree can't follow now: calling again after setting the files aside completes it.
pub async fn land(repo: &Repo, scratch: &Path, landing: &Landing) -> Result<Landed> {
    repo.check_not_switched_bare()?;
    let full_ref = format!("refs/heads/{}", landing.branch);
    let _lock = repo.lock().await;
    let found = repo.tip(&full_ref).await?;
    let done = |trees, already| Landed {
        branch: landing.branch.clone(),
        before: landing.expected.clone(),
        after: landing.commit.clone(),
        trees,
        already,
    };
    match found {
        Some(at) if at == landing.expected && at != landing.commit => {}
        Some(at) if at == landing.commit => return Ok(done(complete(repo, scratch, landing, &[], None).await?, true)),
        // Somebody built on it: the trees followed then, or that commit couldn't have been made there.
        Some(at) if history::is_ancestor(repo, &landing.commit, &at).await? => return Ok(done(Vec::new(), true)),
        found => return Err(Error::Moved { name: full_ref, expected: landing.expected.clone(), found }),
    }
    let trees = refresh::checkouts(repo, &landing.branch).await?;
    let changed = could_all_follow(repo, scratch, landing, &trees).await?;
    move_branch(repo, scratch, landing, &full_ref).await?;
    let mut followed: Vec<&Checkout> = Vec::new();
    for tree in &trees {
        match tree.follow_on(&landing.branch, &landing.expected, &landing.commit, &changed).await {
            Ok(true) => followed.push(tree),
            // Its user has switched it to something else since it was asked.
            Ok(false) => {}
            Err(error) => {
                let stuck = Stuck { tree, error, followed: &followed };
                return Err(take_back(repo, landing, &full_ref, &changed, stuck).await);
            }
        }
    }
    let mut shown: Vec<PathBuf> = followed.into_iter().map(|tree| tree.path.clone()).collect();
    // Whoever switched a tree to the branch in this moment sees it as it was before.
    shown.extend(complete(repo, scratch, landing, &shown, Some(changed)).await?);
    Ok(done(shown, false))
}

/// Asks every tree whether it could follow; gives what changes. Right before the branch moves: the longer ago a tree was
/// asked, the more its user may have done to it since.
async fn could_all_follow(repo: &Repo, scratch: &Path, landing: &Landing, trees: &[Checkout]) -> Result<Vec<Changed>> {
    trees.iter().try_for_each(Checkout::check_idle)?;
    let (before, after) = (&landing.expected, &landing.commit);
    let asked = async {
        let mut all = Vec::new();
        for tree in trees {
            all.push(tree.would_follow(before, after).await?);
        }
        Ok::<_, Error>(all)
    };
    let changes = async {
        match &landing.changed {
            Some(known) => Ok(known.clone()),
            None => history::changes(repo, before, after).await,
        }
    };
    // Both to their ends: a question that is broken off leaves its lock on the tree.
    let (changed, would) = tokio::join!(changes, asked);
    let changed = changed?;
    for (tree, would) in trees.iter().zip(would?) {
        if !would || !tree.is_unobstructed(&changed) {
            tree.check_not_deleted(&paths(&changed)).await?;
            tree.could_follow(scratch, before, after, &changed).await?;
        }
    }
    Ok(changed)
}

/// Moves the branch, and makes the ref that is to be kept with it in the same transaction. Where a hook watches over
/// refs it sees the branch alone.
async fn move_branch(repo: &Repo, scratch: &Path, landing: &Landing, full_ref: &str) -> Result<()> {
    let hooks = HookDir::prepare(repo, scratch, landing.policy.hooks, &["reference-transaction"]).await?;
    if let (Some((keep, tip)), None) = (&landing.keep, &hooks) {
        let Landing { commit, expected, .. } = landing;
        let both = format!("update {full_ref} {commit} {expected}\ncreate {keep} {tip}\n");
        let call = repo.call_common("move the target").args(["update-ref", "--create-reflog", "-m"]).arg(&landing.reason);
        if call.arg("--stdin").input(both).run().await.is_ok() {
            return Ok(());
        }
        // Alone the branch says why it can't move, or it can.
    }
    let call = repo.call_common("move the target");
    let call = hooks.iter().fold(call, |call, hooks| call.arg("-c").arg(hooks.setting()).time_limit(repo.git().limits().hooks));
    let call = call.args(["update-ref", "--create-reflog", "-m"]).arg(&landing.reason);
    let moved = call.arg(full_ref).arg(&landing.commit).arg(&landing.expected).run().await;
    let Err(error) = moved else { return Ok(()) };
    if let (Some(hook), Some(text)) = (hooks.and_then(|hooks| hooks.refused()), error.stderr()) {
        return Err(Error::HookFailed { hook, text: text.into() });
    }
    let found = repo.tip(full_ref).await?;
    if found.as_ref() == Some(&landing.expected) {
        return Err(error);
    }
    // Git broke off behind its work.
    if found.as_ref() == Some(&landing.commit) {
        return Ok(());
    }
    Err(Error::Moved { name: full_ref.into(), expected: landing.expected.clone(), found })
}

/// A tree that couldn't follow after all, and those that had.
struct Stuck<'a> {
    tree: &'a Checkout,
    error: Error,
    followed: &'a [&'a Checkout],
}

/// Somebody changed a tree between our asking and its turn, or git broke off in it (a filter that fails, a full disk):
/// what it had written there goes back, the trees that had followed, and the branch. Where even that can't be done
/// everything stays moved, for a later call to complete.
async fn take_back(repo: &Repo, landing: &Landing, full_ref: &str, changed: &[Changed], stuck: Stuck<'_>) -> Error {
    let mut back = Vec::new();
    // A refusal has touched nothing; anything else may have got anywhere.
    let is_undone =
        matches!(stuck.error, Error::Dirty { .. }) || stuck.tree.take_back(&landing.expected, &landing.commit, changed).await.is_ok();
    for tree in stuck.followed.iter().filter(|_| is_undone) {
        if tree.follow(&landing.commit, &landing.expected, changed).await.is_err() {
            break;
        }
        back.push(tree);
    }
    if is_undone && back.len() == stuck.followed.len() {
        let call = repo.call_common("move the target back").args(["update-ref", "-m", "taskyard: taken back"]);
        if call.arg(full_ref).arg(&landing.expected).arg(&landing.commit).run().await.is_ok() {
            return stuck.error;
        }
    }
    for tree in back {
        // What can't follow a second time is completed by the next call, like the tree that was stuck.
        let _ = tree.follow(&landing.expected, &landing.commit, changed).await;
    }
    match stuck.error {
        Error::Dirty { tree, files } => not_refreshed(landing, tree, files),
        error => not_refreshed(landing, stuck.tree.path.clone(), vec![error.to_string()]),
    }
}

/// The branch is there already: whatever is undone in the trees, but for `done`, is done now. `changed` where it is known.
async fn complete(repo: &Repo, scratch: &Path, landing: &Landing, done: &[PathBuf], changed: Option<Vec<Changed>>) -> Result<Vec<PathBuf>> {
    let mut late = refresh::checkouts(repo, &landing.branch).await?;
    late.retain(|tree| tree.attached && !done.contains(&tree.path));
    if late.is_empty() {
        return Ok(Vec::new());
    }
    let changed = match changed {
        Some(changed) => changed,
        None => history::changes(repo, &landing.expected, &landing.commit).await?,
    };
    let names = paths(&changed);
    let mut trees = Vec::new();
    for tree in late {
        let behind = tree.still_at(&landing.expected, &landing.commit, &names).await?;
        if !behind.is_empty() {
            tree.check_idle()?;
            tree.adopt(&landing.commit, &behind).await?;
            let could = tree.could_follow(scratch, &landing.expected, &landing.commit, &changed).await;
            let followed = match could {
                Ok(()) => tree.follow(&landing.expected, &landing.commit, &changed).await,
                Err(error) => Err(error),
            };
            followed.map_err(|error| match error {
                Error::Dirty { tree, files } => not_refreshed(landing, tree, files),
                other => other,
            })?;
        }
        trees.push(tree.path);
    }
    Ok(trees)
}

fn not_refreshed(landing: &Landing, tree: PathBuf, files: Vec<String>) -> Error {
    let (before, after) = (landing.expected.clone(), landing.commit.clone());
    Error::NotRefreshed { branch: landing.branch.clone(), before, after, tree, files }
}

/// For errors about a tree.
pub(crate) fn dirty(tree: &Path, files: &[FilePath]) -> Error {
    Error::Dirty { tree: tree.to_owned(), files: shown(files) }
}
