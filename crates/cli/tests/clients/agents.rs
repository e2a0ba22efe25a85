//! Coding agents as MCP clients of a server that didn't start them, configured as docs/clients.md tells their users.
//! Their models are played by the testkit's scripted model.

use crate::program::By;
use crate::stage::Stage;
use crate::support::{PROGRAM, Told};
use Wait::{Beyond, No, Short};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use taskyard_process::{Command, Output, run};
use taskyard_testkit::model::scenario::{Scenario, Step, mcp, run as shell, say};
use taskyard_testkit::model::{Model, Playing};

/// The key that no vendor knows.
const KEY: &str = "sk-test-0000";
/// Longest that an agent's turn may take. OpenCode computes for more than ten seconds before its first request, which
/// are minutes where many programs share a core.
const TURN: Duration = Duration::from_secs(900);
/// Seconds that an agent's patience with a silent call is shortened to. Signs of life come more often.
const LIMIT: u64 = 20;

/// An agent under test; its program is called so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    Claude,
    Codex,
    Gemini,
    Opencode,
}

/// A stage beside which a scripted model plays.
struct Scene {
    stage: Stage,
    playing: Playing,
    _model: Model,
}

impl Scene {
    async fn new(stage: Stage, scenario: Scenario) -> Self {
        let model = Model::start().await.unwrap();
        Self { stage, playing: model.play(scenario), _model: model }
    }

    fn write(&self, path: &str, content: String) {
        let path = self.stage.yard.server.folder().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// The agent was told this by a tool.
    fn told_model(&self, words: &str) {
        let served = self.playing.served();
        assert!(served.iter().any(|one| one.result.contains(words)), "the model was never told {words:?}: {served:#?}");
    }

    /// What a turn has come to; panics with both sides' view when it didn't end in time.
    fn ended(&self, turn: Result<Output, taskyard_process::Error>) -> Told {
        let (served, problems) = (self.playing.served(), self.playing.problems());
        turn.map_or_else(|error| panic!("the turn didn't end: {error} {problems:?} {served:#?}"), Told::from)
    }

    fn no_problems(&self, told: &Told) {
        assert_eq!((self.playing.problems(), told.code), (Vec::new(), 0), "{told:?} {:#?}", self.playing.served());
    }
}

impl Agent {
    /// The program that `scripts/install-agents.sh` has installed.
    fn program(self) -> PathBuf {
        let name = format!("{self:?}").to_lowercase();
        let folder = std::env::var_os("TASKYARD_TEST_AGENTS").expect("TASKYARD_TEST_AGENTS isn't set: run `make test-clients`");
        let path = PathBuf::from(folder).join(&name).join("node_modules/.bin").join(&name);
        assert!(path.exists(), "{} isn't there: run `make test-clients`", path.display());
        path
    }

    fn command(self, scene: &Scene) -> Command {
        Command::new(self.program(), scene.stage.yard.repo.path(), scene.stage.yard.server.env()).time_limit(TURN).output_cap(1 << 20)
    }

    /// The replies that have it run a command, which is safe to repeat, to its end.
    fn runs(self, command: &str) -> Vec<Step> {
        match self {
            // It goes on after 30 seconds at most.
            Self::Codex => {
                vec![Step::Call { tool: "exec_command".into(), arguments: json!({ "cmd": command, "yield_time_ms": 30_000 }) }; 4]
            }
            _ => vec![shell(command)],
        }
    }

    /// Connects the agent to Taskyard and gives the command that has it do one turn. With `limit` (seconds), its patience
    /// with a silent call is shortened to it.
    async fn turn(self, scene: &Scene, by: By, limit: Option<u64>) -> Command {
        match self {
            Self::Claude => claude(scene, by, limit).await,
            Self::Codex => codex(scene, by, limit),
            Self::Gemini => gemini(scene, by, limit),
            Self::Opencode => opencode(scene, by, limit),
        }
    }
}

/// What is written where a client wants a command.
fn bridge(data: &Path) -> (&'static str, [&'static str; 3], String) {
    (PROGRAM, ["mcp", "--mode", "core"], data.display().to_string())
}

