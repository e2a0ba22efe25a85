//! Waiting for tasks, with progress on standard error while it takes time.

use crate::client::Client;
use crate::fail::Result;
use crate::show::Show;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use taskyard_domain::Error;

/// Longest that one call waits; the server is asked again after it.
const ROUND_S: u64 = 50;

/// Waits until every task is settled; shows each change. `UNAVAILABLE` when `timeout` is over first.
pub async fn wait(client: &Client, show: &Show, tasks: &[String], timeout: Option<Duration>) -> Result<Value> {
    let started = Instant::now();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut last = json!({ "settled": false });
    for task in tasks {
        // A cursorless wait ends with the first change, so every task is waited for in its own right.
        loop {
            let left = timeout.map(|t| t.saturating_sub(started.elapsed()));
            if left == Some(Duration::ZERO) {
                return Err(Error::unavailable(format!("{task} has not settled in time"))
                    .with_hint("wait again, or look with `taskyard task show`"));
            }
            let round = left.map_or(ROUND_S, |left| left.as_secs().clamp(1, ROUND_S));
            last = client.call("wait_for_task_change", json!({ "task_ids": [task], "timeout_seconds": round })).await?;
            if let Some(unknown) = last["not_found"].as_array().and_then(|all| all.first()).and_then(Value::as_str) {
                return Err(Error::not_found("task", unknown));
            }
            if last["settled"] == true {
                break;
            }
            progress(show, task, started);
        }
        for change in last["changed"].as_array().into_iter().flatten() {
            let status = change["status"].as_str().unwrap_or_default().to_owned();
            if seen.insert(task.clone(), status.clone()).as_ref() != Some(&status) && !show.json {
                let _ = writeln!(std::io::stderr(), "{task}: {status}");
            }
        }
    }
    Ok(json!({ "settled": true, "tasks": seen, "last": last }))
}

fn progress(show: &Show, task: &str, started: Instant) {
    if !show.json && std::io::stderr().is_terminal() {
        let _ = writeln!(std::io::stderr(), "{task}: still working after {} s", started.elapsed().as_secs());
    }
}
