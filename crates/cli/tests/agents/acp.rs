//! Claude Code and Codex by their adapters for the Agent Client Protocol.

use crate::cases;
use crate::harness::{Agent, KEY, Stage, program, version};
use crate::steering;
use crate::support::eventually;
use serde_json::json;
use taskyard_testkit::model::scenario::{Failure, Scenario, write};

/// The versions that are installed and tested.
const CLAUDE: &str = "0.101.0";
const CODEX: &str = "2.6.0";

/// Words for `taskyard agent add` of an ACP agent.
pub fn words(env: &[String], more: &[&str], command: &[String]) -> Vec<String> {
    let mut words: Vec<String> = ["--driver", "acp"].map(str::to_owned).into();
    words.extend(env.iter().flat_map(|variable| ["--env".to_owned(), variable.clone()]));
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words.push("--".into());
    words.extend(command.iter().cloned());
    words
}

fn claude(model: &str, more: &[&str]) -> Agent {
    let env = [format!("ANTHROPIC_BASE_URL={model}"), format!("ANTHROPIC_API_KEY={KEY}")];
    let command = [program("claude-acp", "claude-agent-acp").to_string_lossy().into_owned()];
    Agent { name: "claude-acp", files: Vec::new(), words: words(&env, more, &command) }
}

/// Claude Code with a login of a subscriber, who is told when the usage limit ends.
fn subscriber(model: &str, more: &[&str]) -> Agent {
    let env = [format!("ANTHROPIC_BASE_URL={model}"), "CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-0000".into()];
    let command = [program("claude-acp", "claude-agent-acp").to_string_lossy().into_owned()];
    Agent { name: "claude-acp", files: Vec::new(), words: words(&env, more, &command) }
}

fn codex(model: &str, more: &[&str]) -> Agent {
    let command = [program("codex-acp", "codex-acp").to_string_lossy().into_owned()];
    let files = vec![(".codex/config.toml", crate::codex::config(model))];
    Agent { name: "codex-acp", files, words: words(&[format!("OPENAI_API_KEY={KEY}")], more, &command) }
}

mod claude_adapter {
    use super::*;

    #[tokio::test]
    async fn is_the_version_that_is_pinned() {
        assert_eq!(version("claude-acp", "claude-agent-acp").await, CLAUDE);
    }

    #[tokio::test]
    async fn commits_and_calls_a_tool() {
        cases::job_without_figures(claude).await;
    }

    #[tokio::test]
    async fn asks_and_takes_no_for_an_answer() {
        cases::permission(claude).await;
    }

    #[tokio::test]
    async fn is_cancelled_in_a_tool_and_leaves_nothing_running() {
        cases::cancel(claude).await;
    }

    #[tokio::test]
    async fn is_cancelled_while_the_model_is_silent() {
        cases::cancel_silent_model(claude).await;
    }

    #[tokio::test]
    async fn goes_on_after_a_crash_of_the_server() {
        cases::crash(claude).await;
    }

    #[tokio::test]
    async fn gets_over_failures_that_pass() {
        cases::recovers(claude, cases::passing_failures()).await;
    }

    #[tokio::test]
    async fn a_wrong_key_fails_the_task() {
        let failure = Failure::status(401).message("invalid x-api-key").always();
        cases::fails(claude, failure, &["not logged in", "Invalid API key"]).await;
    }

    #[tokio::test]
    async fn a_model_that_stays_broken_fails_the_task() {
        cases::fails(claude, Failure::status(500).message("out of order").always(), &["500", "out of order"]).await;
    }

    #[tokio::test]
    async fn a_prompt_that_is_too_long_fails_the_task() {
        let failure = Failure::status(400).message("prompt is too long: 250000 tokens > 200000 maximum").always();
        cases::fails(claude, failure, &["too long"]).await;
    }

    #[tokio::test]
    async fn hears_a_message_in_mid_turn() {
        steering::hears(claude).await;
    }

    #[tokio::test]
    async fn a_model_that_stays_throttled_pauses_the_account() {
        cases::throttled(claude, Failure::status(429).message("slow down").header("x-should-retry", false).always()).await;
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
    async fn goes_on_by_itself_when_its_output_is_cut() {
        let stage = cases::output_cut(claude).await;
        let task = stage.queue("Say much").await;
        stage.wait(&task, "waiting_for_review").await;
        assert_eq!(stage.commits(&task).await, ["Say the rest"]);
        stage.no_problems();
    }
}

mod codex_adapter {
    use super::*;

