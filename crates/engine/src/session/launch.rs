//! What an agent is started with: command, environment, identity, MCP server, limits.

use crate::Engine;
use crate::caller::{new_token, token_hash};
use std::path::PathBuf;
use std::time::Duration;
use taskyard_agents::{Heard, Launch, McpServer, Resume};
use taskyard_domain::agent::{Agent, DriverKind, PermissionPolicy, Profile};
use taskyard_domain::id::SessionId;
use taskyard_domain::run::Run;
use taskyard_domain::session::Session;
use taskyard_process::Environment;

/// Longest line an agent may write; a longer one costs only itself.
const LINE_CAP: usize = 16 << 20;
/// Longer than the longest `wait_for_task_change`.
const TOOL_TIMEOUT_S: u64 = 930;

/// The variable that marks the processes of a session: its name and value.
pub(super) fn mark(session: SessionId) -> (&'static str, String) {
    ("TASKYARD_SESSION_ID", session.to_string())
}

/// The same as `NAME=value`.
pub(crate) fn marker(session: SessionId) -> String {
    let (name, value) = mark(session);
    format!("{name}={value}")
}

/// Everything that the launch depends on.
pub(super) struct Facts<'a> {
    pub run: &'a Run,
    pub session: &'a Session,
    pub agent: &'a Agent,
    pub profile: &'a Profile,
    pub cwd: PathBuf,
    pub writable_dirs: Vec<PathBuf>,
    pub max_turns: Option<i64>,
    pub system_prompt: Option<String>,
}

/// A launch with the hash of the token it carries.
pub(super) struct Ready {
    pub launch: Launch,
    pub token_hash: String,
}

impl Engine {
    /// Puts a launch together, with a fresh token that binds the agent to its run.
    pub(super) fn launch(&self, facts: &Facts<'_>) -> Ready {
        let token = new_token();
        let run = facts.run;
        let mut env = inherited(self.environment(), facts.agent);
        for (name, value) in facts.agent.env.iter().chain(&facts.profile.env) {
            env.set(name, value);
        }
        let bound = [
            ("TASKYARD_URL", self.url().to_owned()),
            ("TASKYARD_TOKEN", token.clone()),
            ("TASKYARD_WORKSPACE_ID", run.workspace_id.to_string()),
            ("TASKYARD_TASK_ID", run.task_id.to_string()),
            ("TASKYARD_SESSION_ID", facts.session.id.to_string()),
            ("TASKYARD_RUN_ID", run.id.to_string()),
        ];
        for (name, value) in bound {
            env.set(name, value);
        }
        let hash = token_hash(&token);
        let launch = Launch {
            driver: facts.agent.driver,
            command: facts.agent.command.clone(),
            cwd: facts.cwd.clone(),
            writable_dirs: facts.writable_dirs.clone(),
            env,
            marker: marker(facts.session.id),
            model: run.model.clone(),
            mode: mode(facts.agent, facts.profile),
            max_turns: facts.max_turns,
            system_prompt: facts.system_prompt.clone(),
            mcp_servers: vec![McpServer {
                name: "taskyard".into(),
                url: format!("{}/mcp", self.url()),
                headers: vec![("Authorization".into(), format!("Bearer {token}"))],
                tool_timeout_s: TOOL_TIMEOUT_S,
            }],
            resume: facts.session.agent_session_id.clone().map(|agent_session_id| Resume { agent_session_id }),
            raw_log: self.paths().raw_log(run.id),
            heard: Heard::default(),
            stderr_log: self.paths().stderr_log(run.id),
            line_cap: LINE_CAP,
            start_limit: Duration::from_secs(90),
        };
        Ready { launch, token_hash: hash }
    }
}

/// The agent's mode. Codex asks about what its sandbox allows only when it trusts no command, or by its adapter when the
/// sandbox allows no writing.
fn mode(agent: &Agent, profile: &Profile) -> Option<String> {
    let asking = match agent.driver {
        DriverKind::Codex => Some("untrusted"),
        DriverKind::Acp => is_program(&program(agent), "codex").then_some("read-only"),
        DriverKind::Claude | DriverKind::Exec => None,
    };
    let asks = profile.permission_policy == PermissionPolicy::Ask;
    profile.mode.clone().or_else(|| asking.filter(|_| asks).map(Into::into))
}

/// The name of the agent's program without its folder.
fn program(agent: &Agent) -> String {
    agent.command.first().map(|p| p.rsplit('/').next().unwrap_or(p).to_ascii_lowercase()).unwrap_or_default()
}

/// The server's environment as this agent may see it: its own vendor's variables, nobody else's.
fn inherited(base: &Environment, agent: &Agent) -> Environment {
    let mut env = base.without_agents();
    let own = vendor_prefixes(agent);
    for (name, value) in base.iter() {
        let text = name.to_string_lossy();
        // `CLAUDECODE` and its like say "you run inside another agent", which would be wrong.
        if text != "CLAUDECODE" && text != "CLAUDE_CODE_ENTRYPOINT" && own.iter().any(|prefix| text.starts_with(prefix)) {
            env.set(name, value);
        }
    }
    env
}

