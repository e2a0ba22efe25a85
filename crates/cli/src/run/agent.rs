//! `taskyard agent …`

use crate::args::{AgentAdd, AgentCommand};
use crate::client::Client;
use crate::fail::Result;
use crate::show::Show;
use serde_json::{Map, Value, json};
use taskyard_domain::Error;

/// Runs the command.
pub async fn run(client: &Client, show: &Show, command: AgentCommand) -> Result<()> {
    match command {
        AgentCommand::List => show.agents(&client.call("list_agents", json!({})).await?),
        AgentCommand::Add(add) => {
            let name = add.name.clone();
            let answer = client.call("agent_add", arguments(add)?).await?;
            show.done(&answer, &format!("agent {name} is set up, with a profile of the same name"))
        }
        AgentCommand::Remove { name } => {
            show.done(&client.call("agent_remove", json!({ "name": name })).await?, &format!("agent {name} removed"))
        }
        AgentCommand::Unlimit { name } => {
            show.done(&client.call("agent_unlimit", json!({ "name": name })).await?, &format!("agent {name} may run again"))
        }
    }
}

fn arguments(add: AgentAdd) -> Result<Value> {
    let mut env = Map::new();
    for pair in &add.env {
        let (name, value) = pair.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            // The value may be a secret: only the form is shown.
            Error::invalid("env", "env: use --env NAME=VALUE")
        })?;
        env.insert(name.into(), value.into());
    }
    Ok(json!({
        "name": add.name, "driver": add.driver, "command": add.command, "env": env, "model": add.model, "mode": add.mode,
        "permission_policy": add.permissions, "allowed_tools": add.allow, "max_parallel": add.max_parallel,
        "auto_commit": !add.no_auto_commit,
    }))
}
