//! Previewing a hundred branches at once, against two hundred bare `git merge-tree` calls: each alone, and in sequence.

use crate::place::Place;
use crate::repo::{Repo, content, file};
use crate::report::Line;
use crate::stats::{Samples, ms};
use crate::yard::Yard;
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use std::time::{Duration, Instant};

const PART: &str = "preview";
const FILES: usize = 5_000;
const BRANCHES: usize = 100;

/// The lines of this part.
///
/// # Errors
/// When a call or git fails.
pub async fn lines(place: &Place) -> Result<Vec<Line>> {
    let repo = Repo::new(place, FILES).await?;
    let mut yard = Yard::new(place).await?;
    yard.make_list(Some(&repo.path())).await?;
    yard.make_agent().await?;
    let count = place.count(BRANCHES);
    let mut tasks = Vec::new();
    for number in 0..count {
        let changed = number * FILES / count;
        let text = content(changed, number + 1).replace('\n', "\\n");
        let mut task = yard.task(number, &format!("write {} {text}", file(changed)));
        task["queue"] = json!(true);
        tasks.push(yard.add(task).await?);
    }
    let mut branches = Vec::new();
    for task in &tasks {
        yard.reaches(task, "waiting_for_review").await?;
        let shown = yard.operate("get_task", json!({ "task_id": task })).await?;
        branches.push(shown["worktree"]["branch"].as_str().with_context(|| format!("no branch: {shown}"))?.to_owned());
    }
    let mut mcp = yard.mcp().await?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for round in 0..4 {
        let took = bare_previews(&repo, &branches).await?;
        let previewed = mcp.call("preview_merge_set", &json!({ "task_ids": tasks })).await?;
        let answer = previewed.value()?;
        ensure!(answer["clean"] != json!(false), "the set doesn't merge: {answer}");
        if round > 0 {
            bare.push(took);
            ours.push(previewed.took);
        }
    }
    let what = format!("preview_merge_set, {count} branches, 5,000 files: against {} git merge-tree calls", 2 * count);
    let note = format!("{:.0} ms at best", ms(ours.quantile(0.0)));
    Ok(vec![Line::ratio(PART, what, "ms", ours.p50(), bare.p50(), 1.5).note(note)])
}

async fn bare_previews(repo: &Repo, branches: &[String]) -> Result<Duration> {
    let begun = Instant::now();
    for branch in branches {
        repo.git(&["merge-tree", "--write-tree", "main", branch]).await?;
    }
    let mut tree = repo.git(&["rev-parse", "main^{tree}"]).await?;
    for branch in branches {
        tree = repo.git(&["merge-tree", "--write-tree", "--merge-base=main", &tree, branch]).await?;
    }
    Ok(begun.elapsed())
}
