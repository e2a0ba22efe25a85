//! Claude Code by its own protocol.

use crate::cases;
use crate::harness::{Agent, KEY, program, version};
use crate::steering;
use taskyard_testkit::model::scenario::Failure;

/// The version that is installed and tested.
const VERSION: &str = "2.1.332";

fn configured(model: &str, more: &[&str], key: &str) -> Agent {
    let mut words: Vec<String> = vec!["--driver".into(), "claude".into()];
    for variable in [format!("ANTHROPIC_BASE_URL={model}"), key.to_owned()] {
        words.extend(["--env".into(), variable]);
    }
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words.extend(["--".into(), program("claude", "claude").to_string_lossy().into_owned()]);
    Agent { name: "claude", files: Vec::new(), words }
}

/// Paid by use.
fn agent(model: &str, more: &[&str]) -> Agent {
    configured(model, more, &format!("ANTHROPIC_API_KEY={KEY}"))
}

/// Paid by the month, which is what has usage limits.
fn subscriber(model: &str, more: &[&str]) -> Agent {
    configured(model, more, "CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-test")
}

#[tokio::test]
async fn is_the_version_that_is_pinned() {
    assert!(version("claude", "claude").await.starts_with(VERSION));
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
    let failure = Failure::status(400).message("prompt is too long: 250000 tokens > 200000 maximum").always();
    cases::fails(agent, failure, &["too long"]).await;
}

#[tokio::test]
async fn a_usage_limit_pauses_until_its_end() {
    let failure = |reset_at: i64| {
        Failure::status(429)
            .message("This request would exceed your account's rate limit. Please try again later.")
            .header("anthropic-ratelimit-unified-status", "rejected")
            .header("anthropic-ratelimit-unified-reset", reset_at)
            .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
            .header("x-should-retry", false)
            .always()
    };
    cases::limit(subscriber, failure).await;
}

#[tokio::test]
async fn a_key_that_stays_throttled_pauses_for_a_while() {
    let failure = Failure::status(429).message("slow down").header("x-should-retry", false).always();
    cases::throttled(agent, failure).await;
}

#[tokio::test]
async fn hears_a_message_in_mid_turn() {
    steering::hears(agent).await;
}

#[tokio::test]
async fn goes_on_by_itself_when_its_output_is_cut() {
    let stage = cases::output_cut(agent).await;
    let task = stage.queue("Say much").await;
    stage.wait(&task, "waiting_for_review").await;
    assert_eq!(stage.commits(&task).await, ["Say the rest"]);
    stage.no_problems();
}
