//! The stage of a round: a folder with a server, its data and the user's repositories, all of which can be broken.
//!
//! Owns the server's process and every file of the round. Takes all of it away at the end, unless told to keep it.

use crate::disk::{Disk, Small};
use crate::ledger::Ledger;
use crate::shim;
use crate::support::{PROGRAM, Server, Setup};
use crate::wire::{Face, Wire};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use taskyard_process::{Child, Command, Environment, Output, run, spawn, tree};
use tokio::sync::Mutex;

/// Longest that a start or a stop may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The branch that work is merged into.
pub const TARGET: &str = "main";
/// A file whose change the user never commits.
pub const EDITED: &str = "edited-by-the-user.txt";
/// A file that the user never adds.
pub const UNTRACKED: &str = "notes-of-the-user.txt";
/// A file in which agents get into conflict.
pub const SHARED: &str = "shared.txt";

/// The program under test: what cargo built, or a copy that nobody builds anew meanwhile.
pub fn program() -> OsString {
    std::env::var_os("TASKYARD_TORTURE_PROGRAM").unwrap_or_else(|| PROGRAM.into())
}

/// One of the user's repositories.
#[derive(Debug, Clone)]
pub struct Project {
    /// Its checkout.
    pub path: PathBuf,
    /// Its list; empty until there is one.
    pub list: String,
    /// The commit that everything began with.
    pub start: String,
}

/// The stage.
pub struct Stage {
    place: Server,
    child: Mutex<Option<Child>>,
    /// The way to the server.
    pub wire: Wire,
    /// What was said and done.
    pub ledger: Ledger,
    /// The repositories.
    pub projects: Vec<Project>,
    /// How many things the clients have done.
    pub progress: AtomicUsize,
    disk: Option<Disk>,
}

impl Stage {
    /// Makes the folder and `count` repositories, on a small disk where that is wanted. Nothing runs yet.
    pub async fn new(count: usize, small: Option<Small>) -> Self {
        let setup = Setup::new();
        let shim = setup.folder().join("shim");
        std::fs::create_dir(&shim).unwrap();
        shim::install(&shim, &real_git());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let with_shim = std::env::join_paths(std::iter::once(shim).chain(std::env::split_paths(&path))).unwrap();
        let place = setup.env("PATH", with_shim).env("TASKYARD_LOG", "info").unstarted();
        let mut stage = Self {
            place,
            child: Mutex::default(),
            wire: Wire::default(),
            ledger: Ledger::default(),
            projects: Vec::new(),
            progress: AtomicUsize::new(0),
            disk: None,
        };
        if let Some(small) = small {
            let at = if small == Small::Data { stage.data() } else { stage.project_folder(0) };
            std::fs::create_dir_all(&at).unwrap();
            stage.disk = Disk::mount(&at).await;
            stage.ledger.count(if stage.disk.is_some() { "small disks" } else { "small disks that couldn't be mounted" });
        }
        for n in 0..count {
            let project = stage.repository(n).await;
            stage.projects.push(project);
        }
        stage
    }

    fn project_folder(&self, n: usize) -> PathBuf {
        self.folder().join(format!("project-{n}"))
    }

    async fn repository(&self, n: usize) -> Project {
        let path = self.project_folder(n);
        std::fs::create_dir_all(&path).unwrap();
        self.must_git(&path, &["init", "-q", "-b", TARGET]).await;
        for (name, text) in [("README.md", "# A project\n"), (EDITED, "as committed\n"), (SHARED, "first\nlast\n")] {
            std::fs::write(path.join(name), text).unwrap();
        }
        self.must_git(&path, &["add", "-A"]).await;
        self.must_git(&path, &["commit", "-q", "-m", "First"]).await;
        self.must_git(&path, &["branch", "elsewhere"]).await;
        let start = self.must_git(&path, &["rev-parse", "HEAD"]).await;
        std::fs::write(path.join(EDITED), "edited by the user\n").unwrap();
        std::fs::write(path.join(UNTRACKED), "noted by the user\n").unwrap();
        Project { path, list: String::new(), start }
    }

    /// The folder around everything.
    pub fn folder(&self) -> &Path {
        self.place.folder()
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.place.data()
    }

    /// Where agents write down what they have made.
    pub fn proofs(&self) -> PathBuf {
        self.folder().join("proofs.txt")
    }

    /// The variables of the user and of the command line: those of the server without the shim.
    pub fn env(&self) -> Environment {
        self.place.env().with("PATH", std::env::var_os("PATH").unwrap_or_default())
    }

    /// Where the git is that goes wrong when it is told to.
    pub fn shim(&self) -> PathBuf {
        self.folder().join("shim")
    }