async fn claude(scene: &Scene, by: By, limit: Option<u64>) -> Command {
    let data = scene.stage.yard.server.data();
    let (program, args, data) = bridge(&data);
    let add = Agent::Claude.command(scene).args(["mcp", "add"]);
    let add = match by {
        By::Http => add.args(["--transport", "http", "taskyard", &scene.stage.url("mcp")]),
        By::Sse => add.args(["--transport", "sse", "taskyard", &scene.stage.url("mcp/sse")]),
        By::Stdio => add.args(["taskyard", "--env", &format!("TASKYARD_DATA_DIR={data}"), "--", program]).args(args),
    };
    let command = claude_with(scene, add).await;
    match limit {
        Some(seconds) => command.env("CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT", (seconds * 1000).to_string()),
        None => command,
    }
}

/// A turn of Claude Code to which a server was added by `add`.
async fn claude_with(scene: &Scene, add: Command) -> Command {
    let told = Told::from(run(add).await.unwrap());
    assert_eq!(told.code, 0, "{told:?}");
    let mut command = Agent::Claude.command(scene).args(["-p", "Use Taskyard.", "--allowedTools", "mcp__taskyard,Bash"]);
    for (name, value) in [("ANTHROPIC_BASE_URL", scene.playing.url()), ("ANTHROPIC_API_KEY", KEY), ("DISABLE_AUTOUPDATER", "1")] {
        command = command.env(name, value);
    }
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
}

fn codex(scene: &Scene, by: By, limit: Option<u64>) -> Command {
    let data = scene.stage.yard.server.data();
    let (program, args, data) = bridge(&data);
    let how = match by {
        By::Stdio => format!("command = {program:?}\nargs = {args:?}\nenv = {{ TASKYARD_DATA_DIR = {data:?} }}"),
        _ => format!("url = {:?}", scene.stage.url("mcp")),
    };
    let limit = limit.map(|seconds| format!("tool_timeout_sec = {seconds}")).unwrap_or_default();
    let model = format!("base_url = \"{}/v1\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"", scene.playing.url());
    scene.write(
        "home/.codex/config.toml",
        format!(
            "model = \"gpt-5.5\"\nmodel_provider = \"own\"\ncheck_for_update_on_startup = false\n\
             [model_providers.own]\nname = \"own\"\n{model}\n\
             [mcp_servers.taskyard]\n{how}\n{limit}\ndefault_tools_approval_mode = \"approve\"\n\
             [analytics]\nenabled = false\n[features]\nplugins = false\napps = false\nremote_plugin = false\n"
        ),
    );
    let command = Agent::Codex.command(scene).args(["exec", "--sandbox", "workspace-write", "Use Taskyard."]);
    command.env("OPENAI_API_KEY", KEY)
}

fn gemini(scene: &Scene, by: By, limit: Option<u64>) -> Command {
    let data = scene.stage.yard.server.data();
    let (program, args, data) = bridge(&data);
    let mut how = match by {
        By::Http => json!({ "httpUrl": scene.stage.url("mcp") }),
        By::Sse => json!({ "url": scene.stage.url("mcp/sse"), "type": "sse" }),
        By::Stdio => json!({ "command": program, "args": args, "env": { "TASKYARD_DATA_DIR": data } }),
    };
    if let Some(seconds) = limit {
        how["timeout"] = (seconds * 1000).into();
    }
    let settings = json!({
        "mcpServers": { "taskyard": how },
        "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        "telemetry": { "enabled": false }, "privacy": { "usageStatisticsEnabled": false },
        "model": { "name": "gemini-2.5-pro" },
    });
    scene.write("home/.gemini/settings.json", settings.to_string());
    let command = Agent::Gemini.command(scene).args(["-p", "Use Taskyard.", "--approval-mode", "yolo"]);
    command.env("GEMINI_API_KEY", KEY).env("GOOGLE_GEMINI_BASE_URL", scene.playing.url()).env("GEMINI_CLI_TRUST_WORKSPACE", "true")
}

fn opencode(scene: &Scene, by: By, limit: Option<u64>) -> Command {
    let data = scene.stage.yard.server.data();
    let (program, args, data) = bridge(&data);
    let mut how = match by {
        By::Http => json!({ "type": "remote", "url": scene.stage.url("mcp") }),
        By::Sse => json!({ "type": "remote", "url": scene.stage.url("mcp/sse") }),
        By::Stdio => {
            let words: Vec<&str> = [program].into_iter().chain(args).collect();
            json!({ "type": "local", "command": words, "environment": { "TASKYARD_DATA_DIR": data } })
        }
    };
    how["enabled"] = true.into();
    // The server's own `timeout` would be one for connecting too.
    let limit = limit.map_or(json!({}), |seconds| json!({ "mcp_timeout": seconds * 1000 }));
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": { "baseURL": format!("{}/v1", scene.playing.url()), "apiKey": KEY },
        "models": { "own-model": { "tool_call": true, "limit": { "context": 200_000, "output": 32_000 } } },
    });
    let config = json!({
        "autoupdate": false, "share": "disabled", "model": "own/own-model", "small_model": "own/own-model",
        "enabled_providers": ["own"], "provider": { "own": provider }, "permission": { "edit": "allow", "bash": "allow" },
        "mcp": { "taskyard": how }, "experimental": limit,
    });
    scene.write("xdg/opencode/opencode.json", config.to_string());
    Agent::Opencode.command(scene).args(["run", "Use Taskyard."]).env("OPENCODE_DISABLE_MODELS_FETCH", "1")
}

