//! Steps of workflows and the prompts of workspaces and workflows: what the effective workflow prompt is made of.

use crate::commands::check;
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use taskyard_domain::alias::Vocabulary as _;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::{ListId, StepId};
use taskyard_domain::list::List;
use taskyard_domain::step::{Stage, Step};
use taskyard_domain::{Error, Result};
use taskyard_store::{Read, Tx};

/// Longest prompt of a workspace, a workflow or a step, bytes.
const PROMPT: usize = 64 << 10;

/// Which workflow's steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepList {
    /// The list.
    pub list_id: String,
}

/// A new step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepAdd {
    /// The list.
    pub list_id: String,
    /// What people call it; unique in its workflow.
    pub name: String,
    /// `backlog`, `work`, `review` or `done`.
    #[serde(default = "work")]
    pub stage: String,
    /// Its prompt.
    #[serde(default)]
    pub prompt: Option<String>,
}

fn work() -> String {
    Stage::Work.to_string()
}

/// What to change about a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepUpdate {
    /// The list.
    pub list_id: String,
    /// UUID or name.
    pub step: String,
    /// Its new name.
    #[serde(default)]
    pub name: Option<String>,
    /// Its new stage.
    #[serde(default)]
    pub stage: Option<String>,
    /// Its new prompt; empty for none.
    #[serde(default)]
    pub prompt: Option<String>,
}

/// A step to remove.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepRemove {
    /// The list.
    pub list_id: String,
    /// UUID or name.
    pub step: String,
}

/// A workflow's new prompt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListPrompt {
    /// The list.
    pub list_id: String,
    /// The prompt; empty for none. Left out, nothing changes.
    #[serde(default)]
    pub prompt: Option<String>,
}

/// A step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepView {
    /// UUID.
    pub step_id: String,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub stage: String,
    /// Its prompt.
    pub prompt: String,
}

impl From<&Step> for StepView {
    fn from(step: &Step) -> Self {
        Self { step_id: step.id.to_string(), name: step.name.clone(), stage: step.stage.to_string(), prompt: step.prompt.clone() }
    }
}

/// A workflow as it is now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkflowOutput {
    /// Whether anything changed.
    pub updated: bool,
    /// The list.
    pub list_id: String,
    /// Its name.
    pub list: String,
    /// Its prompt.
    pub prompt: String,
    /// Its steps in their order.
    pub steps: Vec<StepView>,
}

/// A prompt of bounded size.
pub(super) fn prompt(field: &str, text: &str) -> Result<String> {
    check::text(field, text, PROMPT)
}

impl Engine {
    /// A workflow's prompt and steps.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown list; `FORBIDDEN` for a run.
    pub async fn step_list(&self, caller: &Caller, input: StepList) -> Result<WorkflowOutput> {
        caller.require_person("look at workflows")?;
        let caller = caller.clone();
        self.store()
            .read(move |read| {
                Box::pin(async move {
                    let list = handle::list(read, &caller, "list_id", &input.list_id).await?;
                    output(read, &list, false).await
                })
            })
            .await
    }

    /// Adds a step behind the others.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` naming the field; `NOT_FOUND`; `CONFLICT` for a name that is taken; `FORBIDDEN` for a run.
    pub async fn step_add(&self, caller: &Caller, input: StepAdd) -> Result<WorkflowOutput> {
        self.change_steps(caller, input.list_id.clone(), move |tx, list, steps| {
            let step = Step {
                id: StepId::new(tx.ids()),
                workspace_id: list.workspace_id,
                list_id: list.id,
                name: check::title("name", &input.name)?,
                stage: Stage::read("stage", &input.stage)?,
                prompt: prompt("prompt", input.prompt.as_deref().unwrap_or_default())?,
                sort_order: steps.iter().map(|step| step.sort_order).fold(0.0, f64::max) + 1.0,
                created_at: tx.now(),
            };
            Ok(Change::Add(step))
        })
        .await
    }

    /// Changes a step's name, stage or prompt.
    ///
    /// # Errors
    /// As [`Engine::step_add`]; `NOT_FOUND` for an unknown step, listing those there are.
    pub async fn step_update(&self, caller: &Caller, input: StepUpdate) -> Result<WorkflowOutput> {
        self.change_steps(caller, input.list_id.clone(), move |_, _, steps| {
            let mut step = found(steps, &input.step)?.clone();
            let before = step.clone();
            if let Some(name) = &input.name {
                step.name = check::title("name", name)?;
            }
            if let Some(stage) = &input.stage {
                step.stage = Stage::read("stage", stage)?;
            }
            if let Some(text) = &input.prompt {
                step.prompt = prompt("prompt", text)?;
            }
            Ok(if step == before { Change::None } else { Change::Update(step) })
        })
        .await
    }

