//! A merge in conflict, left open in a private worktree for a person to resolve.
//!
//! The target doesn't move and no tree of the user's is touched. What the merge is about is kept in the worktree's
//! own git folder, so that a restart finds it again. [`continue_merge`] makes the commit, carried over where the target
//! has moved meanwhile, which [`crate::land`] then lands; [`abort_merge`] takes everything away, and [`holds_work`] says
//! before that whether it would take anything of a person's. Each can be run again after a crash.

use crate::by_hand;
use crate::carry::{Carried, Carry};
use crate::error::{Error, Result};
use crate::file_path::{FilePath, shown};
use crate::history;
use crate::hook_dir::HookDir;
use crate::merge::{Computed, Merge, commit_here, committer, run_with_hooks, start_rebase, with_hooks};
use crate::merge_tree::{ObjectStore, merge_tree};
use crate::oid::Oid;
use crate::record::{Author, probe_signing, protect, signs, text};
use crate::repo::Repo;
use crate::revert::{Earlier, reapply};
use crate::scratch::{self, Tree};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use taskyard_domain::merge::Strategy;

/// Where a worktree's git folder keeps what its merge is about.
const STATE: &str = "taskyard-merge.json";

/// An open merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenMerge {
    /// The private merge worktree.
    pub path: PathBuf,
    /// The target branch.
    pub branch: String,
    /// The target's commit when it was opened.
    pub target: Oid,
    /// The commit merged.
    pub tip: Oid,
    /// The strategy.
    pub strategy: Strategy,
    /// The files that are unmerged now. A rebase may stop again with others.
    pub files: Vec<FilePath>,
}

/// What continuing came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Continued {
    /// The result exists under its private ref; the worktree is still there.
    Concluded(Computed),
    /// A rebase stopped at its next commit.
    Stopped(OpenMerge),
}

/// What the worktree's git folder keeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    id: String,
    branch: String,
    target: Oid,
    base: Oid,
    tip: Oid,
    since: Option<Oid>,
    strategy: Strategy,
    message: String,
    /// The files that were in conflict at any time.
    conflicted: Vec<Vec<u8>>,
    /// The conflict is laid out.
    ready: bool,
    /// What the folder was when the conflict had been laid out.
    #[serde(default)]
    laid: Option<String>,
    /// The first commit with everything resolved.
    #[serde(default)]
    resolved: Option<Oid>,
    /// The result.
    concluded: Option<Oid>,
    /// The commit in the folder and the target's that the result is made of.
    #[serde(default)]
    made_of: Option<(Oid, Oid)>,
}

/// Opens a merge that conflicts, as a worktree at `path`. `merge.base` is the commit of the target `branch`; `earlier` as for
/// [`crate::revert::compute_again`]. Opening the same `merge.id` at the same place again gives what is there.
///
/// # Errors
/// [`Error::HookFailed`] of `pre-rebase`; git's. No worktree is left then.
pub async fn open_conflicted_merge(
    repo: &Repo,
    scratch: &Path,
    path: &Path,
    branch: &str,
    merge: &Merge,
    earlier: Option<&Earlier>,
) -> Result<OpenMerge> {
    if let Some((tree, state)) = find(repo, path).await?
        && state.ready
        && state.id == merge.id
    {
        return describe(&tree, &state).await;
    }
    let (base, since) = start_from(repo, scratch, merge, earlier).await?;
    let start = if merge.strategy == Strategy::Rebase { &merge.tip } else { &base };
    let tree = Tree::add(repo, path, start).await?;
    let mut state = State {
        id: merge.id.clone(),
        branch: branch.into(),
        target: merge.base.clone(),
        base,
        tip: merge.tip.clone(),
        since,
        strategy: merge.strategy,
        message: merge.message.clone(),
        conflicted: Vec::new(),
        ready: false,
        laid: None,
        resolved: None,
        concluded: None,
        made_of: None,
    };
    match lay_out(repo, scratch, &tree, &mut state, &merge.author).await {
        Ok(()) => describe(&tree, &state).await,
        Err(error) => {
            tree.close().await?;
            Err(error)
        }
    }
}

/// The state of the merge that is open at `path`.
///
/// # Errors
/// [`Error::NoOpenMerge`].
pub async fn open_merge(repo: &Repo, path: &Path) -> Result<OpenMerge> {
    let (tree, state) = found(repo, path).await?;
    describe(&tree, &state).await
}

