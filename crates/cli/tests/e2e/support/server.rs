//! The server under test: the real binary in a process of its own, with nothing of the machine around it.

use super::{Mcp, eventually};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use taskyard_process::{Child, Command, Environment, Input, Output, run, spawn, tree};
use tempfile::TempDir;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_taskyard");
/// Marks every process of one test, so that the test can end them all.
const MARK: &str = "TEST_YARD";

/// A server that isn't started yet.
pub struct Setup {
    folder: TempDir,
    env: Environment,
    args: Vec<String>,
}

impl Setup {
    /// Own home, own git configuration, own data folder, a free port.
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("taskyard-e2e-").unwrap();
        for name in ["home", "tmp", "data", "gates", "xdg"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("gitconfig"), "[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n").unwrap();
        let mut env = taskyard_testkit::repo::environment(folder.path());
        for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            env.set(name, folder.path().join("xdg"));
        }
        env.set(MARK, folder.path());
        Self { folder, env, args: vec!["--listen".into(), "127.0.0.1:0".into()] }
    }

    /// Sets a variable of the server (and of the command line).
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<std::ffi::OsString>) -> Self {
        self.env.set(name, value);
        self
    }

    /// Arguments of `taskyard serve` instead of `--listen 127.0.0.1:0`.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self
    }

    /// Writes `config.toml`.
    #[must_use]
    pub fn config(self, text: &str) -> Self {
        std::fs::write(self.folder.path().join("data/config.toml"), text).unwrap();
        self
    }

    /// The folder around everything.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the server and waits until it is ready.
    pub async fn start(self) -> Server {
        let mut server = self.unstarted();
        server.launch().await;
        server
    }

    /// The same place without a server, for commands that start one or do without.
    pub fn unstarted(self) -> Server {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Server { setup: self, child: None, url: String::new(), http }
    }
}

/// What a command of the command line came to.
#[derive(Debug)]
pub struct Told {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Told {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}

impl From<Output> for Told {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.code.unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// A server. Dropping it kills it and everything it started.
pub struct Server {
    setup: Setup,
    child: Option<Child>,
    url: String,
    http: reqwest::Client,
}

impl Server {
    /// A server with nothing special.
    pub async fn start() -> Self {
        Setup::new().start().await
    }

    /// Where it listens, such as `http://127.0.0.1:4517`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.as_ref().unwrap().pid()
    }

    /// The folder around everything.
    pub fn folder(&self) -> &Path {
        self.setup.folder()
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// Leaves the folder where it is when this is dropped, for somebody to look at.
    #[allow(dead_code, reason = "only the fault campaign, which shares these files, keeps what it leaves")]
    pub fn keep(&mut self) {
        self.setup.folder.disable_cleanup(true);
    }

    /// What the server wrote to its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder().join("server.log")).unwrap_or_default()
    }

    /// Starts the process (again) on the same data folder and waits until it is ready.
    pub async fn launch(&mut self) {
        let mut child = self.spawn();
        let (file, pid) = (self.data().join("server.json"), child.pid());
        let look = async || {
            let told: Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
            (told["pid"] == pid).then(|| told["url"].as_str().unwrap_or_default().to_owned())
        };
        let ready = eventually("the server's server.json", look);
        self.url = tokio::select! {
            url = ready => url,
            exit = child.wait() => panic!("the server ended at once ({exit:?}): {}", self.log()),
        };
        self.child = Some(child);
    }

    /// Starts the process without waiting for anything.
    pub fn spawn(&self) -> Child {
        let mut words = vec!["serve".to_owned()];
        words.extend(self.setup.args.iter().cloned());
        let log = self.folder().join("server.log");
        // Its output goes to a file, as a service's would; `exec` keeps the process id.
        let command = Command::new("sh", self.folder(), self.env())
            .args(["-c", "log=\"$1\"; shift; exec \"$0\" \"$@\" >>\"$log\" 2>&1"])
            .arg(PROGRAM)
            .arg(log)
            .args(words);
        spawn(command.into()).unwrap()
    }

    /// The variables of server and command line.
    pub fn env(&self) -> Environment {
        self.setup.env.clone().with("TASKYARD_DATA_DIR", self.data())
    }

