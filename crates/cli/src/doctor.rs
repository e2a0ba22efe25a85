//! `taskyard doctor`: what is here, what is missing, what to do about it.

use crate::args::Global;
use crate::client::Client;
use crate::config::data_dir;
use crate::fail::Result;
use crate::run::text;
use crate::show::Show;
use serde_json::{Value, json};
use taskyard_domain::Error;
use taskyard_git::Git;
use taskyard_process::Environment;

/// The oldest git that merges trees without a checkout in the way we need (`merge-tree`, `--attr-source`).
const OLDEST_GIT: (u32, u32) = (2, 45);

/// Runs every check; fails when something that Taskyard can't do without is missing.
pub async fn run(global: &Global, show: &Show) -> Result<()> {
    let env = Environment::from_vars(std::env::vars_os());
    let mut checks = vec![git(&env).await, folder(global)];
    let (server, client) = server(global).await;
    checks.push(server);
    match client {
        Some(client) => checks.extend(of_server(&client).await?),
        None => checks.extend(known_agents(&env).await),
    }
    let bad = checks.iter().any(|check| check.level == "missing");
    let answer = json!({ "ok": !bad, "checks": checks.iter().map(Check::json).collect::<Vec<_>>() });
    let lines: Vec<String> = checks.iter().map(Check::line).collect();
    show.done(&answer, &lines.join("\n"))?;
    if bad { Err(Error::precondition("something that Taskyard needs is missing")) } else { Ok(()) }
}

struct Check {
    what: String,
    level: &'static str,
    text: String,
    hint: Option<String>,
}

impl Check {
    fn new(level: &'static str, what: &str, text: impl Into<String>, hint: Option<&str>) -> Self {
        Self { what: what.into(), level, text: text.into(), hint: hint.map(Into::into) }
    }

    fn good(what: &str, text: impl Into<String>) -> Self {
        Self::new("ok", what, text, None)
    }

    fn warn(what: &str, text: impl Into<String>, hint: &str) -> Self {
        Self::new("note", what, text, Some(hint))
    }

    fn missing(what: &str, text: impl Into<String>, hint: &str) -> Self {
        Self::new("missing", what, text, Some(hint))
    }

    fn json(&self) -> Value {
        json!({ "what": self.what, "level": self.level, "text": self.text, "hint": self.hint })
    }

    fn line(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("\n          {hint}")).unwrap_or_default();
        format!("{:<8} {:<18} {}{hint}", self.level, self.what, self.text)
    }
}

async fn git(env: &Environment) -> Check {
    let hint = "install git 2.45 or newer";
    let found = Git::new(env.clone()).call("ask for git's version", "/").arg("--version").text().await;
    let Ok(text) = found else { return Check::missing("git", "not found on PATH", hint) };
    let mut numbers = text.split(' ').nth(2).unwrap_or_default().split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST_GIT {
        return Check::missing("git", format!("{text} is too old"), hint);
    }
    Check::good("git", format!("{text} (on your PATH)"))
}

fn folder(global: &Global) -> Check {
    match data_dir(global) {
        Err(error) => Check::missing("data folder", error.message, "set --data-dir"),
        Ok(dir) if dir.is_dir() => Check::good("data folder", dir.display().to_string()),
        Ok(dir) => Check::good("data folder", format!("{} (made at the first start)", dir.display())),
    }
}

async fn server(global: &Global) -> (Check, Option<Client>) {
    let hint = "start it with `taskyard serve`";
    let client = match Client::find(global) {
        Err(error) => return (Check::warn("server", error.message, error.hint.as_deref().unwrap_or(hint)), None),
        Ok(client) => client,
    };
    match client.health().await {
        Ok(health) => {
            let text = format!("{} at {}", health["version"].as_str().unwrap_or("?"), client.url());
            (Check::good("server", text), Some(client))
        }
        Err(error) => (Check::warn("server", error.message, hint), None),
    }
}

