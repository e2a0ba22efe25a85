//! The parts of a run, each a module that gives its lines.

mod add_task;
mod claim;
mod merge;
mod preview;
mod ready;
mod start;
mod stream;
mod wait;

use crate::place::Place;
use crate::report::Line;
use anyhow::{Result, bail};

/// All parts, in the order they are measured.
pub const PARTS: &[&str] = &["add_task", "claim", "wait", "start", "merge", "preview", "ready", "stream", "peers"];

/// Measures one part.
///
/// # Errors
/// When something that should work doesn't.
pub async fn run(part: &str, place: &Place) -> Result<Vec<Line>> {
    match part {
        "add_task" => add_task::lines(place).await,
        "claim" => claim::lines(place).await,
        "wait" => wait::lines(place).await,
        "start" => start::lines(place).await,
        "merge" => merge::lines(place).await,
        "preview" => preview::lines(place).await,
        "ready" => ready::lines(place).await,
        "stream" => stream::lines(place).await,
        "peers" => crate::peers::lines(place).await,
        other => bail!("there is no part {other:?}"),
    }
}
