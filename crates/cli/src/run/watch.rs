//! Waiting for tasks, with progress on standard error while it takes time.

use crate::client::Client;
use crate::fail::{Result, Verdict};
use crate::run::text;
use crate::show::Show;
use crate::terminal::clean;
use crate::words;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use taskyard_domain::Error;

/// Longest that one call waits; the server is asked again after it.
const ROUND_S: u64 = 50;

/// Waits until every task is settled; shows what each has come to. `UNAVAILABLE` when `timeout` is over first.
pub async fn wait(client: &Client, show: &Show, tasks: &[String], timeout: Option<Duration>) -> Result<Verdict> {
    let started = Instant::now();
    let (mut seen, mut verdict) = (BTreeMap::new(), Verdict::Good);
    let (mut settled, mut all_stuck, mut last) = (true, Vec::new(), Value::Null);
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
            if last["settled"] == true || stuck(&last).is_some() {
                break;
            }
            progress(show, task, started);
        }
        let now = client.call("get_task", json!({ "task_id": task })).await?;
        let status = text(&now, "status").to_owned();
        settled &= last["settled"] == true;
        all_stuck.extend(last["stuck"].as_array().cloned().unwrap_or_default());
        let stuck = stuck(&last);
        if is_bad(&status) || stuck.is_some() {
            verdict = Verdict::Bad;
        }
        if !show.json {
            let _ = std::io::stderr().write_all(clean(&told(task, &now, stuck)).as_bytes());
        }
        seen.insert(task.clone(), status);
    }
    show.json_only(&json!({ "settled": settled, "tasks": seen, "stuck": all_stuck, "last": last }))?;
    Ok(verdict)
}

/// Whether a script that waits for work had better stop here.
fn is_bad(status: &str) -> bool {
    matches!(status, "failed" | "cancelled" | "waiting_for_input")
}

/// Why a task that is queued won't start by itself, so that waiting for it has no end.
fn stuck(answer: &Value) -> Option<&str> {
    answer["stuck"].as_array()?.first()?["reason"].as_str()
}

/// What `task` has come to, and what is to be done where that isn't plain.
fn told(task: &str, now: &Value, stuck: Option<&str>) -> String {
    let status = text(now, "status");
    let more = match status {
        _ if stuck.is_some() => {
            stuck.map(|why| format!(" and won't start by itself: {}", words::hint(why, Some(task)))).unwrap_or_default()
        }
        "waiting_for_input" => format!(": its agent asks, answer with `taskyard task answer {task}`"),
        "failed" => now["failure"].as_str().map(|why| format!(": {}", words::hint(why, Some(task)))).unwrap_or_default(),
        _ => String::new(),
    };
    format!("{task}: {status}{more}\n")
}

fn progress(show: &Show, task: &str, started: Instant) {
    if !show.json && std::io::stderr().is_terminal() {
        let _ = writeln!(std::io::stderr(), "{task}: still working after {} s", started.elapsed().as_secs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_has_come_to_says_what_to_do() {
        let asks = json!({ "status": "waiting_for_input" });
        assert_eq!(told("TY-1", &asks, None), "TY-1: waiting_for_input: its agent asks, answer with `taskyard task answer TY-1`\n");
        let failed = json!({ "status": "failed", "failure": "start it with run_task_now" });
        assert_eq!(told("TY-2", &failed, None), "TY-2: failed: start it with `taskyard task run TY-2 --now`\n");
        assert_eq!(told("TY-3", &json!({ "status": "done" }), None), "TY-3: done\n");
        assert!(is_bad("failed") && is_bad("waiting_for_input") && !is_bad("waiting_for_review") && !is_bad("done"));
    }
}
