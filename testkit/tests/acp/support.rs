//! A yard for one agent: its repository, its logs, its events.

use std::path::PathBuf;
use std::time::Duration;
use taskyard_agents::{Command, Event, Handle, Heard, Launch, McpServer, Permission, Resume, TurnEnd, start};
use taskyard_domain::agent::DriverKind;
use taskyard_domain::transcript::{Item, Usage};
use taskyard_process::tree;
use taskyard_testkit::repo::Repo;
use taskyard_testkit::scripted::{self, Scenario, Step, scenario::Traits};

/// Longest a test waits for one event; a broken driver fails, it doesn't hang.
const PATIENCE: Duration = Duration::from_secs(20);
pub const GRACE: Duration = Duration::from_millis(300);

/// Everything one agent needs.
pub struct Yard {
    pub repo: Repo,
    pub scenario: Scenario,
    pub marker: String,
    pub resume: Option<String>,
    pub mcp: Vec<McpServer>,
    pub edit: Box<dyn Fn(&mut Launch)>,
}

impl Yard {
    /// An agent that does these steps in every turn.
    pub async fn new(steps: Vec<Step>) -> Self {
        Self::with(Traits::default(), steps).await
    }

    pub async fn with(agent: Traits, steps: Vec<Step>) -> Self {
        let repo = Repo::new().await.unwrap();
        let marker = format!("TASKYARD_RUN_ID={}", repo.outside().display());
        let scenario = Scenario { agent, turns: vec![steps] };
        Self { repo, scenario, marker, resume: None, mcp: Vec::new(), edit: Box::new(|_| {}) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.repo.path().join(name)
    }

    pub fn log(&self) -> PathBuf {
        self.repo.outside().join("logs/raw.log")
    }

    pub fn launch(&self) -> Launch {
        let (name, value) = self.marker.split_once('=').unwrap();
        let env = self.repo.env().clone().with(name, value);
        let env = env.with(scripted::STATE, self.repo.outside().join("state")).with(scripted::SCENARIO, self.scenario.to_json());
        let mut launch = Launch {
            driver: DriverKind::Acp,
            command: vec![env!("CARGO_BIN_EXE_taskyard-scripted-agent").into()],
            cwd: self.repo.path(),
            writable_dirs: Vec::new(),
            env,
            marker: self.marker.clone(),
            model: None,
            mode: None,
            max_turns: None,
            system_prompt: None,
            mcp_servers: self.mcp.clone(),
            resume: self.resume.clone().map(|agent_session_id| Resume { agent_session_id }),
            raw_log: self.log(),
            heard: Heard::default(),
            stderr_log: self.repo.outside().join("logs/stderr.log"),
            line_cap: 8 << 20,
            start_limit: Duration::from_secs(10),
        };
        (self.edit)(&mut launch);
        launch
    }

    /// Starts the agent without waiting for anything.
    pub fn begin(&self) -> Agent {
        let handle = start(self.launch()).unwrap();
        Agent { handle, items: Vec::new(), usage: None, seen: Vec::new() }
    }

    /// Starts the agent and waits until it takes prompts.
    pub async fn ready(&self) -> (Agent, String) {
        let mut agent = self.begin();
        let (id, resumed) = agent.until_ready().await;
        assert_eq!(resumed, self.resume.is_some());
        (agent, id)
    }

    /// Starts the agent, gives it a prompt, waits for the turn's end.
    pub async fn turn(&self) -> (Agent, TurnEnd) {
        let (mut agent, _) = self.ready().await;
        agent.prompt("Do it");
        let end = agent.until_end().await;
        (agent, end)
    }

    /// No process of this agent lives.
    pub fn assert_swept(&self) {
        assert_eq!(tree::marked(&self.marker), Vec::<i32>::new());
    }
}

/// How an agent's process ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stderr_tail: String,
}

/// A running agent and what was heard of it.
pub struct Agent {
    pub handle: Handle,
    pub items: Vec<Item>,
    pub usage: Option<Usage>,
    /// Names of the events that were neither items nor usage, in order.
    pub seen: Vec<&'static str>,
}

impl Agent {
    pub fn tell(&self, command: Command) {
        self.handle.commands.send(command).unwrap();
    }

    pub fn prompt(&self, text: &str) {
        self.tell(Command::Prompt(text.into()));
    }

    /// The next event that is neither an item nor usage; those are kept.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.handle.events.recv()).await.expect("no event came");
            match event {
                Some(Event::Item(item)) => self.items.push(item),
                Some(Event::Usage(usage)) => self.usage = Some(usage),
                other => {
                    self.seen.extend(other.as_ref().map(name));
                    return other;
                }
            }
        }
    }

    pub async fn until_ready(&mut self) -> (String, bool) {
        match self.next().await {
            Some(Event::Ready { agent_session_id: Some(id), resumed }) => (id, resumed),
            other => panic!("not ready: {other:?} after {:?}", self.items),
        }
    }

    pub async fn until_end(&mut self) -> TurnEnd {
        match self.next().await {
            Some(Event::TurnEnded(end)) => end,
            other => panic!("the turn didn't end: {other:?} after {:?}", self.items),
        }
    }

    pub async fn until_permission(&mut self) -> Permission {
        match self.next().await {
            Some(Event::Permission(permission)) => permission,
            other => panic!("no permission asked: {other:?} after {:?}", self.items),
        }
    }

    pub async fn until_exit(&mut self) -> Exit {
        let exit = match self.next().await {
            Some(Event::Exited { code, signal, stderr_tail }) => Exit { code, signal, stderr_tail },
            other => panic!("no exit: {other:?} after {:?}", self.items),
        };
        assert!(self.next().await.is_none(), "an event after the exit");
        exit
    }

    /// Ends the agent politely.
    pub async fn close(&mut self) -> Exit {
        self.tell(Command::Close { grace: GRACE });
        self.until_exit().await
    }

    /// Waits until an item fits.
    pub async fn until_item(&mut self, fits: impl Fn(&Item) -> bool) {
        while !self.items.iter().any(&fits) {
            match tokio::time::timeout(PATIENCE, self.handle.events.recv()).await.expect("no event came") {
                Some(Event::Item(item)) => self.items.push(item),
                Some(Event::Usage(usage)) => self.usage = Some(usage),
                other => panic!("not the item: {other:?}"),
            }
        }
    }

    /// All texts joined.
    pub fn text(&self) -> String {
        let text = |item: &Item| match item {
            Item::Text { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.items.iter().filter_map(text).collect()
    }

    /// All notices.
    pub fn notices(&self) -> Vec<&str> {
        self.items.iter().filter_map(notice).collect()
    }

    /// Outputs of the tools that ended, with their status.
    pub fn outputs(&self) -> Vec<(&str, &str)> {
        self.items.iter().filter_map(tool_output).collect()
    }
}

fn notice(item: &Item) -> Option<&str> {
    match item {
        Item::Notice { text, .. } => Some(text),
        _ => None,
    }
}

fn tool_output(item: &Item) -> Option<(&str, &str)> {
    match item {
        Item::ToolUpdate { status, output: Some(output), .. } => Some((status, output)),
        _ => None,
    }
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Ready { .. } => "ready",
        Event::Item(_) => "item",
        Event::Usage(_) => "usage",
        Event::Permission(_) => "permission",
        Event::PermissionWithdrawn { .. } => "withdrawn",
        Event::SteerRefused { .. } => "steer refused",
        Event::Limit(_) => "limit",
        Event::TurnEnded(_) => "turn ended",
        Event::Exited { .. } => "exited",
    }
}

pub fn text(text: &str) -> Step {
    Step::Text(text.into())
}
