//! `make bench`: measures the release build of Taskyard from outside, as its clients see it.
//!
//! Every bar is a ratio of two figures of the same run, on the same machine and disk, by the same driver; the few
//! figures that are of this machine only are shown and marked, and never fail the run. What each line means and how to
//! repeat it is in `docs/benchmarks.md`.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "bare processes and waiting are what a driver measures with")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that is run by hand")]

mod agent;
mod bare;
mod http;
mod lines;
mod mcp;
mod peers;
mod place;
mod process;
mod repo;
mod report;
mod stats;
mod yard;

use anyhow::{Result, bail};
use place::Place;
use report::Line;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "taskyard-bench [--only PART,PART] [--quick] [--peers FOLDER] [--json FILE]
taskyard-bench agent     the stub agent";

/// What was asked for.
struct Asked {
    only: Vec<String>,
    quick: bool,
    peers: Option<PathBuf>,
    json: Option<PathBuf>,
}

fn asked(mut words: impl Iterator<Item = String>) -> Result<Asked> {
    let mut asked = Asked { only: Vec::new(), quick: false, peers: None, json: None };
    while let Some(word) = words.next() {
        let mut value = || words.next().filter(|value| !value.is_empty());
        match word.as_str() {
            "--only" => asked.only = value().map(|names| names.split(',').map(str::to_owned).collect()).unwrap_or_default(),
            "--quick" => asked.quick = true,
            "--peers" => asked.peers = value().map(Into::into),
            "--json" => asked.json = value().map(Into::into),
            other => bail!("{other:?} isn't known\n{USAGE}"),
        }
    }
    if let Some(unknown) = asked.only.iter().find(|name| !lines::PARTS.contains(&name.as_str())) {
        bail!("there is no part {unknown:?}; there are {}", lines::PARTS.join(", "));
    }
    Ok(asked)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some("agent") => agent::run().map(|()| false),
        _ => asked(words.into_iter()).and_then(measure),
    };
    match done {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("taskyard-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Measures what was asked for; whether a bar was missed or a part broke.
fn measure(asked: Asked) -> Result<bool> {
    let place = Place::find(asked.peers, asked.quick)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut all: Vec<Line> = Vec::new();
    let mut broken = Vec::new();
    let chosen = lines::PARTS.iter().filter(|part| asked.only.is_empty() || asked.only.iter().any(|name| name == *part));
    for part in chosen.copied() {
        let begun = Instant::now();
        eprintln!("{part} …");
        match runtime.block_on(lines::run(part, &place)) {
            Ok(lines) => all.extend(lines),
            Err(error) => {
                eprintln!("{part} broke: {error:#}");
                broken.push(part);
            }
        }
        eprintln!("{part}: {:.1} s", begun.elapsed().as_secs_f64());
    }
    println!("{}", report::table(&all));
    println!("* a figure of this machine: shown, never a failure");
    if let Some(path) = &asked.json {
        report::write(path, &all)?;
    }
    let missed = all.iter().filter(|line| line.fails()).count();
    println!("{missed} missed, {} parts broke {broken:?}", broken.len());
    Ok(missed > 0 || !broken.is_empty())
}