fn vendor_prefixes(agent: &Agent) -> &'static [&'static str] {
    let program = program(agent);
    let table: &[(&str, &'static [&'static str])] = &[
        ("claude", &["ANTHROPIC", "CLAUDE"]),
        ("codex", &["OPENAI", "CODEX"]),
        ("gemini", &["GEMINI", "GOOGLE_"]),
        ("qwen", &["QWEN", "OPENAI"]),
        ("copilot", &["COPILOT"]),
        ("cline", &["CLINE"]),
        ("opencode", &["OPENCODE", "ANTHROPIC", "OPENAI", "OPENROUTER", "GOOGLE_", "GEMINI", "XAI", "MISTRAL", "GROQ", "DEEPSEEK"]),
        ("cursor", &["CURSOR"]),
        ("grok", &["XAI"]),
        ("vibe", &["MISTRAL"]),
        ("amp", &["AMP_"]),
    ];
    match agent.driver {
        DriverKind::Claude => &["ANTHROPIC", "CLAUDE"],
        DriverKind::Codex => &["OPENAI", "CODEX"],
        DriverKind::Acp | DriverKind::Exec => table.iter().find(|(name, _)| is_program(&program, name)).map_or(&[], |(_, own)| own),
    }
}

/// Whether `program` is the agent `name` or one of its adapters, `name-acp` and the like; `example` isn't `amp`.
fn is_program(program: &str, name: &str) -> bool {
    program.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use taskyard_domain::id::{AgentId, WorkspaceId};
    use uuid::Uuid;

    fn agent(driver: DriverKind, program: &str) -> Agent {
        Agent {
            id: AgentId(Uuid::nil()),
            workspace_id: WorkspaceId(Uuid::nil()),
            name: "a".into(),
            driver,
            command: vec![program.into()],
            env: std::collections::BTreeMap::default(),
            limited_until: None,
            limit_reason: None,
            limit_strikes: 0,
            created_at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_agent_sees_its_own_vendor_only() {
        let names = [
            "PATH",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "CLAUDECODE",
            "TASKYARD_TOKEN",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "AMP_API_KEY",
        ];
        let base = Environment::from_vars(names.map(|n| (OsString::from(n), OsString::from("x"))));
        let seen = |agent: &Agent| inherited(&base, agent).iter().map(|(n, _)| n.to_string_lossy().into_owned()).collect::<Vec<_>>();
        assert_eq!(seen(&agent(DriverKind::Claude, "claude")), ["ANTHROPIC_API_KEY", "PATH"]);
        assert_eq!(seen(&agent(DriverKind::Codex, "codex")), ["OPENAI_API_KEY", "PATH"]);
        assert_eq!(seen(&agent(DriverKind::Acp, "/opt/bin/gemini")), ["GEMINI_API_KEY", "GOOGLE_API_KEY", "PATH"]);
        assert_eq!(seen(&agent(DriverKind::Acp, "amp-acp")), ["AMP_API_KEY", "PATH"]);
        assert_eq!(seen(&agent(DriverKind::Exec, "example")), ["PATH"]);
        assert_eq!(seen(&agent(DriverKind::Exec, "my-script")), ["PATH"]);
    }

    #[test]
    fn codex_is_put_in_a_mode_that_asks_where_all_is_to_be_asked() {
        let mode_of = |driver: DriverKind, program: &str, policy: PermissionPolicy, chosen: Option<&str>| {
            let profile = Profile {
                id: taskyard_domain::id::ProfileId(Uuid::nil()),
                workspace_id: WorkspaceId(Uuid::nil()),
                agent_id: AgentId(Uuid::nil()),
                name: "p".into(),
                model: None,
                mode: chosen.map(Into::into),
                permission_policy: policy,
                allowed_tools: Vec::new(),
                env: std::collections::BTreeMap::default(),
                max_parallel: None,
                auto_commit: true,
                created_at: jiff::Timestamp::UNIX_EPOCH,
            };
            mode(&agent(driver, program), &profile)
        };
        let (ask, worktree) = (PermissionPolicy::Ask, PermissionPolicy::Worktree);
        assert_eq!(mode_of(DriverKind::Codex, "codex", ask, None).as_deref(), Some("untrusted"));
        assert_eq!(mode_of(DriverKind::Acp, "/opt/bin/codex-acp", ask, None).as_deref(), Some("read-only"));
        assert_eq!(mode_of(DriverKind::Acp, "codex-acp", ask, Some("agent")).as_deref(), Some("agent"));
        assert_eq!(mode_of(DriverKind::Acp, "codex-acp", worktree, None), None);
        assert_eq!(mode_of(DriverKind::Acp, "gemini", ask, None), None);
    }
}
