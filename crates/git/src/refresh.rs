//! Trees in which a branch is checked out, and how they follow when it moves.
//!
//! A tree follows by git's own two-way merge of index and files (`git read-tree -m -u`), which keeps uncommitted
//! changes to other files and refuses to touch changed ones. Reads, and with [`Checkout::follow`] writes, the
//! user's own checkouts; never forces, stashes or resets anything.

use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::history::Changed;
use crate::land::dirty;
use crate::layout::head_in;
use crate::oid::Oid;
use crate::repo::Repo;
use crate::runner::{Call, Git, path_from, split_nul};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// How long a tree whose index is locked is left alone before it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The names of changed files.
pub(crate) fn paths(changed: &[Changed]) -> Vec<FilePath> {
    changed.iter().map(|file| file.path.clone()).collect()
}

/// A tree that has the branch checked out.
#[derive(Debug, Clone)]
pub(crate) struct Checkout {
    git: Git,
    /// Its top folder.
    pub(crate) path: PathBuf,
    git_dir: PathBuf,
    /// Its HEAD is the branch; otherwise an operation in it will move the branch.
    pub(crate) attached: bool,
    operation: Option<&'static str>,
}

/// Markers of operations in a tree's git folder.
const OPERATIONS: &[(&str, &str)] = &[
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick"),
    ("BISECT_LOG", "bisect"),
];

/// Every tree that has `branch` checked out, or holds it in a rebase or bisection. Trees whose folder is gone are
/// left out.
pub(crate) async fn checkouts(repo: &Repo, branch: &str) -> Result<Vec<Checkout>> {
    let places = places(repo).await?;
    let mut found: Vec<Checkout> = Vec::new();
    for path in places {
        let git_dir = match git_dir_at(&path) {
            Some(git_dir) => git_dir,
            None if !path.is_dir() => continue,
            None => match git_dir_of(repo, &path).await {
                Some(git_dir) => git_dir,
                None => continue,
            },
        };
        let attached = match head_in(&git_dir) {
            Some(head) => head.as_deref() == Some(branch),
            None => is_on(repo, &path, branch).await?,
        };
        // Of the many that have something else checked out no more is asked.
        if !attached && !is_held(&git_dir, branch) {
            continue;
        }
        let Ok(git_dir) = git_dir.canonicalize() else { continue };
        if found.iter().all(|known| known.git_dir != git_dir) {
            let operation = OPERATIONS.iter().find(|(name, _)| git_dir.join(name).exists()).map(|(_, operation)| *operation);
            found.push(Checkout { git: repo.git().clone(), attached, operation, path, git_dir });
        }
    }
    Ok(found)
}

/// The folders of all checkouts, whether they are there or not.
async fn places(repo: &Repo) -> Result<Vec<PathBuf>> {
    if let Some(all) = repo.plain_checkouts() {
        return Ok(all);
    }
    let output = repo.call_common("list worktrees").args(["worktree", "list", "--porcelain", "-z"]).run().await?;
    let mut places = Vec::new();
    if !repo.is_bare() && !repo.is_linked() {
        // First, because git lists a submodule's repository by its git folder.
        places.push(repo.root().to_owned());
    }
    for record in split_nul(&output.stdout).split(Vec::is_empty) {
        let bare = record.iter().any(|field| field == b"bare");
        places.extend(record.iter().find_map(|field| field.strip_prefix(b"worktree ").map(path_from)).filter(|_| !bare));
    }
    Ok(places)
}

/// The git folder of a checkout by its `.git`; `None` when that is odd in any way and git has to say.
fn git_dir_at(path: &Path) -> Option<PathBuf> {
    let link = path.join(".git");
    let target = if link.symlink_metadata().ok()?.is_dir() {
        link
    } else {
        let text = std::fs::read(&link).ok()?;
        path.join(path_from(text.strip_prefix(b"gitdir: ")?.strip_suffix(b"\n")?))
    };
    target.join("HEAD").is_file().then_some(target)
}

async fn git_dir_of(repo: &Repo, path: &Path) -> Option<PathBuf> {
    let output = repo.git().call("find a worktree", path).args(["rev-parse", "--absolute-git-dir"]).run().await.ok()?;
    Some(path_from(output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout)))
}

