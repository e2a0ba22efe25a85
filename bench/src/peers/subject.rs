//! One program under comparison: how it is started, spoken to, asked for a new task and for its list.

use super::{kanban, kandev, ours};
use crate::http::Http;
use crate::mcp::{Answered, Mcp, Stdio};
use crate::process::{Launch, Process, memory, until};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
/// What every task is called, before its number.
const TITLE: &str = "bench task ";

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Taskyard.
    Ours,
    /// Kandev.
    Kandev,
    /// agentic-kanban.
    Kanban,
}

/// How its MCP face is reached.
#[derive(Debug, Clone)]
pub enum Way {
    /// Over HTTP.
    Http(String),
    /// By a program of its own, one for all clients.
    Program(Launch),
}

/// A tool with its arguments.
#[derive(Debug, Clone, Default)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its arguments; the title and prompt are added.
    pub arguments: Value,
}

/// What tells one of them from the others.
pub struct Traits {
    /// Which it is.
    pub who: Who,
    /// Its name.
    pub name: &'static str,
    /// How it is started.
    pub launch: Launch,
    /// `127.0.0.1:PORT`.
    pub host: String,
    /// Path that answers once it is ready.
    pub ready: &'static str,
    /// What that answer has to contain.
    pub ready_text: &'static str,
    /// How its MCP face is reached.
    pub way: Way,
    /// Makes a task; filled in by the set-up.
    pub create: Tool,
    /// What the prompt of a new task is called.
    pub prompt: &'static str,
    /// The default list; filled in by the set-up.
    pub list: Tool,
}

/// One program.
pub struct Subject {
    /// What tells it from the others.
    pub traits: Traits,
    /// Its name.
    pub name: &'static str,
    folder: TempDir,
    process: Option<Process>,
    front: Option<(Process, Arc<Stdio>)>,
}

/// What tools cost a client.
#[derive(Debug, Clone, Copy, Default)]
pub struct Catalogue {
    /// How many there are.
    pub tools: usize,
    /// Bytes of all that is listed.
    pub listed: usize,
    /// Bytes of what a model reads of it: names, descriptions, parameters.
    pub read: usize,
}

/// A connection to one of them.
pub enum Client {
    /// Over HTTP.
    Http(Box<Mcp>),
    /// Through the program that all clients share.
    Program(Arc<Stdio>),
}

impl Subject {
    /// One that isn't started; `folder` is removed in the end.
    pub fn new(traits: Traits, folder: TempDir) -> Self {
        Self { name: traits.name, traits, folder, process: None, front: None }
    }

    /// Starts it and waits until it is ready: how long that took.
    ///
    /// # Errors
    /// When it doesn't start.
    pub async fn start(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let mut process = Process::start(&self.traits.launch)?;
        let mut http = Http::new(&self.traits.host);
        let ready = until(self.name, PATIENCE, async || {
            process.alive()?;
            let reply = http.request("GET", self.traits.ready, "", b"").await;
            let is_ready = reply.is_ok_and(|r| r.status == 200 && String::from_utf8_lossy(&r.body).contains(self.traits.ready_text));
            Ok(is_ready.then_some(begun.elapsed()))
        });
        let took = ready.await?;
        self.process = Some(process);
        Ok(took)
    }

