//! Takes a resolved merge along to where its target has moved meanwhile.
//!
//! What a person resolved was made against the target as it was. The way from there to the new target is merged
//! into it in memory; where both agree, the commit is made on the new target. Nothing of the person's is touched, and
//! no branch moves. Hooks of a commit run by policy, as for every commit made here.

use crate::error::{Error, Result};
use crate::file_path::FilePath;
use crate::history;
use crate::hook_dir::HookDir;
use crate::merge::{Merge, closing, commit_here, start_rebase};
use crate::merge_tree::{ObjectStore, merge_tree};
use crate::oid::Oid;
use crate::record::{commit_tree, probe_signing, signs};
use crate::repo::Repo;
use crate::scratch::Tree;
use std::path::Path;
use taskyard_domain::merge::Strategy;

/// A resolution and where it is to go.
pub(crate) struct Carry<'a> {
    /// The merge: its tip, strategy, message and author; its base is the target as it was when the merge was opened.
    pub(crate) merge: &'a Merge,
    /// The commit with everything resolved.
    pub(crate) resolved: &'a Oid,
    /// The target now.
    pub(crate) onto: &'a Oid,
}

/// What carrying came to.
pub(crate) enum Carried {
    /// The commit on the new target.
    Commit(Oid),
    /// The target's later work and the resolution disagree about these files.
    Conflict(Vec<FilePath>),
}

impl Carry<'_> {
    /// Makes the commit on the new target: for a merge with the tip as its second parent, for a rebase the replayed
    /// commits.
    ///
    /// # Errors
    /// [`Error::HookFailed`], [`Error::SigningFailed`]; git's.
    pub(crate) async fn run(&self, repo: &Repo, scratch: &Path) -> Result<Carried> {
        let moved_on = history::is_ancestor(repo, &self.merge.base, self.onto).await?;
        let has_it = moved_on && history::is_ancestor(repo, self.onto, self.resolved).await?;
        if self.merge.strategy == Strategy::Rebase {
            return if has_it { Ok(Carried::Commit(self.resolved.clone())) } else { self.replay(repo, scratch).await };
        }
        let tree = if has_it {
            history::tree_of(repo, self.resolved).await?
        } else {
            // A target that went back isn't part of the resolution's history in the way that git would take it for.
            let base = (!moved_on).then_some(&self.merge.base);
            let merged = merge_tree(repo, &ObjectStore::Repository, base, self.onto, self.resolved).await?;
            if !merged.clean {
                return Ok(Carried::Conflict(merged.paths()));
            }
            merged.tree
        };
        self.commit(repo, scratch, &tree).await.map(Carried::Commit)
    }

    async fn replay(&self, repo: &Repo, scratch: &Path) -> Result<Carried> {
        let Merge { id, author, .. } = self.merge;
        let hooks = HookDir::prepare(repo, scratch, author.policy.hooks, &["pre-rebase", "prepare-commit-msg"]).await?;
        let sign = signs(repo, author.policy).await?;
        let place = Tree::add(repo, &scratch.join(format!("carry-{id}")), self.resolved).await?;
        let made = async {
            place.fill(self.resolved).await?;
            let onto = Merge { base: self.onto.clone(), tip: self.resolved.clone(), ..self.merge.clone() };
            if let Err(error) = start_rebase(&place, &onto, Some(&self.merge.base), hooks.as_ref(), sign).await {
                let stuck = place.unmerged().await?;
                return if stuck.is_empty() { Err(error) } else { Ok(Carried::Conflict(stuck)) };
            }
            place.head().await.map(Carried::Commit)
        };
        closing(made.await, place).await
    }

    async fn commit(&self, repo: &Repo, scratch: &Path, tree: &Oid) -> Result<Oid> {
        let Merge { id, tip, strategy, message, author, .. } = self.merge;
        let parents = if *strategy == Strategy::Merge { vec![self.onto, tip] } else { vec![self.onto] };
        let hooks = ["pre-commit", "prepare-commit-msg", "commit-msg"];
        let Some(hooks) = HookDir::prepare(repo, scratch, author.policy.hooks, &hooks).await? else {
            return commit_tree(repo, &ObjectStore::Repository, tree, &parents, message, author).await;
        };
        probe_signing(repo, &ObjectStore::temporary(repo, scratch)?, tree, author).await?;
        let sign = signs(repo, author.policy).await?;
        let place = Tree::add(repo, &scratch.join(format!("carry-{id}")), self.onto).await?;
        let made = async {
            place.fill(tree).await?;
            if *strategy == Strategy::Merge {
                let git_dir = place.git_dir().await?;
                for (name, content) in [("MERGE_HEAD", format!("{tip}\n")), ("MERGE_MODE", "no-ff".into())] {
                    let path = git_dir.join(name);
                    std::fs::write(&path, content).map_err(Error::io("write", &path))?;
                }
            }
            commit_here(&place, Some(&hooks), sign, message, &author.who).await?;
            let head = place.head().await?;
            if history::parents(repo, &head).await?.iter().eq(parents.iter().copied()) {
                return Ok(head);
            }
            let reason = format!("a hook moved HEAD: {head} doesn't follow {}", self.onto);
            Err(Error::NotTheMerge { path: place.path().to_owned(), reason })
        };
        closing(made.await, place).await
    }
}
