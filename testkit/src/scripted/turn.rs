//! One turn: the steps one after another, what the client sees of them, and how the turn ends.

use super::agent::{Agent, Session, chunk, lock};
use super::nasty;
use super::peer::error;
use super::scenario::{Ask, Content, Figures, Limit, Mcp, Step};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use taskyard_process::{Command, Environment, run};
use tokio::sync::{mpsc, watch};

/// Longest a step waits for something.
const PATIENCE: Duration = Duration::from_secs(60);
const SHELL_LIMIT: Duration = Duration::from_secs(600);

/// The turn's end: a stop reason or an error object.
type End = Result<String, Value>;
/// Whether the turn goes on after a step.
type Flow = ControlFlow<End>;

/// A running turn.
pub(super) struct Turn {
    agent: Arc<Agent>,
    session: Arc<Session>,
    prompt: String,
    number: usize,
    cancels: watch::Receiver<u64>,
    ignore_cancel: watch::Sender<bool>,
    steering: mpsc::UnboundedReceiver<String>,
    calls: u64,
    last: String,
    figures: Option<Figures>,
    after_end: Vec<Step>,
}

impl Turn {
    pub fn new(agent: Arc<Agent>, session: Arc<Session>, prompt: String, number: usize, cancels: watch::Receiver<u64>) -> Self {
        let (steer, steering) = mpsc::unbounded_channel();
        *lock(&session.steering) = Some(steer);
        Self {
            agent,
            session,
            prompt,
            number,
            cancels,
            ignore_cancel: watch::Sender::new(false),
            steering,
            calls: 0,
            last: String::new(),
            figures: None,
            after_end: Vec::new(),
        }
    }

    /// Does the steps and answers the prompt with request id `id`.
    pub async fn run(mut self, id: Value, steps: Vec<Step>) {
        let (mut cancels, mut ignoring) = (self.cancels.clone(), self.ignore_cancel.subscribe());
        let cancelled = async move {
            loop {
                if cancels.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                if !*ignoring.borrow_and_update() {
                    return;
                }
            }
        };
        let end = tokio::select! {
            biased;
            () = cancelled => Ok("cancelled".to_owned()),
            flow = self.steps(steps) => match flow {
                Flow::Continue(()) => Ok("end_turn".to_owned()),
                Flow::Break(end) => end,
            },
        };
        *lock(&self.session.steering) = None;
        let answer = end.map(|stop| {
            let mut answer = json!({ "stopReason": stop });
            if let Some(figures) = &self.figures {
                let (input, output) = (figures.input_tokens, figures.output_tokens);
                answer["usage"] = json!({ "totalTokens": input + output, "inputTokens": input, "outputTokens": output });
            }
            answer
        });
        self.agent.peer.answer(&id, answer);
        for step in std::mem::take(&mut self.after_end) {
            match step {
                Step::TextAfterEnd(text) => self.update(chunk("agent_message_chunk", &text)),
                Step::ExitAfterEnd(code) => std::process::exit(code.into()),
                _ => {}
            }
        }
    }

    async fn steps(&mut self, steps: Vec<Step>) -> Flow {
        for step in steps {
            let step = match self.fill(&step) {
                Ok(step) => step,
                Err(problem) => return Flow::Break(Err(error(-32602, problem))),
            };
            self.step(step).await?;
        }
        Flow::Continue(())
    }