/// The known agents on this command's own `PATH`, where no server can be asked.
async fn known_agents(env: &Environment) -> Vec<Check> {
    let found = taskyard_agents::detect::detect(env).await;
    let installed = found.iter().filter(|agent| agent.installed());
    let rows: Vec<Check> = installed.map(|agent| Check::good(agent.name, version(agent.version.as_deref(), "your"))).collect();
    if rows.is_empty() { vec![no_agent("your")] } else { rows }
}

/// What the running server finds of its agents and repositories.
async fn of_server(client: &Client) -> Result<Vec<Check>> {
    let agents = client.call("list_agents", json!({})).await?;
    let repositories = client.call("repository_list", json!({})).await?;
    let mut checks = agents_of(&agents);
    checks.extend(repositories["repositories"].as_array().into_iter().flatten().map(repository));
    Ok(checks)
}

fn agents_of(answer: &Value) -> Vec<Check> {
    let rows: Vec<Check> = answer["agents"].as_array().into_iter().flatten().filter_map(agent).collect();
    if rows.is_empty() { vec![no_agent("the server's")] } else { rows }
}

/// A configured agent, or one that could be; nothing about a known one that isn't there.
fn agent(row: &Value) -> Option<Check> {
    let (name, configured) = (text(row, "name"), row["configured"] == true);
    let program = row["command"][0].as_str().unwrap_or_default();
    match (row["installed"] == true, configured) {
        (true, true) => Some(Check::good(name, format!("set up; {}", version(row["version"].as_str(), "the server's")))),
        (true, false) => Some(Check::good(name, format!("not set up; {}", version(row["version"].as_str(), "the server's")))),
        (false, true) if program.contains('/') => Some(Check::warn(
            name,
            format!("set up, but {program} isn't there or isn't executable"),
            "its runs fail: put the program there, or add the agent again with another command",
        )),
        (false, true) => Some(Check::warn(
            name,
            format!("set up, but {program} isn't on the server's PATH"),
            "its runs fail: install it and restart the server with a PATH that has it, or add the agent again with a full path",
        )),
        (false, false) => None,
    }
}

fn repository(row: &Value) -> Check {
    let path = text(row, "local_path");
    let what = format!("repository {}", text(row, "name"));
    if std::path::Path::new(path).is_dir() {
        Check::good(&what, path)
    } else {
        Check::warn(&what, format!("{path} isn't there"), "its tasks fail: put the repository back there")
    }
}

fn version(version: Option<&str>, whose: &str) -> String {
    format!("{} (on {whose} PATH)", version.unwrap_or("installed, version unknown"))
}

fn no_agent(whose: &str) -> Check {
    Check::warn(
        "agents",
        format!("no known agent is on {whose} PATH"),
        "install Claude Code, Codex or another, or use any command with `taskyard agent add NAME --driver exec -- COMMAND`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_fail_is_said_before_it_does() {
        let row = |name: &str, program: &str, configured: bool, installed: bool| json!({ "name": name, "command": [program], "configured": configured, "installed": installed, "version": "1.2" });
        let answer = json!({ "agents": [
            row("claude", "claude", true, false), row("mine", "/x/mine.sh", true, false), row("codex", "codex", true, true),
            row("goose", "goose", false, true), row("qwen", "qwen", false, false),
        ] });
        let lines: Vec<String> =
            agents_of(&answer).iter().map(|check| format!("{}: {}: {}", check.level, check.what, check.text)).collect();
        assert_eq!(
            lines,
            [
                "note: claude: set up, but claude isn't on the server's PATH",
                "note: mine: set up, but /x/mine.sh isn't there or isn't executable",
                "ok: codex: set up; 1.2 (on the server's PATH)",
                "ok: goose: not set up; 1.2 (on the server's PATH)",
            ]
        );
        assert_eq!(agents_of(&json!({ "agents": [] }))[0].text, "no known agent is on the server's PATH");
        let gone = repository(&json!({ "name": "app", "local_path": "/no/such/folder" }));
        assert_eq!((gone.level, gone.text.as_str()), ("note", "/no/such/folder isn't there"));
        assert_eq!(repository(&json!({ "name": "root", "local_path": "/" })).level, "ok");
    }
}