    /// Kills the server's process, and only it, with SIGKILL.
    pub async fn kill9(&mut self) {
        let mut child = self.child.take().unwrap();
        tree::signal_group(child.pid(), tree::Signal::Kill);
        child.wait().await.unwrap();
    }

    /// Asks the server to stop with SIGTERM and waits until it has. Its exit code.
    pub async fn stop(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        tree::signal_group(child.pid(), tree::Signal::Term);
        let exit = tokio::time::timeout(super::PATIENCE, child.wait()).await.expect("the server doesn't stop");
        exit.unwrap().code
    }

    /// Stops it in good order and starts it again on the same data folder.
    pub async fn restart(&mut self) {
        assert_eq!(self.stop().await, Some(0), "{}", self.log());
        self.launch().await;
    }

    /// Starts it, stopped before, with other arguments on the same data folder.
    pub async fn launch_with(&mut self, args: &[&str]) {
        self.setup.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self.launch().await;
    }

    /// Kills it with SIGKILL and starts it again on the same data folder.
    pub async fn crash(&mut self) {
        self.kill9().await;
        self.launch().await;
    }

    /// Runs an operation as the operator; panics with the error.
    pub async fn call(&self, operation: &str, arguments: Value) -> Value {
        self.try_call(operation, arguments).await.unwrap_or_else(|error| panic!("{operation}: {error}"))
    }

    /// Runs an operation as the operator: its result, or its error with `code` and `message`.
    pub async fn try_call(&self, operation: &str, arguments: Value) -> Result<Value, Value> {
        self.call_as(None, operation, arguments).await
    }

    /// Runs an operation that has to be refused with class `code`; gives the error.
    pub async fn refused(&self, operation: &str, arguments: Value, code: &str) -> Value {
        match self.try_call(operation, arguments).await {
            Err(error) => {
                assert_eq!(error["code"], code, "{operation}: {error}");
                error
            }
            Ok(answer) => panic!("{operation} was not refused: {answer}"),
        }
    }

    /// Runs an operation with a bearer token.
    pub async fn call_as(&self, token: Option<&str>, operation: &str, arguments: Value) -> Result<Value, Value> {
        let mut request = self.http.post(format!("{}/api/internal/call/{operation}", self.url)).json(&arguments);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let body: Value = request.send().await.unwrap().json().await.unwrap();
        match body.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(body["error"].clone()),
        }
    }

    /// Changes a setting.
    pub async fn set(&self, name: &str, value: impl Into<Value>) {
        self.call("settings_update", json!({ "settings": { name: value.into() } })).await;
    }

    /// An MCP connection to `/mcp` with `query` (such as `mode=core`), as the operator or with a token.
    pub async fn mcp(&self, query: &str, token: Option<&str>) -> Mcp {
        Mcp::connect(&format!("{}/mcp?{query}", self.url), token).await
    }

    /// Runs the command line, which finds the server by its data folder.
    pub async fn cli(&self, args: &[&str]) -> Told {
        self.cli_with(args, "").await
    }

    /// Runs the command line with something on its standard input.
    pub async fn cli_with(&self, args: &[&str], input: &str) -> Told {
        let command = Command::new(PROGRAM, self.folder(), self.env()).args(args.iter().copied());
        run(command.input(Input::Bytes(input.as_bytes().to_vec())).time_limit(super::PATIENCE)).await.unwrap().into()
    }

    /// Everything that this test started and that lives: the server, its agents, their descendants.
    pub fn processes(&self) -> Vec<i32> {
        tree::marked(&format!("{MARK}={}", self.folder().display()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let from = log.floor_char_boundary(log.len().saturating_sub(8000));
            println!("--- server.log ---\n{}", &log[from..]);
        }
        if let Some(child) = self.child.take() {
            tree::signal_group(child.pid(), tree::Signal::Kill);
        }
        let mark = format!("{MARK}={}", self.folder().display());
        // A thread of its own, because a test's runtime can't be waited for from inside of it.
        let sweep = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.map(|runtime| runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), tree::sweep(&mark)).await }))
        };
        let _ = std::thread::spawn(sweep).join();
    }
}