    async fn step(&mut self, step: Step) -> Flow {
        match step {
            Step::Text(text) => self.update(chunk("agent_message_chunk", &text)),
            Step::Thought(text) => self.update(chunk("agent_thought_chunk", &text)),
            Step::Plan(entries) => {
                let entry = |(text, status): (String, String)| json!({ "content": text, "priority": "medium", "status": status });
                let entries: Vec<Value> = entries.into_iter().map(entry).collect();
                self.update(json!({ "sessionUpdate": "plan", "entries": entries }));
            }
            Step::Write(Content { path, content }) => self.edit("Write", &path, |path| put(path, content.as_bytes(), false)),
            Step::Append(Content { path, content }) => self.edit("Append to", &path, |path| put(path, content.as_bytes(), true)),
            Step::Delete(path) => self.edit("Delete", &path, delete),
            Step::Rename { from, to } => {
                let target = self.path(&to);
                self.edit("Rename", &from, |path| std::fs::rename(path, target));
            }
            Step::WriteViaClient(Content { path, content }) => {
                let params = json!({ "sessionId": self.session.id, "path": self.path(&path), "content": content });
                self.via_client("fs/write_text_file", params).await;
            }
            Step::ReadViaClient(path) => {
                let params = json!({ "sessionId": self.session.id, "path": self.path(&path) });
                self.via_client("fs/read_text_file", params).await;
            }
            Step::Shell(command) => self.shell(&command, &command).await,
            Step::Commit(message) => {
                let quoted = message.replace('\'', r"'\''");
                self.shell("git commit", &format!("git add -A && git commit -q -m '{quoted}'")).await;
            }
            Step::Ask(ask) => return Box::pin(self.ask(ask)).await,
            Step::Mcp(call) => self.mcp(call).await,
            Step::Repeat { times, steps } => {
                for _ in 0..times {
                    Box::pin(self.steps(steps.clone())).await?;
                }
            }
            Step::Usage(figures) => self.usage(figures),
            Step::TextAfterEnd(_) | Step::ExitAfterEnd(_) => self.after_end.push(step),
            other => return self.wait_or_end(other).await,
        }
        Flow::Continue(())
    }

    async fn wait_or_end(&mut self, step: Step) -> Flow {
        match step {
            Step::Wait(ms) => tokio::time::sleep(Duration::from_millis(ms).min(PATIENCE)).await,
            Step::WaitFile(path) => {
                let path = self.path(&path);
                if !appears(&path).await {
                    return Flow::Break(Err(error(-32603, format!("{} never came", path.display()))));
                }
            }
            Step::Signal(path) => {
                if let Err(problem) = put(&self.path(&path), b"", false) {
                    return Flow::Break(Err(error(-32603, format!("can't signal by {path}: {problem}"))));
                }
            }
            Step::WaitSteer => self.last = self.steering.recv().await.unwrap_or_default(),
            Step::Hang => std::future::pending().await,
            Step::IgnoreCancel => {
                self.ignore_cancel.send_replace(true);
            }
            Step::Stop(reason) => return Flow::Break(Ok(reason)),
            Step::Error(wrong) => return Flow::Break(Err(json!(wrong))),
            Step::AuthError => return Flow::Break(Err(error(-32000, "Authentication required"))),
            Step::Limit(limit) => return self.limit(&limit),
            other => return self.misbehave(other),
        }
        Flow::Continue(())
    }

    fn misbehave(&mut self, step: Step) -> Flow {
        let (peer, session) = (&self.agent.peer, self.session.id.as_str());
        let mut problem = Ok(());
        match step {
            Step::RawUpdate(update) => self.update(update),
            Step::RawLine(line) => peer.raw(format!("{line}\n").as_bytes()),
            Step::Crash(code) => std::process::exit(code.into()),
            Step::Kill => nasty::kill_self(),
            Step::CloseOutput => problem = nasty::close_output(),
            // Not remembered: a flood is not worth a replay.
            Step::Flood(count) => (0..count).for_each(|n| self.notify(&chunk("agent_message_chunk", &format!("{n} ")))),
            Step::HugeLine(bytes) => nasty::huge_line(peer, session, bytes),
            Step::BadUtf8 => nasty::bad_utf8(peer, session),
            Step::Stderr(text) => nasty::complain(&text),
            Step::StderrFlood(bytes) => nasty::flood_stderr(bytes),
            Step::IgnoreSigterm => nasty::ignore_sigterm(),
            Step::Grandchildren(what) => problem = nasty::leave_grandchildren(&self.session.cwd, &what),
            other => problem = Err(format!("a step that nobody does: {other:?}")),
        }
        match problem {
            Ok(()) => Flow::Continue(()),
            Err(problem) => Flow::Break(Err(error(-32603, problem))),
        }
    }