/// Concludes the merge that is open at `path`, or takes a rebase to its next stop. Where the target has moved since it was
/// opened, what was resolved is carried over to where that is now. The worktree stays until [`abort_merge`]; calling
/// again after the result exists gives the same result as long as the target stays.
///
/// # Errors
/// [`Error::NoOpenMerge`]; [`Error::Moved`] when the target is gone; [`Error::Unresolved`] while files are unmerged,
/// not staged, or hold conflict markers; [`Error::NotTheMerge`] when somebody has committed something else there;
/// [`Error::Conflict`] with the target's commit and the one that holds the resolution, when the two disagree;
/// [`Error::HookFailed`], [`Error::SigningFailed`]. The merge stays open then.
pub async fn continue_merge(repo: &Repo, scratch: &Path, path: &Path, author: &Author) -> Result<Continued> {
    let (tree, mut state) = found(repo, path).await?;
    let name = format!("refs/heads/{}", state.branch);
    let Some(target) = repo.tip(&name).await? else {
        return Err(Error::Moved { name, expected: state.target, found: None });
    };
    check_resolved(&tree, &state).await?;
    let base_tree = history::tree_of(repo, &state.base).await?;
    probe_signing(repo, &ObjectStore::temporary(repo, scratch)?, &base_tree, author).await?;
    let sign = signs(repo, author.policy).await?;
    if state.strategy == Strategy::Rebase {
        if let Some(open) = continue_rebase(repo, scratch, &tree, &mut state, author, sign).await? {
            return Ok(Continued::Stopped(open));
        }
    } else {
        commit_resolved(repo, scratch, &tree, &mut state, author, sign).await?;
    }
    let head = tree.head().await?;
    let commit = match state.concluded.clone() {
        Some(made) if state.made_of.as_ref() == Some(&(head.clone(), target.clone())) => made,
        // As it was made, it follows the target; any later commit in the folder doesn't alone.
        _ if target == state.target && state.resolved.as_ref() == Some(&head) => head.clone(),
        _ => carried(repo, scratch, (&tree, &mut state), author, (&head, &target)).await?,
    };
    conclude(repo, &tree, &mut state, commit, (head, target)).await
}

/// Commits what is resolved and staged, and proves that what is committed is the merge.
async fn commit_resolved(repo: &Repo, scratch: &Path, tree: &Tree, state: &mut State, author: &Author, sign: bool) -> Result<()> {
    let git_dir = tree.git_dir().await?;
    let is_first = tree.head().await? == state.base;
    if is_first && state.strategy == Strategy::Merge && !git_dir.join("MERGE_HEAD").exists() {
        return Err(not_the_merge(tree, "the merge was given up there".into()));
    }
    let hooks = || HookDir::prepare(repo, scratch, author.policy.hooks, &["pre-commit", "prepare-commit-msg", "commit-msg"]);
    if is_first {
        commit_here(tree, hooks().await?.as_ref(), sign, &state.message, &author.who).await?;
    }
    let head = tree.head().await?;
    let wanted: &[&Oid] = if state.strategy == Strategy::Merge { &[&state.base, &state.tip] } else { &[&state.base] };
    if history::parents(repo, &head).await?.iter().eq(wanted.iter().copied()) {
        state.resolved = Some(head);
        store(&git_dir, state)?;
    }
    let follows = match &state.resolved {
        Some(resolved) => history::is_ancestor(repo, resolved, &tree.head().await?).await?,
        None => false,
    };
    if !follows {
        return Err(not_the_merge(tree, format!("{} doesn't follow {}", tree.head().await?, state.base)));
    }
    // What was staged since, or the target's later work that a person has merged in.
    let call = tree.call("look for staged files").args(["diff", "--cached", "--quiet", "--no-ext-diff"]);
    if git_dir.join("MERGE_HEAD").exists() || !call.accept(&[0, 1]).await?.ok() {
        let message = format!("Take in {}\n\n{}", state.branch, state.message);
        commit_here(tree, hooks().await?.as_ref(), sign, &message, &author.who).await?;
    }
    Ok(())
}