async fn is_on(repo: &Repo, path: &Path, branch: &str) -> Result<bool> {
    let output = repo.git().call("read HEAD", path).args(["symbolic-ref", "-q", "HEAD"]).accept(&[0, 1]).await?;
    Ok(output.stdout.strip_suffix(b"\n") == Some(format!("refs/heads/{branch}").as_bytes()))
}

/// Whether an operation in the tree will put the branch back to something of its own.
fn is_held(git_dir: &Path, branch: &str) -> bool {
    let is_under_way = ["rebase-merge", "rebase-apply", "BISECT_START"].iter().any(|name| git_dir.join(name).exists());
    let named = |name: &str| std::fs::read_to_string(git_dir.join(name)).unwrap_or_default();
    is_under_way && is_named(named, branch)
}

fn is_named(named: impl Fn(&str) -> String, branch: &str) -> bool {
    ["rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"].iter().any(|file| {
        let name = named(file);
        name.trim().strip_prefix("refs/heads/").unwrap_or(name.trim()) == branch
    }) || named("rebase-merge/update-refs").lines().any(|line| line.strip_prefix("refs/heads/") == Some(branch))
}

/// Whether git refuses to follow because files differ from what it last saw of them.
fn is_stale(error: &Error) -> bool {
    error.stderr().is_some_and(|said| said.contains("not uptodate") || said.contains("would be overwritten"))
}

impl Checkout {
    fn call(&self, stage: &'static str) -> Call {
        self.git.call(stage, &self.path)
    }

    /// Whether it was on `branch` and plainly isn't any more.
    pub(crate) fn has_left(&self, branch: &str) -> bool {
        self.attached && head_in(&self.git_dir).is_some_and(|head| head.as_deref() != Some(branch))
    }

    /// Refuses while an operation is in progress.
    pub(crate) fn check_idle(&self) -> Result<()> {
        match self.operation {
            Some(operation) => Err(Error::InProgress { path: self.path.clone(), operation }),
            None => Ok(()),
        }
    }

    /// Whether git says at once that the tree can follow, with no file in the way that git wouldn't mind. One that it
    /// doubts is to be looked at with [`Checkout::could_follow`]. Changes nothing, and looks only at what would change.
    pub(crate) async fn would_follow(&self, before: &Oid, after: &Oid) -> Result<bool> {
        let call = self.call("ask a tree to follow").args(["read-tree", "-m", "-u", "-n", "--no-recurse-submodules"]);
        match call.arg(before).arg(after).once().output().await {
            Err(Error::Locked { .. }) => Ok(false),
            answer => Ok(answer?.ok()),
        }
    }

    /// Whether the changed files that were there are there, and nothing is where new ones go.
    pub(crate) fn is_unobstructed(&self, changed: &[Changed]) -> bool {
        let fits = |file: &Changed| {
            let there = file.path.within(&self.path).symlink_metadata();
            if file.is_new { there.is_err() && self.obstacle(&file.path).is_none() } else { there.is_ok() }
        };
        changed.iter().all(fits)
    }

    /// What isn't a folder and stands where one would have to be for `path`.
    fn obstacle(&self, path: &FilePath) -> Option<FilePath> {
        let ends = path.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let above = ends.map(|end| FilePath::new(&path.as_bytes()[..end]));
        above.into_iter().find(|above| above.within(&self.path).symlink_metadata().is_ok_and(|meta| !meta.is_dir()))
    }

    /// Refuses where the user has deleted one of the changed files: git would just bring it back.
    pub(crate) async fn check_not_deleted(&self, changed: &[FilePath]) -> Result<()> {
        let call = self.call("list deleted files").args(["diff-files", "--name-only", "--diff-filter=D", "-z"]);
        let deleted: Vec<FilePath> = call.fields().await?.into_iter().map(FilePath::new).filter(|path| changed.contains(path)).collect();
        if deleted.is_empty() { Ok(()) } else { Err(dirty(&self.path, &deleted)) }
    }