    /// Removes a step.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown list or step; `FORBIDDEN` for a run.
    pub async fn step_remove(&self, caller: &Caller, input: StepRemove) -> Result<WorkflowOutput> {
        self.change_steps(caller, input.list_id.clone(), move |_, _, steps| Ok(Change::Remove(found(steps, &input.step)?.clone()))).await
    }

    /// Changes a workflow's prompt.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an over-long prompt; `NOT_FOUND`; `FORBIDDEN` for a run.
    pub async fn list_prompt(&self, caller: &Caller, input: ListPrompt) -> Result<WorkflowOutput> {
        self.change_steps(caller, input.list_id.clone(), move |_, list, _| {
            let text = input.prompt.as_deref().map(|text| prompt("prompt", text)).transpose()?;
            Ok(text.filter(|text| *text != list.prompt).map_or(Change::None, Change::Prompt))
        })
        .await
    }

    async fn change_steps<F>(&self, caller: &Caller, handle: String, decide: F) -> Result<WorkflowOutput>
    where
        F: Fn(&Tx, &List, &[Step]) -> Result<Change> + Send + Sync + 'static,
    {
        caller.require_person("change workflows")?;
        let caller = caller.clone();
        self.store()
            .write(move |tx| {
                Box::pin(async move {
                    let list = handle::list(tx, &caller, "list_id", &handle).await?;
                    tx.workspace_lock(list.workspace_id).await?;
                    let mut list = tx.list_fetch(list.id).await?.ok_or_else(|| Error::not_found("list", &handle).with_field("list_id"))?;
                    let steps = tx.step_list(list.id).await?;
                    let change = decide(tx, &list, &steps)?;
                    let updated = apply(tx, &caller, &mut list, change).await?;
                    output(tx, &list, updated).await
                })
            })
            .await
    }
}

/// What happens to a workflow.
enum Change {
    None,
    Add(Step),
    Update(Step),
    Remove(Step),
    Prompt(String),
}

async fn apply(tx: &mut Tx, caller: &Caller, list: &mut List, change: Change) -> Result<bool> {
    let (action, about, data): (Action, About, Value) = match change {
        Change::None => return Ok(false),
        Change::Add(step) => {
            tx.step_insert(&step).await?;
            (Action::StepAdded, About::Step(step.id), json!({ "list_id": list.id, "name": step.name, "stage": step.stage }))
        }
        Change::Update(step) => {
            tx.step_update(&step).await?;
            (Action::StepUpdated, About::Step(step.id), json!({ "list_id": list.id, "name": step.name, "stage": step.stage }))
        }
        Change::Remove(step) => {
            tx.step_delete(step.id).await?;
            (Action::StepRemoved, About::Step(step.id), json!({ "list_id": list.id, "name": step.name }))
        }
        Change::Prompt(text) => {
            list.prompt = text;
            tx.list_update(list).await?;
            (Action::ListUpdated, About::List(list.id), json!({ "list_id": list.id, "fields": ["prompt"] }))
        }
    };
    tx.event(NewEvent::new(list.workspace_id, Kind::ListUpdated).data(data.clone()));
    change::audit(tx, caller, list.workspace_id, action, about, data).await?;
    Ok(true)
}

fn found<'a>(steps: &'a [Step], handle: &str) -> Result<&'a Step> {
    let id: Option<StepId> = handle.parse().ok();
    steps.iter().find(|step| Some(step.id) == id || step.name == handle).ok_or_else(|| {
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        let known = if names.is_empty() { "the workflow has none".to_owned() } else { format!("steps: {}", names.join(", ")) };
        Error::not_found("step", handle).with_field("step").with_hint(known)
    })
}

async fn output(read: &mut Read, list: &List, updated: bool) -> Result<WorkflowOutput> {
    let id: ListId = list.id;
    let steps = read.step_list(id).await?;
    Ok(WorkflowOutput {
        updated,
        list_id: id.to_string(),
        list: list.name.clone(),
        prompt: list.prompt.clone(),
        steps: steps.iter().map(StepView::from).collect(),
    })
}
