//! `taskyard agent …`

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Show known and configured agents, with versions and profiles
    List,
    /// Add an agent and a profile of the same name (adding it again changes it)
    ///
    /// Examples:
    ///   taskyard agent add claude --driver claude -- claude
    ///   taskyard agent add codex --driver codex -- codex
    ///   taskyard agent add gemini --driver acp -- gemini --acp
    #[command(verbatim_doc_comment)]
    Add(AgentAdd),
    /// Remove an agent that nothing uses
    Remove {
        /// Its name
        name: String,
    },
    /// Lift an agent's usage-limit pause now
    Unlimit {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct AgentAdd {
    /// Its name, used for the profile too
    pub name: String,
    /// What it speaks: acp, claude, codex, or exec for any command that reads a prompt and exits
    #[arg(long, value_parser = ["acp", "claude", "codex", "exec"])]
    pub driver: String,
    /// A variable for its environment
    #[arg(long = "env", value_name = "K=V")]
    pub env: Vec<String>,
    /// The model its profile asks for
    #[arg(long)]
    pub model: Option<String>,
    /// The agent's own mode, where it has modes
    #[arg(long)]
    pub mode: Option<String>,
    /// When it asks for permission: ask a person, allow what is listed, or allow all inside the worktree
    #[arg(long, value_parser = ["ask", "listed", "worktree"], default_value = "worktree")]
    pub permissions: String,
    /// With --permissions listed: a tool or kind that is allowed
    #[arg(long = "allow", value_name = "TOOL")]
    pub allow: Vec<String>,
    /// Most runs of it at once
    #[arg(long, value_name = "N")]
    pub max_parallel: Option<i64>,
    /// Leave what the agent didn't commit uncommitted
    #[arg(long)]
    pub no_auto_commit: bool,
    /// Program and arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