    /// Whether it could follow from `before` to `after`, without changing anything.
    pub(crate) async fn could_follow(&self, scratch: &Path, before: &Oid, after: &Oid, changed: &[Changed]) -> Result<()> {
        // On a copy of the index, so that not even its cached file times change when the answer is no.
        let index = self.index_copy(scratch)?;
        let on_copy = |call: Call| index.iter().fold(call, |call, copy| call.env("GIT_INDEX_FILE", copy.path()));
        on_copy(self.refresh_times()).accept(&[0, 1]).await?;
        let call = on_copy(self.call("ask a tree to follow")).args(["read-tree", "-m", "-u", "-n", "--no-recurse-submodules"]);
        let answer = call.arg(before).arg(after).run().await;
        self.check_nothing_hidden(changed).await?;
        self.explain(answer.map(drop), before, &paths(changed)).await
    }

    /// Follows from `before` to `after` unless its user has switched it from `branch` to something else meanwhile, also
    /// while its index was locked; says whether it follows.
    pub(crate) async fn follow_on(&self, branch: &str, before: &Oid, after: &Oid, changed: &[Changed]) -> Result<bool> {
        let give_up = Instant::now() + self.git.limits().lock;
        while !self.has_left(branch) {
            let call = self.call("refresh a tree").args(["read-tree", "-m", "-u", "--no-recurse-submodules"]).arg(before).arg(after);
            match call.once().run().await {
                Err(Error::Locked { .. }) if Instant::now() < give_up => tokio::time::sleep(LOOK_AGAIN).await,
                // Refused as a whole, so that nothing is touched yet.
                Err(error) if is_stale(&error) => return self.follow(before, after, changed).await.map(|()| true),
                answer => return self.explain(answer.map(drop), before, &paths(changed)).await.map(|()| true),
            }
        }
        Ok(false)
    }

    /// Follows from `before` to `after`. Does nothing where index and files are at `after` already.
    pub(crate) async fn follow(&self, before: &Oid, after: &Oid, changed: &[Changed]) -> Result<()> {
        let call = self.call("refresh a tree").args(["read-tree", "-m", "-u", "--no-recurse-submodules"]).arg(before).arg(after);
        match call.clone().run().await {
            Err(error) if is_stale(&error) => {}
            answer => return self.explain(answer.map(drop), before, &paths(changed)).await,
        }
        // Git refuses as a whole, also for files that were only touched since it last looked at them.
        self.refresh_times().accept(&[0, 1]).await?;
        self.explain(call.run().await.map(drop), before, &paths(changed)).await
    }

    /// A copy of the index; `None` when the tree has none.
    fn index_copy(&self, scratch: &Path) -> Result<Option<tempfile::NamedTempFile>> {
        let index = self.git_dir.join("index");
        if !index.exists() {
            return Ok(None);
        }
        std::fs::create_dir_all(scratch).map_err(Error::io("make", scratch))?;
        let copy = tempfile::Builder::new().prefix("index-").tempfile_in(scratch).map_err(Error::io("make a file in", scratch))?;
        std::fs::copy(&index, copy.path()).map_err(Error::io("copy", &index))?;
        Ok(Some(copy))
    }

    // Without `-q`, which would also hide that somebody holds the lock.
    fn refresh_times(&self) -> Call {
        self.call("compare a tree with its index").args(["update-index", "--refresh"])
    }

    /// Git would overwrite files that are ignored without a word; they may be all there is of a secret or a database.
    async fn check_nothing_hidden(&self, changed: &[Changed]) -> Result<()> {
        let new = changed.iter().filter(|file| file.is_new).map(|file| &file.path);
        let itself = |path: &FilePath| path.within(&self.path).symlink_metadata().is_ok().then(|| path.clone());
        let mut there: Vec<FilePath> = new.filter_map(|path| itself(path).or_else(|| self.obstacle(path))).collect();
        there.sort();
        there.dedup();
        if there.is_empty() {
            return Ok(());
        }
        let indexed = self.index_entries(&there).await?;
        // A folder in the way is git's to judge; only files are ours here.
        let hidden = |path: &&FilePath| !indexed.contains_key(*path) && !path.within(&self.path).is_dir();
        let hidden: Vec<FilePath> = there.iter().filter(hidden).cloned().collect();
        if hidden.is_empty() { Ok(()) } else { Err(dirty(&self.path, &hidden)) }
    }

