//! `taskyard task …`

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    /// Add a task to a list
    Add(Add),
    /// Show a task
    Show(Show),
    /// Show tasks
    List(List),
    /// Queue a task, or start it at once with --now
    Run(Run),
    /// Go on with a task's session
    Continue(Continue),
    /// Stop a task's run, or call it off
    Cancel(Cancel),
    /// Answer what a task's agent asks permission for
    Answer(Answer),
    /// Show what a task changed
    Diff(Diff),
    /// Show a task's log
    Log(Log),
    /// Wait until tasks have left the queue and their runs have ended, or ask something
    ///
    /// Exit code 0 when all work is there (or was called for nothing), 1 when a task failed, was cancelled or its agent asks
    /// for an answer, 9 when the time is over.
    Wait(Wait),
    /// Decide on a task's work: approve, send back, park, cancel
    Review(Review),
    /// Merge a task's work
    Merge(Merge),
    /// Show what merging would do, for one task or a set, without doing it
    Preview(Preview),
    /// Undo a task's merge with a new commit
    Revert(Revert),
    /// Make a failed task ready again
    Reset(Show),
    /// Delete a task; its worktree is kept or snapshotted
    Delete(Show),
    /// Show a task's runs
    Runs(Show),
}

impl TaskCommand {
    /// The one task that the command is about, as it was typed.
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::Show(one) | Self::Reset(one) | Self::Delete(one) | Self::Runs(one) => Some(&one.task),
            Self::Run(Run { tasks, .. })
            | Self::Cancel(Cancel { tasks })
            | Self::Wait(Wait { tasks, .. })
            | Self::Preview(Preview { tasks, .. }) => tasks.first().filter(|_| tasks.len() == 1).map(String::as_str),
            Self::Continue(Continue { task, .. })
            | Self::Diff(Diff { task, .. })
            | Self::Log(Log { task, .. })
            | Self::Review(Review { task, .. })
            | Self::Merge(Merge { task, .. })
            | Self::Revert(Revert { task, .. }) => Some(task),
            Self::Answer(answer) => answer.task.as_deref(),
            Self::Add(_) | Self::List(_) => None,
        }
    }
}

#[derive(Debug, Args)]
pub struct Add {
    /// One line
    pub title: String,
    /// The list's UUID or name; the only list otherwise
    #[arg(long)]
    pub list: Option<String>,
    /// What the agent is told; `-` reads standard input
    #[arg(long, short)]
    pub description: Option<String>,
    /// Put it in the queue
    #[arg(long)]
    pub queue: bool,
    /// critical, high, medium or low
    #[arg(long)]
    pub priority: Option<String>,
    /// Agent profile, by name or UUID
    #[arg(long)]
    pub profile: Option<String>,
    /// Model
    #[arg(long)]
    pub model: Option<String>,
    /// A task that must be done first
    #[arg(long = "blocked-by", value_name = "TASK")]
    pub blocked_by: Vec<String>,
    /// Never started by the queue
    #[arg(long)]
    pub manual: bool,
    /// Not started before, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub due: Option<String>,
    /// Makes a retry safe
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
pub struct Show {
    /// UUID or short id (TY-42)
    pub task: String,
}

#[derive(Debug, Args)]
pub struct List {
    /// Only of this list (UUID or name)
    #[arg(long)]
    pub list: Option<String>,
    /// Only with this status
    #[arg(long)]
    pub status: Option<String>,
    /// Only with this text in title or description
    #[arg(long)]
    pub query: Option<String>,
    /// Archived ones too
    #[arg(long)]
    pub archived: bool,
    /// Most rows
    #[arg(long, default_value_t = 50)]
    pub limit: i64,
    /// Where the last page ended
    #[arg(long)]
    pub cursor: Option<String>,
}

#[derive(Debug, Args)]
pub struct Run {
    /// Tasks by UUID or short id
    #[arg(required = true)]
    pub tasks: Vec<String>,
    /// Past the queue, in the override slot
    #[arg(long)]
    pub now: bool,
    /// Wait until they have ended; exit codes as with `task wait`
    #[arg(long)]
    pub wait: bool,
}

#[derive(Debug, Args)]
pub struct Continue {
    /// UUID or short id
    pub task: String,
    /// What the agent is told; `-` reads standard input
    pub prompt: String,
    /// Makes a retry safe
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
pub struct Cancel {
    /// Tasks by UUID or short id
    #[arg(required = true)]
    pub tasks: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Answer {
    /// The task, when it has one open request; show all open requests without it
    pub task: Option<String>,
    /// The request's UUID, when there are several
    #[arg(long, value_name = "UUID")]
    pub question: Option<String>,
    /// Allow it
    #[arg(long, conflicts_with = "deny")]
    pub allow: bool,
    /// Refuse it, with a reason for the agent
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "a person declined")]
    pub deny: Option<String>,
    /// Choose one of the offered options
    #[arg(long, value_name = "OPTION", conflicts_with_all = ["allow", "deny"])]
    pub option: Option<String>,
}

#[derive(Debug, Args)]
pub struct Diff {
    /// UUID or short id
    pub task: String,
    /// Only this file
    #[arg(long)]
    pub path: Option<String>,
    /// Names and counts only
    #[arg(long)]
    pub stat: bool,
}

#[derive(Debug, Args)]
pub struct Log {
    /// UUID or short id
    pub task: String,
    /// A run other than the latest
    #[arg(long, value_name = "UUID")]
    pub run: Option<String>,
    /// How many bytes from its end
    #[arg(long, default_value_t = 65_536, value_name = "BYTES")]
    pub tail: i64,
}

#[derive(Debug, Args)]
pub struct Wait {
    /// Tasks by UUID or short id
    #[arg(required = true)]
    pub tasks: Vec<String>,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("decision").required(true))]