    fn notify(&self, update: &Value) {
        self.agent.peer.notify("session/update", json!({ "sessionId": self.session.id, "update": update }));
    }

    fn update(&self, update: Value) {
        lock(&self.session.journal).update(&update);
        self.notify(&update);
    }

    fn path(&self, path: &str) -> PathBuf {
        self.session.cwd.join(path)
    }

    /// Shows a tool call that begins; its id.
    fn begin(&mut self, title: &str, kind: &str, more: Value) -> String {
        self.calls += 1;
        let id = format!("call-{}-{}", self.number, self.calls);
        let mut update = json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": "in_progress" });
        if let (Some(fields), Value::Object(more)) = (update.as_object_mut(), more) {
            fields.extend(more);
        }
        self.update(update);
        id
    }

    fn end(&mut self, id: &str, result: Result<String, String>) {
        let status = if result.is_ok() { "completed" } else { "failed" };
        self.last = result.unwrap_or_else(|text| text);
        let content = json!([{ "type": "content", "content": { "type": "text", "text": self.last } }]);
        self.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": content }));
    }

    fn edit(&mut self, verb: &str, path: &str, act: impl FnOnce(&Path) -> std::io::Result<()>) {
        let whole = self.path(path);
        let id = self.begin(&format!("{verb} {path}"), "edit", json!({ "locations": [{ "path": whole }] }));
        let result = act(&whole).map(|()| "done".to_owned()).map_err(|error| error.to_string());
        self.end(&id, result);
    }

    async fn via_client(&mut self, method: &str, params: Value) {
        let id = self.begin(method, "edit", json!({ "rawInput": { "path": params["path"] } }));
        let answer = self.agent.peer.call(method, params).await;
        let result = answer.map(|answer| answer["content"].as_str().unwrap_or("done").to_owned());
        self.end(&id, result.map_err(|error| error["code"].to_string()));
    }

