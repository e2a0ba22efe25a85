//! A grown database: start, memory and the first page of tasks.

use crate::mcp::Mcp;
use crate::place::Place;
use crate::process::memory;
use crate::report::Line;
use crate::stats::{Samples, ms};
use crate::yard::Yard;
use anyhow::Result;
use serde_json::json;
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use std::time::Duration;

const PART: &str = "ready";
const TASKS: usize = 10_000;
const EVENTS: usize = 1_000_000;
const CLIENTS: usize = 8;

/// The lines of this part.
///
/// # Errors
/// When a call fails.
pub async fn lines(place: &Place) -> Result<Vec<Line>> {
    let mut yard = Yard::new(place).await?;
    yard.make_list(None).await?;
    add(&yard, 0, 100).await?;
    let (few, _) = pages(&yard, place.count(300)).await?;
    let tasks = place.count(TASKS);
    add(&yard, 100, tasks).await?;
    let (many, page) = pages(&yard, place.count(300)).await?;
    yard.stop().await?;
    let events = place.count(EVENTS);
    write_events(&yard, events).await?;
    let mut starts = Samples::default();
    let mut idle = 0.0f64;
    for round in 0..6 {
        let took = yard.start().await?;
        if round > 0 {
            starts.push(took);
        }
        if round == 5 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            idle = memory(yard.pid()?);
        }
        yard.stop().await?;
    }
    let note = format!("slowest {:.0} ms; after a stop in good order", ms(starts.quantile(1.0)));
    let killed = after_kill(&mut yard).await?;
    Ok(vec![
        Line::figure(PART, format!("start to ready, {tasks} tasks, {events} events"), "ms", starts.p50(), 300.0).note(note),
        Line::figure(PART, "the same after kill -9", "ms", ms(killed), 300.0),
        Line::figure(PART, "idle memory (PSS) after that start", "MB", idle, 60.0),
        Line::ratio(PART, format!("list_tasks p50, {tasks} tasks against 100"), "ms", many.p50(), few.p50(), 2.0),
        Line::fact(PART, format!("first page of {tasks} tasks"), "bytes", page, 10_000.0),
    ])
}

async fn after_kill(yard: &mut Yard) -> Result<Duration> {
    yard.start().await?;
    add(yard, 0, 200).await?;
    yard.kill().await?;
    yard.start().await
}

/// Adds tasks until there are `to`.
async fn add(yard: &Yard, from: usize, to: usize) -> Result<()> {
    let work = (0..CLIENTS).map(|client| async move {
        let mut mcp = yard.mcp().await?;
        for number in (from + client..to).step_by(CLIENTS) {
            mcp.call("add_task", &yard.task(number, "Do the thing in the demo repository, then report.")).await?.ok()?;
        }
        anyhow::Ok(())
    });
    futures::future::try_join_all(work).await.map(drop)
}

/// The default page, many times: how long it took, and how large the answer's content is.
async fn pages(yard: &Yard, count: usize) -> Result<(Samples, f64)> {
    let mut mcp: Mcp = yard.mcp().await?;
    let mut samples = Samples::default();
    let mut size = 0;
    for _ in 0..count {
        let page = mcp.call("list_tasks", &json!({ "list_id": yard.list })).await?;
        samples.push(page.took);
        size = page.value()?.to_string().len();
    }
    Ok((samples, f64::from(u32::try_from(size)?)))
}

/// Fills the event log of a stopped server: what years of work leave behind.
async fn write_events(yard: &Yard, count: usize) -> Result<()> {
    let mut conn = SqliteConnectOptions::new().filename(yard.data().join("taskyard.db")).connect().await?;
    let count = i64::try_from(count)?;
    let insert = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < $1)
        INSERT INTO event (workspace_id, seq, at, kind, task_id, run_id, session_id, data)
        SELECT last.workspace_id, last.seq + n, last.at + n, last.kind, last.task_id, NULL, NULL, last.data
        FROM number, (SELECT * FROM event ORDER BY seq DESC LIMIT 1) AS last";
    sqlx::query(insert).bind(count).execute(&mut conn).await?;
    sqlx::query("UPDATE counter SET value = value + $1 WHERE kind = 'event'").bind(count).execute(&mut conn).await?;
    sqlx::Connection::close(conn).await?;
    Ok(())
}
