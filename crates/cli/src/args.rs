//! The command line as people type it. Only shapes and help; nothing happens here.

mod agent;
mod claim;
mod task;
mod work;

pub use agent::{AgentAdd, AgentCommand};
pub use claim::{Audit, BacklogAdd, BacklogCommand, BacklogList, Claim, Complete, Next, StepCommand, WorkspaceCommand};
pub use task::{Add, Answer, Diff, List, Merge, Preview, Review, Run, TaskCommand};
pub use work::{ListCommand, QueueCommand, RepositoryCommand, SettingsCommand, SnapshotCommand, WorktreeCommand};

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Puts coding agents to work on git repositories and keeps a person in charge.
///
/// `taskyard serve` runs the server; every other command talks to it. `taskyard demo` shows the whole job on a
/// throw-away repository.
#[derive(Debug, Parser)]
#[command(name = "taskyard", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The server's URL; found by its data folder otherwise
    #[arg(long, global = true, env = "TASKYARD_URL", value_name = "URL", help_heading = "Connection")]
    pub server: Option<String>,
    /// The data folder [default: $XDG_DATA_HOME/taskyard]
    #[arg(long, global = true, env = "TASKYARD_DATA_DIR", value_name = "DIR", help_heading = "Connection")]
    pub data_dir: Option<PathBuf>,
    /// Workspace, by slug or UUID; the only one without it
    #[arg(long = "workspace", id = "in_workspace", global = true, env = "TASKYARD_WORKSPACE", value_name = "WORKSPACE")]
    pub workspace: Option<String>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server
    Serve(Serve),
    /// Speak MCP on standard input and output, bridged to the running server (starts one where none runs)
    Mcp(Mcp),
    /// Show the whole job on a throw-away repository: six tasks, three agents, review, merge, revert
    Demo(Demo),
    /// Check git, agents, data folder and server, and say what to do about what is missing
    Doctor,
    /// Agents and how to run them
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Lists of tasks; without a subcommand, show them
    List {
        #[command(subcommand)]
        command: Option<ListCommand>,
    },
    /// Tasks: add, run, review, merge, revert
    #[command(subcommand)]
    Task(TaskCommand),
    /// What runs and what waits; `pause` and `resume`
    Queue {
        #[command(subcommand)]
        command: Option<QueueCommand>,
    },
    /// Claim a task for work that Taskyard doesn't run, and print what is to be done
    Claim(Claim),
    /// Claim the next task that is free
    Next(Next),
    /// End a claim
    Complete(Complete),
    /// Plans, epics and tasks; and folders of Markdown files kept in step with them
    #[command(subcommand)]
    Backlog(BacklogCommand),
    /// Workspaces
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Steps of a list and the prompts that they add
    #[command(subcommand)]
    Step(StepCommand),
    /// Who did what to what
    Audit(Audit),
    /// Worktrees: show them, clean them up
    #[command(subcommand)]
    Worktree(WorktreeCommand),
    /// Snapshots of unsaved work: show, restore
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Repositories: show, set scripts, hooks and signing
    #[command(subcommand)]
    Repository(RepositoryCommand),
    /// Settings of the server
    #[command(subcommand)]
    Settings(SettingsCommand),
    /// Print a completion script for your shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// The scripted agent of the demo and the tests
    #[command(hide = true)]
    ScriptedAgent,
}

impl Command {
    /// The one task that the command is about, as it was typed.
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::Task(command) => command.task(),
            Self::Worktree(WorktreeCommand::Show { task } | WorktreeCommand::Clean { task, .. }) => Some(task),
            _ => None,
        }
    }
}

/// `taskyard serve`
#[derive(Debug, Clone, Default, Args)]
pub struct Serve {
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:4517]
    #[arg(long, env = "TASKYARD_LISTEN", value_name = "ADDR")]
    pub listen: Option<String>,
    /// Database: a postgres:// URL; SQLite in the data folder otherwise
    #[arg(long, env = "TASKYARD_DATABASE_URL", value_name = "URL")]
    pub database_url: Option<String>,
    /// Host names that requests may carry beside the loopback ones
    #[arg(long, env = "TASKYARD_ALLOWED_HOSTS", value_name = "HOST", value_delimiter = ',')]
    pub allowed_hosts: Option<Vec<String>>,
    /// Origins that browsers may call from beside the server's own
    #[arg(long, env = "TASKYARD_ALLOWED_ORIGINS", value_name = "ORIGIN", value_delimiter = ',')]
    pub allowed_origins: Option<Vec<String>>,
    /// Append a JSON line for every MCP call: tool, duration, outcome, argument names
    #[arg(long, env = "TASKYARD_MCP_LOG", value_name = "FILE")]
    pub mcp_log: Option<PathBuf>,
    /// What to log, such as `info` or `taskyard_engine=debug` [default: info, without the MCP library's]
    #[arg(long, env = "TASKYARD_LOG", value_name = "FILTER")]
    pub log: Option<String>,
}

/// `taskyard mcp`
#[derive(Debug, Clone, Args)]
pub struct Mcp {
    /// Which catalogue of tools: external, core, claims, agent, dispatch
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Only these toolsets, separated by commas
    #[arg(long, value_name = "SETS")]
    pub toolsets: Option<String>,
    /// Only tools that change nothing
    #[arg(long)]
    pub readonly: bool,
    /// Fail where no server runs instead of starting one
    #[arg(long)]
    pub no_start: bool,
}

/// `taskyard demo`
#[derive(Debug, Clone, Args)]
pub struct Demo {
    /// Folder for the demo's repository and data; a new temporary one otherwise
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Stop the demo's server at the end instead of leaving it running
    #[arg(long)]
    pub stop: bool,
}
