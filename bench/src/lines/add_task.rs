//! What a new task costs: one client's wait, and sixteen clients' throughput, against bare committing.

use crate::bare::Inserts;
use crate::mcp::Mcp;
use crate::place::Place;
use crate::report::Line;
use crate::stats::{Samples, median, rate};
use crate::yard::Yard;
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const PART: &str = "add_task";
/// Calls in a row before the other kind has its turn: what else the machine does then hits all kinds alike.
const TURN: usize = 50;
const CLIENTS: usize = 16;
const PROMPT: &str = "Do the thing in the demo repository, then report.";

/// The lines of this part.
///
/// # Errors
/// When a call fails.
pub async fn lines(place: &Place) -> Result<Vec<Line>> {
    let mut yard = Yard::new(place).await?;
    yard.make_list(None).await?;
    let bare_folder = place.folder("bare")?;
    let mut bare = Inserts::new(bare_folder.path())?;
    let mut mcp = yard.mcp().await?;
    let number = Arc::new(AtomicUsize::new(0));
    let mut last = String::new();
    for _ in 0..place.count(500) {
        last = add(&mut mcp, &yard, &number).await?.0;
    }
    let (mut inserts, mut reads, mut adds) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..place.count(20) {
        for _ in 0..TURN {
            inserts.push(bare.one()?);
        }
        for _ in 0..TURN {
            let (id, took) = add(&mut mcp, &yard, &number).await?;
            adds.push(took);
            last = id;
        }
        for _ in 0..TURN {
            let read = mcp.call("get_task", &json!({ "task_id": last })).await?;
            read.ok()?;
            reads.push(read.took);
        }
    }
    let allowed = 3.0 * inserts.p50() + reads.p50();
    let note = format!("3 × insert {:.2} ms + read {:.2} ms; p99 {:.2} ms", inserts.p50(), reads.p50(), adds.p99());
    let one = Line::ratio(PART, "add_task, 1 client: p50 against 3 bare inserts + a read", "ms", adds.p50(), allowed, 1.0).note(note);
    let sixteen = throughput(place, &yard, &mut bare, &number).await?;
    Ok(vec![one, sixteen])
}

async fn add(mcp: &mut Mcp, yard: &Yard, number: &AtomicUsize) -> Result<(String, std::time::Duration)> {
    let number = number.fetch_add(1, Ordering::Relaxed);
    let added = mcp.call("add_task", &yard.task(number, PROMPT)).await?;
    let id = added.value()?["task_id"].as_str().unwrap_or_default().to_owned();
    Ok((id, added.took))
}

async fn throughput(place: &Place, yard: &Yard, bare: &mut Inserts, number: &Arc<AtomicUsize>) -> Result<Line> {
    let count = place.count(1600);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(yard.mcp().await?);
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let begun = Instant::now();
        for _ in 0..count {
            bare.one()?;
        }
        theirs.push(rate(count, begun.elapsed()));
        let begun = Instant::now();
        let work = clients.iter_mut().map(|client| {
            let number = Arc::clone(number);
            async move {
                for _ in 0..count / CLIENTS {
                    let number = number.fetch_add(1, Ordering::Relaxed);
                    client.call("add_task", &yard.task(number, PROMPT)).await?.ok()?;
                }
                anyhow::Ok(())
            }
        });
        futures::future::try_join_all(work).await?;
        ours.push(rate(count / CLIENTS * CLIENTS, begun.elapsed()));
    }
    let what = "add_task, 16 clients: throughput against a bare committing loop";
    Ok(Line::ratio(PART, what, "/s", median(ours), median(theirs), 1.0).more_is_better())
}
