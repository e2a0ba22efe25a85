//! The scripted model as an agent sees it: over HTTP, in each vendor's form, with failures that come so often as the
//! scenario says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use reqwest::{Client, Response};
use serde_json::{Value, json};
use taskyard_testkit::model::scenario::{Failure, Scenario, Step, Stop, Times, hang, mcp, run, say, write};
use taskyard_testkit::model::{Api, Model, Playing};

fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

async fn post(playing: &Playing, path: &str, body: Value) -> reqwest::Result<Response> {
    client().post(format!("{}/{path}", playing.url())).json(&body).send().await
}

/// A streamed answer's events, without the line that ends a stream.
async fn events(response: Response) -> Vec<Value> {
    let text = response.text().await.unwrap();
    text.lines().filter_map(|line| line.strip_prefix("data: ")).filter_map(|data| serde_json::from_str(data).ok()).collect()
}

fn messages(turns: usize) -> Value {
    let mut messages = vec![json!({ "role": "user", "content": "Do it" })];
    for _ in 0..turns {
        messages.push(json!({ "role": "assistant", "content": [{ "type": "text", "text": "x" }] }));
        messages.push(json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "gave this" }] }));
    }
    let properties = json!({ "command": { "type": "string" } });
    json!({
        "model": "m", "stream": true, "system": "Working directory: /wt\n", "messages": messages,
        "tools": [{ "name": "Bash", "input_schema": { "properties": properties } }, { "name": "Write", "input_schema": {} }],
    })
}

