//! The stub agent: speaks just enough ACP over its standard input and output to be measured with.
//!
//! A program of its own (`taskyard-bench agent`), without a runtime, so that it costs next to nothing. It notes in the
//! file `BENCH_NOTES` when it started and when it held a prompt, by the clock that all processes share. What it does
//! with a prompt is said there: `write PATH TEXT` commits a file, `stream RATE SECONDS` sends numbered updates, anything
//! else ends the turn at once.

use crate::process::now;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Serves one client until its input ends.
///
/// # Errors
/// When a pipe breaks.
pub fn run() -> anyhow::Result<()> {
    note("started", "")?;
    let lines = std::io::stdin().lock().lines();
    let mut cwd = String::new();
    for line in lines {
        let message: Value = serde_json::from_str(&line?)?;
        let params = &message["params"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({ "protocolVersion": 1, "agentCapabilities": {}, "authMethods": [] }),
            "session/new" => {
                cwd = params["cwd"].as_str().unwrap_or_default().into();
                json!({ "sessionId": "stub" })
            }
            "session/prompt" => {
                let texts = params["prompt"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
                let prompt: Vec<String> = texts.map(str::to_owned).collect();
                let prompt = prompt.join("\n");
                note("prompt", prompt.lines().find_map(|line| line.strip_prefix("tag ")).unwrap_or_default())?;
                act(&prompt, Path::new(&cwd))?;
                // A turn without a word is taken for a failure.
                update("Done.")?;
                json!({ "stopReason": "end_turn" })
            }
            _ => continue,
        };
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

/// Adds a line to the notes: what, when, whose.
fn note(what: &str, tag: &str) -> anyhow::Result<()> {
    if let Some(path) = std::env::var_os("BENCH_NOTES") {
        let line = format!("{what} {} {} {tag}\n", now(), std::process::id());
        std::fs::File::options().create(true).append(true).open(path)?.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn act(prompt: &str, cwd: &Path) -> anyhow::Result<()> {
    for line in prompt.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words.as_slice() {
            ["write", path, text] => {
                let file = cwd.join(path);
                if let Some(folder) = file.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                std::fs::write(file, text.replace("\\n", "\n"))?;
                for args in [["add", "-A", "--", "."], ["commit", "-q", "-m", "Work"]] {
                    std::process::Command::new("git").args(args).current_dir(cwd).status()?;
                }
            }
            ["stream", rate, seconds] => stream(rate.parse()?, seconds.parse()?)?,
            _ => {}
        }
    }
    Ok(())
}

/// Sends numbered updates, evenly spread.
fn stream(rate: u32, seconds: u32) -> anyhow::Result<()> {
    let begun = Instant::now();
    for number in 0..rate * seconds {
        let due = Duration::from_secs_f64(f64::from(number) / f64::from(rate));
        if let Some(early) = due.checked_sub(begun.elapsed()) {
            std::thread::sleep(early);
        }
        update(&format!("{number} "))?;
    }
    note("streamed", &begun.elapsed().as_millis().to_string())
}

/// Sends a piece of text. Written by hand: what the stub costs must not be measured.
fn update(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"stub","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}"#
    )?;
    out.flush()?;
    Ok(())
}

/// A line of the notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// `started`, `prompt` or `streamed`.
    pub what: String,
    /// Nanoseconds of the shared clock.
    pub at: u64,
    /// The stub's process id.
    pub pid: i32,
    /// The prompt's tag.
    pub tag: String,
}

/// Reads the notes.
pub fn notes(path: &Path) -> Vec<Note> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.splitn(4, ' ');
        let (what, at, pid) = (words.next()?.into(), words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Note { what, at, pid, tag: words.next().unwrap_or_default().into() })
    };
    text.lines().filter_map(line).collect()
}
