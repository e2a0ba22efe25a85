//! `get_task_config` and `set_task_config`: what a task sets for its own runs.

use super::check;
use super::config::{self, Change, ConfigView, Scope};
use crate::resolve::Levels;
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::Result;
use taskyard_domain::audit::{About, Action};
use taskyard_store::{Read, Tx};

const KEYS: &[&str] = &["agent_profile_id", "executor_profile_id", "target_branch", "model", "max_turns", "system_prompt"];

/// Which task's configuration to read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetTaskConfig {
    /// The task.
    pub task_id: String,
}

/// What to change in a task's configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetTaskConfig {
    /// The task.
    pub task_id: String,
    /// How it runs.
    #[serde(default)]
    pub agent_profile_id: Option<String>,
    /// Where it runs.
    #[serde(default)]
    pub executor_profile_id: Option<String>,
    /// The branch that it is merged into.
    #[serde(default)]
    pub target_branch: Option<String>,
    /// The model; blank inherits.
    #[serde(default)]
    pub model: Option<String>,
    /// Most turns of the agent's own loop.
    #[serde(default)]
    pub max_turns: Option<i64>,
    /// Added to the agent's system prompt.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// Keys to inherit again.
    #[serde(default)]
    pub clear: Vec<String>,
}

/// A task's configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskConfigOutput {
    /// Whether the call changed it; absent when it only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<bool>,
    /// The task.
    pub task_id: String,
    /// `TY-42`.
    pub short_id: String,
    /// What is set and what holds.
    #[serde(flatten)]
    pub config: ConfigView,
}

impl Engine {
    /// What the task sets for its runs, and what holds for them.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown task.
    pub async fn get_task_config(&self, caller: &Caller, input: GetTaskConfig) -> Result<TaskConfigOutput> {
        let caller = caller.clone();
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let task = handle::task(read, &caller, "task_id", &input.task_id).await?;
                    let levels = Levels::of(read, task).await?;
                    output(read, &levels, None).await
                })
            })
            .await
    }

    /// Changes what the task sets for its runs; a run that is open keeps what it started with.
    ///
    /// # Errors
    /// `NOT_FOUND` for what doesn't exist; `INVALID_ARGUMENT` naming the key.
    pub async fn set_task_config(&self, caller: &Caller, input: SetTaskConfig) -> Result<TaskConfigOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { set(tx, &caller, input).await })).await
    }
}

async fn set(tx: &mut Tx, caller: &Caller, input: SetTaskConfig) -> Result<TaskConfigOutput> {
    let task = super::locked::task(tx, caller, "task_id", &input.task_id).await?;
    let mut levels = Levels::of(tx, task).await?;
    let before = levels.task.config.clone();
    let change = Change {
        agent_profile_id: input.agent_profile_id,
        executor_profile_id: input.executor_profile_id,
        repository_id: None,
        target_branch: input.target_branch,
        model: input.model,
        max_turns: input.max_turns,
        system_prompt: input.system_prompt,
    };
    let named = change.apply(tx, levels.workspace.id, &mut levels.task.config, &input.clear, KEYS).await?;
    // A model that was set for another agent doesn't slip through with a new profile.
    let kept = change.agent_profile_id.as_ref().and(levels.task.config.model.clone());
    if let Some(text) = change.model.or(kept) {
        let runner = Scope::of(&levels).runner(tx).await?;
        levels.task.config.model = config::model(&text, runner.as_ref())?;
    }
    check::some(&named)?;
    Scope::of(&levels).check_model(tx, &named).await?;
    let updated = levels.task.config != before;
    if updated {
        change::task(tx, &mut levels.task, &named).await?;
        let target = About::Task(levels.task.id);
        change::audit(tx, caller, levels.workspace.id, Action::TaskConfigured, target, json!({ "fields": named })).await?;
    }
    output(tx, &levels, Some(updated)).await
}

async fn output(read: &mut Read, levels: &Levels, updated: Option<bool>) -> Result<TaskConfigOutput> {
    let config = Scope::of(levels).view(read).await?;
    Ok(TaskConfigOutput { updated, task_id: levels.task.id.to_string(), short_id: levels.task.short_id.to_string(), config })
}
