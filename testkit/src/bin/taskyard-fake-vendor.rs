//! Stand-ins for vendors' agents, for the tests of their drivers: `taskyard-fake-vendor claude|codex|exec ARGS..`.
//!
//! Each speaks its protocol's essentials; what a turn does is the first word of its prompt: `write` (asks,
//! then writes `hello.txt`), `hang` (until interrupted), `deaf` (hangs and ignores interrupts), `die`, `flood`
//! (one huge line), `where` (tells arguments and environment). A conversation that may be taken up is named `known`.

use serde_json::{Value, json};
use std::io::{BufRead, Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("claude") => Claude { args, asked: false, running: None }.serve(),
        Some("codex") => Codex { args, thread: String::new(), running: None }.serve(),
        _ => exec(),
    }
}

fn say(value: &Value) {
    text(&value.to_string());
}

fn text(line: &str) {
    let mut out = std::io::stdout().lock();
    // A driver that is gone reads nothing more; then standard input ends too.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn lines() -> impl Iterator<Item = Value> {
    std::io::stdin().lock().lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok())
}

fn place(args: &[String]) -> String {
    let env: serde_json::Map<String, Value> = std::env::vars().map(|(name, value)| (name, value.into())).collect();
    json!({ "args": args, "env": env, "cwd": std::env::current_dir().unwrap_or_default() }).to_string()
}

fn write_file() {
    if let Err(error) = std::fs::write("hello.txt", "hello\n") {
        complain(&error.to_string());
    }
}

fn exec() -> ExitCode {
    let mut prompt = String::new();
    if std::io::stdin().read_to_string(&mut prompt).is_err() {
        return ExitCode::from(9);
    }
    match prompt.split_whitespace().last() {
        Some("write") => write_file(),
        Some("die") => {
            complain("out of ideas");
            return ExitCode::from(3);
        }
        Some("limit") => {
            complain("You've hit your usage limit. Try again in 2 hours.");
            return ExitCode::from(1);
        }
        Some("flood") => text(&"x".repeat(2 << 20)),
        Some("hang") => loop {
            std::thread::park();
        },
        _ => {}
    }
    text(&format!("heard: {}", prompt.replace('\n', "|")));
    ExitCode::SUCCESS
}

struct Claude {
    args: Vec<String>,
    asked: bool,
    running: Option<String>,
}

impl Claude {
    fn option(&self, name: &str) -> Option<&String> {
        self.args.iter().position(|arg| arg == name).and_then(|at| self.args.get(at + 1))
    }

    fn serve(mut self) -> ExitCode {
        if let Some(id) = self.option("--resume").filter(|id| *id != "known") {
            let error = format!("No conversation found with session ID: {id}");
            say(&json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "errors": [error] }));
            return ExitCode::from(1);
        }
        for message in lines() {
            let request = &message["request"];
            match message["type"].as_str() {
                Some("control_request") if request["subtype"] == "initialize" => self.answer(&message),
                Some("control_request") => {
                    self.answer(&message);
                    if self.running.as_deref().is_some_and(|what| what != "deaf") {
                        self.result(
                            &json!({ "subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_streaming" }),
                        );
                    }
                }
                Some("control_response") => self.answered(&message["response"]["response"]),
                Some("user") => {
                    let words = message["message"]["content"].as_str().unwrap_or_default().to_owned();
                    say(&json!({ "type": "user", "message": message["message"], "isReplay": true }));
                    if let Some(code) = self.heard(&words) {
                        return code;
                    }
                }
                _ => {}
            }
        }
        ExitCode::SUCCESS
    }

    fn answer(&self, message: &Value) {
        say(
            &json!({ "type": "control_response", "response": { "subtype": "success", "request_id": message["request_id"], "response": {} } }),
        );
    }

    fn heard(&mut self, words: &str) -> Option<ExitCode> {
        if self.running.is_some() {
            // Steering: read in the turn, which it ends here.
            self.speak(&format!("steered: {words}"));
            self.result(&json!({ "subtype": "success", "is_error": false }));
            return None;
        }
        say(&json!({ "type": "system", "subtype": "init", "mcp_servers": [] }));
        let what = words.split_whitespace().next().unwrap_or_default();
        match what {
            "write" => {
                let input = json!({ "file_path": "hello.txt", "content": "hello\n" });
                let block = json!({ "type": "tool_use", "id": "t1", "name": "Write", "input": input });
                say(&json!({ "type": "assistant", "message": { "id": "m1", "content": [block] } }));
                let request = json!({ "subtype": "can_use_tool", "tool_name": "Write", "input": input, "tool_use_id": "t1" });
                say(&json!({ "type": "control_request", "request_id": "ask-1", "request": request }));
                self.asked = true;
            }
            "hang" | "deaf" => self.speak("thinking"),
            "die" => {
                complain("the end");
                return Some(ExitCode::from(3));
            }
            "flood" => text(&"x".repeat(2 << 20)),
            "where" => self.speak(&place(&self.args)),
            _ => self.speak(&format!("heard: {words}")),
        }
        self.running = Some(what.to_owned());
        if !matches!(what, "write" | "hang" | "deaf") {
            self.result(&json!({ "subtype": "success", "is_error": false }));
        }
        None
    }

    fn answered(&mut self, response: &Value) {
        if !std::mem::take(&mut self.asked) {
            return;
        }
        let allowed = response["behavior"] == "allow";
        if allowed {
            write_file();
        }
        let output = if allowed { "written".into() } else { response["message"].clone() };
        let block = json!({ "type": "tool_result", "tool_use_id": "t1", "content": output, "is_error": !allowed });
        say(&json!({ "type": "user", "message": { "content": [block] } }));
        if response["interrupt"] != true {
            self.result(&json!({ "subtype": "success", "is_error": false }));
        }
    }

    fn speak(&self, words: &str) {
        say(
            &json!({ "type": "assistant", "message": { "id": format!("m-{}", words.len()), "content": [{ "type": "text", "text": words }] } }),
        );
    }

    fn result(&mut self, more: &Value) {
        self.running = None;
        let mut result = json!({ "type": "result", "num_turns": 1, "total_cost_usd": 0.25, "modelUsage": { "m": { "inputTokens": 7, "outputTokens": 3 } } });
        if let (Some(result), Some(more)) = (result.as_object_mut(), more.as_object()) {
            result.extend(more.clone());
        }
        say(&result);
    }
}

