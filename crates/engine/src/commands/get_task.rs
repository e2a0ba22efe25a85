//! `get_task`: everything about one task, in an answer of a size that every client can take.

use super::config::Scope;
use super::named::{self, TaskRef};
use super::paging;
use crate::resolve::Levels;
use crate::view::{RunView, TaskRow, cut};
use crate::{Caller, Effective, Engine, handle};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use taskyard_domain::question::Question;
use taskyard_domain::run::Run;
use taskyard_domain::task::Task;
use taskyard_domain::worktree::Worktree;
use taskyard_domain::{Result, Timestamp, merge};
use taskyard_store::Read;

/// The description in a default answer, bytes.
const DESCRIPTION: usize = 4 << 10;
/// Most related tasks of each sort that are named.
const RELATED: usize = 10;
/// Most of them where the rest of the answer is long.
const FEW: usize = 3;
/// What an answer may take that isn't asked for in full, bytes of JSON.
const SMALL: usize = 10_000;

/// Which task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetTask {
    /// UUID or short id.
    pub task_id: String,
    /// Whether the description comes whole.
    #[serde(default)]
    pub full: bool,
}

/// Related tasks: the first few, and how many there are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Related {
    /// How many there are.
    pub count: usize,
    /// The first of them.
    pub tasks: Vec<TaskRef>,
}

/// A task's worktree in few words.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorktreeSummary {
    /// UUID.
    pub id: String,
    /// `active`, `merged`, `kept` or `discarded`.
    pub state: String,
    /// Its folder.
    pub path: String,
    /// Whether the folder is there.
    pub has_folder: bool,
    /// Its branch.
    pub branch: String,
    /// The branch it was made from.
    pub base_branch: Option<String>,
    /// The commit it was made from.
    pub base_commit: String,
}

/// An open question of a task's agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QuestionSummary {
    /// The id that `answer_question` takes.
    pub question_bundle_id: String,
    /// `permission` or `question`.
    pub kind: String,
    /// What is asked, in a line.
    pub title: String,
    /// When it was asked.
    pub asked_at: Timestamp,
}

impl From<&Question> for QuestionSummary {
    fn from(question: &Question) -> Self {
        Self {
            question_bundle_id: question.id.to_string(),
            kind: question.kind.to_string(),
            title: cut(&question.title, 200).to_owned(),
            asked_at: question.created_at,
        }
    }
}

/// A task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetTaskOutput {
    /// What lists show of it.
    #[serde(flatten)]
    pub row: TaskRow,
    /// Its workspace.
    pub workspace_id: String,
    /// Its list's name.
    pub list: String,
    /// Its description, cut at 4 KB unless asked for in full.
    pub description: String,
    /// How long the description is.
    pub description_bytes: usize,
    /// Whether it was cut.
    pub description_truncated: bool,
    /// Place in the queue, lower first.
    pub sort_order: f64,
    /// On My Day.
    pub my_day: bool,
    /// Held back by a usage limit until then.
    pub not_before: Option<Timestamp>,
    /// Who made it.
    pub created_by: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// What it waits for.
    pub blocked_by: Related,
    /// Why a blocker won't finish by itself, and who has to decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_reasons: Vec<String>,
    /// What waits for it.
    pub blocks: Related,
    /// Its children.
    pub children: Related,
    /// Its worktree.
    pub worktree: Option<WorktreeSummary>,
    /// Its latest run.
    pub latest_run: Option<RunView>,
    /// Its primary session.
    pub session_id: Option<String>,
    /// What its agent asks now.
    pub open_questions: Vec<QuestionSummary>,
    /// Whether a merge of it is open for `continue_merge` or `abort_merge`.
    pub merge_open: bool,
    /// The folder in which the conflicts of the open merge are to be resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_worktree_path: Option<String>,
    /// What its runs use, with the level that each value comes from.
    pub config: BTreeMap<String, Effective>,
}

impl Engine {
    /// Everything about a task.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown task.
    pub async fn get_task(&self, caller: &Caller, input: GetTask) -> Result<GetTaskOutput> {
        let caller = caller.clone();
        self.store().read(move |read| Box::pin(async move { get(read, &caller, input).await })).await
    }
}