    /// The small disk.
    pub fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Everything of this round that lives: server, agents, their descendants, git.
    pub fn processes(&self) -> Vec<i32> {
        self.place.processes()
    }

    /// Whether the server's process is there, as far as this stage knows.
    pub async fn is_up(&self) -> bool {
        self.child.lock().await.is_some()
    }

    /// The server's process id.
    pub async fn pid(&self) -> Option<i32> {
        self.child.lock().await.as_ref().map(Child::pid)
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Errors
    /// What came instead: it ended at once, or isn't ready in bounded time.
    pub async fn start(&self) -> Result<(), String> {
        let mut held = self.child.lock().await;
        let words = "log=\"$1\"; shift; exec \"$0\" \"$@\" >>\"$log\" 2>&1";
        let command = Command::new("sh", self.folder(), self.place.env()).args(["-c", words]).arg(program());
        let command = command.arg(self.folder().join("server.log")).args(["serve", "--listen", "127.0.0.1:0"]);
        let mut child = spawn(command.into()).map_err(|error| error.to_string())?;
        let (file, pid) = (self.data().join("server.json"), child.pid());
        let ready = async {
            loop {
                let told = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
                if let Some(told) = told.filter(|told| told["pid"] == pid) {
                    return told["url"].as_str().unwrap_or_default().to_owned();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let url = tokio::select! {
            url = ready => url,
            exit = child.wait() => return Err(format!("the server ended at once: {exit:?}")),
            () = tokio::time::sleep(PATIENCE) => return Err(format!("the server isn't ready after {} s", PATIENCE.as_secs())),
        };
        self.wire.moved(&url);
        *held = Some(child);
        Ok(())
    }

    /// Kills the server's process, and only it, with SIGKILL.
    pub async fn kill(&self) {
        if let Some(mut child) = self.child.lock().await.take() {
            tree::signal_group(child.pid(), tree::Signal::Kill);
            let _ = child.wait().await;
        }
    }

    /// Asks the server to stop with SIGTERM; its exit code, `None` when it doesn't stop or didn't run.
    pub async fn stop(&self) -> Option<i32> {
        let mut child = self.child.lock().await.take()?;
        tree::signal_group(child.pid(), tree::Signal::Term);
        tokio::time::timeout(PATIENCE, child.wait()).await.ok()?.ok()?.code
    }

    /// Calls an operation that has to work.
    pub async fn must(&self, operation: &str, arguments: Value) -> Value {
        let answer = self.wire.call(&Face::Call, operation, &arguments, None).await;
        answer.done().cloned().unwrap_or_else(|| panic!("{operation} {arguments}: {answer:?}"))
    }

    /// Adds the agent, the lists and the settings.
    pub async fn furnish(&mut self) {
        let go_on = json!({ "turns": [[{ "text": "Going on." }, { "shell": crate::jobs::proven_commit("resumed") }]] });
        let state = self.folder().join("scripted");
        let env = json!({ "TASKYARD_SCRIPTED_STATE": state, "TASKYARD_SCENARIO": go_on.to_string(), "PROOFS": self.proofs() });
        let agent = json!({
            "name": "ada", "driver": "acp", "command": [program().to_string_lossy(), "scripted-agent"],
            "env": env, "permission_policy": "ask",
        });
        self.must("agent_add", agent).await;
        self.must("settings_update", json!({ "settings": { "configured_slots": 5, "slot_yield_after": 1 } })).await;
        for n in 0..self.projects.len() {
            let made = self.must("create_list", json!({ "name": format!("Work {n}"), "local_path": self.projects[n].path })).await;
            self.projects[n].list = made["list_id"].as_str().unwrap().into();
        }
    }

    /// Runs git as the user, in `folder`.
    pub async fn git(&self, folder: &Path, args: &[&str]) -> Result<String, String> {
        let output: Output = run(Command::new("git", folder, self.env()).args(args.iter().copied())).await.map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.ok() { Ok(text) } else { Err(format!("git {}: {}", args.join(" "), output.stderr_tail())) }
    }

    /// The same where it has to work.
    pub async fn must_git(&self, folder: &Path, args: &[&str]) -> String {
        self.git(folder, args).await.unwrap_or_else(|error| panic!("in {}: {error}", folder.display()))
    }

    /// Ends everything that runs and takes the small disk away; with `keep` the folder stays for somebody to look at.
    pub async fn close(&mut self, keep: bool) {
        self.kill().await;
        for pid in self.processes() {
            let _ = run(Command::new("kill", "/", self.env()).args(["-KILL".to_owned(), pid.to_string()])).await;
        }
        if let Some(disk) = self.disk.take() {
            disk.free();
            disk.unmount(keep).await;
        }
        if keep {
            self.place.keep();
        }
    }
}

/// The git that everybody else uses.
fn real_git() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.is_file()).unwrap()
}