struct Codex {
    args: Vec<String>,
    thread: String,
    running: Option<String>,
}

impl Codex {
    fn serve(mut self) -> ExitCode {
        for message in lines() {
            let (id, params) = (&message["id"], &message["params"]);
            let done = |result: Value| say(&json!({ "id": id, "result": result }));
            match message["method"].as_str() {
                Some("initialize") => done(json!({ "userAgent": "fake" })),
                Some("thread/resume") if params["threadId"] != "known" => {
                    say(&json!({ "id": id, "error": { "code": -32600, "message": "no rollout found" } }));
                }
                Some("thread/start" | "thread/resume") => {
                    self.thread = params["threadId"].as_str().unwrap_or("fresh").to_owned();
                    self.args.push(params.to_string());
                    done(json!({ "thread": { "id": self.thread } }));
                }
                Some("turn/start") => {
                    done(json!({ "turn": { "id": "tu" } }));
                    self.notify("turn/started", &json!({ "turn": { "id": "tu" } }));
                    if let Some(code) = self.heard(params["input"][0]["text"].as_str().unwrap_or_default()) {
                        return code;
                    }
                }
                Some("turn/steer") => {
                    done(json!({ "turnId": "tu" }));
                    self.speak(&format!("steered: {}", params["input"][0]["text"].as_str().unwrap_or_default()));
                    self.complete("completed");
                }
                Some("turn/interrupt") => {
                    done(json!({}));
                    if self.running.as_deref().is_some_and(|what| what != "deaf") {
                        self.complete("interrupted");
                    }
                }
                Some(_) => {}
                None => self.answered(&message["result"]),
            }
        }
        ExitCode::SUCCESS
    }

    fn heard(&mut self, words: &str) -> Option<ExitCode> {
        let what = words.split_whitespace().next().unwrap_or_default();
        self.running = Some(what.to_owned());
        match what {
            "write" => {
                let changes = json!([{ "path": "hello.txt", "kind": { "type": "add" }, "diff": "hello\n" }]);
                self.notify("item/started", &json!({ "item": { "type": "fileChange", "id": "t1", "changes": changes } }));
                let params = json!({ "threadId": self.thread, "itemId": "t1" });
                say(&json!({ "method": "item/fileChange/requestApproval", "id": 0, "params": params }));
            }
            "hang" | "deaf" => self.speak("thinking"),
            "die" => {
                complain("the end");
                return Some(ExitCode::from(3));
            }
            "flood" => text(&"x".repeat(2 << 20)),
            "where" => self.speak(&place(&self.args)),
            _ => self.speak(&format!("heard: {words}")),
        }
        if !matches!(what, "write" | "hang" | "deaf") {
            self.complete("completed");
        }
        None
    }

    fn answered(&mut self, result: &Value) {
        let allowed = result["decision"] == "accept";
        if allowed {
            write_file();
        }
        let status = if allowed { "completed" } else { "declined" };
        self.notify("item/completed", &json!({ "item": { "type": "fileChange", "id": "t1", "changes": [], "status": status } }));
        if result["decision"] != "cancel" {
            self.complete("completed");
        }
    }

    fn speak(&self, words: &str) {
        self.notify("item/completed", &json!({ "item": { "type": "agentMessage", "id": format!("m-{}", words.len()), "text": words } }));
    }

    fn complete(&mut self, status: &str) {
        self.running = None;
        let used = json!({ "inputTokens": 7, "outputTokens": 3 });
        self.notify("thread/tokenUsage/updated", &json!({ "turnId": "tu", "tokenUsage": { "total": used, "last": used } }));
        self.notify("turn/completed", &json!({ "turn": { "id": "tu", "status": status } }));
    }

    fn notify(&self, method: &str, params: &Value) {
        let mut params = params.clone();
        params["threadId"] = self.thread.clone().into();
        say(&json!({ "method": method, "params": params }));
    }
}
