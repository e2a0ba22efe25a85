//! `taskyard doctor`: what is here, what is missing, what to do about it.

use crate::args::Global;
use crate::client::Client;
use crate::config::data_dir;
use crate::fail::Result;
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
    checks.push(server(global).await);
    let agents = taskyard_agents::detect::detect(&env).await;
    for agent in agents.iter().filter(|agent| agent.installed()) {
        checks.push(Check::good(agent.name, agent.version.clone().unwrap_or_else(|| "installed, version unknown".into())));
    }
    if !agents.iter().any(|agent| agent.installed()) {
        checks.push(Check::warn(
            "agents",
            "no known agent is on PATH",
            "install Claude Code, Codex or another, or use any command with `taskyard agent add NAME --driver exec -- COMMAND`",
        ));
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
    if version < OLDEST_GIT { Check::missing("git", format!("{text} is too old"), hint) } else { Check::good("git", text) }
}

fn folder(global: &Global) -> Check {
    match data_dir(global) {
        Err(error) => Check::missing("data folder", error.message, "set --data-dir"),
        Ok(dir) if dir.is_dir() => Check::good("data folder", dir.display().to_string()),
        Ok(dir) => Check::good("data folder", format!("{} (made at the first start)", dir.display())),
    }
}

async fn server(global: &Global) -> Check {
    let hint = "start it with `taskyard serve`";
    match Client::find(global) {
        Err(error) => Check::warn("server", error.message, hint),
        Ok(client) => match client.health().await {
            Ok(health) => Check::good("server", format!("{} at {}", health["version"].as_str().unwrap_or("?"), client.url())),
            Err(error) => Check::warn("server", error.message, hint),
        },
    }
}