    /// Stops it in good order.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub async fn stop(&mut self) -> Result<()> {
        self.front = None;
        match self.process.take() {
            Some(process) => process.stop().await,
            None => Ok(()),
        }
    }

    /// Its process, for whoever wants to end it otherwise.
    pub fn take_process(&mut self) -> Option<Process> {
        self.process.take()
    }

    /// Ends the program that clients share.
    pub fn end_front(&mut self) {
        self.front = None;
    }

    /// Memory of all processes that a connected client needs.
    pub fn memory(&self) -> f64 {
        let processes = self.process.iter().chain(self.front.iter().map(|(front, _)| front));
        processes.map(|process| memory(process.pid())).sum()
    }

    /// A connection.
    ///
    /// # Errors
    /// When the handshake fails.
    pub async fn client(&mut self) -> Result<Client> {
        match (&self.traits.way, &self.front) {
            (Way::Http(url), _) => Ok(Client::Http(Box::new(Mcp::connect(url).await?))),
            (Way::Program(_), Some((_, front))) => Ok(Client::Program(Arc::clone(front))),
            (Way::Program(launch), None) => {
                let mut process = Process::start(launch)?;
                let front = Arc::new(Stdio::connect(&mut process).await?);
                self.front = Some((process, Arc::clone(&front)));
                Ok(Client::Program(front))
            }
        }
    }

    /// Asks for what [`Client::create`] and [`Client::list`] need.
    ///
    /// # Errors
    /// When it doesn't answer as it should.
    pub async fn set_up(&mut self, client: &mut Client) -> Result<()> {
        let repo = self.folder.path().join("repos/demo");
        match self.traits.who {
            Who::Ours => ours::set_up(&mut self.traits).await,
            Who::Kandev => kandev::set_up(&mut self.traits, client, &repo).await,
            Who::Kanban => kanban::set_up(&mut self.traits, &repo).await,
        }
    }
}

impl Client {
    /// Calls any tool.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn call(&mut self, tool: &str, arguments: &Value) -> Result<Answered> {
        match self {
            Self::Http(mcp) => mcp.call(tool, arguments).await,
            Self::Program(front) => front.call(tool, arguments).await,
        }
    }

    /// The tools as listed.
    ///
    /// # Errors
    /// When they can't be listed.
    pub async fn catalogue(&mut self) -> Result<Catalogue> {
        let mut catalogue = Catalogue::default();
        let mut params = json!({});
        loop {
            let answer = match self {
                Self::Http(mcp) => mcp.request("tools/list", &params).await?,
                Self::Program(front) => front.request("tools/list", &params).await?,
            };
            let answer: Value = serde_json::from_slice(&answer.body)?;
            for tool in answer["result"]["tools"].as_array().context("no tools")? {
                catalogue.tools += 1;
                catalogue.listed += tool.to_string().len();
                let read = json!({ "name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"] });
                catalogue.read += read.to_string().len();
            }
            match answer["result"]["nextCursor"].as_str() {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return Ok(catalogue),
            }
        }
    }

    /// Makes the task with this number: how long it took.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn create(&mut self, subject: &Subject, number: usize) -> Result<Duration> {
        let mut arguments = subject.traits.create.arguments.clone();
        arguments["title"] = json!(format!("{TITLE}{number}"));
        arguments[subject.traits.prompt] = json!(format!("Do the thing number {number} in the demo repository, then report."));
        let answer = self.call(subject.traits.create.name, &arguments).await?;
        answer.ok().with_context(|| subject.name)?;
        Ok(answer.took)
    }

    /// The default list.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn list(&mut self, subject: &Subject) -> Result<Answered> {
        let answer = self.call(subject.traits.list.name, &subject.traits.list.arguments).await?;
        answer.ok().with_context(|| subject.name)?;
        Ok(answer)
    }

    /// The numbers of all tasks that it lists, page by page where it has pages.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn titles(&mut self, subject: &Subject) -> Result<BTreeSet<usize>> {
        let mut found = BTreeSet::new();
        let mut arguments = subject.traits.list.arguments.clone();
        if subject.traits.who == Who::Ours {
            arguments["limit"] = json!(200);
        }
        loop {
            let answer = self.call(subject.traits.list.name, &arguments).await?;
            let before = found.len();
            found.extend(numbers(&String::from_utf8_lossy(&answer.body)));
            let next = answer.value()?["next_cursor"].clone();
            if subject.traits.who != Who::Ours || next.is_null() {
                return Ok(found);
            }
            ensure!(found.len() > before, "a page without anything new");
            arguments["cursor"] = next;
        }
    }
}

/// The numbers of the tasks that a text names.
fn numbers(text: &str) -> impl Iterator<Item = usize> {
    text.split(TITLE).skip(1).filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_found_by_their_titles() {
        let found: Vec<usize> = numbers(r#"{"a": "bench task 12", "b": "bench task 7 x", "c": "bench task"}"#).collect();
        assert_eq!(found, [12, 7]);
    }
}
