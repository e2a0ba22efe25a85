//! `preview_merge_set`: whether several tasks merge together, one after another, and who is in whose way.

use super::paging;
use crate::merge::{Bench, Place, Stand, Trial, preview_word};
use crate::{Caller, Engine, fold};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use taskyard_domain::id::{RepositoryId, TaskId};
use taskyard_domain::{Error, Result};
use taskyard_git::preview_set::{Objects, Opponent, SetPreview, preview_set};
use taskyard_git::{Oid, history};

/// Most tasks of one call.
const MOST: usize = 100;
/// Most names of files for each task.
const FILES: usize = 10;
/// Bytes that the overlap may take.
const OVERLAP: usize = 3_000;

/// Which tasks, in which order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PreviewMergeSet {
    /// UUIDs or short ids, each task once.
    pub task_ids: Vec<String>,
    /// The local branch to merge into, instead of each task's own target.
    #[serde(default)]
    pub target_branch: Option<String>,
    /// Whether the verify command runs on the result.
    #[serde(default)]
    pub verify: bool,
}

/// One task by itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetTask {
    /// UUID; what the caller typed when there is no such task.
    pub task_id: String,
    /// `TY-42`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    /// `clean` or `conflict` against the target alone; null with an error.
    pub result: Option<String>,
    /// The first files in conflict with the target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflict_files: Vec<String>,
    /// How many files of the target it would change.
    #[serde(default)]
    pub changed_file_count: usize,
    /// Commits that the target has and the task's branch hasn't.
    #[serde(default)]
    pub behind: usize,
    /// The branch merged into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Its commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_commit: Option<String>,
    /// The task branch's commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_commit: Option<String>,
    /// Why it isn't part of the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// A task that doesn't merge after those before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLeftOut {
    /// UUID.
    pub task_id: String,
    /// The first files in conflict.
    pub files: Vec<String>,
    /// Ids of the tasks in its way, or `target`.
    pub conflicts_with: Vec<String>,
}

/// A file that several tasks change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetOverlap {
    /// The file.
    pub path: String,
    /// The tasks.
    pub task_ids: Vec<String>,
}

/// The truth about the set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PreviewMergeSetOutput {
    /// Each task by itself, in the order asked for.
    pub tasks: Vec<SetTask>,
    /// The tasks that merge one after another, in that order.
    pub order_ok: Vec<String>,
    /// Those that don't.
    pub left_out: Vec<SetLeftOut>,
    /// Files that more than one task changes.
    pub overlap: Vec<SetOverlap>,
    /// Whether there are more such files.
    pub overlap_truncated: bool,
}

/// A task that takes part.
struct Member {
    index: usize,
    id: TaskId,
    stand: Stand,
}

/// Tasks that go into one branch of one repository.
struct Group {
    bench: Bench,
    members: Vec<Member>,
}

/// The answer while it is put together, by place in the call.
#[derive(Default)]
struct Answer {
    tasks: BTreeMap<usize, SetTask>,
    order_ok: BTreeMap<usize, String>,
    left_out: BTreeMap<usize, SetLeftOut>,
    overlap: Vec<SetOverlap>,
}

impl Engine {
    /// Merges the tasks one after another in scratch space. Those of several repositories or targets are tried per
    /// repository and target.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for no task, more than 100, or one named twice; what is wrong with one task is in its row.
    pub async fn preview_merge_set(&self, caller: &Caller, input: PreviewMergeSet) -> Result<PreviewMergeSetOutput> {
        if input.verify {
            return Err(Error::precondition("verify isn't available yet: leave it out for the merge preview alone").with_field("verify"));
        }
        if input.task_ids.is_empty() || input.task_ids.len() > MOST {
            return Err(Error::invalid("task_ids", format!("task_ids takes 1 to {MOST} tasks, not {}", input.task_ids.len())));
        }
        let mut answer = Answer::default();
        let mut places = Vec::new();
        let mut seen = BTreeSet::new();
        for (index, handle) in input.task_ids.iter().enumerate() {
            match self.place(caller, handle, None).await {
                Ok(place) if seen.insert(place.task().id) => places.push((index, place)),
                Ok(place) => {
                    let name = &place.task().short_id;
                    return Err(Error::invalid("task_ids", format!("task_ids names {name} twice; each task can be merged once")));
                }
                Err(error) => drop(answer.tasks.insert(index, failed(handle.clone(), None, error))),
            }
        }
        if let Some(handle) = repeated(&input.task_ids) {
            return Err(Error::invalid("task_ids", format!("task_ids names {handle} twice; each task can be merged once")));
        }
        let mut outcome = Ok(());
        for group in self.group(places, input.target_branch.as_deref(), &mut answer).await {
            outcome = outcome.and(try_group(&group, &mut answer).await);
            for member in group.members {
                outcome = outcome.and(self.leave(&group.bench, member.stand).await);
            }
        }
        outcome.map(|()| answer.done())
    }