    /// Turns git's refusal into the files that are in the way.
    async fn explain(&self, answer: Result<()>, before: &Oid, changed: &[FilePath]) -> Result<()> {
        let Err(error) = answer else { return Ok(()) };
        let Some(said) = error.stderr() else { return Err(error) };
        let files = self.changed_since(before).await?;
        let in_the_way: Vec<FilePath> = files.into_iter().filter(|file| changed.iter().any(|c| c.collides_with(file))).collect();
        if in_the_way.is_empty() && !said.contains("would be overwritten") && !said.contains("not uptodate") && !said.contains("lose") {
            return Err(error);
        }
        if in_the_way.is_empty() {
            return Err(Error::Dirty { tree: self.path.clone(), files: vec![said.lines().next().unwrap_or(said).to_owned()] });
        }
        Err(dirty(&self.path, &in_the_way))
    }

    /// What index or files have that `commit` hasn't, untracked files included.
    async fn changed_since(&self, commit: &Oid) -> Result<Vec<FilePath>> {
        let diff = |cached: &[&str]| {
            let call = self.call("list uncommitted changes").args(["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff"]);
            call.arg("--ignore-submodules=dirty").args(cached).arg(commit).fields()
        };
        let others = self.call("list untracked files").args(["ls-files", "--others", "--exclude-standard", "-z"]).fields();
        let (files, staged, others) = tokio::try_join!(diff(&[]), diff(&["--cached"]), others)?;
        let all: std::collections::BTreeSet<Vec<u8>> = files.into_iter().chain(staged).chain(others).collect();
        Ok(all.into_iter().map(FilePath::new).collect())
    }

    /// Index entries `(mode, oid)` of those of `paths` that have one.
    async fn index_entries(&self, paths: &[FilePath]) -> Result<HashMap<FilePath, (String, String)>> {
        self.entries("read the index", &["ls-files", "--stage", "-z", "--"], paths).await
    }

    /// Entries `(mode, oid)` in a commit of those of `paths` that have one.
    async fn tree_entries(&self, commit: &Oid, paths: &[FilePath]) -> Result<HashMap<FilePath, (String, String)>> {
        self.entries("read a tree", &["ls-tree", "-r", "-z", "--full-tree", commit.as_str(), "--"], paths).await
    }

    async fn entries(&self, stage: &'static str, args: &[&str], paths: &[FilePath]) -> Result<HashMap<FilePath, (String, String)>> {
        const AT_ONCE: usize = 500;
        let mut found = HashMap::new();
        for some in paths.chunks(AT_ONCE) {
            let names = some.iter().map(FilePath::as_os_str);
            for field in self.call(stage).args(args.iter().map(OsStr::new)).args(names).fields().await? {
                let text = String::from_utf8_lossy(&field);
                let words: Vec<&str> = text.split(['\t', ' ']).collect();
                let tab = field.iter().position(|b| *b == b'\t');
                // `mode oid stage<TAB>path` from the index, `mode type oid<TAB>path` from a tree.
                let oid = words.iter().skip(1).find(|word| Oid::parse(word).is_some());
                if let (Some(mode), Some(oid), Some(tab)) = (words.first(), oid, tab) {
                    found.insert(FilePath::new(&field[tab + 1..]), ((*mode).to_owned(), (*oid).to_owned()));
                }
            }
        }
        Ok(found)
    }

    /// Those of the changed paths that this tree still has as they were before; none when it has followed. Git writes
    /// an index at once, so a tree that follows partly is one in which the user has staged something since.
    pub(crate) async fn still_at(&self, before: &Oid, after: &Oid, changed: &[FilePath]) -> Result<Vec<FilePath>> {
        let (index, old, new) =
            tokio::try_join!(self.index_entries(changed), self.tree_entries(before, changed), self.tree_entries(after, changed))?;
        let behind: Vec<FilePath> = changed.iter().filter(|path| index.get(*path) == old.get(*path)).cloned().collect();
        let followed = changed.iter().filter(|path| index.get(*path) == new.get(*path)).count();
        Ok(if behind.len() >= followed { behind } else { Vec::new() })
    }

