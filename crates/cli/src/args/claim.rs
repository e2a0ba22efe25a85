//! `taskyard claim`, `next`, `complete`, `backlog`, `workspace`, `step` and `audit`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `taskyard claim`
#[derive(Debug, Args)]
pub struct Claim {
    /// UUID or short id
    pub task: String,
    /// What the claimer calls itself; claiming again under the same name gives the same run
    #[arg(long = "as", value_name = "LABEL")]
    pub label: Option<String>,
    /// A short note on the run
    #[arg(long)]
    pub notes: Option<String>,
    /// Makes a repeated call give the first one's result
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// `taskyard next`
#[derive(Debug, Args)]
pub struct Next {
    /// What the claimer calls itself
    #[arg(long = "as", value_name = "LABEL")]
    pub label: Option<String>,
    /// Only tasks of this list, by UUID or name
    #[arg(long)]
    pub list: Option<String>,
    /// A short note on the run
    #[arg(long)]
    pub notes: Option<String>,
    /// Makes a repeated call give the first one's result
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// `taskyard complete`
#[derive(Debug, Args)]
pub struct Complete {
    /// The run that the claim gave
    pub run: String,
    /// done, failed or abandoned
    #[arg(long, default_value = "done")]
    pub outcome: String,
    /// What came of it
    #[arg(long)]
    pub summary: Option<String>,
    /// Notes in place of the claim's
    #[arg(long)]
    pub notes: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum BacklogCommand {
    /// Show plans, epics and tasks
    List(BacklogList),
    /// Write a plan, an epic or a task
    Add(BacklogAdd),
    /// Take over a folder of Markdown files; what changed on both sides is reported and left alone
    Import {
        /// The folder
        folder: PathBuf,
        /// Make items anew that were deleted in Taskyard
        #[arg(long)]
        recreate: bool,
    },
    /// Bring a folder of Markdown files up to date; files that changed have to be imported first
    Export {
        /// The folder
        folder: PathBuf,
    },
}

/// `taskyard backlog list`
#[derive(Debug, Args)]
pub struct BacklogList {
    /// plan, epic or task
    #[arg(long)]
    pub kind: Option<String>,
    /// Only this status
    #[arg(long)]
    pub status: Option<String>,
    /// Only of this plan, by slug
    #[arg(long, value_name = "SLUG")]
    pub plan: Option<String>,
    /// Only of this epic, by slug
    #[arg(long, value_name = "SLUG")]
    pub epic: Option<String>,
    /// Only what can be claimed now
    #[arg(long)]
    pub claimable: bool,
    /// Most rows
    #[arg(long, default_value_t = 50)]
    pub limit: i64,
    /// Where the last page ended
    #[arg(long)]
    pub cursor: Option<String>,
}

/// `taskyard backlog add`
#[derive(Debug, Args)]
pub struct BacklogAdd {
    /// plan, epic or task
    pub kind: String,
    /// One line
    pub title: String,
    /// Its name; made from the title without it
    #[arg(long)]
    pub slug: Option<String>,
    /// What it is about, in Markdown; `-` reads standard input
    #[arg(long)]
    pub body: Option<String>,
    /// The plan it belongs to, by slug
    #[arg(long, value_name = "SLUG")]
    pub plan: Option<String>,
    /// The epic it belongs to, by slug
    #[arg(long, value_name = "SLUG")]
    pub epic: Option<String>,
    /// Offer it at once instead of keeping it as a draft
    #[arg(long)]
    pub ready: bool,
    /// critical, high, medium or low; or P0 to P3
    #[arg(long)]
    pub priority: Option<String>,
    /// Makes a repeated call give the first one's result
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum WorkspaceCommand {
    /// Show all workspaces
    List,
    /// Make a workspace
    Add {
        /// Its slug: a-z, 0-9 and dashes; its tasks' prefix is made from it
        slug: String,
        /// What people call it
        #[arg(long)]
        name: Option<String>,
    },
    /// Change what people call a workspace
    Rename {
        /// Slug or UUID
        workspace: String,
        /// Its new name
        name: String,
    },
    /// Show or set the prompt that stands before every prompt of a workspace's tasks
    Prompt {
        /// Slug or UUID
        workspace: String,
        /// The prompt, with {{title}} and the like; `-` reads standard input, an empty one takes it away
        prompt: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum StepCommand {
    /// Show a list's prompt and steps
    List {
        /// The list, by UUID or name
        list: String,
    },
    /// Add a step behind the others
    Add {
        /// The list, by UUID or name
        list: String,
        /// What it is called
        name: String,
        /// backlog, work, review or done; with a review step, claims that are done wait for a person
        #[arg(long, default_value = "work")]
        stage: String,
        /// The prompt of tasks in it; `-` reads standard input
        #[arg(long)]
        prompt: Option<String>,
    },
    /// Change a step
    Set {
        /// The list, by UUID or name
        list: String,
        /// The step, by UUID or name
        step: String,
        /// Its new name
        #[arg(long)]
        name: Option<String>,
        /// Its new stage
        #[arg(long)]
        stage: Option<String>,
        /// Its new prompt; `-` reads standard input, an empty one takes it away
        #[arg(long)]
        prompt: Option<String>,
    },
    /// Remove a step
    Remove {
        /// The list, by UUID or name
        list: String,
        /// The step, by UUID or name
        step: String,
    },
    /// Show or set the prompt of a whole list (workflow)
    Prompt {
        /// The list, by UUID or name
        list: String,
        /// The prompt; `-` reads standard input, an empty one takes it away
        prompt: Option<String>,
    },
}

/// `taskyard audit`
#[derive(Debug, Args)]
pub struct Audit {
    /// Only about this task, run, list …
    #[arg(long, value_name = "ID")]
    pub about: Option<String>,
    /// Only this action, such as task.claimed
    #[arg(long)]
    pub action: Option<String>,
    /// Most rows
    #[arg(long, default_value_t = 50)]
    pub limit: i64,
    /// Where the last page ended
    #[arg(long)]
    pub cursor: Option<String>,
}