fn call(tool: &str, arguments: Value) -> [Step; 1] {
    [mcp("taskyard", tool, arguments)]
}

/// A wait in an agent's turn.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// None.
    No,
    /// One without settings, which is shorter than every agent's limit.
    Short,
    /// One of so many seconds, longer than the agent's own limit for a silent call, or [`LIMIT`] where it can be set.
    Beyond(u64),
}

/// Writes a task, reads it, is refused; over a restart of the server where the connection isn't a stream; and waits.
async fn does_its_work(agent: Agent, by: By, limit: Option<u64>, wait: Wait) {
    let stage = Stage::new().await;
    let gate = stage.yard.gate("restarted");
    let mut scenario = Scenario::new().reply(call("add_task", json!({ "list_id": stage.yard.list, "title": "By an agent outside" })));
    for step in agent.runs(&format!("until [ -e '{}' ]; do sleep 0.2; done; echo open", gate.display())) {
        scenario = scenario.reply([step]);
    }
    scenario = scenario.reply(call("get_task", json!({ "task_id": "TY-1" }))).reply(call("get_task", json!({ "task_id": "TY-404" })));
    // TY-2 is the task that is held below.
    let mut waiting = json!({ "task_ids": ["TY-2"] });
    if let Beyond(seconds) = wait {
        waiting["timeout_seconds"] = seconds.into();
    }
    if !matches!(wait, No) {
        scenario = scenario.reply(call("wait_for_task_change", waiting));
    }
    let mut scene = Scene::new(stage, scenario.reply([say("Done.")])).await;
    let turn = run(agent.turn(&scene, by, limit).await);
    tokio::pin!(turn);
    let outcome = tokio::select! {
        outcome = scene.stage.ended_within(TURN, "add_task") => outcome,
        early = &mut turn => panic!("the agent has ended: {:?} {:#?}", scene.ended(early), scene.playing.served()),
    };
    assert_eq!(outcome, "ok");
    if by != By::Sse {
        scene.stage.restart().await;
    }
    if !matches!(wait, No) {
        scene.stage.held("quiet").await;
    }
    scene.stage.yard.open("restarted");
    let told = scene.ended(turn.await);
    scene.no_problems(&told);
    scene.told_model("By an agent outside");
    scene.told_model("NOT_FOUND");
    let outcomes = |tool| -> Vec<_> { scene.stage.calls(tool).iter().map(|call| call["outcome"].as_str().unwrap().to_owned()).collect() };
    assert_eq!(outcomes("get_task"), ["ok", "NOT_FOUND"], "{told:?}");
    if !matches!(wait, No) {
        assert_eq!(outcomes("wait_for_task_change"), ["ok"], "{told:?}");
        scene.told_model("timed_out");
    }
}

/// The tests of one agent: a turn for each way to connect, with its limit and its wait.
macro_rules! turns {
    ($agent:ident $name:ident: $($by:ident $case:ident $limit:expr, $wait:expr);*) => {
        mod $name {
            use super::*;
            $(#[tokio::test]
            async fn $case() {
                does_its_work(Agent::$agent, By::$by, $limit, $wait).await;
            })*
        }
    };
}

