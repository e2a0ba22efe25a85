//! What a merge would come to, without effect: the commits are named, and nothing but private objects is made.

use super::target::Target;
use super::{Bench, Place, again};
use crate::{Engine, fold};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;
use taskyard_domain::id::MergeId;
use taskyard_domain::merge::Strategy;
use taskyard_domain::repository::{HookPolicy, SignPolicy};
use taskyard_git::merge::Merge;
use taskyard_git::merge_tree::ObjectStore;
use taskyard_git::revert::{Earlier, compute_again};
use taskyard_git::{Error as Git, Oid, Policy, history, preview, record};

/// Most names of files in an answer.
const FILES: usize = 50;

/// What merging a task's work into its target would come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewView {
    /// `clean` or `conflict`.
    pub result: String,
    /// The first files in conflict.
    pub conflict_files: Vec<String>,
    /// How many there are.
    pub conflict_file_count: usize,
    /// How many files of the target would change.
    pub changed_file_count: usize,
    /// Commits that the target has and the task's branch hasn't.
    pub behind: usize,
    /// Commits that the task's branch has and the target hasn't.
    pub ahead: usize,
    /// Whether the target has everything already.
    pub nothing_to_merge: bool,
    /// The branch merged into.
    pub target: String,
    /// Its commit.
    pub target_commit: String,
    /// The task branch's commit: what `expected_head` can insist on.
    pub task_commit: String,
    /// Their merge base.
    pub merge_base: Option<String>,
    /// Files in the worktree that aren't committed. They are not part of this, and a merge is refused while there are any.
    pub uncommitted_file_count: usize,
}

/// The commit that stands for a task's work in a trial.
pub(crate) struct Stand {
    /// The target.
    pub target: Target,
    /// The branch's tip.
    pub tip: Oid,
    /// What is merged in the trial: the tip, or for work that was merged and reverted the target with all of it.
    pub commit: Oid,
    /// Keeps `commit` while the trial lasts.
    private: Option<String>,
}

/// How work stands to a target by itself.
pub(crate) enum Trial {
    /// It can be tried together with others.
    Ready(Stand),
    /// It was merged and reverted before, and can't be brought back onto the target as it is now.
    Stuck(Target, Oid, Vec<String>),
}

impl Engine {
    /// The exact outcome of merging `place` into its target.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when its work isn't there to merge, or the repository is missing.
    pub(crate) async fn preview_place(&self, bench: &Bench, place: &Place, target: Option<&str>) -> Result<PreviewView> {
        let uncommitted = place.status(bench).await?.map_or(0, |status| status.changes.len());
        let view = match self.trial(bench, place, target).await? {
            Trial::Stuck(target, tip, files) => {
                let view = again_view(bench, &target, &tip, Err(files)).await?;
                let earlier = again::earlier(bench, &place.records, place.worktree.id, &target, &tip).await?;
                let changed = match &earlier {
                    Some(earlier) => earlier.changed_paths(&bench.repo, &bench.scratch, &target.tip, &tip).await.map_err(fold::git)?.len(),
                    None => 0,
                };
                Ok(PreviewView { changed_file_count: changed, ..view })
            }
            Trial::Ready(stand) => {
                let view = self.preview_stand(bench, &stand).await;
                self.leave(bench, stand).await?;
                view
            }
        }?;
        Ok(PreviewView { uncommitted_file_count: uncommitted, ..view })
    }

    /// Finds the commits of a trial. What it makes is given back by [`Engine::leave`].
    pub(crate) async fn trial(&self, bench: &Bench, place: &Place, target: Option<&str>) -> Result<Trial> {
        place.check_mergeable()?;
        let tip = place.tip(bench).await?;
        let target = Target::resolve(bench, place, target).await?;
        let Some(earlier) = again::earlier(bench, &place.records, place.worktree.id, &target, &tip).await? else {
            return Ok(Trial::Ready(Stand { target, commit: tip.clone(), tip, private: None }));
        };
        self.trial_again(bench, target, tip, &earlier).await
    }

