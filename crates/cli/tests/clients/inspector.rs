//! The inspector on the command line: its checks of the published schemas on every list of tools, and calls.

use crate::program::{By, installed};
use crate::stage::Stage;
use crate::support::{PATIENCE, PROGRAM, Told};
use serde_json::{Value, json};
use taskyard_process::{Command, run};

/// What a server can be asked for.
const LISTS: [&str; 6] = ["mode=core", "mode=agent", "mode=dispatch", "mode=external", "readonly=true", "toolsets=tasks,git"];

async fn inspect(stage: &Stage, args: &[&str]) -> Told {
    let program = installed("inspector").join("node_modules/.bin/mcp-inspector");
    // Its shebang looks for Node.
    let node = crate::program::node();
    let path = format!("{}:{}", node.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let env = stage.yard.server.env().with("PATH", path);
    let command = Command::new(program, stage.yard.server.folder(), env).arg("--cli").args(args.iter().copied());
    run(command.time_limit(PATIENCE)).await.unwrap().into()
}

/// The arguments that say where the server is and how to speak to it.
fn place(stage: &Stage, by: By, query: &str, era: &str) -> Vec<String> {
    let url = |part| format!("{}/{part}?{query}", stage.yard.server.url());
    let mut words: Vec<String> = match by {
        By::Http => [url("mcp"), "--transport".into(), "http".into()].into(),
        By::Sse => [url("mcp/sse"), "--transport".into(), "sse".into()].into(),
        By::Stdio => {
            let data = format!("TASKYARD_DATA_DIR={}", stage.yard.server.data().display());
            [PROGRAM.into(), "mcp".into(), "--mode".into(), "core".into(), "-e".into(), data].into()
        }
    };
    words.extend(["--protocol-era".into(), era.into(), "--format".into(), "json".into()]);
    words
}

async fn lists_and_calls(by: By, era: &str) {
    let stage = Stage::new().await;
    let place = place(&stage, by, "mode=core", era);
    let asked = async |more: &[&str]| {
        let words: Vec<&str> = place.iter().map(String::as_str).chain(more.iter().copied()).collect();
        inspect(&stage, &words).await
    };
    let told = asked(&["--method", "tools/list", "--strict"]).await;
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.contains("wait_for_task_change"), "{told:?}");
    let arguments = json!({ "list_id": stage.yard.list, "title": "By the inspector" }).to_string();
    let told = asked(&["--method", "tools/call", "--tool-name", "add_task", "--tool-args-json", &arguments]).await;
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(stage.yard.get("TY-1").await["title"], "By the inspector");
    let told = asked(&["--method", "tools/call", "--tool-name", "get_task", "--tool-arg", "task_id=TY-404"]).await;
    assert!(told.code == 5 && told.out.contains("NOT_FOUND"), "{told:?}");
}

#[tokio::test]
async fn every_list_is_portable() {
    let stage = Stage::new().await;
    for query in LISTS {
        let mut words = place(&stage, By::Http, query, "auto");
        words.extend(["--method".into(), "tools/list".into(), "--strict".into()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let told = inspect(&stage, &words).await;
        assert_eq!(told.code, 0, "{query}: {told:?}");
        assert!(!told.err.to_lowercase().contains("warning"), "{query}: {}", told.err);
        let listed: Value = told.json();
        assert!(listed.to_string().contains("inputSchema"), "{query}: {listed}");
    }
}

#[tokio::test]
async fn lists_and_calls_over_http() {
    lists_and_calls(By::Http, "legacy").await;
}

#[tokio::test]
async fn lists_and_calls_over_http_without_a_session() {
    lists_and_calls(By::Http, "modern").await;
}

#[tokio::test]
async fn lists_and_calls_over_sse() {
    lists_and_calls(By::Sse, "legacy").await;
}

#[tokio::test]
async fn lists_and_calls_over_stdio() {
    lists_and_calls(By::Stdio, "legacy").await;
}

#[tokio::test]
async fn lists_and_calls_over_stdio_without_a_session() {
    lists_and_calls(By::Stdio, "modern").await;
}
