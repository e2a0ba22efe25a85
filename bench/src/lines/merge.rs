//! Landing: an approval until the target is merged and refreshed, against bare git doing the same.

use crate::place::Place;
use crate::repo::Repo;
use crate::report::Line;
use crate::stats::{Samples, ms};
use crate::yard::Yard;
use anyhow::{Result, ensure};
use serde_json::json;
use std::time::Instant;

const PART: &str = "merge";

/// The lines of this part.
///
/// # Errors
/// When a call or git fails.
pub async fn lines(place: &Place) -> Result<Vec<Line>> {
    let repo = Repo::new(place, 100).await?;
    let mut yard = Yard::new(place).await?;
    yard.make_list(Some(&repo.path())).await?;
    yard.make_agent().await?;
    let rounds = place.count(30);
    // Before anything runs: two gits that make and remove worktrees at once get in each other's way.
    for number in 0..rounds {
        branch(&repo, number).await?;
    }
    let mut tasks = Vec::new();
    for number in 0..rounds {
        let mut task = yard.task(number, &format!("write new/file{number}.txt hello {number}"));
        task["queue"] = json!(true);
        tasks.push(yard.add(task).await?);
    }
    for task in &tasks {
        yard.reaches(task, "waiting_for_review").await?;
    }
    let mut mcp = yard.mcp().await?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for (number, task) in tasks.iter().enumerate() {
        let begun = Instant::now();
        repo.git(&["merge", "-q", "--no-ff", "--no-edit", &format!("bare-{number}")]).await?;
        bare.push(begun.elapsed());
        let approved = mcp.call("review_task", &json!({ "task_id": task, "decision": "approve" })).await?;
        let answer = approved.value()?;
        ours.push(approved.took);
        ensure!(repo.path().join(format!("new/file{number}.txt")).is_file(), "approved but not refreshed: {answer}");
    }
    let over = ours.p50() - bare.p50();
    let note = format!("{:.1} ms, bare git merge {:.1} ms; p99 {:.1} ms", ours.p50(), bare.p50(), ms(ours.quantile(0.99)));
    Ok(vec![Line::figure(PART, "approve to merged and refreshed: p50 over bare git merge", "ms", over, 20.0).note(note)])
}

/// A branch for bare git to merge.
async fn branch(repo: &Repo, number: usize) -> Result<()> {
    let folder = repo.beside("side");
    let path = folder.to_string_lossy().into_owned();
    let name = format!("bare-{number}");
    repo.git(&["worktree", "add", "-q", "-b", &name, &path, "main"]).await?;
    std::fs::write(folder.join(format!("{name}.txt")), "hello\n")?;
    repo.git_in(&folder, &["add", "-A"]).await?;
    repo.git_in(&folder, &["commit", "-q", "-m", &name]).await?;
    repo.git(&["worktree", "remove", &path]).await?;
    Ok(())
}
