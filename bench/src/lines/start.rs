//! From the queue to a started agent: on a large repository against bare git and a bare spawn, and on a small one.

use crate::agent::notes;
use crate::place::Place;
use crate::process::{now, until};
use crate::repo::Repo;
use crate::report::Line;
use crate::stats::Samples;
use crate::yard::{PATIENCE, Yard};
use anyhow::{Context as _, Result};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

const PART: &str = "start";

/// The lines of this part.
///
/// # Errors
/// When a call or git fails.
pub async fn lines(place: &Place) -> Result<Vec<Line>> {
    let mut lines = large(place).await?;
    lines.extend(small(place).await?);
    Ok(lines)
}

async fn yard_with(place: &Place, repo: &Repo) -> Result<Yard> {
    let mut yard = Yard::new(place).await?;
    yard.make_list(Some(&repo.path())).await?;
    yard.make_agent().await?;
    Ok(yard)
}

async fn large(place: &Place) -> Result<Vec<Line>> {
    let repo = Repo::new(place, place.count(20_000)).await?;
    let yard = yard_with(place, &repo).await?;
    let mut mcp = yard.mcp().await?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    // Nothing is removed meanwhile, and what was written is on the disk before the next one starts: twenty thousand new
    // files would otherwise be paid for by whoever comes next.
    for round in 0..6 {
        rustix::fs::sync();
        let took = bare_start(&repo, &yard, round).await?;
        let task = yard.add(yard.task(round, &format!("tag large{round}"))).await?;
        rustix::fs::sync();
        let sent = now();
        mcp.call("update_task_status", &json!({ "task_id": task, "status": "queued" })).await?.ok()?;
        let started = noted(&yard.notes(), "started", "", sent).await?;
        yard.reaches(&task, "waiting_for_review").await?;
        // The first round fills the caches for both.
        if round > 0 {
            bare.push(took);
            ours.push(Duration::from_nanos(started - sent));
        }
    }
    let what = "queue to agent started, 20,000 files: p50 against git worktree add + spawn";
    Ok(vec![Line::ratio(PART, what, "ms", ours.p50(), bare.p50(), 1.3)])
}

/// `git worktree add` and the stub agent, started with nothing around them.
async fn bare_start(repo: &Repo, yard: &Yard, round: usize) -> Result<Duration> {
    let folder = repo.beside(&format!("bare-{round}"));
    let path = folder.to_str().context("a path that is no text")?;
    let begun = now();
    repo.git(&["worktree", "add", "-q", "-b", &format!("bare-{round}"), path, "main"]).await?;
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg("agent").current_dir(&folder).env_clear().envs(repo.env().iter().cloned()).env("BENCH_NOTES", yard.notes());
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut child = command.spawn()?;
    let started = noted(&yard.notes(), "started", "", begun).await?;
    drop(child.stdin.take());
    child.wait().await?;
    Ok(Duration::from_nanos(started - begun))
}

async fn small(place: &Place) -> Result<Vec<Line>> {
    let repo = Repo::new(place, 10).await?;
    let yard = yard_with(place, &repo).await?;
    let mut mcp = yard.mcp().await?;
    let mut held = Samples::default();
    for round in 0..place.count(40) {
        let mut task = yard.task(round, &format!("tag small{round}"));
        task["queue"] = json!(true);
        let sent = now();
        let id = mcp.call("add_task", &task).await?.value()?["task_id"].as_str().unwrap_or_default().to_owned();
        let at = noted(&yard.notes(), "prompt", &format!("small{round}"), sent).await?;
        if round > 1 {
            held.push(Duration::from_nanos(at - sent));
        }
        yard.reaches(&id, "waiting_for_review").await?;
    }
    let note = format!("p99 {:.1} ms", held.p99());
    Ok(vec![Line::figure(PART, "create to prompt held by a stub ACP agent: p50", "ms", held.p50(), 70.0).note(note)])
}

/// When the stub agent noted this after `since`; waits for it.
async fn noted(path: &Path, what: &str, tag: &str, since: u64) -> Result<u64> {
    let look = async || {
        Ok(notes(path).into_iter().rev().find(|note| note.what == what && note.tag == tag && note.at >= since).map(|note| note.at))
    };
    until(&format!("the agent to note {what} {tag}"), PATIENCE, look).await
}