async fn get(read: &mut Read, caller: &Caller, input: GetTask) -> Result<GetTaskOutput> {
    let task = handle::task(read, caller, "task_id", &input.task_id).await?;
    let levels = Levels::of(read, task).await?;
    let task = &levels.task;
    let blockers = named::blockers(read, task.id).await?;
    let dependants = named::dependants(read, task.id).await?;
    let children = read.task_children(task.id).await?;
    let run = read.run_latest_for_task(task.id).await?;
    let open_questions = match run.as_ref().filter(|run| run.is_open()) {
        Some(run) => read.question_open_for_run(run.id).await?,
        None => Vec::new(),
    };
    let latest_run = match &run {
        Some(run) => Some(run_view(read, run).await?),
        None => None,
    };
    let open_merge = read.merge_list(task.id).await?.into_iter().find(|record| record.state == merge::State::Open);
    let shown = if input.full { task.description.as_str() } else { cut(&task.description, DESCRIPTION) };
    let mut config = Scope::of(&levels).effective(read).await?;
    if !input.full {
        config.values_mut().for_each(shorten);
    }
    let mut output = GetTaskOutput {
        row: TaskRow::from(task),
        workspace_id: task.workspace_id.to_string(),
        list: levels.list.name.clone(),
        description: shown.to_owned(),
        description_bytes: task.description.len(),
        description_truncated: shown.len() < task.description.len(),
        sort_order: task.sort_order,
        my_day: task.my_day,
        not_before: task.not_before,
        created_by: task.created_by.clone(),
        created_at: task.created_at,
        blocked_reasons: blockers.iter().filter_map(named::dead_end).take(RELATED).collect(),
        blocked_by: related(&blockers),
        blocks: related(&dependants),
        children: related(&children),
        worktree: read.worktree_current(task.id).await?.as_ref().map(summary),
        latest_run,
        session_id: read.session_primary(task.id).await?.map(|session| session.id.to_string()),
        open_questions: open_questions.iter().take(RELATED).map(QuestionSummary::from).collect(),
        merge_open: open_merge.is_some(),
        merge_worktree_path: open_merge.and_then(|record| record.merge_worktree_path),
        config,
    };
    if !input.full {
        output.fit();
    }
    Ok(output)
}

impl GetTaskOutput {
    /// Leaves out what a small answer has no room for: related tasks first, then the description's end.
    fn fit(&mut self) {
        if paging::size(self) <= SMALL {
            return;
        }
        for related in [&mut self.blocked_by, &mut self.blocks, &mut self.children] {
            related.tasks.truncate(FEW);
        }
        // A byte of the description takes at least a byte of JSON.
        let over = paging::size(self).saturating_sub(SMALL);
        if over > 0 {
            self.description.truncate(cut(&self.description, self.description.len().saturating_sub(over)).len());
            self.description_truncated = self.description.len() < self.description_bytes;
        }
    }
}

/// Long texts (a system prompt) are for `get_task_config`.
fn shorten(value: &mut Effective) {
    if let serde_json::Value::String(text) = &mut value.value
        && text.len() > 300
    {
        *text = format!("{}…", cut(text, 300));
    }
}

fn related(tasks: &[Task]) -> Related {
    Related { count: tasks.len(), tasks: tasks.iter().take(RELATED).map(TaskRef::from).collect() }
}

fn summary(worktree: &Worktree) -> WorktreeSummary {
    WorktreeSummary {
        id: worktree.id.to_string(),
        state: worktree.state.to_string(),
        path: worktree.path.clone(),
        has_folder: worktree.has_folder,
        branch: worktree.branch.clone(),
        base_branch: worktree.base_branch.clone(),
        base_commit: worktree.base_commit.clone(),
    }
}

/// The view of a run with its agent's and profile's names.
pub(crate) async fn run_view(read: &mut Read, run: &Run) -> Result<RunView> {
    let agent = match run.agent_id {
        Some(id) => read.agent_fetch(id).await?.map(|agent| agent.name),
        None => None,
    };
    let profile = match run.profile_id {
        Some(id) => read.profile_fetch(id).await?.map(|profile| profile.name),
        None => None,
    };
    let mut view = RunView::of(run, agent, profile);
    for text in [&mut view.exit_reason, &mut view.notes].into_iter().flatten() {
        text.truncate(cut(text, 500).len());
    }
    Ok(view)
}