#[tokio::test]
async fn each_api_gets_the_same_reply_in_its_own_form() {
    let model = Model::start().await.unwrap();
    let playing = model.play(Scenario::new().reply([say("I run it."), run("git -C {{cwd}} status")]).tokens(7, 3));
    let system = "Working directory: /wt\n";

    let anthropic = events(post(&playing, "v1/messages?beta=true", messages(0)).await.unwrap()).await;
    let text: String = anthropic.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    let input: String = anthropic.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!((text.as_str(), input.as_str()), ("I run it.", r#"{"command":"git -C /wt status"}"#));
    let end = anthropic.iter().find(|event| event["type"] == "message_delta").unwrap();
    assert_eq!((&end["delta"]["stop_reason"], &end["usage"]["output_tokens"]), (&json!("tool_use"), &json!(3)));

    let tools = json!([{ "type": "function", "name": "exec_command", "parameters": { "properties": { "cmd": {} } } }]);
    let asked = json!({ "model": "m", "stream": true, "instructions": system, "input": "Do it", "tools": tools });
    let responses = events(post(&playing, "v1/responses", asked).await.unwrap()).await;
    let last = &responses.last().unwrap()["response"];
    assert_eq!((&last["status"], &last["usage"]["total_tokens"]), (&json!("completed"), &json!(10)));
    assert_eq!(last["output"][1]["arguments"], r#"{"cmd":"git -C /wt status"}"#);

    let tools = json!([{ "type": "function", "function": { "name": "bash", "parameters": {} } }]);
    let history = json!([{ "role": "system", "content": system }, { "role": "user", "content": "Do it" }]);
    let asked = json!({ "model": "m", "messages": history, "tools": tools });
    let chat: Value = post(&playing, "v1/chat/completions", asked).await.unwrap().json().await.unwrap();
    assert_eq!(chat["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "bash");
    assert_eq!(chat["choices"][0]["finish_reason"], "tool_calls");

    let tools = json!([{ "functionDeclarations": [{ "name": "run_shell_command" }] }]);
    let contents = json!([{ "role": "user", "parts": [{ "text": "Do it" }] }]);
    let asked = json!({ "systemInstruction": { "parts": [{ "text": system }] }, "contents": contents, "tools": tools });
    let gemini = events(post(&playing, "v1beta/models/g:streamGenerateContent?alt=sse", asked).await.unwrap()).await;
    let call = gemini.iter().map(|chunk| &chunk["candidates"][0]["content"]["parts"][0]["functionCall"]).find(|call| call.is_object());
    assert_eq!(call.unwrap()["name"], "run_shell_command");
    assert_eq!(gemini.last().unwrap()["candidates"][0]["finishReason"], "STOP");

    let apis: Vec<Api> = playing.served().iter().map(|served| served.api).collect();
    assert_eq!(apis, [Api::Messages, Api::Responses, Api::Chat, Api::Gemini]);
    assert!(playing.served().iter().all(|served| served.user == "Do it" && served.reply == Some(0)), "{:#?}", playing.served());
    assert_eq!(playing.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn failures_come_so_often_as_they_should_and_then_the_rest_of_the_reply() {
    let model = Model::start().await.unwrap();
    let steps = [
        Failure::status(429).header("retry-after", 2).times(2).into(),
        Step::Reset { times: Times::Only(1) },
        say("Half of it. "),
        Step::Break { text: "Nobody hears the end of this sentence.".into(), times: Times::Only(1) },
        Failure::status(529).into(),
        say("All of it."),
        Step::Stop(Stop::MaxTokens),
    ];
    let playing = model.play(Scenario::new().reply(steps));
    let ask = || post(&playing, "v1/messages", messages(0));
    for _ in 0..2 {
        let limited = ask().await.unwrap();
        assert_eq!((limited.status().as_u16(), limited.headers()["retry-after"].to_str().unwrap()), (429, "2"));
    }
    assert!(ask().await.is_err(), "the connection breaks before the answer");
    let broken = ask().await.unwrap().text().await;
    assert!(broken.is_err(), "{broken:?}");
    let failed = events(ask().await.unwrap()).await;
    assert_eq!(failed.last().unwrap()["error"]["type"], "overloaded_error");
    let whole = events(ask().await.unwrap()).await;
    assert_eq!(whole[whole.len() - 2]["delta"]["stop_reason"], "max_tokens");
    let outcomes: Vec<String> = playing.served().into_iter().map(|served| served.outcome).collect();
    assert_eq!(outcomes, ["error 429", "error 429", "reset", "broken off", "error 529", "answered"]);
}

#[tokio::test]
async fn the_history_says_which_reply_is_next_and_searches_for_tools_count_for_nothing() {
    let model = Model::start().await.unwrap();
    let report = mcp("taskyard", "add_task", json!({ "title": "saw {{result}}" }));
    let playing = model.play(Scenario::new().reply([write("{{cwd}}/a", "x")]).reply([report]));
    let second = events(post(&playing, "v1/messages", messages(1)).await.unwrap()).await;
    let called = second.iter().find(|event| event["content_block"]["type"] == "tool_use").unwrap();
    assert_eq!(called["content_block"]["name"], "mcp__taskyard__add_task");
    let input: String = second.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(input, r#"{"title":"saw gave this"}"#);

    // Codex: first a search, then the call with the group's name; the reply stays the same.
    let mut input = json!([
        { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "<environment_context><cwd>/wt</cwd></environment_context>" }] },
        { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Do it" }] },
        { "type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "" },
        { "type": "custom_tool_call_output", "call_id": "c", "output": "gave this" },
    ]);
    let tools = json!([{ "type": "tool_search" }, { "type": "custom", "name": "apply_patch" }]);
    let ask = async |input: &Value| {
        let body = json!({ "model": "m", "input": input, "tools": tools });
        post(&playing, "v1/responses", body).await.unwrap().json::<Value>().await.unwrap()["output"][0].clone()
    };
    let search = ask(&input).await;
    assert_eq!((&search["type"], &search["execution"]), (&json!("tool_search_call"), &json!("client")));
    let found = json!([{ "type": "namespace", "name": "mcp__taskyard", "tools": [{ "type": "function", "name": "add_task" }] }]);
    let output = json!({ "type": "tool_search_output", "call_id": search["call_id"], "tools": found });
    input.as_array_mut().unwrap().extend([search, output]);
    let call = ask(&input).await;
    assert_eq!((&call["name"], &call["namespace"]), (&json!("add_task"), &json!("mcp__taskyard")));
    assert_eq!(call["arguments"], r#"{"title":"saw gave this"}"#);
    assert_eq!(playing.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn what_the_scenario_does_not_say_is_a_problem_and_side_requests_use_nothing_up() {
    let model = Model::start().await.unwrap();
    let playing = model.play(Scenario::new().reply([Step::Call { tool: "Bash".into(), arguments: json!({}) }]));
    let title = json!({ "model": "m", "messages": [{ "role": "user", "content": "A title, please" }] });
    let side: Value = post(&playing, "v1/messages", title).await.unwrap().json().await.unwrap();
    assert_eq!(side["content"][0]["text"], "ok");
    assert_eq!(playing.problems(), Vec::<String>::new());
    assert_eq!(post(&playing, "v1/messages", messages(1)).await.unwrap().status(), 400);
    assert_eq!(post(&playing, "v1/oddities", json!({})).await.unwrap().status(), 404);
    let models: Value = client().get(format!("{}/v1/models", playing.url())).send().await.unwrap().json().await.unwrap();
    assert_eq!(models["data"][0]["id"], taskyard_testkit::model::NAME);
    assert_eq!(client().head(playing.url()).send().await.unwrap().status(), 200);
    let problems = playing.problems();
    assert!(problems.len() == 2 && problems[0].contains("number 2") && problems[1].contains("oddities"), "{problems:?}");
}

#[tokio::test]
async fn a_model_that_hangs_says_what_it_said_before_and_notices_that_the_agent_is_gone() {
    let model = Model::start().await.unwrap();
    let playing = model.play(Scenario::new().reply([say("Thinking."), hang()]));
    let mut response = post(&playing, "v1/messages", messages(0)).await.unwrap();
    let mut heard = String::new();
    while !heard.contains("content_block_stop") {
        heard.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().expect("it ends")));
    }
    assert!(heard.contains("Thinking.") && !heard.contains("message_stop"), "{heard}");
    drop(response);
    assert_eq!(playing.count("hanging"), 1);
}
