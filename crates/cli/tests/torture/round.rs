//! One round: a stage, a load, faults; then rest, and every invariant.

use crate::check;
use crate::clients::{Busy, Client};
use crate::dice::Dice;
use crate::faults::{self, Plan};
use crate::settle::settle;
use crate::stage::Stage;
use crate::wire::Face;
use futures::future::join_all;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Clients at work.
const CLIENTS: usize = 4;
/// Tasks that are there when the faults begin.
const FIRST_TASKS: usize = 6;
/// The title of the tasks that show that work goes on.
const LAST: &str = "The last one";

/// What came of a round.
pub struct Outcome {
    /// How often each thing happened.
    pub figures: BTreeMap<String, usize>,
    /// What was wrong; empty in a clean round.
    pub wrong: Vec<String>,
    /// Where everything lies, after a round that wasn't clean.
    pub kept: Option<PathBuf>,
    /// Errors that said `INTERNAL`.
    pub internal: Vec<String>,
}

/// Plays the round of a seed.
pub async fn play(seed: u64) -> Outcome {
    let plan = Plan::of(seed);
    let mut stage = Stage::new(2, plan.disk).await;
    let mut wrong = Vec::new();
    if let Err(error) = perform(&mut stage, seed, &plan, &mut wrong).await {
        wrong.push(error);
    }
    stage.close(!wrong.is_empty()).await;
    let mut book = std::mem::take(&mut *stage.ledger.open());
    book.figures.insert("rounds".into(), 1);
    let kept = (!wrong.is_empty()).then(|| stage.folder().to_owned());
    if let Some(kept) = &kept {
        std::fs::write(kept.join("what-was-wrong.txt"), format!("seed {seed}\n{plan:#?}\n{}\n{book:#?}\n", wrong.join("\n"))).unwrap();
    }
    Outcome { figures: book.figures, wrong, kept, internal: book.internal }
}

async fn perform(stage: &mut Stage, seed: u64, plan: &Plan, wrong: &mut Vec<String>) -> Result<(), String> {
    stage.start().await?;
    stage.furnish().await;
    let mut dice = Dice::new(seed, "rest");
    let busy = Busy::default();
    {
        let stage = &*stage;
        let mut clients = Vec::new();
        for n in 0..CLIENTS {
            clients.push(Client::new(stage, &busy, seed, n, plan.cuts).await);
        }
        for n in 0..FIRST_TASKS {
            clients[n % CLIENTS].add().await;
        }
        let load = join_all(clients.into_iter().map(Client::work));
        let (_, injected) = tokio::join!(load, faults::inject(stage, seed, plan));
        injected?;
    }
    rest(stage, &mut dice, wrong).await
}

/// Comes to rest, shows that work still goes on, comes to rest again, and checks.
async fn rest(stage: &Stage, dice: &mut Dice, wrong: &mut Vec<String>) -> Result<(), String> {
    settle(stage, dice).await?;
    go_on(stage, wrong).await;
    settle(stage, dice).await?;
    wrong.extend(check::only_the_server_runs(stage).await);
    let code = stage.stop().await;
    if code != Some(0) {
        wrong.push(format!("the server ended with {code:?} when it was asked to stop"));
    }
    wrong.extend(check::all(stage).await);
    Ok(())
}

/// After everything the place still works: a new task runs through and is merged.
async fn go_on(stage: &Stage, wrong: &mut Vec<String>) {
    for project in &stage.projects {
        let prompt = crate::support::prompt("last", json!([{ "shell": crate::jobs::proven_commit("last") }]));
        let arguments = json!({ "list_id": project.list, "title": LAST, "description": prompt, "queue": true });
        let added = stage.wire.call(&Face::Call, "add_task", &arguments, None).await;
        let Some(task) = added.done().and_then(|added| added["task_id"].as_str()).map(str::to_owned) else {
            wrong.push(format!("a task can't be added at rest: {added:?}"));
            continue;
        };
        let wait = json!({ "task_ids": [task], "timeout_seconds": 30 });
        for _ in 0..20 {
            let shown = stage.wire.call(&Face::Call, "get_task", &json!({ "task_id": task }), None).await;
            let status = shown.done().and_then(|shown| shown["status"].as_str()).unwrap_or_default().to_owned();
            if !matches!(status.as_str(), "queued" | "in_progress") {
                break;
            }
            stage.wire.call(&Face::Call, "wait_for_task_change", &wait, None).await;
        }
        let approved = stage.wire.call(&Face::Call, "review_task", &json!({ "task_id": task, "decision": "approve" }), None).await;
        match approved.done().and_then(|done| done["merge"]["merge_id"].as_str()) {
            Some(id) => {
                let mut book = stage.ledger.open();
                let told = book.tasks.entry(task).or_default();
                told.title = LAST.into();
                told.merged.insert(id.into());
            }
            None => wrong.push(format!("a task can't be run and merged at rest: {approved:?}")),
        }
    }
}