/// What is resolved up to `head`, carried over to `target`.
async fn carried(
    repo: &Repo,
    scratch: &Path,
    (tree, state): (&Tree, &mut State),
    author: &Author,
    (head, target): (&Oid, &Oid),
) -> Result<Oid> {
    let first = state.resolved.as_ref().unwrap_or(head);
    let merge = Merge {
        id: state.id.clone(),
        base: state.target.clone(),
        tip: state.tip.clone(),
        strategy: state.strategy,
        // A person who committed by hand said it in their own words.
        message: tree.call("read the message").args(["log", "-1", "--format=%B"]).arg(first).text().await?,
        author: author.clone(),
    };
    match (Carry { merge: &merge, resolved: head, onto: target }).run(repo, scratch).await? {
        Carried::Commit(commit) => Ok(commit),
        Carried::Conflict(files) => {
            state.conflicted.extend(files.iter().map(|path| path.as_bytes().to_vec()));
            store(&tree.git_dir().await?, state)?;
            Err(Error::Conflict { ours: target.clone(), theirs: head.clone(), files: shown(&files) })
        }
    }
}

/// Whether the folder of the merge at `path` holds anything beyond what git itself put there: resolved files, edits,
/// new files that aren't ignored, commits. Of a merge that `has_landed`, anything beyond what landed.
///
/// # Errors
/// [`Error::Unsaved`] when files are there, but git can't tell any more what they are; git's.
pub async fn holds_work(repo: &Repo, path: &Path, has_landed: bool) -> Result<bool> {
    let Some((tree, state)) = find(repo, path).await? else {
        let is_empty = std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
        let what = "files in a merge worktree that git doesn't know any more".into();
        return if is_empty { Ok(false) } else { Err(Error::Unsaved { path: path.to_owned(), what }) };
    };
    if !state.ready {
        return Ok(false);
    }
    if has_landed {
        let landed = state.made_of.as_ref().map(|(head, _)| head).or(state.concluded.as_ref());
        return Ok(landed != Some(&tree.head().await?) || !by_hand::is_clean(repo, path).await?);
    }
    Ok(state.laid != Some(by_hand::print(repo, &tree).await?))
}

/// Gives up the merge at `path`, or cleans up after one that landed: the worktree goes. Fine when there is none.
/// The private ref of a result stays until [`crate::record::release`].
///
/// # Errors
/// Git's, or the file system's.
pub async fn abort_merge(repo: &Repo, path: &Path) -> Result<()> {
    scratch::remove(repo, path).await
}

/// The commit to merge onto, and up to where the tip's work is in it already. Where undoing the revert is what conflicts,
/// the whole work is merged onto the target in one go instead, from where it starts.
async fn start_from(repo: &Repo, scratch: &Path, merge: &Merge, earlier: Option<&Earlier>) -> Result<(Oid, Option<Oid>)> {
    let Some(earlier) = earlier else { return Ok((merge.base.clone(), None)) };
    let base = match reapply(repo, scratch, merge, earlier).await {
        Err(Error::Conflict { .. }) => return Ok((merge.base.clone(), earlier.start(repo, &merge.tip).await?)),
        base => base?.unwrap_or_else(|| merge.base.clone()),
    };
    let since = history::is_ancestor(repo, &earlier.tip, &merge.tip).await?.then(|| earlier.tip.clone());
    Ok((base, since))
}

/// Puts the conflict into the new worktree.
async fn lay_out(repo: &Repo, scratch: &Path, tree: &Tree, state: &mut State, author: &Author) -> Result<()> {
    let git_dir = tree.git_dir().await?;
    store(&git_dir, state)?;
    if state.strategy == Strategy::Rebase {
        lay_out_rebase(repo, scratch, tree, state, author).await?;
    } else {
        let merged = merge_tree(repo, &ObjectStore::Repository, state.since.as_ref(), &state.base, &state.tip).await?;
        tree.fill(&merged.tree).await?;
        let null = "0".repeat(state.base.as_str().len());
        let gone = merged.files.iter().map(|file| [format!("0 {null}\t").as_bytes(), file.path.as_bytes(), b"\0"].concat());
        let sides = merged.stages.iter().map(|stage| [&stage[..], b"\0"].concat());
        let lines: Vec<u8> = gone.chain(sides).flatten().collect();
        tree.call("lay out the conflict").args(["update-index", "-z", "--index-info"]).input(lines).run().await?;
        if state.strategy == Strategy::Merge {
            write(&git_dir.join("MERGE_HEAD"), format!("{}\n", state.tip).as_bytes())?;
            write(&git_dir.join("MERGE_MODE"), b"no-ff")?;
        }
        write(&git_dir.join("MERGE_MSG"), text(&state.message).as_bytes())?;
    }
    state.conflicted = tree.unmerged().await?.iter().map(|path| path.as_bytes().to_vec()).collect();
    state.laid = Some(by_hand::print(repo, tree).await?);
    state.ready = true;
    store(&git_dir, state)
}

