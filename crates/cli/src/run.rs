//! What each command does: one call (or a few) of the server, then the answer shown.

mod agent;
mod backlog;
mod claim;
mod place;
pub mod task;
mod watch;

use crate::args::{Cli, Command, ListCommand, QueueCommand, SettingsCommand};
use crate::client::Client;
use crate::fail::{Result, Verdict, machine};
use crate::show::Show;
use crate::{bridge, demo, doctor, serve, terminal};
use serde_json::{Value, json};
use std::io::Read as _;

/// Runs the command.
pub async fn run(cli: Cli) -> Result<Verdict> {
    let global = cli.global;
    let show = Show { json: global.json };
    let done = match cli.command {
        Command::Serve(flags) => serve::run(&global, &flags).await,
        Command::Mcp(flags) => bridge::run(&global, &flags).await,
        Command::Demo(flags) => demo::run(&flags).await,
        Command::Doctor => doctor::run(&global, &show).await,
        Command::Completions { shell } => completions(shell),
        // Speaks its own protocol from `main`, before anything of the client's is set up.
        Command::ScriptedAgent => Ok(()),
        Command::Agent(command) => agent::run(&Client::find(&global)?, &show, command).await,
        Command::List { command } => list(&Client::find(&global)?, &show, command).await,
        Command::Task(command) => return task::run(&Client::find(&global)?, &show, command).await,
        Command::Queue { command } => queue(&Client::find(&global)?, &show, command).await,
        Command::Claim(flags) => claim::claim(&Client::find(&global)?, &show, flags).await,
        Command::Next(flags) => return claim::next(&Client::find(&global)?, &show, flags).await,
        Command::Complete(flags) => claim::complete(&Client::find(&global)?, &show, flags).await,
        Command::Backlog(command) => backlog::run(&Client::find(&global)?, &show, command).await,
        Command::Workspace(command) => claim::workspaces(&Client::find(&global)?, &show, command).await,
        Command::Step(command) => claim::steps(&Client::find(&global)?, &show, command).await,
        Command::Audit(flags) => claim::audit(&Client::find(&global)?, &show, flags).await,
        Command::Worktree(command) => place::worktree(&Client::find(&global)?, &show, command).await,
        Command::Snapshot(command) => place::snapshot(&Client::find(&global)?, &show, command).await,
        Command::Repository(command) => place::repository(&Client::find(&global)?, &show, command).await,
        Command::Settings(command) => settings(&Client::find(&global)?, &show, command).await,
    };
    done.map(|()| Verdict::Good)
}

fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut command = <Cli as clap::CommandFactory>::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "taskyard", &mut script);
    terminal::write(&mut std::io::stdout().lock(), &script).map_err(|e| machine("writing standard output", e))
}

async fn list(client: &Client, show: &Show, command: Option<ListCommand>) -> Result<()> {
    let Some(command) = command else {
        let answer = client.call("list_task_lists", json!({})).await?;
        return show.lists(&answer);
    };
    match command {
        ListCommand::Add { name, path, repository } => {
            client.check_new_list(&name).await?;
            let path = path.map(|p| std::path::absolute(&p).map_err(|e| machine("reading the path", e))).transpose()?;
            let path = path.map(|p| p.to_string_lossy().into_owned());
            let answer = client.call("create_list", json!({ "name": name, "local_path": path, "repository_id": repository })).await?;
            show.done(&answer, &format!("list {name} made: {}", text(&answer, "list_id")))
        }
        ListCommand::Set(set) => {
            let list_id = client.list_id(Some(&set.list)).await?;
            let clear = (!set.clear.is_empty()).then_some(set.clear);
            let arguments = json!({
                "list_id": list_id, "agent_profile_id": set.profile, "repository_id": set.repository, "target_branch": set.target,
                "model": set.model, "max_turns": set.max_turns, "system_prompt": set.system_prompt, "clear": clear,
            });
            let answer = client.call("set_list_config", arguments).await?;
            show.config(&answer)
        }
        ListCommand::Show { list } => {
            let list_id = client.list_id(Some(&list)).await?;
            show.config(&client.call("get_list_config", json!({ "list_id": list_id })).await?)
        }
        ListCommand::Delete { list } => {
            let list_id = client.list_id(Some(&list)).await?;
            let answer = client.call("delete_list", json!({ "list_id": list_id })).await?;
            show.done(&answer, &format!("list {list} deleted"))
        }
    }
}

async fn queue(client: &Client, show: &Show, command: Option<QueueCommand>) -> Result<()> {
    match command {
        None => {
            let state = client.call("get_queue_state", json!({})).await?;
            let names = task::names(client, &state).await?;
            let open = client.call("list_pending_questions", json!({})).await?;
            let asking = open["questions"].as_array().into_iter().flatten().filter_map(|q| q["task_id"].as_str().map(str::to_owned));
            show.queue(&state, &names, &asking.collect())
        }
        Some(QueueCommand::Pause) => show.done(&client.call("queue_pause", json!({})).await?, "the queue is paused: nothing new starts"),
        Some(QueueCommand::Resume) => show.done(&client.call("queue_resume", json!({})).await?, "the queue goes on"),
    }
}

async fn settings(client: &Client, show: &Show, command: SettingsCommand) -> Result<()> {
    match command {
        SettingsCommand::Show => show.fields(&client.call("get_app_settings", json!({})).await?),
        SettingsCommand::Set { name, value } => {
            // Numbers, truth values and lists as JSON, anything else as the text it is.
            let typed: Value = serde_json::from_str(&value).unwrap_or_else(|_| Value::String(value.clone()));
            let answer = client.call("settings_update", json!({ "settings": { name.as_str(): typed } })).await?;
            show.done(&answer, &format!("{name} is {value}"))
        }
    }
}

/// A text field of an answer.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The text itself, or standard input for `-`.
pub fn or_stdin(given: String) -> Result<String> {
    if given != "-" {
        return Ok(given);
    }
    let mut all = String::new();
    std::io::stdin().read_to_string(&mut all).map_err(|e| machine("reading standard input", e))?;
    Ok(all)
}
