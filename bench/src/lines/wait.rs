//! Waiting: how soon an answer comes after the commit with many waiting, and what the waiting costs others.

use crate::mcp::Mcp;
use crate::place::Place;
use crate::report::Line;
use crate::stats::Samples;
use crate::yard::Yard;
use anyhow::{Context as _, Result};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const PART: &str = "wait";
const WAITERS: usize = 500;

/// The lines of this part.
///
/// # Errors
/// When a call fails.
pub async fn lines(place: &Place) -> Result<Vec<Line>> {
    let mut yard = Yard::new(place).await?;
    let repo = crate::repo::Repo::new(place, 10).await?;
    yard.make_list(Some(&repo.path())).await?;
    yard.make_agent().await?;
    yard.operate("queue_pause", json!({})).await?;
    let waiters = place.count(WAITERS);
    let mut tasks = Vec::new();
    for number in 0..waiters {
        let mut task = yard.task(number, "Wait.");
        task["queue"] = json!(true);
        tasks.push(yard.add(task).await?);
    }
    let mut mcp = yard.mcp().await?;
    let others = place.count(1500);
    calls(&mut mcp, &yard, &tasks, others / 4).await?;
    let alone = calls(&mut mcp, &yard, &tasks, others).await?;
    let (mut waits, clients) = (Vec::new(), waiters);
    let (answered, mut answers) = mpsc::unbounded_channel();
    for (index, task) in tasks.iter().enumerate() {
        let client = yard.mcp().await?;
        waits.push(tokio::spawn(wait(client, index, task.clone(), answered.clone())));
    }
    // All of them have their first bytes by then: they really wait.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let crowded = calls(&mut mcp, &yard, &tasks, others).await?;
    let mut delays = Samples::default();
    let mut sent = vec![Instant::now(); clients];
    for (index, task) in tasks.iter().enumerate() {
        sent[index] = Instant::now();
        mcp.call("update_task_status", &json!({ "task_id": task, "status": "ready" })).await?.ok()?;
        let (who, at) = tokio::time::timeout(Duration::from_secs(20), answers.recv()).await?.context("nobody waits")?;
        delays.push(Instant::duration_since(&at, sent[who]));
    }
    drop(answered);
    for wait in waits {
        wait.await??;
    }
    let note = format!("p50 {:.2} ms; the change's own commit included", delays.p50());
    let ratio = format!("p50 {:.2} and {:.2} ms", crowded.p50(), alone.p50());
    Ok(vec![
        Line::figure(PART, format!("wait_for_task_change, {clients} waiting: p99 from change to answer"), "ms", delays.p99(), 20.0)
            .note(note),
        Line::ratio(PART, format!("other calls with {clients} waiting: p99 against without"), "ms", crowded.p99(), alone.p99(), 2.0)
            .note(ratio),
    ])
}

async fn wait(mut client: Mcp, index: usize, task: String, answered: mpsc::UnboundedSender<(usize, Instant)>) -> Result<()> {
    let answer = client.call("wait_for_task_change", &json!({ "task_ids": [task], "timeout_seconds": 300 })).await?;
    let changed = answer.value()?;
    anyhow::ensure!(changed["changed"][0]["task_id"] == task.as_str(), "woken by something else: {changed}");
    answered.send((index, answer.at))?;
    Ok(())
}

/// A mix of what other clients do.
async fn calls(mcp: &mut Mcp, yard: &Yard, tasks: &[String], count: usize) -> Result<Samples> {
    let mut samples = Samples::default();
    for number in 0..count {
        let task = tasks.get(number % tasks.len()).cloned().unwrap_or_default();
        let (tool, arguments) = match number % 5 {
            0 => ("list_tasks", json!({})),
            1 => ("add_task", yard.task(number, "Later.")),
            2 => ("get_queue_state", json!({})),
            _ => ("get_task", json!({ "task_id": task })),
        };
        let answer = mcp.call(tool, &arguments).await?;
        answer.ok()?;
        samples.push(answer.took);
    }
    Ok(samples)
}
