//! The official SDKs, newest and of 2025, in every way they can connect.

use crate::program::{By, Client, Sdk};
use crate::stage::Stage;
use serde_json::{Value, json};

const PYTHON_2: Sdk = Sdk { folder: "python-2", era: None, speaks: "2026-07-28" };
const PYTHON_2_LEGACY: Sdk = Sdk { folder: "python-2", era: Some("legacy"), speaks: "2025-11-25" };
const PYTHON_1: Sdk = Sdk { folder: "python-1", era: None, speaks: "2025-11-25" };
const PYTHON_2025: Sdk = Sdk { folder: "python-2025", era: None, speaks: "2025-03-26" };
const TYPESCRIPT_2: Sdk = Sdk { folder: "typescript-2", era: None, speaks: "2025-11-25" };
const TYPESCRIPT_2_MODERN: Sdk = Sdk { folder: "typescript-2", era: Some("modern"), speaks: "2026-07-28" };
const TYPESCRIPT_1: Sdk = Sdk { folder: "typescript-1", era: None, speaks: "2025-11-25" };
const TYPESCRIPT_2025: Sdk = Sdk { folder: "typescript-2025", era: None, speaks: "2025-03-26" };

/// Ends when something happens, never by this.
const LONG: i64 = 300;
/// Seconds that a client's shortened limit allows of silence; what the server sends comes more often.
const LIMIT: u64 = 20;
/// A wait of nearly two such limits, seconds.
const WAIT: i64 = 35;

fn wait(task: &str, seconds: i64, cursor: Option<&Value>) -> Value {
    let mut arguments = json!({ "task_ids": [task], "timeout_seconds": seconds });
    if let Some(cursor) = cursor {
        arguments["cursor"] = cursor.clone();
    }
    arguments
}

fn nothing() -> Value {
    json!({})
}

/// Everything that one connection has to be good for.
async fn whole(sdk: Sdk, by: By) {
    let mut stage = Stage::new().await;
    let (during, later) = (stage.held("during").await, stage.held("later").await);
    let mut client = Client::connect_with(sdk, by, &stage, json!({ "silence": LIMIT })).await;
    lists_calls_and_is_refused(&mut client, &stage).await;
    sees_the_change(&mut client, &stage, &during).await;
    outwaits_the_clients_limit(&mut client, sdk, by, &later).await;
    assert_eq!(client.complaints, Vec::<String>::new());
    loses_no_change(&mut client, &stage, &later).await;
    // A connection of HTTP+SSE is its stream: it ends with the server.
    if by != By::Sse {
        goes_on_after_a_restart(&mut client, &mut stage).await;
    }
    client.quit().await;
}

/// Tools, answers and errors.
async fn lists_calls_and_is_refused(client: &mut Client, stage: &Stage) {
    let tools = client.tools().await;
    assert!(tools.contains(&"add_task".into()) && tools.contains(&"wait_for_task_change".into()), "{tools:?}");
    assert!(!tools.contains(&"create_list".into()), "the mode is lost: {tools:?}");
    let added = client.call("add_task", json!({ "list_id": stage.yard.list, "title": "By a client: ünïcode 🚧" })).await;
    assert_eq!(added["added"], true, "{added}");
    let shown = client.call("get_task", json!({ "task_id": added["short_id"] })).await;
    assert_eq!(shown["title"], "By a client: ünïcode 🚧", "{shown}");
    let error = client.refused("get_task", json!({ "task_id": "TY-404" })).await;
    assert_eq!(error["code"], "NOT_FOUND", "{error}");
    assert!(error["message"].as_str().unwrap().contains("TY-404"), "{error}");
    let error = client.refused("add_task", json!({ "list_id": stage.yard.list, "title": 3 })).await;
    assert_eq!((&error["code"], &error["field"]), (&json!("INVALID_ARGUMENT"), &json!("title")), "{error}");
    let id = client.begin("no_such_tool", nothing(), nothing()).await;
    let failed = client.end(id).await.map(|answer| answer.content).expect_err("a tool that isn't there");
    assert!(failed.contains("no_such_tool"), "{failed}");
}

/// G5: a wait ends with the change during it.
async fn sees_the_change(client: &mut Client, stage: &Stage, during: &str) {
    let waiting = client.begin("wait_for_task_change", wait(during, LONG, None), json!({ "timeout": LONG, "progress": true })).await;
    stage.yard.open("during");
    let answer = client.end(waiting).await.unwrap().content;
    assert_eq!(answer["changed"][0]["status"], "waiting_for_review", "{answer} {}", stage.yard.get(during).await);
}