async fn lay_out_rebase(repo: &Repo, scratch: &Path, tree: &Tree, state: &State, author: &Author) -> Result<()> {
    tree.fill(&state.tip).await?;
    let sign = signs(repo, author.policy).await?;
    let hooks = HookDir::prepare(repo, scratch, author.policy.hooks, &["pre-rebase", "prepare-commit-msg"]).await?;
    let merge = Merge {
        id: state.id.clone(),
        base: state.base.clone(),
        tip: state.tip.clone(),
        strategy: state.strategy,
        message: state.message.clone(),
        author: author.clone(),
    };
    match start_rebase(tree, &merge, state.since.as_ref(), hooks.as_ref(), sign).await {
        Err(error) if tree.unmerged().await?.is_empty() => Err(error),
        _ => Ok(()),
    }
}

/// Takes a rebase to its end, or to its next stop, which it returns.
async fn continue_rebase(
    repo: &Repo,
    scratch: &Path,
    tree: &Tree,
    state: &mut State,
    author: &Author,
    sign: bool,
) -> Result<Option<OpenMerge>> {
    let git_dir = tree.git_dir().await?;
    if git_dir.join("rebase-merge").exists() {
        let hooks = HookDir::prepare(repo, scratch, author.policy.hooks, &["pre-commit", "prepare-commit-msg", "commit-msg"]).await?;
        let call = with_hooks(tree, "continue the rebase", hooks.as_ref(), sign).args(["rebase", "--continue"]);
        let ran = run_with_hooks(committer(call, &author.who), hooks.as_ref(), sign).await;
        let stuck = tree.unmerged().await?;
        if !stuck.is_empty() {
            state.conflicted.extend(stuck.iter().map(|path| path.as_bytes().to_vec()));
            store(&git_dir, state)?;
            return describe(tree, state).await.map(Some);
        }
        ran?;
    }
    let head = tree.head().await?;
    if git_dir.join("rebase-merge").exists() || !history::is_ancestor(repo, &state.base, &head).await? {
        return Err(not_the_merge(tree, format!("the rebase hasn't ended on top of {}", state.base)));
    }
    if head == state.base && state.base == state.target {
        return Err(Error::NothingToMerge { target: state.target.clone(), what: format!("everything of {}", state.tip) });
    }
    let staged = tree.call("look for staged files").args(["diff", "--cached", "--name-only", "-z", "--no-ext-diff"]).fields().await?;
    if !staged.is_empty() {
        let files = shown(&staged.into_iter().map(FilePath::new).collect::<Vec<_>>());
        let reason = "these files are staged, but in none of the rebased commits; commit them or take them back".into();
        return Err(Error::Unresolved { path: tree.path().to_owned(), reason, files });
    }
    state.resolved = Some(head);
    Ok(None)
}

async fn conclude(repo: &Repo, tree: &Tree, state: &mut State, commit: Oid, (head, target): (Oid, Oid)) -> Result<Continued> {
    protect(repo, &state.id, &commit).await?;
    state.concluded = Some(commit.clone());
    state.made_of = Some((head, target.clone()));
    store(&tree.git_dir().await?, state)?;
    let merge_base = history::merge_base(repo, &target, &state.tip).await?;
    let (tip, strategy) = (state.tip.clone(), state.strategy);
    Ok(Continued::Concluded(Computed {
        tree: history::tree_of(repo, &commit).await?,
        commit,
        strategy,
        target_before: target,
        tip,
        merge_base,
    }))
}

/// Refuses while anything isn't resolved, or wouldn't be in the commit.
async fn check_resolved(tree: &Tree, state: &State) -> Result<()> {
    let unresolved = |reason: &str, files: &[FilePath]| {
        Err(Error::Unresolved { path: tree.path().to_owned(), reason: reason.into(), files: shown(files) })
    };
    let unmerged = tree.unmerged().await?;
    if !unmerged.is_empty() {
        return unresolved("these files are unmerged; edit them and `git add` them", &unmerged);
    }
    let names = |fields: Vec<Vec<u8>>| fields.into_iter().map(FilePath::new).collect::<Vec<_>>();
    let edited = tree.call("list edited files").args(["diff", "--name-only", "-z", "--no-ext-diff"]).fields().await?;
    let new = tree.call("list new files").args(["ls-files", "--others", "--exclude-standard", "-z"]).fields().await?;
    let unstaged = names(edited.into_iter().chain(new).collect());
    if !unstaged.is_empty() {
        return unresolved("these files aren't staged; `git add` them or take them away", &unstaged);
    }
    let mut marked = Vec::new();
    for path in names(state.conflicted.clone()) {
        if has_markers(tree, state, &path).await? && !marked.contains(&path) {
            marked.push(path);
        }
    }
    if marked.is_empty() { Ok(()) } else { unresolved("conflict markers are left in these files", &marked) }
}

