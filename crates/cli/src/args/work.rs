//! `taskyard list`, `queue`, `worktree`, `snapshot`, `repository` and `settings`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum ListCommand {
    /// Make a list for a repository on this machine
    Add {
        /// What it is called
        name: String,
        /// The repository's folder
        #[arg(long, value_name = "PATH")]
        path: Option<String>,
        /// A repository that is known already
        #[arg(long, value_name = "UUID", conflicts_with = "path")]
        repository: Option<String>,
    },
    /// Set what a list's tasks inherit
    Set(ListSet),
    /// Show what a list sets and what is effective
    Show {
        /// UUID or name
        list: String,
    },
    /// Delete an empty list
    Delete {
        /// UUID or name
        list: String,
    },
}

#[derive(Debug, Args)]
pub struct ListSet {
    /// UUID or name
    pub list: String,
    /// Agent profile
    #[arg(long)]
    pub profile: Option<String>,
    /// Repository
    #[arg(long, value_name = "UUID")]
    pub repository: Option<String>,
    /// The branch that merges go to
    #[arg(long)]
    pub target: Option<String>,
    /// Model
    #[arg(long)]
    pub model: Option<String>,
    /// Largest number of turns of the agent's own loop
    #[arg(long)]
    pub max_turns: Option<i64>,
    /// Added to the agent's system prompt
    #[arg(long)]
    pub system_prompt: Option<String>,
    /// A key to inherit again, such as `model`
    #[arg(long, value_name = "KEY")]
    pub clear: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// Start nothing new
    Pause,
    /// Start again
    Resume,
}

#[derive(Debug, Subcommand)]
pub enum WorktreeCommand {
    /// Show all worktrees
    List {
        /// active, merged, kept or discarded
        #[arg(long)]
        state: Option<String>,
    },
    /// Show a task's worktree
    Show {
        /// UUID or short id
        task: String,
    },
    /// Remove a task's worktree; refused when something would be lost
    Clean {
        /// UUID or short id
        task: String,
        /// Take a snapshot of what is unsaved, then remove
        #[arg(long)]
        discard: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Show all snapshots
    List {
        /// Only of this task
        #[arg(long)]
        task: Option<String>,
    },
    /// Put a snapshot back into a new worktree
    Restore {
        /// Its UUID
        snapshot: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum RepositoryCommand {
    /// Show repositories
    List,
    /// Set scripts, copied files, hook and signing policy
    Set(RepositorySet),
}

#[derive(Debug, Args)]
pub struct RepositorySet {
    /// UUID, name or folder
    pub repository: String,
    /// The branch that merges go to when nothing nearer says otherwise
    #[arg(long)]
    pub default_branch: Option<String>,
    /// First part of the names of task branches
    #[arg(long)]
    pub branch_prefix: Option<String>,
    /// Run in a new worktree before the agent
    #[arg(long)]
    pub setup: Option<String>,
    /// Run before a worktree is removed
    #[arg(long)]
    pub cleanup: Option<String>,
    /// A glob of untracked files to copy into worktrees
    #[arg(long = "copy", value_name = "GLOB")]
    pub copy: Vec<String>,
    /// Whether hooks run on Taskyard's own commits
    #[arg(long, value_parser = ["run", "skip"])]
    pub hooks: Option<String>,
    /// Whether Taskyard's own commits are signed
    #[arg(long, value_parser = ["inherit", "never"])]
    pub sign: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum SettingsCommand {
    /// Show all settings
    Show,
    /// Change one, such as `configured_slots 5`
    Set {
        /// Its name
        name: String,
        /// Its value
        value: String,
    },
}