    /// Takes over into the index what an attempt that was cut off had written into the files already. A file that it had
    /// only begun (a full disk leaves it empty) is written to its end: all that it holds is in what comes.
    pub(crate) async fn adopt(&self, after: &Oid, behind: &[FilePath]) -> Result<()> {
        let (new, indexed) = tokio::try_join!(self.tree_entries(after, behind), self.index_entries(behind))?;
        let (mut lines, mut begun) = (Vec::new(), Vec::new());
        for path in behind {
            let there = path.within(&self.path).symlink_metadata().is_ok_and(|meta| !meta.is_dir());
            match new.get(path) {
                Some((mode, oid)) if there && self.hash_of(path).await?.as_deref() == Some(oid) => {
                    lines.extend([format!("{mode} {oid}\t").as_bytes(), path.as_bytes(), b"\0"].concat());
                }
                Some((mode, oid)) if there && self.is_begun(path, oid, indexed.contains_key(path)).await? => {
                    lines.extend([format!("{mode} {oid}\t").as_bytes(), path.as_bytes(), b"\0"].concat());
                    begun.extend([path.as_bytes(), b"\0"].concat());
                }
                None if !there => {
                    lines.extend([b"0 ", "0".repeat(after.as_str().len()).as_bytes(), b"\t", path.as_bytes(), b"\0"].concat())
                }
                _ => {}
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.call("take over written files").args(["update-index", "-z", "--index-info"]).input(lines).run().await?;
        if !begun.is_empty() {
            self.call("write begun files").args(["checkout-index", "--force", "-u", "-z", "--stdin"]).input(begun).run().await?;
        }
        Ok(())
    }

    /// Whether the file holds the beginning of the object `oid`, as it would stand in the tree, and nothing else. Of one
    /// that was there before that might be its user's edit, unless it is empty.
    async fn is_begun(&self, path: &FilePath, oid: &str, was_there: bool) -> Result<bool> {
        let file = path.within(&self.path);
        let Some(meta) = file.symlink_metadata().ok().filter(std::fs::Metadata::is_file) else { return Ok(false) };
        if was_there && meta.len() > 0 {
            return Ok(false);
        }
        let mut name = std::ffi::OsString::from("--path=");
        name.push(path.as_os_str());
        let call = self.call("read a file as it comes").args(["cat-file", "--filters"]).arg(name).arg(oid);
        let Ok(whole) = call.run().await else { return Ok(false) };
        if meta.len() >= whole.stdout.len() as u64 {
            return Ok(false);
        }
        let begun = std::fs::read(&file).map_err(Error::io("read", &file))?;
        Ok(whole.stdout.starts_with(&begun))
    }

    /// Takes back what an attempt to follow from `before` to `after` had done in index and files when it broke off.
    pub(crate) async fn take_back(&self, before: &Oid, after: &Oid, changed: &[Changed]) -> Result<()> {
        self.adopt(after, &paths(changed)).await?;
        self.follow(after, before, changed).await
    }

    /// What the file would be as an object, after the filters for it; `None` for what isn't a plain file.
    async fn hash_of(&self, path: &FilePath) -> Result<Option<String>> {
        let file = path.within(&self.path);
        let Ok(meta) = file.symlink_metadata() else { return Ok(None) };
        let call = self.call("hash a file").arg("hash-object");
        if meta.is_symlink() {
            use std::os::unix::ffi::OsStrExt;
            let to = std::fs::read_link(&file).map_err(Error::io("read", &file))?;
            return Ok(Some(call.arg("--stdin").input(to.as_os_str().as_bytes()).text().await?));
        }
        if !meta.is_file() {
            return Ok(None);
        }
        let mut name = std::ffi::OsString::from("--path=");
        name.push(path.as_os_str());
        let content = std::fs::read(&file).map_err(Error::io("read", &file))?;
        Ok(Some(call.arg(name).arg("--stdin").input(content).text().await?))
    }
}
