//! `taskyard agent …`

use crate::args::{AgentAdd, AgentCommand};
use crate::client::Client;
use crate::fail::{Result, machine};
use crate::show::Show;
use serde_json::{Map, Value, json};
use std::path::Path;
use taskyard_domain::Error;

/// Runs the command.
pub async fn run(client: &Client, show: &Show, command: AgentCommand) -> Result<()> {
    match command {
        AgentCommand::List => show.agents(&client.call("list_agents", json!({})).await?),
        AgentCommand::Add(add) => {
            let name = add.name.clone();
            let folder = std::env::current_dir().map_err(|e| machine("reading the current folder", e))?;
            let here = in_folder(&add.command, &folder);
            let answer = client.call("agent_add", arguments(add, &folder)?).await?;
            let warnings = answer["warning"].as_str().map(str::to_owned).into_iter().chain(here);
            let warnings: String = warnings.map(|warning| format!("\nwarning: {warning}")).collect();
            show.done(&answer, &format!("agent {name} is set up, with a profile of the same name{warnings}"))
        }
        AgentCommand::Remove { name } => {
            show.done(&client.call("agent_remove", json!({ "name": name })).await?, &format!("agent {name} removed"))
        }
        AgentCommand::Unlimit { name } => {
            show.done(&client.call("agent_unlimit", json!({ "name": name })).await?, &format!("agent {name} may run again"))
        }
    }
}

/// The command with its program's path made absolute: it runs in another folder than the one it was typed in. A program
/// by name alone is looked up on `PATH`.
fn command(mut command: Vec<String>, folder: &Path) -> Result<Vec<String>> {
    if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
        let path = std::path::absolute(folder.join(&*program)).map_err(|e| machine("reading the program's path", e))?;
        *program = path.into_os_string().into_string().map_err(|path| {
            Error::invalid("command", format!("command: the path {} isn't UTF-8, which the database needs", path.display()))
        })?;
    }
    Ok(command)
}

/// Warns of an argument that names a file in `folder`, where the agent won't run.
fn in_folder(command: &[String], folder: &Path) -> Option<String> {
    let is_file = |word: &&String| !word.starts_with('-') && Path::new(word).is_relative() && folder.join(word).is_file();
    let word = command.iter().skip(1).find(is_file)?;
    let path = folder.join(word.trim_start_matches("./"));
    Some(format!("the agent runs in each task's worktree and finds {word} there; for the one here, give {}", path.display()))
}

fn arguments(add: AgentAdd, folder: &Path) -> Result<Value> {
    let mut env = Map::new();
    for pair in &add.env {
        let (name, value) = pair.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            // The value may be a secret: only the form is shown.
            Error::invalid("env", "env: use --env NAME=VALUE")
        })?;
        env.insert(name.into(), value.into());
    }
    let command = command(add.command, folder)?;
    Ok(json!({
        "name": add.name, "driver": add.driver, "command": command, "env": env, "model": add.model, "mode": add.mode,
        "permission_policy": add.permissions, "allowed_tools": add.allow, "max_parallel": add.max_parallel,
        "auto_commit": !add.no_auto_commit,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_program_by_its_path_is_the_one_in_the_callers_folder() {
        let told = |given: &[&str]| command(words(given), Path::new("/home/me")).unwrap();
        assert_eq!(told(&["./my-agent.sh", "./x"]), ["/home/me/my-agent.sh", "./x"]);
        assert_eq!(told(&["bin/agent"]), ["/home/me/bin/agent"]);
        assert_eq!(told(&["/opt/agent"]), ["/opt/agent"]);
        assert_eq!(told(&["claude"]), ["claude"]);
    }

    #[test]
    fn an_argument_that_names_a_file_here_is_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("agent.py"), "").unwrap();
        let path = folder.path().join("agent.py");
        for said in ["agent.py", "./agent.py"] {
            let warning = in_folder(&words(&["python3", said]), folder.path()).unwrap();
            assert!(warning.contains(&format!("finds {said} there")) && warning.ends_with(path.to_str().unwrap()), "{warning}");
        }
        assert_eq!(in_folder(&words(&["python3", path.to_str().unwrap(), "-v", "other.py"]), folder.path()), None);
    }
}
