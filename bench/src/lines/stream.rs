//! Twenty agents at once, each streaming two hundred updates a second: nothing lost, order kept, others served.

use crate::agent::notes;
use crate::place::Place;
use crate::process::{cpu, machine_cpu, memory_of_one, until};
use crate::repo::Repo;
use crate::report::Line;
use crate::stats::Samples;
use crate::yard::Yard;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::SqliteConnectOptions;
use std::time::{Duration, Instant};

const PART: &str = "stream";
const AGENTS: usize = 20;
const RATE: usize = 200;
/// The memory's second minute is looked at.
const SECONDS: usize = 125;
/// Between two control calls.
const PACE: Duration = Duration::from_millis(20);

/// The lines of this part.
///
/// # Errors
/// When a call fails.
pub async fn lines(place: &Place) -> Result<Vec<Line>> {
    let repo = Repo::new(place, 10).await?;
    let mut yard = Yard::new(place).await?;
    yard.make_list(Some(&repo.path())).await?;
    yard.make_agent().await?;
    yard.operate("settings_update", json!({ "settings": { "configured_slots": AGENTS } })).await?;
    let seconds = place.count(SECONDS);
    let mut tasks = Vec::new();
    for number in 0..AGENTS {
        let mut task = yard.task(number, &format!("tag agent{number}\nstream {RATE} {seconds}"));
        task["queue"] = json!(true);
        tasks.push(yard.add(task).await?);
    }
    let noted = |what: &str| notes(&yard.notes()).iter().filter(|note| note.what == what).count();
    until("all agents to hold their prompts", Duration::from_secs(60), async || Ok((noted("prompt") == AGENTS).then_some(()))).await?;
    let server = yard.pid()?;
    let (begun, used, machine) = (Instant::now(), cpu(server), machine_cpu());
    let (calls, memories) = control(&yard, &tasks, Duration::from_secs(u64::try_from(seconds)? - 5)).await?;
    let (took, used, machine) = (begun.elapsed().as_secs_f64(), cpu(server) - used, machine_cpu() - machine);
    for task in &tasks {
        yard.reaches(task, "waiting_for_review").await?;
    }
    yard.stop().await?;
    let (kept, out_of_order) = transcripts(&yard).await?;
    let sent = AGENTS * RATE * seconds;
    let (early, late) = memories.split_at(memories.len() / 2);
    let peak = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
    let note = format!(
        "server {:.0} % of a core, all else (agents, driver) {:.0} %; calls: {} p50 {:.2} ms",
        used / took * 100.0,
        (machine - used) / took * 100.0,
        calls.len(),
        calls.p50()
    );
    let lost = f64::from(u32::try_from(sent.saturating_sub(kept))?);
    Ok(vec![
        Line::fact(PART, format!("{AGENTS} agents × {RATE} updates/s × {seconds} s: updates lost"), "", lost, 0.0),
        Line::fact(PART, "the same: updates out of order", "", f64::from(u32::try_from(out_of_order)?), 0.0),
        Line::figure(PART, "the same: p99 of control calls", "ms", calls.p99(), 100.0).note(note),
        Line::ratio(PART, "the same: peak memory, half a minute against the one before", "MB", peak(late), peak(early), 1.1),
    ])
}

/// Control calls at an even pace, and the server's memory every few of them.
async fn control(yard: &Yard, tasks: &[String], time: Duration) -> Result<(Samples, Vec<f64>)> {
    let mut mcp = yard.mcp().await?;
    let (mut samples, mut memories) = (Samples::default(), Vec::new());
    let begun = Instant::now();
    let mut number = 0;
    while begun.elapsed() < time {
        let task = tasks.get(number % tasks.len()).context("no task")?;
        let (tool, arguments) = match number % 4 {
            0 => ("list_tasks", json!({})),
            1 => ("get_queue_state", json!({})),
            2 => ("add_task", yard.task(number, "Later.")),
            _ => ("get_task", json!({ "task_id": task })),
        };
        let answer = mcp.call(tool, &arguments).await?;
        answer.ok()?;
        samples.push(answer.took);
        number += 1;
        // In the first minute caches fill; after it memory has to be level.
        if number % 20 == 0 && begun.elapsed() > time / 2 {
            memories.push(memory_of_one(yard.pid()?));
        }
        tokio::time::sleep(PACE).await;
    }
    Ok((samples, memories))
}

/// What the stopped server has kept of the streams: how many updates, and how many of them out of order.
async fn transcripts(yard: &Yard) -> Result<(usize, usize)> {
    let mut conn = SqliteConnectOptions::new().filename(yard.data().join("taskyard.db")).connect().await?;
    let rows: Vec<(String, String)> =
        sqlx::query_as("SELECT session_id, item FROM transcript_item ORDER BY session_id, seq").fetch_all(&mut conn).await?;
    let (mut kept, mut wrong) = (0, 0);
    let mut text = String::new();
    let mut session = String::new();
    for (of, item) in rows.into_iter().chain([(String::new(), "{}".into())]) {
        if of != session {
            let numbers = text.split_ascii_whitespace().filter(|word| word.bytes().all(|b| b.is_ascii_digit()));
            for (expected, word) in numbers.enumerate() {
                kept += 1;
                wrong += usize::from(word.parse() != Ok(expected));
            }
            (session, text) = (of, String::new());
        }
        let item: Value = serde_json::from_str(&item)?;
        if item["type"] == "text" {
            text.push_str(item["text"].as_str().unwrap_or_default());
        }
    }
    Ok((kept, wrong))
}
