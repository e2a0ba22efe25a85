//! The other agents that npm has: each does one whole task over the Agent Client Protocol, configured as docs/agents.md
//! says, with the profile's default permissions; and one that isn't logged in.

use crate::acp::words;
use crate::cases;
use crate::harness::{Agent, KEY, Stage, program};
use serde_json::json;
use taskyard_testkit::model::scenario::{Failure, Scenario};

/// The agent in folder `name` of the installed ones; its program has the same name unless `command` begins with another.
fn agent(name: &'static str, env: &[(&str, String)], more: &[&str], command: &[&str]) -> Agent {
    let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut line = vec![program(name, command[0]).to_string_lossy().into_owned()];
    line.extend(command[1..].iter().map(|word| (*word).to_owned()));
    Agent { name, files: Vec::new(), words: words(&env, more, &line) }
}

fn key() -> String {
    KEY.into()
}

fn opencode(model: &str, more: &[&str]) -> Agent {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": { "baseURL": format!("{model}/v1"), "apiKey": KEY },
        "models": { "own-model": { "tool_call": true, "limit": { "context": 200_000, "output": 32_000 } } },
    });
    let config = json!({
        "autoupdate": false, "share": "disabled", "model": "own/own-model", "small_model": "own/own-model",
        "enabled_providers": ["own"], "provider": { "own": provider }, "permission": { "edit": "ask", "bash": "ask" },
    });
    let env = [("OPENCODE_DISABLE_MODELS_FETCH", "1".into())];
    let files = vec![("../xdg/opencode/opencode.json", config.to_string())];
    Agent { files, ..agent("opencode", &env, more, &["opencode", "acp"]) }
}

fn gemini(model: &str, more: &[&str]) -> Agent {
    let env = [("GEMINI_API_KEY", key()), ("GOOGLE_GEMINI_BASE_URL", model.into()), ("GEMINI_CLI_TRUST_WORKSPACE", "true".into())];
    agent("gemini", &env, more, &["gemini", "--acp"])
}

fn qwen(model: &str, more: &[&str]) -> Agent {
    let env = [("OPENAI_API_KEY", key()), ("OPENAI_BASE_URL", format!("{model}/v1")), ("OPENAI_MODEL", "own-model".into())];
    agent("qwen", &env, more, &["qwen", "--acp"])
}

fn copilot(model: &str, more: &[&str]) -> Agent {
    let env = [
        ("COPILOT_OFFLINE", "true".into()),
        ("COPILOT_PROVIDER_BASE_URL", format!("{model}/v1")),
        ("COPILOT_PROVIDER_API_KEY", key()),
        ("COPILOT_MODEL", "gpt-5.4".into()),
        ("COPILOT_PROVIDER_WIRE_API", "responses".into()),
    ];
    agent("copilot", &env, more, &["copilot", "--acp"])
}

fn cline(model: &str, more: &[&str]) -> Agent {
    let settings = json!({ "provider": "openai-compatible", "apiKey": KEY, "model": "own-model", "baseUrl": format!("{model}/v1") });
    let own = json!({ "settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual" });
    let providers =
        json!({ "version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": { "openai-compatible": own } });
    let env = [("CLINE_API_KEY", key()), ("CLINE_PROVIDER", "openai-compatible".into()), ("CLINE_MODEL", "own-model".into())];
    let files = vec![(".cline/data/settings/providers.json", providers.to_string())];
    Agent { files, ..agent("cline", &env, more, &["cline", "--acp"]) }
}

fn pi(model: &str, more: &[&str]) -> Agent {
    let own = json!({ "id": "own-model", "input": ["text"], "contextWindow": 200_000, "maxTokens": 32_000 });
    let models = json!({ "providers": { "own": { "baseUrl": format!("{model}/v1"), "api": "openai-completions", "apiKey": KEY, "models": [own] } } });
    let settings = json!({ "defaultProvider": "own", "defaultModel": "own-model" });
    let files = vec![(".pi/agent/models.json", models.to_string()), (".pi/agent/settings.json", settings.to_string())];
    let folders = [program("node", "node"), program("pi", "pi")].map(|path| path.parent().unwrap().to_string_lossy().into_owned());
    let path = format!("{}:{}", folders.join(":"), std::env::var("PATH").unwrap());
    Agent { files, ..agent("pi", &[("PI_OFFLINE", "1".into()), ("PATH", path)], more, &["pi-acp"]) }
}

fn auggie(_: &str, more: &[&str]) -> Agent {
    agent("auggie", &[], more, &["auggie", "--acp"])
}

#[tokio::test]
async fn opencode_commits_and_calls_a_tool() {
    cases::job_without_figures(opencode).await;
}

#[tokio::test]
async fn gemini_commits_and_calls_a_tool() {
    cases::job_without_figures(gemini).await;
}

/// It connects to MCP servers while it works already: on a busy machine a call can come too early for it.
#[tokio::test]
async fn qwen_commits() {
    cases::job_before_tools(qwen).await;
}

#[tokio::test]
async fn copilot_commits_and_calls_a_tool() {
    cases::job_without_figures(copilot).await;
}

/// It leaves a daemon behind after every session, which has to be gone too.
#[tokio::test]
async fn cline_commits_and_leaves_no_daemon() {
    cases::job_without_tools(cline).await;
}

#[tokio::test]
async fn pi_commits() {
    cases::job_without_tools(pi).await;
}

/// Auggie takes no key by itself: the reason says what to do.
#[tokio::test]
async fn an_agent_that_is_not_logged_in_fails_and_says_what_to_do() {
    let stage = Stage::new(auggie, Scenario::new()).await;
    let task = stage.queue("Do anything").await;
    stage.wait(&task, "failed").await;
    let (outcome, reason) = stage.end(&task).await;
    assert!(outcome == "failed" && reason.contains("not logged in") && reason.contains("auggie login"), "{outcome}: {reason}");
    stage.yard.nothing_lives(&task).await;
}

/// Agents that end a turn in good order although their model refused them: it doesn't count as done.
#[tokio::test]
async fn a_wrong_key_is_never_a_good_outcome() {
    cases::fails(copilot, Failure::status(401).message("invalid api key").always(), &["uthenti"]).await;
    cases::fails(pi, Failure::status(401).message("invalid api key").always(), &[]).await;
}