    /// Finds each task's commits and puts those together that go to the same branch.
    async fn group(&self, places: Vec<(usize, Place)>, target: Option<&str>, answer: &mut Answer) -> Vec<Group> {
        let mut groups: BTreeMap<(RepositoryId, String), Group> = BTreeMap::new();
        for (index, place) in places {
            let (id, short) = (place.task().id, place.task().short_id.to_string());
            match self.member(&place, target).await {
                Ok((bench, Trial::Ready(stand))) => {
                    let key = (place.repository.id, stand.target.branch.clone());
                    let group = groups.entry(key).or_insert_with(|| Group { bench, members: Vec::new() });
                    answer.tasks.insert(index, row(id, &short, &stand.target.branch, &stand.target.tip, &stand.tip));
                    group.members.push(Member { index, id, stand });
                }
                Ok((_, Trial::Stuck(target, tip, files))) => {
                    let mut row = row(id, &short, &target.branch, &target.tip, &tip);
                    row.result = Some(preview_word(false));
                    row.conflict_files = files.iter().take(FILES).cloned().collect();
                    answer.left_out.insert(
                        index,
                        SetLeftOut { task_id: id.to_string(), files: row.conflict_files.clone(), conflicts_with: vec!["target".into()] },
                    );
                    answer.tasks.insert(index, row);
                }
                Err(error) => drop(answer.tasks.insert(index, failed(id.to_string(), Some(short), error))),
            }
        }
        groups.into_values().collect()
    }

    async fn member(&self, place: &Place, target: Option<&str>) -> Result<(Bench, Trial)> {
        place.check_mergeable()?;
        let bench = self.bench(&place.repository).await?;
        let trial = self.trial(&bench, place, target).await?;
        if let Trial::Ready(stand) = &trial {
            let shared = history::merge_base(&bench.repo, &stand.target.tip, &stand.commit).await.map_err(fold::git)?;
            if shared.is_none() {
                let (ours, theirs) = (stand.target.tip.clone(), stand.tip.clone());
                return Err(fold::git(taskyard_git::Error::UnrelatedHistories { ours, theirs }));
            }
        }
        Ok((bench, trial))
    }
}

/// The first handle that is in the list twice as it was typed.
fn repeated(handles: &[String]) -> Option<&String> {
    let mut seen = BTreeSet::new();
    handles.iter().find(|handle| !seen.insert(handle.trim().to_ascii_uppercase()))
}

fn failed(task_id: String, short_id: Option<String>, error: Error) -> SetTask {
    SetTask {
        task_id,
        short_id,
        result: None,
        conflict_files: Vec::new(),
        changed_file_count: 0,
        behind: 0,
        target: None,
        target_commit: None,
        task_commit: None,
        error: Some(error),
    }
}

fn row(id: TaskId, short: &str, target: &str, target_tip: &Oid, tip: &Oid) -> SetTask {
    SetTask {
        task_id: id.to_string(),
        short_id: Some(short.to_owned()),
        result: None,
        conflict_files: Vec::new(),
        changed_file_count: 0,
        behind: 0,
        target: Some(target.to_owned()),
        target_commit: Some(target_tip.to_string()),
        task_commit: Some(tip.to_string()),
        error: None,
    }
}

async fn try_group(group: &Group, answer: &mut Answer) -> Result<()> {
    let Some(first) = group.members.first() else { return Ok(()) };
    let tips: Vec<Oid> = group.members.iter().map(|member| member.stand.commit.clone()).collect();
    let (bench, target) = (&group.bench, &first.stand.target.tip);
    let set = preview_set(&bench.repo, &bench.scratch, Objects::Discard, target, &tips).await.map_err(fold::git)?;
    fill(&group.members, &set, answer);
    Ok(())
}

fn fill(members: &[Member], set: &SetPreview, answer: &mut Answer) {
    let name = |index: usize| members.get(index).map(|member| member.id.to_string());
    let paths =
        |files: &[taskyard_git::merge_tree::ConflictFile]| files.iter().take(FILES).map(|file| file.path.to_string()).collect::<Vec<_>>();
    for one in &set.each {
        let Some(row) = members.get(one.index).and_then(|member| answer.tasks.get_mut(&member.index)) else { continue };
        row.result = Some(preview_word(one.clean));
        row.conflict_files = paths(&one.files);
        row.changed_file_count = one.changed_files;
        row.behind = one.behind;
    }
    for member in set.order_ok.iter().filter_map(|index| members.get(*index)) {
        answer.order_ok.insert(member.index, member.id.to_string());
    }
    for left in &set.left_out {
        let Some(member) = members.get(left.index) else { continue };
        let opponent = |opponent: &Opponent| match opponent {
            Opponent::Target => Some("target".to_owned()),
            Opponent::Branch(index) => name(*index),
        };
        let conflicts_with = left.conflicts_with.iter().filter_map(opponent).collect();
        answer.left_out.insert(member.index, SetLeftOut { task_id: member.id.to_string(), files: paths(&left.files), conflicts_with });
    }
    let overlap = set
        .overlap
        .iter()
        .map(|one| SetOverlap { path: one.path.to_string(), task_ids: one.branches.iter().filter_map(|i| name(*i)).collect() });
    answer.overlap.extend(overlap);
}

impl Answer {
    fn done(self) -> PreviewMergeSetOutput {
        let mut overlap = self.overlap;
        let all = overlap.len();
        let fit = paging::fitting(&overlap, OVERLAP);
        overlap.truncate(fit);
        PreviewMergeSetOutput {
            tasks: self.tasks.into_values().collect(),
            order_ok: self.order_ok.into_values().collect(),
            left_out: self.left_out.into_values().collect(),
            overlap_truncated: overlap.len() < all,
            overlap,
        }
    }
}
