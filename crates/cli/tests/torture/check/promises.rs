//! The ledger against the database: what was said to be done was done once, what was said to have failed wasn't.

use crate::base::Base;
use crate::ledger::{Once, TaskTold};
use crate::stage::Stage;
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong.
pub async fn check(stage: &Stage) -> Vec<String> {
    let Ok(mut base) = Base::open(&stage.data()).await else { return Vec::new() };
    let titles = base.texts("SELECT id, title, description, status FROM task").await;
    let runs = base.texts("SELECT id, prompt, task_id, outcome FROM run").await;
    let merges = base.texts("SELECT id, task_id, kind, state FROM merge_record WHERE state IN ('landed', 'reverted')").await;
    let cancels = base.column("SELECT target_id FROM audit WHERE action = 'task.cancelled'").await;
    let proofs = std::fs::read_to_string(stage.proofs()).unwrap_or_default();
    let book = stage.ledger.open();
    let mut wrong = Vec::new();
    for add in &book.adds {
        // Its description names it for ever; its title may have been changed.
        let found: Vec<&str> = titles.iter().filter(|row| row[2].lines().next() == Some(&add.mark)).map(|row| row[0].as_str()).collect();
        wrong.extend(times(&format!("the task {}", add.mark), add, found.len()));
        if let (Some(task), [one]) = (&add.task, found.as_slice())
            && task != one
        {
            wrong.push(format!("the task {} was said to be {task} and is {one}", add.mark));
        }
    }
    for prompt in &book.prompts {
        let found = runs.iter().filter(|row| row[1].lines().next() == Some(&prompt.mark)).count();
        wrong.extend(times(&format!("the run for the prompt {}", prompt.mark), prompt, usize::from(found > 0)));
    }
    let delivered: BTreeMap<&str, usize> =
        proofs.lines().filter_map(|line| line.strip_prefix("prompt ")).fold(BTreeMap::new(), |mut all, mark| {
            *all.entry(mark).or_default() += 1;
            all
        });
    deliveries(&mut wrong, &delivered, &book.prompts, &runs);
    let title_of: BTreeMap<&str, &str> = titles.iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    for (task, told) in &book.tasks {
        let title = title_of.get(task.as_str()).copied().unwrap_or_default();
        if title != told.title && !told.titles_unclear.contains(title) {
            wrong.push(format!("the title of {task} is {title:?}; said to be {:?}, perhaps {:?}", told.title, told.titles_unclear));
        }
        let cancelled = cancels.iter().filter(|id| *id == task).count();
        if cancelled < told.cancels.done || cancelled > told.cancels.done + told.cancels.unclear {
            wrong.push(format!("{task} was cancelled {cancelled} times; told {:?}", told.cancels));
        }
        let of = |kind: &str| merges.iter().filter(|row| row[1] == *task && row[2] == kind).map(|row| row[0].clone()).collect();
        wrong.extend(landed(task, told, &of("merge"), &of("revert")));
    }
    wrong
}

/// A thing that may be there once, never twice, and not at all when every answer said that it failed.
fn times(what: &str, once: &Once, found: usize) -> Option<String> {
    let fine = match (once.told.done, once.told.unclear) {
        (0, 0) => found == 0,
        (0, _) => found <= 1,
        _ => found == 1,
    };
    (!fine).then(|| format!("{what} is there {found} times: {:?}", once.told))
}

/// A prompt may reach its agent again when the run was cut short. One that was refused never does, and one whose run
/// came to its end did.
fn deliveries(wrong: &mut Vec<String>, delivered: &BTreeMap<&str, usize>, prompts: &[Once], runs: &[Vec<String>]) {
    for prompt in prompts {
        let reached = delivered.contains_key(prompt.mark.as_str());
        if reached && prompt.told.done == 0 && prompt.told.unclear == 0 {
            wrong.push(format!("the prompt {} was refused and reached its agent", prompt.mark));
        }
        let ended =
            |run: &&Vec<String>| run[1].lines().next() == Some(&prompt.mark) && matches!(run[3].as_str(), "succeeded" | "no_changes");
        if let Some(run) = runs.iter().find(ended).filter(|_| !reached) {
            wrong.push(format!("the prompt {} never reached its agent, and its run {} is {}", prompt.mark, run[0], run[3]));
        }
    }
}

fn landed(task: &str, told: &TaskTold, merges: &BTreeSet<String>, reverts: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (what, said, unclear, found) in
        [("merge", &told.merged, told.merges_unclear, merges), ("revert", &told.reverted, told.reverts_unclear, reverts)]
    {
        wrong.extend(said.difference(found).map(|id| format!("the {what} {id} of {task} was said to be done and isn't recorded")));
        let more = found.difference(said).count();
        if more > unclear {
            wrong.push(format!("{task} has {more} landed {what}s that no answer spoke of, and only {unclear} unclear calls"));
        }
    }
    wrong
}