/// Whether the staged content has conflict markers that neither side had.
async fn has_markers(tree: &Tree, state: &State, path: &FilePath) -> Result<bool> {
    let staged = content(tree, ":0", path).await?;
    let found = markers(&staged);
    if found.is_empty() {
        return Ok(false);
    }
    let (ours, theirs) = (content(tree, state.base.as_str(), path).await?, content(tree, state.tip.as_str(), path).await?);
    let known: HashSet<&[u8]> = markers(&ours).into_iter().chain(markers(&theirs)).collect();
    Ok(found.iter().any(|line| !known.contains(line)))
}

/// A file's content in the index or a commit; empty when it isn't there.
async fn content(tree: &Tree, at: &str, path: &FilePath) -> Result<Vec<u8>> {
    let mut name = std::ffi::OsString::from(format!("{at}:"));
    name.push(path.as_os_str());
    let output = tree.call("read a resolved file").args(["cat-file", "blob"]).arg(name).accept(&[0, 1, 128]).await?;
    Ok(if output.ok() { output.stdout } else { Vec::new() })
}

/// Lines that begin or end a conflict.
fn markers(content: &[u8]) -> Vec<&[u8]> {
    let marks = |line: &&[u8]| {
        let first = line.first().copied().filter(|b| matches!(b, b'<' | b'>' | b'|'));
        let count = line.iter().take_while(|b| Some(**b) == first).count();
        count >= 7 && line.get(count) == Some(&b' ')
    };
    content.split(|b| *b == b'\n').filter(marks).collect()
}

fn not_the_merge(tree: &Tree, reason: String) -> Error {
    Error::NotTheMerge { path: tree.path().to_owned(), reason }
}

async fn describe(tree: &Tree, state: &State) -> Result<OpenMerge> {
    let files = tree.unmerged().await?;
    let (branch, target, tip) = (state.branch.clone(), state.target.clone(), state.tip.clone());
    Ok(OpenMerge { path: tree.path().to_owned(), branch, target, tip, strategy: state.strategy, files })
}

async fn found(repo: &Repo, path: &Path) -> Result<(Tree, State)> {
    let none = || Error::NoOpenMerge { path: path.to_owned() };
    find(repo, path).await?.filter(|(_, state)| state.ready).ok_or_else(none)
}

/// The worktree at `path` and what it is about, when it is one of this repository.
async fn find(repo: &Repo, path: &Path) -> Result<Option<(Tree, State)>> {
    if !path.join(".git").is_file() {
        return Ok(None);
    }
    let tree = Tree::at(repo, path);
    let Ok(git_dir) = tree.git_dir().await else { return Ok(None) };
    let inside = git_dir.starts_with(repo.common_dir().canonicalize().unwrap_or_else(|_| repo.common_dir().to_owned()));
    let Ok(bytes) = std::fs::read(git_dir.join(STATE)) else { return Ok(None) };
    let state = serde_json::from_slice(&bytes).map_err(|e| Error::Unreadable { stage: "read the open merge", what: e.to_string() })?;
    Ok(inside.then_some((tree, state)))
}

fn store(git_dir: &Path, state: &State) -> Result<()> {
    let bytes = serde_json::to_vec(state).map_err(|e| Error::Unreadable { stage: "keep the open merge", what: e.to_string() })?;
    let half = git_dir.join(format!("{STATE}.new"));
    write(&half, &bytes)?;
    std::fs::rename(&half, git_dir.join(STATE)).map_err(Error::io("write", &half))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(Error::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_begin_or_end_a_conflict_are_markers() {
        let text = b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> theirs\n|||||||\n<<<<<<<<<< long\n<<<<<< six\nx <<<<<<< y\n";
        assert_eq!(markers(text), [&b"<<<<<<< HEAD"[..], b">>>>>>> theirs", b"<<<<<<<<<< long"]);
        assert!(markers(b"Heading\n=======\n").is_empty());
    }
}
