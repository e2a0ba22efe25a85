//! `taskyard claim`, `next`, `complete`, `workspace`, `step` and `audit`.

use crate::args::{Audit, Claim, Complete, Next, StepCommand, WorkspaceCommand};
use crate::client::Client;
use crate::fail::{Result, Verdict};
use crate::run::{or_stdin, text};
use crate::show::Show;
use serde_json::{Value, json};
use std::io::Write as _;
use taskyard_domain::Error;

/// The workspace that a command is about: as it is named, else the only one.
pub async fn workspace(client: &Client) -> Result<String> {
    if let Some(handle) = client.workspace() {
        return Ok(handle.to_owned());
    }
    only(&client.call("list_workspaces", json!({})).await?)
}

fn only(answer: &Value) -> Result<String> {
    let slugs: Vec<&str> = answer["workspaces"].as_array().into_iter().flatten().filter_map(|w| w["slug"].as_str()).collect();
    match slugs.as_slice() {
        [one] => Ok((*one).to_owned()),
        _ => Err(Error::invalid("workspace", format!("workspace: there are several, name one with --workspace ({})", slugs.join(", ")))),
    }
}

/// `taskyard claim`
pub async fn claim(client: &Client, show: &Show, claim: Claim) -> Result<()> {
    let arguments = json!({
        "workspace": workspace(client).await?, "backlog_item_id": claim.task, "actor_user_id": claim.label,
        "notes": claim.notes, "idempotency_key": claim.key,
    });
    claimed(show, &client.call("claim_task", arguments).await?)
}

/// `taskyard next`
///
/// With nothing to claim the exit code is 1 and standard output is empty (but for JSON): what is printed there goes to an
/// agent as its work.
pub async fn next(client: &Client, show: &Show, next: Next) -> Result<Verdict> {
    let list = match &next.list {
        Some(list) => Some(client.list_id(Some(list)).await?),
        None => None,
    };
    let arguments = json!({
        "workspace": workspace(client).await?, "actor_user_id": next.label, "workflow_id": list, "notes": next.notes,
        "idempotency_key": next.key,
    });
    let answer = client.call("claim_next_task", arguments).await?;
    if answer["found"] == false {
        if show.json {
            show.done(&answer, "")?;
        } else {
            let _ = writeln!(std::io::stderr(), "nothing can be claimed now");
        }
        return Ok(Verdict::Bad);
    }
    claimed(show, &answer).map(|()| Verdict::Good)
}

/// What a person or a script that claims needs: the run, then what is to be done.
fn claimed(show: &Show, answer: &Value) -> Result<()> {
    let item = &answer["backlog_item"];
    let again = match (&answer["reclaimed"], &answer["replayed"]) {
        (Value::Bool(true), _) => " (it was yours already)",
        (_, Value::Bool(true)) => " (by the earlier call with this key)",
        _ => "",
    };
    let head = format!("{} is claimed{again}: run {}", text(item, "short_id"), text(answer, "run_id"));
    // The item as a section of its own, so that an agent sees where the workflow's prompt ends.
    let title = format!("# {}", text(item, "title"));
    let parts = [head.as_str(), text(answer, "workflow_prompt"), title.as_str(), text(item, "body_markdown")];
    show.done(answer, &parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n"))
}

/// `taskyard complete`
pub async fn complete(client: &Client, show: &Show, complete: Complete) -> Result<()> {
    let arguments = json!({
        "workspace": workspace(client).await?, "run_id": complete.run, "outcome": complete.outcome,
        "summary": complete.summary, "notes": complete.notes,
    });
    let answer = client.call("complete_task", arguments).await?;
    show.done(
        &answer,
        &format!("the claim of {} ended as {}; it is {}", text(&answer, "short_id"), text(&answer, "outcome"), text(&answer, "status")),
    )
}

/// `taskyard workspace …`
pub async fn workspaces(client: &Client, show: &Show, command: WorkspaceCommand) -> Result<()> {
    match command {
        WorkspaceCommand::List => {
            let answer = client.call("list_workspaces", json!({})).await?;
            show.rows(&answer, "workspaces", &[("slug", "WORKSPACE"), ("name", "NAME"), ("task_prefix", "PREFIX"), ("id", "UUID")])
        }
        WorkspaceCommand::Add { slug, name } => {
            let answer = client.call("workspace_add", json!({ "slug": slug, "name": name })).await?;
            show.done(&answer, &format!("workspace {slug} made; its tasks are called {}-1 and so on", text(&answer, "task_prefix")))
        }
        WorkspaceCommand::Rename { workspace, name } => {
            let answer = client.call("workspace_rename", json!({ "workspace": workspace, "name": name })).await?;
            show.done(&answer, &format!("{} is called {} now", text(&answer, "slug"), text(&answer, "name")))
        }
        WorkspaceCommand::Prompt { workspace, prompt } => {
            let prompt = prompt.map(or_stdin).transpose()?;
            let answer = client.call("workspace_prompt", json!({ "workspace": workspace, "prompt": prompt })).await?;
            show.done(&answer, &or_none(text(&answer, "prompt")))
        }
    }
}

fn or_none(prompt: &str) -> String {
    if prompt.is_empty() { "no prompt is set".into() } else { prompt.into() }
}

/// `taskyard step …`
pub async fn steps(client: &Client, show: &Show, command: StepCommand) -> Result<()> {
    let (operation, list, mut arguments) = match command {
        StepCommand::List { list } => ("step_list", list, json!({})),
        StepCommand::Add { list, name, stage, prompt } => {
            ("step_add", list, json!({ "name": name, "stage": stage, "prompt": prompt.map(or_stdin).transpose()? }))
        }
        StepCommand::Set { list, step, name, stage, prompt } => {
            ("step_update", list, json!({ "step": step, "name": name, "stage": stage, "prompt": prompt.map(or_stdin).transpose()? }))
        }
        StepCommand::Remove { list, step } => ("step_remove", list, json!({ "step": step })),
        StepCommand::Prompt { list, prompt } => ("list_prompt", list, json!({ "prompt": prompt.map(or_stdin).transpose()? })),
    };
    arguments["list_id"] = json!(client.list_id(Some(&list)).await?);
    let answer = client.call(operation, arguments).await?;
    let mut shown = format!("{}\n{}\n", text(&answer, "list"), or_none(text(&answer, "prompt")));
    for step in answer["steps"].as_array().into_iter().flatten() {
        shown.push_str(&format!("\n{} ({})\n{}\n", text(step, "name"), text(step, "stage"), or_none(text(step, "prompt"))));
    }
    show.done(&answer, &shown)
}

/// `taskyard audit`
pub async fn audit(client: &Client, show: &Show, audit: Audit) -> Result<()> {
    let arguments = json!({
        "workspace": workspace(client).await?, "target_id": audit.about, "action": audit.action, "limit": audit.limit,
        "cursor": audit.cursor,
    });
    let answer = client.call("get_audit_log", arguments).await?;
    let columns = [
        ("at", "WHEN"),
        ("actor", "WHO"),
        ("actor_label", "AS"),
        ("face", "BY"),
        ("action", "WHAT"),
        ("target_type", "TO"),
        ("target_id", "WHICH"),
        ("metadata", "FACTS"),
    ];
    show.rows(&answer, "entries", &columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_workspace_needs_no_name() {
        let one = json!({ "workspaces": [{ "slug": "default" }] });
        assert_eq!(only(&one).unwrap(), "default");
        let two = json!({ "workspaces": [{ "slug": "a" }, { "slug": "b" }] });
        assert!(only(&two).unwrap_err().message.contains("a, b"));
    }
}
