//! `taskyard demo`: the whole job on a throw-away repository, with a real server, real git and scripted agents.
//!
//! Everything goes through the same calls that a person's client makes; nothing is faked but the agents' ideas.

mod script;
mod stage;

use crate::args::Demo;
use crate::client::Client;
use crate::fail::{Result, machine};
use crate::run::{task::names, text};
use serde_json::{Value, json};
use stage::Stage;
use std::io::Write;
use taskyard_domain::Error;

/// Runs the demo and says what happened, task by task.
pub async fn run(flags: &Demo) -> Result<()> {
    let stage = Stage::build(flags.dir.as_deref()).await?;
    say(&format!("repository  {}", stage.repository.display()))?;
    say(&format!("data        {}", stage.data.display()))?;
    say(&format!("server      {}", stage.client.url()))?;
    let told = perform(&stage).await;
    if flags.stop || told.is_err() {
        stage.stop_server().await?;
    }
    told?;
    if !flags.stop {
        say(&stage.how_to_go_on())?;
    }
    Ok(())
}

async fn perform(stage: &Stage) -> Result<()> {
    let client = &stage.client;
    heading("Three agents, one repository, one list")?;
    let list_id = stage.set_up().await?;
    heading("Six tasks are queued; three run at once, each in its own worktree")?;
    let mut tasks = Vec::new();
    for part in script::parts() {
        let arguments = json!({
            "list_id": list_id, "title": part.title, "description": part.prompt(), "agent_profile_id": part.agent, "queue": true,
        });
        let added = client.call("add_task", arguments).await?;
        say(&format!("  {}  {}  ({})", text(&added, "short_id"), part.title, part.agent))?;
        tasks.push(text(&added, "task_id").to_owned());
    }
    follow(client, &tasks).await?;
    let (merged, left_out) = preview(client, &tasks).await?;
    approve_all(client, &merged).await?;
    for task in &left_out {
        send_back(client, task).await?;
    }
    revert(client, &tasks[script::REVERTED]).await?;
    report(stage, &tasks).await
}

/// Shows each task's status as it changes until all wait for review.
async fn follow(client: &Client, tasks: &[String]) -> Result<()> {
    let mut cursor = String::new();
    loop {
        let state = client.call("get_queue_state", json!({})).await?;
        let running = state["active_slots"].as_array().map_or(0, Vec::len);
        let arguments = json!({ "task_ids": tasks, "timeout_seconds": 50, "cursor": cursor });
        let answer = client.call("wait_for_task_change", arguments).await?;
        for change in answer["changed"].as_array().into_iter().flatten() {
            let task = client.call("get_task", json!({ "task_id": change["task_id"] })).await?;
            let status = text(&task, "status");
            say(&format!("  {}  {status}  ({running} were running)", text(&task, "short_id")))?;
            if !matches!(status, "waiting_for_review" | "queued" | "in_progress") {
                return Err(Error::internal(format!("{} is {status}: {}", text(&task, "short_id"), task["failure"])));
            }
        }
        cursor = text(&answer, "cursor").to_owned();
        if answer["settled"] == true {
            return Ok(());
        }
    }
}

/// Previews the set; gives the tasks that merge in order, and those that conflict.
async fn preview(client: &Client, tasks: &[String]) -> Result<(Vec<String>, Vec<String>)> {
    heading("Preview of the whole set: exact, without touching anything")?;
    let answer = client.call("preview_merge_set", json!({ "task_ids": tasks })).await?;
    let names = names(client, &answer).await?;
    let name = |id: &Value| names.get(id.as_str().unwrap_or_default()).cloned().unwrap_or_default();
    let ok: Vec<String> = answer["order_ok"].as_array().into_iter().flatten().filter_map(|id| id.as_str().map(str::to_owned)).collect();
    for id in &ok {
        say(&format!("  merges     {}", name(&json!(id))))?;
    }
    let mut left = Vec::new();
    for out in answer["left_out"].as_array().into_iter().flatten() {
        let opponents: Vec<String> = out["conflicts_with"].as_array().into_iter().flatten().map(name).collect();
        say(&format!("  conflicts  {} with {}", name(&out["task_id"]), opponents.join(", ")))?;
        left.extend(out["task_id"].as_str().map(str::to_owned));
    }
    if ok.len() + left.len() != tasks.len() || left.len() != 1 {
        return Err(Error::internal(format!("the preview is not what the demo's script makes: {answer}")));
    }
    Ok((ok, left))
}

async fn approve_all(client: &Client, tasks: &[String]) -> Result<()> {
    heading("Review: the clean ones are approved and merged")?;
    for task in tasks {
        approve(client, task).await?;
    }
    Ok(())
}

async fn approve(client: &Client, task: &str) -> Result<()> {
    let answer = client.call("review_task", json!({ "task_id": task, "decision": "approve" })).await?;
    let task = client.call("get_task", json!({ "task_id": task })).await?;
    say(&format!("  {}  {}  {}", text(&task, "short_id"), text(&task, "status"), merge_commit(&answer)))
}

fn merge_commit(answer: &Value) -> String {
    answer["merge"]["commit"].as_str().unwrap_or_default().chars().take(12).collect()
}

/// The conflict is refused, the task goes back with feedback, comes again, and merges.
async fn send_back(client: &Client, task: &str) -> Result<()> {
    heading("The conflicting one: approving is refused and changes nothing; it goes back with feedback")?;
    match client.call("review_task", json!({ "task_id": task, "decision": "approve" })).await {
        Err(error) => say(&format!("  refused: {}", error.message))?,
        Ok(answer) => return Err(Error::internal(format!("a conflicting task was approved: {answer}"))),
    }
    let feedback = script::feedback();
    client.call("review_task", json!({ "task_id": task, "decision": "reject_rerun", "feedback": feedback })).await?;
    follow(client, &[task.to_owned()]).await?;
    approve(client, task).await
}

async fn revert(client: &Client, task: &str) -> Result<()> {
    heading("One merge is undone, with a new commit")?;
    let answer = client.call("revert_merge", json!({ "task_id": task })).await?;
    let shown = client.call("get_task", json!({ "task_id": task })).await?;
    let commit: String = answer["revert"]["commit"].as_str().unwrap_or_default().chars().take(12).collect();
    say(&format!("  {}  {}  undone by {commit}", text(&shown, "short_id"), text(&shown, "status")))
}

async fn report(stage: &Stage, tasks: &[String]) -> Result<()> {
    heading("What happened")?;
    for task in tasks {
        let shown = stage.client.call("get_task", json!({ "task_id": task })).await?;
        let runs = stage.client.call("list_runs", json!({ "task_id": task })).await?;
        let runs: Vec<&str> = runs["runs"].as_array().into_iter().flatten().filter_map(|r| r["outcome"].as_str()).collect();
        say(&format!(
            "  {}  {:<19} {}  (runs: {})",
            text(&shown, "short_id"),
            text(&shown, "status"),
            text(&shown, "title"),
            runs.join(", ")
        ))?;
    }
    heading("git log --graph")?;
    say(&stage.git_log().await?)
}

fn heading(text: &str) -> Result<()> {
    say(&format!("\n{text}"))
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}").map_err(|e| machine("writing standard output", e))
}
