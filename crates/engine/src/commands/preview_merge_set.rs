//! `preview_merge_set`: whether several tasks merge together, one after another, and who is in whose way.

use super::paging;
use crate::merge::{Bench, Place, Stand, Trial, preview_word};
use crate::{Caller, Engine, fold};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use taskyard_domain::id::{RepositoryId, TaskId};
use taskyard_domain::{Error, Result};
use taskyard_git::Oid;
use taskyard_git::preview_set::{Objects, Opponent, SetPreview, preview_set, unrelated};

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
    /// How many there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conflict_file_count: usize,
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
    /// How many there are.
    pub file_count: usize,
    /// Ids of the first tasks in its way, or `target`.
    pub conflicts_with: Vec<String>,
    /// How many there are.
    pub conflicts_with_count: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl SetLeftOut {
    fn new(id: TaskId, files: Vec<String>, file_count: usize, conflicts_with: Vec<String>) -> Self {
        Self { task_id: id.to_string(), files, file_count, conflicts_with_count: conflicts_with.len(), conflicts_with }
    }
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
    /// Whether targets and commits are missing in `tasks`, for lack of room; `preview_merge` has them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub commits_left_out: bool,
    /// How many tasks don't merge; `left_out` may have fewer when `truncated`.
    pub left_out_count: usize,
    /// Whether rows are missing in `tasks` or `left_out`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// How to see them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A task that takes part.
struct Member {
    index: usize,
    id: TaskId,
    short: String,
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
        let found = self.places(caller, &input.task_ids).await?;
        for ((index, handle), found) in input.task_ids.iter().enumerate().zip(found) {
            match found {
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
        for mut group in self.group(places, input.target_branch.as_deref(), &mut answer).await {
            outcome = outcome.and(self.take_out_unrelated(&mut group, &mut answer).await);
            if outcome.is_ok() {
                outcome = try_group(&group, &mut answer).await;
            }
            for member in group.members {
                outcome = outcome.and(self.leave(&group.bench, member.stand).await);
            }
        }
        outcome.map(|()| answer.done())
    }

    /// Finds each task's commits and puts those together that go to the same branch.
    async fn group(&self, places: Vec<(usize, Place)>, target: Option<&str>, answer: &mut Answer) -> Vec<Group> {
        let mut groups: BTreeMap<(RepositoryId, String), Group> = BTreeMap::new();
        let mut benches: BTreeMap<RepositoryId, Bench> = BTreeMap::new();
        for (index, place) in places {
            let (id, short) = (place.task().id, place.task().short_id.to_string());
            match self.member(&place, target, &mut benches).await {
                Ok((bench, Trial::Ready(stand))) => {
                    let key = (place.repository.id, stand.target.branch.clone());
                    let group = groups.entry(key).or_insert_with(|| Group { bench, members: Vec::new() });
                    answer.tasks.insert(index, row(id, &short, &stand.target.branch, &stand.target.tip, &stand.tip));
                    group.members.push(Member { index, id, short, stand });
                }
                Ok((_, Trial::Stuck(target, tip, files))) => {
                    let mut row = row(id, &short, &target.branch, &target.tip, &tip);
                    row.result = Some(preview_word(false));
                    row.conflict_files = files.iter().take(FILES).cloned().collect();
                    row.conflict_file_count = files.len();
                    let shown = row.conflict_files.clone();
                    answer.left_out.insert(index, SetLeftOut::new(id, shown, files.len(), vec!["target".into()]));
                    answer.tasks.insert(index, row);
                }
                Err(error) => drop(answer.tasks.insert(index, failed(id.to_string(), Some(short), error))),
            }
        }
        groups.into_values().collect()
    }

    async fn member(&self, place: &Place, target: Option<&str>, benches: &mut BTreeMap<RepositoryId, Bench>) -> Result<(Bench, Trial)> {
        place.check_mergeable()?;
        let bench = match benches.get(&place.repository.id) {
            Some(bench) => bench.clone(),
            None => {
                let bench = self.bench(&place.repository).await?.at_once().await?;
                benches.insert(place.repository.id, bench.clone());
                bench
            }
        };
        let trial = self.trial(&bench, place, target).await?;
        Ok((bench, trial))
    }

    /// Takes those out of the group that share no history with the target.
    async fn take_out_unrelated(&self, group: &mut Group, answer: &mut Answer) -> Result<()> {
        let Some(first) = group.members.first() else { return Ok(()) };
        let (repo, target) = (&group.bench.repo, first.stand.target.tip.clone());
        let tips: Vec<Oid> = group.members.iter().map(|member| member.stand.commit.clone()).collect();
        for place in unrelated(repo, &target, &tips).await.map_err(fold::git)?.into_iter().rev() {
            let member = group.members.remove(place);
            let (ours, theirs) = (target.clone(), member.stand.tip.clone());
            let error = fold::git(taskyard_git::Error::UnrelatedHistories { ours, theirs });
            answer.tasks.insert(member.index, failed(member.id.to_string(), Some(member.short.clone()), error));
            self.leave(&group.bench, member.stand).await?;
        }
        Ok(())
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
        conflict_file_count: 0,
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
        conflict_file_count: 0,
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
        row.conflict_file_count = one.files.len();
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
        answer.left_out.insert(member.index, SetLeftOut::new(member.id, paths(&left.files), left.files.len(), conflicts_with));
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
        let mut output = PreviewMergeSetOutput {
            tasks: self.tasks.into_values().collect(),
            order_ok: self.order_ok.into_values().collect(),
            left_out_count: self.left_out.len(),
            left_out: self.left_out.into_values().collect(),
            overlap_truncated: overlap.len() < all,
            overlap,
            commits_left_out: false,
            truncated: false,
            hint: None,
        };
        output.fit();
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskyard_domain::Class;

    /// An answer of `n` tasks, each changed by `change` with the ids of all.
    fn answer(n: usize, change: impl Fn(&mut Answer, usize, &[TaskId])) -> PreviewMergeSetOutput {
        let ids: Vec<TaskId> = (1..).map(|n| TaskId(uuid::Uuid::from_u128(n))).take(n).collect();
        let mut answer = Answer::default();
        for (index, id) in ids.iter().enumerate() {
            let commit = Oid::parse(&"a".repeat(40)).unwrap();
            let mut row = row(*id, &format!("TY-{index}"), "main", &commit, &commit);
            row.result = Some(preview_word(true));
            answer.tasks.insert(index, row);
            change(&mut answer, index, &ids);
        }
        answer.done()
    }

    fn clean(answer: &mut Answer, index: usize, ids: &[TaskId]) {
        answer.order_ok.insert(index, ids[index].to_string());
    }

    fn stuck(answer: &mut Answer, index: usize, ids: &[TaskId]) {
        let files: Vec<String> = (0..FILES).map(|n| format!("a/rather/long/path/of/a/file/number/{n}.txt")).collect();
        let row = answer.tasks.get_mut(&index).unwrap();
        (row.conflict_files, row.conflict_file_count, row.result) = (files.clone(), 700, Some(preview_word(false)));
        let before = ids[..index].iter().map(ToString::to_string).collect();
        answer.left_out.insert(index, SetLeftOut::new(ids[index], files.clone(), 700, before));
        answer
            .overlap
            .extend(files.iter().map(|path| SetOverlap { path: path.clone(), task_ids: ids.iter().map(ToString::to_string).collect() }));
    }

    fn unknown(answer: &mut Answer, index: usize, _: &[TaskId]) {
        let error = Error::not_found("task", "ü".repeat(300)).with_hint("task_ids are UUIDs or short ids");
        answer.tasks.insert(index, failed("x".repeat(100), None, error));
    }

    #[test]
    fn a_small_set_is_told_whole() {
        let small = answer(20, clean);
        assert!(!small.commits_left_out && !small.truncated && small.tasks[0].target_commit.is_some());
    }

    #[test]
    fn clean_tasks_keep_their_rows() {
        let many = answer(36, clean);
        assert!(paging::size(&many) < 9_500, "{}", paging::size(&many));
        assert_eq!((many.commits_left_out, many.truncated, many.tasks.len()), (true, false, 36));
    }

    #[test]
    fn a_hundred_tasks_fit_whatever_they_are() {
        type Case = fn(&mut Answer, usize, &[TaskId]);
        let mixed: Case = |answer, index, ids| [clean, stuck, unknown][index % 3](answer, index, ids);
        for (name, change) in [("clean", clean as Case), ("stuck", stuck), ("unknown", unknown), ("mixed", mixed)] {
            let many = answer(100, change);
            assert!(paging::size(&many) < 10_000, "{name}: {}", paging::size(&many));
            assert!(many.truncated && many.hint.is_some(), "{name}");
            let told = many.order_ok.len() + many.tasks.len() + many.left_out.len();
            assert!(told > 20, "{name}: {told}");
        }
        let stuck = answer(100, stuck);
        assert_eq!((stuck.left_out_count, stuck.left_out[9].conflicts_with_count, stuck.tasks[0].conflict_file_count), (100, 9, 700));
        assert_eq!(answer(100, unknown).tasks[0].error.as_ref().unwrap().class, Class::NotFound);
    }
}