    #[tokio::test]
    async fn is_the_version_that_is_pinned() {
        assert!(version("codex-acp", "codex-acp").await.ends_with(CODEX));
    }

    #[tokio::test]
    async fn commits_and_calls_a_tool() {
        cases::job_without_figures(codex).await;
    }

    /// The user's own server of the same name doesn't get between.
    #[tokio::test]
    async fn calls_the_runs_server_and_not_the_users_of_the_same_name() {
        fn with_server(model: &str, more: &[&str]) -> Agent {
            let mut agent = codex(model, more);
            agent.files[0].1 += "\n[mcp_servers.taskyard]\nurl = \"http://127.0.0.1:9/mcp\"\n";
            agent
        }
        cases::job_without_figures(with_server).await;
    }

    /// The adapter can refuse an edit only by ending the turn: the task fails and says so, and nothing refused is done.
    #[tokio::test]
    async fn asks_and_a_refusal_ends_its_turn() {
        let edit = |name: &str| write(&format!("{{{{cwd}}}}/{name}"), "x\n");
        let scenario = Scenario::new().reply([edit("allowed.txt")]).reply([edit("refused.txt")]);
        let stage = Stage::with(codex, &["--permissions", "ask"], scenario).await;
        let task = stage.queue("Ask before you do anything").await;
        for answer in [&["--allow"][..], &["--deny", "not this one"][..]] {
            eventually("a question", async || (!stage.yard.questions().await.is_empty()).then_some(())).await;
            let told = stage.server().cli(&[&["task", "answer", "TY-1"], answer].concat()).await;
            assert_eq!(told.code, 0, "{told:?}");
        }
        stage.wait(&task, "failed").await;
        let (outcome, reason) = stage.end(&task).await;
        assert!(outcome == "failed" && reason.contains("broke the turn off"), "{outcome}: {reason}");
        let worktree = stage.yard.worktree(&task).await;
        assert!(worktree.join("allowed.txt").exists() && !worktree.join("refused.txt").exists());
        stage.yard.nothing_lives(&task).await;
        stage.no_problems();
    }

    #[tokio::test]
    async fn is_cancelled_in_a_tool_and_leaves_nothing_running() {
        cases::cancel(codex).await;
    }

    #[tokio::test]
    async fn is_cancelled_while_the_model_is_silent() {
        cases::cancel_silent_model(codex).await;
    }

    #[tokio::test]
    async fn goes_on_after_a_crash_of_the_server() {
        cases::crash(codex).await;
    }

    #[tokio::test]
    async fn gets_over_failures_that_pass() {
        cases::recovers(codex, cases::passing_failures()).await;
    }

    #[tokio::test]
    async fn a_wrong_key_fails_the_task() {
        cases::fails(codex, Failure::status(401).message("invalid api key").always(), &["not logged in"]).await;
    }

    #[tokio::test]
    async fn a_model_that_stays_broken_fails_the_task() {
        cases::fails(codex, Failure::status(500).always(), &["high demand"]).await;
    }

    #[tokio::test]
    async fn a_model_that_stays_throttled_fails_the_task() {
        cases::fails(codex, Failure::status(429).message("slow down").always(), &["429"]).await;
    }

    #[tokio::test]
    async fn a_prompt_that_is_too_long_fails_the_task() {
        let message = "Your input exceeds the context window of this model.";
        cases::fails(codex, Failure::status(400).message(message).kind("context_length_exceeded").always(), &["context window"]).await;
    }

    #[tokio::test]
    async fn hears_a_message_in_mid_turn() {
        steering::hears(codex).await;
    }

    #[tokio::test]
    async fn a_usage_limit_pauses_until_its_end() {
        let failure = |reset_at: i64| {
            let more = json!({ "plan_type": "plus", "resets_at": reset_at });
            Failure::status(429).kind("usage_limit_reached").message("The usage limit has been reached").more(more).always()
        };
        cases::limit(codex, failure).await;
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_waits_for_review_and_says_so() {
        let stage = cases::output_cut(codex).await;
        let task = stage.queue("Say much").await;
        stage.wait(&task, "waiting_for_review").await;
        let (outcome, reason) = stage.end(&task).await;
        assert!(outcome == "no_changes" && reason.contains("output limit"), "{outcome}: {reason}");
        stage.no_problems();
    }
}