// It gives up on an answer without a first byte after 60 s, on a call without a sign of life after 300 s or LIMIT.
turns! { Claude claude: Http over_http Some(LIMIT), Beyond(75); Sse over_sse None, No; Stdio over_stdio Some(LIMIT), Beyond(35) }
turns! { Codex codex: Http over_http None, Short; Stdio over_stdio None, No }
turns! { Gemini gemini: Http over_http None, No; Sse over_sse None, No; Stdio over_stdio None, Short }
// It gives up on a silent call after 60 s or LIMIT.
turns! { Opencode opencode: Http over_http None, Beyond(75); Sse over_sse None, No; Stdio over_stdio Some(LIMIT), Beyond(35) }

/// Codex and Gemini end a call after their limit, whatever the server says meanwhile: the wait ends at the server too and
/// nothing is wrong afterwards. Their limits are to be set above the longest wait, as docs/clients.md says.
async fn gives_up_a_wait(agent: Agent, by: By) {
    let stage = Stage::new().await;
    let task = stage.held("quiet").await;
    let scenario = Scenario::new()
        .reply(call("wait_for_task_change", json!({ "task_ids": [task], "timeout_seconds": 300 })))
        .reply(call("get_task", json!({ "task_id": task })))
        .reply([say("Done.")]);
    let scene = Scene::new(stage, scenario).await;
    let told = scene.ended(run(agent.turn(&scene, by, Some(LIMIT)).await).await);
    scene.no_problems(&told);
    assert_eq!(scene.stage.ended("wait_for_task_change", 1).await, "UNAVAILABLE");
    assert_eq!(scene.stage.ended("get_task", 1).await, "ok", "{told:?}");
}

#[tokio::test]
async fn gemini_gives_up_a_wait() {
    gives_up_a_wait(Agent::Gemini, By::Http).await;
}

#[tokio::test]
async fn codex_gives_up_a_wait() {
    gives_up_a_wait(Agent::Codex, By::Http).await;
}

#[tokio::test]
async fn codex_gives_up_a_wait_over_stdio() {
    gives_up_a_wait(Agent::Codex, By::Stdio).await;
}

/// As docs/claiming.md tells its users: it claims what is free, does it, and says what came of it.
#[tokio::test]
async fn claude_claims_works_and_completes() {
    let stage = Stage::new().await;
    let item = json!({ "workspace": "default", "kind": "task", "title": "Write a note", "status": "ready", "body_markdown": "Any note." });
    let made = stage.yard.server.call("create_object", item).await;
    let (item, short) = (made["id"].as_str().unwrap().to_owned(), made["short_id"].as_str().unwrap().to_owned());
    stage.yard.server.call("workspace_prompt", json!({ "workspace": "default", "prompt": "Rules for {{short_id}}." })).await;
    let note = stage.yard.repo.path().join("note.txt");
    let done = json!({ "workspace": "default", "run_id": "{{uuid:run_id}}", "outcome": "done", "summary": "A note is written." });
    let scenario = Scenario::new()
        .reply(call("claim_next_task", json!({ "workspace": "default", "actor_user_id": "ada" })))
        .reply([shell(&format!("echo note > '{}'", note.display()))])
        .reply(call("complete_task", done))
        .reply([say("Done.")]);
    let scene = Scene::new(stage, scenario).await;
    let server = &scene.stage.yard.server;
    let url = format!("{}/mcp?mode=claims", server.url());
    let add = Agent::Claude.command(&scene).args(["mcp", "add", "--transport", "http", "taskyard", &url]);
    let told = scene.ended(run(claude_with(&scene, add).await).await);
    scene.no_problems(&told);
    scene.told_model("Any note.");
    scene.told_model(&format!("Rules for {short}."));
    assert!(note.exists(), "{told:?}");
    let task = server.call("get_task", json!({ "task_id": item })).await;
    let run = &task["latest_run"];
    assert_eq!((&task["status"], &run["kind"], &run["actor"]), (&json!("done"), &json!("claimed"), &json!("ada")), "{task}");
    assert_eq!((&run["outcome"], &run["exit_reason"]), (&json!("succeeded"), &json!("A note is written.")));
}