/// A call that takes longer than the client's patience, which what the server sends meanwhile prolongs.
async fn outwaits_the_clients_limit(client: &mut Client, sdk: Sdk, by: By, quiet: &str) {
    let python = sdk.folder.starts_with("python");
    if python && by == By::Stdio {
        // It knows no limit for silence there.
        return;
    }
    // The SDK for Python limits the silence of the stream, the other one that of the call.
    let more = if python { json!({ "progress": false }) } else { json!({ "timeout": LIMIT, "progress": true }) };
    let id = client.begin("wait_for_task_change", wait(quiet, WAIT, None), more).await;
    let answer = client.end(id).await.unwrap();
    assert_eq!((answer.error, &answer.content["timed_out"]), (false, &json!(true)), "{}", answer.content);
    assert_eq!(answer.progress > 1, !python, "{}", answer.progress);
}

/// G5: a wait that is called off, and one that the client gives up, lose no change.
async fn loses_no_change(client: &mut Client, stage: &Stage, later: &str) {
    let cursor = client.call("wait_for_task_change", wait(later, 0, None)).await["cursor"].clone();
    let ended = stage.calls("wait_for_task_change").len();
    let off = client.begin("wait_for_task_change", wait(later, LONG, Some(&cursor)), json!({ "timeout": LONG })).await;
    // An answer to what was sent after it says that the wait has reached the server.
    client.call("get_task", json!({ "task_id": later })).await;
    client.cancel(off).await;
    client.end(off).await.map(|answer| answer.content).expect_err("the call was called off");
    assert_eq!(stage.ended("wait_for_task_change", ended + 1).await, "UNAVAILABLE", "the wait goes on at the server");
    let given_up = client.begin("wait_for_task_change", wait(later, LONG, Some(&cursor)), json!({ "timeout": 2 })).await;
    client.end(given_up).await.map(|answer| answer.content).expect_err("the client's limit was 2 s");
    stage.finish("later", later).await;
    let told = client.call("wait_for_task_change", wait(later, LONG, Some(&cursor))).await;
    assert_eq!((&told["timed_out"], &told["changed"][0]["status"]), (&json!(false), &json!("waiting_for_review")), "{told}");
}

/// The client keeps its old session and never opens another.
async fn goes_on_after_a_restart(client: &mut Client, stage: &mut Stage) {
    stage.restart().await;
    let shown = client.call("get_task", json!({ "task_id": "TY-3" })).await;
    assert_eq!(shown["title"], "By a client: ünïcode 🚧", "{shown}");
    stage.restart().await;
    let error = client.refused("get_task", json!({ "task_id": "TY-404" })).await;
    assert_eq!(error["code"], "NOT_FOUND", "{error}");
    client.tools().await;
}

/// Without any settings a wait ends before the 60 seconds after which many clients give up for good.
async fn waits_by_default_within_the_default_limit(sdk: Sdk, by: By) {
    let stage = Stage::new().await;
    let task = stage.held("quiet").await;
    let mut client = Client::connect(sdk, by, &stage).await;
    let answer = client.call("wait_for_task_change", json!({ "task_ids": [task] })).await;
    assert_eq!((&answer["timed_out"], &answer["settled"]), (&json!(true), &json!(false)), "{answer}");
    assert!(answer["hint"].as_str().unwrap().contains("cursor"), "{answer}");
    client.quit().await;
}

/// A test for each way to connect of each SDK.
macro_rules! tests {
    ($($name:ident: $sdk:expr, [$($by:ident $case:ident),*];)*) => {
        $(mod $name {
            use super::*;
            $(#[tokio::test]
            async fn $case() {
                whole($sdk, By::$by).await;
            })*
        })*
    };
}

tests! {
    python_2: PYTHON_2, [Http http, Stdio stdio];
    python_2_legacy: PYTHON_2_LEGACY, [Http http, Stdio stdio];
    python_1: PYTHON_1, [Http http, Sse sse, Stdio stdio];
    python_2025: PYTHON_2025, [Http http, Sse sse, Stdio stdio];
    typescript_2: TYPESCRIPT_2, [Http http, Sse sse, Stdio stdio];
    typescript_2_modern: TYPESCRIPT_2_MODERN, [Http http, Stdio stdio];
    typescript_1: TYPESCRIPT_1, [Http http, Sse sse, Stdio stdio];
    typescript_2025: TYPESCRIPT_2025, [Http http, Sse sse, Stdio stdio];
}

#[tokio::test]
async fn a_default_wait_suits_typescript_2() {
    waits_by_default_within_the_default_limit(TYPESCRIPT_2, By::Http).await;
}

#[tokio::test]
async fn a_default_wait_suits_typescript_2_modern() {
    waits_by_default_within_the_default_limit(TYPESCRIPT_2_MODERN, By::Http).await;
}

#[tokio::test]
async fn a_default_wait_suits_typescript_2025_over_stdio() {
    waits_by_default_within_the_default_limit(TYPESCRIPT_2025, By::Stdio).await;
}
