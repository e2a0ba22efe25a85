//! Replaying commits onto another one without a checkout: what `git rebase` makes of them, by merges in memory.
//!
//! Costs as much as the commits change, however many files the repository has. Runs no hooks. Writes objects only,
//! moves nothing.

use crate::error::{Error, Result};
use crate::history;
use crate::merge_tree::{Merged, ObjectStore, merge_tree};
use crate::oid::Oid;
use crate::record::{signing, text};
use crate::repo::Repo;
use crate::runner::{Identity, split_nul};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Commits to replay.
pub(crate) struct Replay<'a> {
    /// The commit that they go onto.
    pub(crate) onto: &'a Oid,
    /// Where they start; those that this has in another form are left out.
    pub(crate) upstream: &'a Oid,
    /// The last of them.
    pub(crate) tip: &'a Oid,
    /// The committer of what is made. Authors stay.
    pub(crate) committer: &'a Identity,
    /// Whether what is made is signed.
    pub(crate) sign: bool,
}

/// What replaying came to.
pub(crate) enum Replayed {
    /// The last commit made; `onto` when nothing was left to do.
    Commit(Oid),
    /// A commit doesn't fit onto those before it.
    Conflict(Merged),
    /// A commit that can't be made again in this way, such as one whose author has no name.
    Peculiar,
}

/// A commit as it was.
struct Original {
    oid: Oid,
    parent: Option<Oid>,
    tree: Oid,
    name: Vec<u8>,
    email: Vec<u8>,
    date: Vec<u8>,
    message: String,
}

/// Replays them, oldest first. Merges are left out, commits that have become empty too; what stands right already stays
/// as it is.
pub(crate) async fn replay(repo: &Repo, what: &Replay<'_>) -> Result<Replayed> {
    let originals = originals(repo, what).await?;
    if originals.iter().any(|commit| commit.name.trim_ascii().is_empty() || commit.parent.is_none()) {
        return Ok(Replayed::Peculiar);
    }
    let (mut head, mut tree) = (what.onto.clone(), history::tree_of(repo, what.onto).await?);
    for original in &originals {
        let Some(parent) = &original.parent else { return Ok(Replayed::Peculiar) };
        if *parent == head {
            (head, tree) = (original.oid.clone(), original.tree.clone());
            continue;
        }
        let merged = merge_tree(repo, &ObjectStore::Repository, Some(parent), &head, &original.oid).await?;
        if !merged.clean {
            return Ok(Replayed::Conflict(merged));
        }
        let was_empty = original.tree == history::tree_of(repo, parent).await?;
        if merged.tree == tree && !was_empty {
            continue;
        }
        head = make(repo, what, original, &head, &merged.tree).await?;
        tree = merged.tree;
    }
    Ok(Replayed::Commit(head))
}

/// The commits as they are, in the order in which they are replayed.
async fn originals(repo: &Repo, what: &Replay<'_>) -> Result<Vec<Original>> {
    const FIELDS: usize = 7;
    let stage = "read the commits";
    let format = "--format=%H%x00%P%x00%T%x00%an%x00%ae%x00%ad%x00%B";
    let call = repo.call_common(stage).args(["log", "-z", "--no-show-signature", "--encoding=UTF-8", "--date=raw", format]);
    let call = call.args(["--no-color", "--no-notes", "--no-patch", "--no-mailmap", "--no-decorate"]);
    let call = call.args(["--reverse", "--topo-order", "--no-merges", "--right-only", "--cherry-pick"]);
    let output = call.arg(format!("{}...{}", what.upstream, what.tip)).arg("--").run().await?;
    let fields = split_nul(&output.stdout);
    let commit = |fields: &[Vec<u8>]| {
        let [oid, parents, tree, name, email, date, message] = fields else { return None };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(Original {
            oid: Oid::parse(&text(oid))?,
            parent: text(parents).split(' ').next().and_then(Oid::parse),
            tree: Oid::parse(&text(tree))?,
            name: name.clone(),
            email: email.clone(),
            date: date.clone(),
            message: text(message),
        })
    };
    let read: Option<Vec<Original>> = fields.chunks(FIELDS).map(commit).collect();
    read.ok_or_else(|| Error::Unreadable { stage, what: "a commit without its seven facts".into() })
}

async fn make(repo: &Repo, what: &Replay<'_>, original: &Original, parent: &Oid, tree: &Oid) -> Result<Oid> {
    let stage = "replay a commit";
    let call = repo.call_common(stage).args(["-c", "i18n.commitEncoding=UTF-8", "commit-tree"]).by(what.committer);
    let call = call.env("GIT_AUTHOR_NAME", OsStr::from_bytes(&original.name)).env("GIT_AUTHOR_EMAIL", OsStr::from_bytes(&original.email));
    let date = [b"@", &original.date[..]].concat();
    let mut call = call.env("GIT_AUTHOR_DATE", OsStr::from_bytes(&date));
    if what.sign {
        call = call.arg("-S").time_limit(repo.git().limits().signing);
    }
    let made = call.arg("-p").arg(parent).args(["-F", "-"]).arg(tree).input(text(&original.message)).oid().await;
    made.map_err(|error| if what.sign { signing(error) } else { error })
}
