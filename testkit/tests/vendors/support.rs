//! A folder for one agent, and what is heard of it.

use std::path::PathBuf;
use std::time::Duration;
use taskyard_agents::{Answer, Command, Event, Handle, Heard, Launch, McpServer, Permission, Resume, TurnEnd, start};
use taskyard_domain::agent::DriverKind;
use taskyard_domain::transcript::Item;
use taskyard_process::{Environment, tree};

/// Longest a test waits for one event; a broken driver fails, it doesn't hang.
const PATIENCE: Duration = Duration::from_secs(20);
pub const GRACE: Duration = Duration::from_millis(300);

pub struct Yard {
    pub folder: tempfile::TempDir,
    pub driver: DriverKind,
    pub resume: Option<String>,
    pub system_prompt: Option<String>,
}

impl Yard {
    pub fn new(driver: DriverKind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("wt")).unwrap();
        Self { folder, driver, resume: None, system_prompt: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn marker(&self) -> String {
        format!("TASKYARD_RUN_ID={}", self.folder.path().display())
    }

    pub fn start(&self) -> Agent {
        let env = Environment::default().with("TASKYARD_RUN_ID", self.folder.path());
        let launch = Launch {
            driver: self.driver,
            command: vec![env!("CARGO_BIN_EXE_taskyard-fake-vendor").into(), self.driver.as_str().into()],
            cwd: self.path("wt"),
            writable_dirs: vec![self.path("git")],
            env,
            marker: self.marker(),
            model: None,
            mode: None,
            max_turns: None,
            system_prompt: self.system_prompt.clone(),
            mcp_servers: vec![McpServer {
                name: "taskyard".into(),
                url: "http://127.0.0.1:1/mcp".into(),
                headers: vec![("Authorization".into(), "Bearer secret".into())],
                tool_timeout_s: 90,
            }],
            resume: self.resume.clone().map(|agent_session_id| Resume { agent_session_id }),
            raw_log: self.path("logs/raw.log"),
            heard: Heard::default(),
            stderr_log: self.path("logs/stderr.log"),
            line_cap: 1 << 20,
            start_limit: Duration::from_secs(10),
        };
        Agent { handle: start(launch).unwrap(), items: Vec::new(), seen: Vec::new() }
    }

    /// Started, and told a prompt.
    pub fn prompted(&self, text: &str) -> Agent {
        let agent = self.start();
        agent.tell(Command::Prompt(text.into()));
        agent
    }

    pub fn assert_swept(&self) {
        assert_eq!(tree::marked(&self.marker()), Vec::<i32>::new());
    }
}

pub struct Agent {
    pub handle: Handle,
    pub items: Vec<Item>,
    /// Names of the events besides items, in order.
    pub seen: Vec<&'static str>,
}

impl Agent {
    pub fn tell(&self, command: Command) {
        self.handle.commands.send(command).unwrap();
    }

    pub fn close(&self) {
        self.tell(Command::Close { grace: GRACE });
    }

    pub fn answer(&self, permission: &Permission, answer: Answer) {
        self.tell(Command::Permission { request_id: permission.request_id.clone(), answer });
    }

    /// The next event that `pick` wants; the others are kept in mind.
    pub async fn until<T>(&mut self, pick: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.handle.events.recv()).await.expect("no event came");
            let event = event.unwrap_or_else(|| panic!("the events ended after {:?}, {:?}", self.seen, self.items));
            let picked = pick(&event);
            self.note(event);
            if let Some(picked) = picked {
                return picked;
            }
        }
    }

    pub async fn until_item(&mut self, wanted: &str) {
        self.until(|event| matches!(event, Event::Item(Item::Text { text, .. }) if text == wanted).then_some(())).await;
    }

    pub async fn until_ready(&mut self) -> (Option<String>, bool) {
        self.until(|event| match event {
            Event::Ready { agent_session_id, resumed } => Some((agent_session_id.clone(), *resumed)),
            _ => None,
        })
        .await
    }

    pub async fn until_permission(&mut self) -> Permission {
        self.until(|event| if let Event::Permission(permission) = event { Some(permission.clone()) } else { None }).await
    }

    pub async fn until_end(&mut self) -> TurnEnd {
        self.until(|event| if let Event::TurnEnded(end) = event { Some(end.clone()) } else { None }).await
    }

    /// The exit code and the end of standard error; nothing comes after it.
    pub async fn until_exit(&mut self) -> (Option<i32>, String) {
        let exit = self
            .until(|event| match event {
                Event::Exited { code, stderr_tail, .. } => Some((*code, stderr_tail.clone())),
                _ => None,
            })
            .await;
        assert!(self.handle.events.recv().await.is_none());
        exit
    }

    pub fn notices(&self) -> Vec<&str> {
        self.items.iter().filter_map(|item| if let Item::Notice { text, .. } = item { Some(text.as_str()) } else { None }).collect()
    }

    fn note(&mut self, event: Event) {
        self.seen.push(match event {
            Event::Item(item) => return self.items.push(item),
            Event::Ready { .. } => "ready",
            Event::Usage(_) => "usage",
            Event::Permission(_) => "permission",
            Event::PermissionWithdrawn { .. } => "withdrawn",
            Event::SteerRefused { .. } => "steer refused",
            Event::Limit(_) => "limit",
            Event::TurnEnded(_) => "end",
            Event::Exited { .. } => "exited",
        });
    }
}