    async fn trial_again(&self, bench: &Bench, target: Target, tip: Oid, earlier: &Earlier) -> Result<Trial> {
        let id = format!("preview-{}", MergeId::new(self.ids()));
        let mut author = self.author(&bench.repository, &bench.repo).await?;
        author.policy = Policy { hooks: HookPolicy::Skip, sign: SignPolicy::Never };
        let merge = Merge {
            id: id.clone(),
            base: target.tip.clone(),
            tip: tip.clone(),
            strategy: Strategy::Merge,
            message: "Preview".into(),
            author,
        };
        let computed = compute_again(&bench.repo, &bench.scratch, &merge, earlier).await;
        match computed {
            Ok(computed) => Ok(Trial::Ready(Stand { target, tip, commit: computed.commit, private: Some(id) })),
            Err(Git::Conflict { files, .. }) => Ok(Trial::Stuck(target, tip, files)),
            Err(Git::NothingToMerge { .. }) => Ok(Trial::Ready(Stand { commit: target.tip.clone(), target, tip, private: None })),
            Err(error) => Err(fold::git(error)),
        }
    }

    /// Gives back what a trial made.
    pub(crate) async fn leave(&self, bench: &Bench, stand: Stand) -> Result<()> {
        match stand.private {
            Some(id) => record::release(&bench.repo, &id).await.map_err(fold::git),
            None => Ok(()),
        }
    }

    async fn preview_stand(&self, bench: &Bench, stand: &Stand) -> Result<PreviewView> {
        if stand.commit != stand.tip {
            return again_view(bench, &stand.target, &stand.tip, Ok(&stand.commit)).await;
        }
        let seen = preview::preview(&bench.repo, &bench.scratch, &stand.target.tip, &stand.tip).await.map_err(fold::git)?;
        let files: Vec<String> = seen.files.iter().map(|file| file.path.to_string()).collect();
        Ok(PreviewView {
            result: word(seen.clean),
            conflict_file_count: files.len(),
            conflict_files: files.into_iter().take(FILES).collect(),
            changed_file_count: seen.changed_files,
            behind: seen.behind,
            ahead: seen.ahead,
            nothing_to_merge: seen.clean && seen.changed_files == 0,
            target: stand.target.branch.clone(),
            target_commit: seen.target.into(),
            task_commit: seen.tip.into(),
            merge_base: seen.merge_base.map(String::from),
            uncommitted_file_count: 0,
        })
    }
}

/// The preview of work that was merged and reverted before: `made` is the target with all of it, or the conflict.
async fn again_view(bench: &Bench, target: &Target, tip: &Oid, made: Result<&Oid, Vec<String>>) -> Result<PreviewView> {
    let (behind, ahead) = history::ahead_behind(&bench.repo, &target.tip, tip).await.map_err(fold::git)?;
    let (changed, files) = match made {
        Ok(commit) => {
            (history::changed_paths(&bench.repo, &ObjectStore::Repository, &target.tip, commit).await.map_err(fold::git)?.len(), Vec::new())
        }
        Err(files) => (0, files),
    };
    let base = history::merge_base(&bench.repo, &target.tip, tip).await.map_err(fold::git)?;
    Ok(PreviewView {
        result: word(files.is_empty()),
        conflict_file_count: files.len(),
        nothing_to_merge: files.is_empty() && changed == 0,
        conflict_files: files.into_iter().take(FILES).collect(),
        changed_file_count: changed,
        behind,
        ahead,
        target: target.branch.clone(),
        target_commit: target.tip.to_string(),
        task_commit: tip.to_string(),
        merge_base: base.map(String::from),
        uncommitted_file_count: 0,
    })
}

/// The word for a trial's outcome.
pub(crate) fn word(clean: bool) -> String {
    if clean { "clean" } else { "conflict" }.into()
}
