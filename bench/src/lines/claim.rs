//! What a claim costs: 64 clients that claim at once, beside one loop of bare conditional updates.

use crate::bare::Holders;
use crate::mcp::Mcp;
use crate::place::Place;
use crate::report::{Kind, Line};
use crate::stats::{median, rate};
use crate::yard::Yard;
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use std::time::Instant;

const PART: &str = "claim";
const CLIENTS: usize = 64;
/// Items for each client in a round.
const EACH: usize = 10;

/// The lines of this part.
///
/// # Errors
/// When a call fails, or an item is given twice.
pub async fn lines(place: &Place) -> Result<Vec<Line>> {
    let mut yard = Yard::new(place).await?;
    yard.make_list(None).await?;
    let bare_folder = place.folder("bare")?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(yard.mcp().await?);
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut bare = Holders::new(bare_folder.path())?;
    for round in 0..place.count(50).div_ceil(10) {
        let items = items(&yard, round).await?;
        let begun = Instant::now();
        for _ in 0..items.len() {
            bare.one()?;
        }
        theirs.push(rate(items.len(), begun.elapsed()));
        let begun = Instant::now();
        let work = clients.iter_mut().zip(items.chunks(EACH)).enumerate().map(|(n, (client, own))| claim(client, n, own));
        futures::future::try_join_all(work).await?;
        ours.push(rate(items.len(), begun.elapsed()));
    }
    let what = "claim_task, 64 clients: claims per second beside a bare loop of conditional updates";
    let line = Line::ratio(PART, what, "/s", median(ours), median(theirs), 0.25).more_is_better();
    Ok(vec![Line { kind: Kind::Figure, ..line }])
}

/// Items for one round, each ready to be claimed.
async fn items(yard: &Yard, round: usize) -> Result<Vec<String>> {
    let mut items = Vec::new();
    for n in 0..CLIENTS * EACH {
        let title = format!("item {round}-{n}");
        let made = yard.operate("add_task", json!({ "list_id": yard.list, "title": title })).await?;
        items.push(made["task_id"].as_str().context("no task_id")?.to_owned());
    }
    Ok(items)
}

async fn claim(client: &mut Mcp, n: usize, own: &[String]) -> Result<()> {
    for item in own {
        let arguments = json!({ "workspace": "default", "backlog_item_id": item, "actor_user_id": format!("client-{n}") });
        let claimed = client.call("claim_task", &arguments).await?;
        ensure!(claimed.value()?["reclaimed"] == false, "{item} was claimed before");
    }
    Ok(())
}