    async fn shell(&mut self, title: &str, command: &str) {
        let id = self.begin(title, "execute", json!({ "rawInput": { "command": command } }));
        // Its own environment as it is: git finds the identity there that Taskyard gave the agent.
        let env = std::env::vars_os().fold(Environment::default(), |env, (name, value)| env.with(name, value));
        let command = Command::new("sh", &self.session.cwd, env).args(["-c", command]).time_limit(SHELL_LIMIT).output_cap(1 << 20);
        let result = match run(command).await {
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
                if output.ok() { Ok(text) } else { Err(text) }
            }
            Err(problem) => Err(problem.to_string()),
        };
        self.end(&id, result);
    }

    async fn mcp(&mut self, call: Mcp) {
        let servers = &self.session.servers;
        let server = servers.iter().find(|server| call.server.as_ref().is_none_or(|name| *name == server.name)).cloned();
        let name = server.as_ref().map_or("none", |server| &server.name);
        let title = format!("mcp__{name}__{}", call.tool);
        let id = self.begin(&title, "other", json!({ "rawInput": call.args }));
        let result = match server {
            Some(server) => server.call(&call.tool, &call.args).await,
            None => Err("no such MCP server".to_owned()),
        };
        self.end(&id, result);
    }

    async fn ask(&mut self, ask: Ask) -> Flow {
        let paths: Vec<Value> = ask.paths.iter().map(|path| json!({ "path": self.path(path) })).collect();
        let id = self.begin(&ask.title, &ask.kind, json!({ "rawInput": ask.input, "status": "pending", "locations": paths }));
        let call = json!({ "toolCallId": id, "title": ask.title, "kind": ask.kind, "rawInput": ask.input, "locations": paths });
        // The wide ones first: who answers by position gives away too much.
        let kinds = ["allow_always", "reject_always", "allow_once", "reject_once"];
        let options: Vec<Value> =
            kinds.iter().map(|kind| json!({ "optionId": format!("id-{kind}"), "name": kind, "kind": kind })).collect();
        let params = json!({ "sessionId": self.session.id, "toolCall": call, "options": options });
        let (request, answer) = self.agent.peer.request("session/request_permission", params);
        if let Some(file) = &ask.withdraw_after {
            appears(&self.path(file)).await;
            self.agent.peer.notify("$/cancel_request", json!({ "requestId": request }));
        }
        let answer = answer.await.unwrap_or(Err(Value::Null)).unwrap_or_default();
        let option = answer["outcome"]["optionId"].as_str().unwrap_or("cancelled").to_owned();
        let allowed = option.starts_with("id-allow");
        self.end(&id, if allowed { Ok(option) } else { Err(option) });
        self.steps(if allowed { ask.on_allow } else { ask.on_deny }).await
    }

    fn usage(&mut self, figures: Figures) {
        if let Some(cost) = figures.cost_usd {
            let used = figures.input_tokens + figures.output_tokens;
            let cost = json!({ "amount": cost, "currency": "USD" });
            self.update(json!({ "sessionUpdate": "usage_update", "used": used, "size": 200_000, "cost": cost }));
        }
        self.figures = Some(figures);
    }

    fn limit(&mut self, limit: &Limit) -> Flow {
        let now = jiff::Timestamp::try_from(SystemTime::now()).unwrap_or_default();
        let reset = limit.reset_in_s.and_then(|s| now.checked_add(jiff::SignedDuration::from_secs(s)).ok());
        let reset = reset.map(|reset| reset.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let message = match (&limit.message, &reset) {
            (Some(message), _) => message.replace("${reset}", reset.as_deref().unwrap_or_default()),
            (None, Some(reset)) => format!("You've hit your usage limit. Your limit resets at {reset}."),
            (None, None) => "You've hit your usage limit.".to_owned(),
        };
        if limit.as_text {
            self.update(chunk("agent_message_chunk", &message));
            return Flow::Break(Ok("end_turn".to_owned()));
        }
        Flow::Break(Err(json!({ "code": 429, "message": message, "data": { "type": "rate_limit_error" } })))
    }

    /// Fills in the placeholders of a step's strings; steps inside of it are filled in when their turn comes.
    fn fill(&self, step: &Step) -> Result<Step, String> {
        if matches!(step, Step::Ask(_) | Step::Repeat { .. }) {
            return Ok(step.clone());
        }
        let value = serde_json::to_value(step).map_err(|error| error.to_string())?;
        serde_json::from_value(self.filled(value)).map_err(|error| error.to_string())
    }

    fn filled(&self, value: Value) -> Value {
        match value {
            Value::String(text) if text.contains("${") => Value::String(self.text(&text)),
            Value::Array(all) => all.into_iter().map(|value| self.filled(value)).collect(),
            Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, self.filled(value))).collect(),
            other => other,
        }
    }

    fn text(&self, text: &str) -> String {
        let cwd = self.session.cwd.display().to_string();
        let number = self.number.to_string();
        let known = [("prompt", &self.prompt), ("cwd", &cwd), ("last", &self.last), ("system", &self.session.system), ("turn", &number)];
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            filled.push_str(before);
            let Some((name, behind)) = after.split_once('}') else { return filled + "${" + after };
            match (known.iter().find(|(known, _)| *known == name), name.strip_prefix("env:")) {
                (Some((_, value)), _) => filled.push_str(value.trim_end()),
                (None, Some(variable)) => filled.push_str(&std::env::var(variable).unwrap_or_default()),
                (None, None) => filled.push_str(&format!("${{{name}}}")),
            }
            rest = behind;
        }
        filled + rest
    }
}

fn put(path: &Path, content: &[u8], append: bool) -> std::io::Result<()> {
    use std::io::Write;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = std::fs::File::options();
    options.create(true).write(!append).append(append).truncate(!append);
    options.open(path)?.write_all(content)
}

fn delete(path: &Path) -> std::io::Result<()> {
    if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
}

/// Waits until `path` is there; `false` when it doesn't come.
async fn appears(path: &Path) -> bool {
    let looking = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.is_ok()
}