pub struct Review {
    /// UUID or short id
    pub task: String,
    /// Merge it
    #[arg(long, group = "decision")]
    pub approve: bool,
    /// Send it back to the same session with this feedback
    #[arg(long, group = "decision", value_name = "FEEDBACK")]
    pub reject: Option<String>,
    /// Put it aside as ready
    #[arg(long, group = "decision")]
    pub park: bool,
    /// Call it off
    #[arg(long, group = "decision")]
    pub cancel: bool,
    /// merge, squash or rebase
    #[arg(long, value_parser = ["merge", "squash", "rebase"])]
    pub strategy: Option<String>,
    /// The branch to merge into
    #[arg(long)]
    pub target: Option<String>,
    /// Refuse when the task's branch isn't at this commit
    #[arg(long, value_name = "COMMIT")]
    pub expected_head: Option<String>,
}

#[derive(Debug, Args)]
pub struct Merge {
    /// UUID or short id
    pub task: String,
    /// merge, squash or rebase
    #[arg(long, value_parser = ["merge", "squash", "rebase"])]
    pub strategy: Option<String>,
    /// The branch to merge into
    #[arg(long)]
    pub target: Option<String>,
    /// The commit's message
    #[arg(long, short)]
    pub message: Option<String>,
    /// Refuse when the task's branch isn't at this commit
    #[arg(long, value_name = "COMMIT")]
    pub expected_head: Option<String>,
    /// Open a conflict in a private worktree instead of refusing
    #[arg(long, conflicts_with_all = ["continue", "abort"])]
    pub leave_open: bool,
    /// Go on with an open merge whose conflicts are resolved
    #[arg(long = "continue", conflicts_with = "abort")]
    pub r#continue: bool,
    /// Give an open merge up
    #[arg(long)]
    pub abort: bool,
}

#[derive(Debug, Args)]
pub struct Preview {
    /// One task, or several to be merged one after another
    #[arg(required = true)]
    pub tasks: Vec<String>,
    /// The branch to merge into
    #[arg(long)]
    pub target: Option<String>,
}

#[derive(Debug, Args)]
pub struct Revert {
    /// UUID or short id
    pub task: String,
    /// The branch it was merged into
    #[arg(long)]
    pub target: Option<String>,
    /// The worktree whose merge is meant, by UUID; the task's current one otherwise
    #[arg(long)]
    pub worktree: Option<String>,
}
