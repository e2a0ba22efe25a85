//! G5: waiting for a change. Nothing is lost, clients with short patience are served, nobody starves.

use crate::support::{Mcp, Yard};
use futures::future::join_all;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Waits in this test end when something happens, never by this.
const LONG: i64 = 300;
/// At once, on a loaded machine.
const PROMPT: Duration = Duration::from_secs(15);
/// Longer than progress may be silent, so that there is some.
const SOME_PROGRESS: i64 = 17;

fn wait(task: &str, seconds: i64, cursor: Option<&str>) -> Value {
    let mut arguments = json!({ "task_ids": [task], "timeout_seconds": seconds });
    if let Some(cursor) = cursor {
        arguments["cursor"] = cursor.into();
    }
    arguments
}

fn call(id: u64, arguments: Value, token: Option<&str>) -> Value {
    let mut params = json!({ "name": "wait_for_task_change", "arguments": arguments });
    if let Some(token) = token {
        params["_meta"] = json!({ "progressToken": token });
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

/// A running task whose agent ends its turn when the gate `name` opens.
async fn held(yard: &Yard, name: &str) -> String {
    let steps = json!([{ "signal": yard.gate(&format!("{name}-up")) }, { "wait_file": yard.gate(name) }, { "text": "Done." }]);
    let task = yard.queue(name, steps).await;
    yard.reached(&format!("{name}-up")).await;
    task
}

async fn cursor_of(mcp: &Mcp, task: &str) -> String {
    let now = mcp.call("wait_for_task_change", wait(task, 0, None)).await.unwrap();
    assert_eq!((&now["timed_out"], &now["settled"]), (&json!(true), &json!(false)), "{now}");
    assert!(now["hint"].as_str().unwrap().contains("cursor"), "{now}");
    now["cursor"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_change_ends_the_wait_at_once_and_one_between_two_waits_is_not_lost() {
    let yard = Yard::new().await;
    let mcp = yard.server.mcp("mode=core", None).await;
    let (during, between) = (held(&yard, "during").await, held(&yard, "between").await);
    let cursor = cursor_of(&mcp, &between).await;
    let (answer, ()) = tokio::join!(mcp.call("wait_for_task_change", wait(&during, LONG, None)), async { yard.open("during") });
    let answer = answer.unwrap();
    assert_eq!((&answer["settled"], &answer["changed"][0]["status"]), (&json!(true), &json!("waiting_for_review")), "{answer}");
    yard.open("between");
    yard.reviewable(&between).await;
    let started = Instant::now();
    let answer = mcp.call("wait_for_task_change", wait(&between, LONG, Some(&cursor))).await.unwrap();
    assert!(started.elapsed() < PROMPT);
    let change = &answer["changed"][0];
    assert_eq!((&change["task_id"], &change["previous_status"]), (&json!(between), &json!("in_progress")), "{answer}");
    // What was told isn't told again.
    let told = mcp.call("wait_for_task_change", wait(&between, 0, answer["cursor"].as_str())).await.unwrap();
    assert_eq!((&told["changed"], &told["settled"]), (&json!([]), &json!(true)), "{told}");
}

#[tokio::test]
async fn progress_comes_to_those_who_asked_and_bytes_come_early_to_all() {
    let yard = Yard::new().await;
    let task = held(&yard, "quiet").await;
    let watch = async |token: Option<&'static str>| {
        let mcp = yard.server.mcp("mode=core", None).await;
        let sent = Instant::now();
        let answer = mcp.send(call(5, wait(&task, SOME_PROGRESS, None), token)).await;
        // The head of the answer is what a client's time limit for a first byte looks at.
        assert!(sent.elapsed() < Duration::from_secs(10), "the first byte came after {:?}", sent.elapsed());
        let body = answer.text().await.unwrap();
        let messages: Vec<Value> = body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?).ok()).collect();
        let last = messages.last().unwrap();
        assert_eq!((&last["id"], &last["result"]["structuredContent"]["timed_out"]), (&json!(5), &json!(true)), "{body}");
        messages.into_iter().filter(|message| message["method"] == "notifications/progress").collect::<Vec<_>>()
    };
    let (with, without) = tokio::join!(watch(Some("mine")), watch(None));
    assert!(!with.is_empty() && with.iter().all(|one| one["params"]["progressToken"] == "mine"), "{with:?}");
    let values: Vec<f64> = with.iter().map(|one| one["params"]["progress"].as_f64().unwrap()).collect();
    assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{values:?}");
    assert_eq!(without, Vec::<Value>::new());
    yard.open("quiet");
    yard.reviewable(&task).await;
}

#[tokio::test]
async fn a_cancelled_wait_ends_and_the_change_after_it_is_not_lost() {
    let yard = Yard::new().await;
    let mcp = yard.server.mcp("mode=core", None).await;
    let task = held(&yard, "later").await;
    let cursor = cursor_of(&mcp, &task).await;
    // One cancels as the protocol says, another just goes away.
    let answer = mcp.send(call(9, wait(&task, LONG, Some(&cursor)), None)).await;
    let gone = mcp.send(call(10, wait(&task, LONG, Some(&cursor)), None)).await;
    drop(gone);
    mcp.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9 } })).await;
    tokio::time::timeout(PROMPT, answer.text()).await.expect("the cancelled wait goes on").unwrap();
    yard.open("later");
    yard.reviewable(&task).await;
    let answer = mcp.call("wait_for_task_change", wait(&task, LONG, Some(&cursor))).await.unwrap();
    assert_eq!(answer["changed"][0]["status"], "waiting_for_review", "{answer}");
}

#[tokio::test]
async fn five_hundred_waits_starve_nobody_and_all_see_the_change() {
    let yard = Yard::new().await;
    let task = held(&yard, "crowd").await;
    let clients = join_all((0..10).map(|_| yard.server.mcp("mode=core", None))).await;
    let waits: Vec<_> = (0..500u64)
        .map(|n| {
            let answer = clients[n as usize % clients.len()].send(call(100 + n, wait(&task, LONG, None), None));
            async move { answer.await.text().await.unwrap() }
        })
        .collect();
    let others = async {
        for _ in 0..10 {
            let started = Instant::now();
            yard.server.call("get_task", json!({ "task_id": task })).await;
            yard.server.call("list_tasks", json!({})).await;
            yard.task("Another", json!([])).await;
            assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
        }
        yard.open("crowd");
    };
    let (answers, ()) = tokio::join!(join_all(waits), others);
    assert_eq!(answers.iter().filter(|body| body.contains("waiting_for_review") && body.contains("\"settled\":true")).count(), 500);
}
