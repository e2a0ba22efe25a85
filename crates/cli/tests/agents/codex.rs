//! Codex by its own protocol.

use crate::cases;
use crate::harness::{Agent, KEY, program, version};
use crate::steering;
use serde_json::json;
use taskyard_testkit::model::scenario::Failure;

/// The version that is installed and tested.
const VERSION: &str = "0.171.0";

/// A user's `config.toml` for a model of their own: nothing in it is for Taskyard.
pub fn config(model: &str) -> String {
    format!(
        r#"model = "gpt-5.5"
model_provider = "own"
check_for_update_on_startup = false

[model_providers.own]
name = "own"
base_url = "{model}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2

[analytics]
enabled = false

[features]
plugins = false
apps = false
remote_plugin = false
"#
    )
}

fn agent(model: &str, more: &[&str]) -> Agent {
    let mut words: Vec<String> = ["--driver", "codex", "--env"].map(str::to_owned).into();
    words.push(format!("OPENAI_API_KEY={KEY}"));
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words.extend(["--".into(), program("codex", "codex").to_string_lossy().into_owned()]);
    Agent { name: "codex", files: vec![(".codex/config.toml", config(model))], words }
}

#[tokio::test]
async fn is_the_version_that_is_pinned() {
    assert!(version("codex", "codex").await.ends_with(VERSION));
}

#[tokio::test]
async fn commits_and_calls_a_tool() {
    cases::job(agent).await;
}

#[tokio::test]
async fn asks_and_takes_no_for_an_answer() {
    cases::permission(agent).await;
}

#[tokio::test]
async fn is_cancelled_in_a_tool_and_leaves_nothing_running() {
    cases::cancel(agent).await;
}

#[tokio::test]
async fn is_cancelled_while_the_model_is_silent() {
    cases::cancel_silent_model(agent).await;
}

#[tokio::test]
async fn goes_on_after_a_crash_of_the_server() {
    cases::crash(agent).await;
}

#[tokio::test]
async fn gets_over_failures_that_pass() {
    cases::recovers(agent, cases::passing_failures()).await;
}

#[tokio::test]
async fn a_wrong_key_fails_the_task() {
    cases::fails(agent, Failure::status(401).message("invalid api key").always(), &["not logged in", "invalid api key"]).await;
}

#[tokio::test]
async fn a_prompt_that_is_too_long_fails_the_task() {
    let failure =
        Failure::status(400).message("Your input exceeds the context window of this model.").kind("context_length_exceeded").always();
    cases::fails(agent, failure, &["context window"]).await;
}

#[tokio::test]
async fn a_usage_limit_pauses_until_its_end() {
    let failure = |reset_at: i64| {
        let more = json!({ "plan_type": "plus", "resets_at": reset_at });
        Failure::status(429).kind("usage_limit_reached").message("The usage limit has been reached").more(more).always()
    };
    cases::limit(agent, failure).await;
}

#[tokio::test]
async fn an_answer_that_is_cut_waits_for_review_and_says_so() {
    let stage = cases::output_cut(agent).await;
    let task = stage.queue("Say much").await;
    stage.wait(&task, "waiting_for_review").await;
    let (outcome, reason) = stage.end(&task).await;
    assert!(outcome == "no_changes" && reason.contains("output limit"), "{outcome}: {reason}");
    stage.no_problems();
}

#[tokio::test]
async fn hears_a_message_in_mid_turn() {
    steering::hears(agent).await;
}
