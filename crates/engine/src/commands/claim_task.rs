//! `claim_task`: an agent that Taskyard didn't start takes a backlog item and gets the prompt it is to follow.

use super::claim::{self, BacklogItem, Claim, Claimer, WHOLE};
use crate::change::Key;
use crate::view::cut;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::task::Task;
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// Claims an item.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimTask {
    /// Slug or UUID.
    pub workspace: String,
    /// UUID or short id.
    pub backlog_item_id: String,
    /// What the claimer calls itself.
    #[serde(default)]
    pub actor_user_id: Option<String>,
    /// A short text for the run.
    #[serde(default)]
    pub notes: Option<String>,
    /// Makes a repeated call give the first one's result.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// A claim that stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimTaskOutput {
    /// True.
    pub claimed: bool,
    /// The run that `complete_task` ends.
    pub run_id: String,
    /// Whether the caller's own claim stood before.
    pub reclaimed: bool,
    /// What to follow: of workspace, workflow and step, whole up to 64 KB.
    pub workflow_prompt: String,
    /// Whether that was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub workflow_prompt_truncated: bool,
    /// What to do.
    pub backlog_item: BacklogItem,
    /// Whether this is the result of an earlier call with the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl ClaimTaskOutput {
    pub(super) fn of(claim: &Claim, task: &Task) -> Self {
        let prompt = cut(&claim.workflow_prompt, WHOLE);
        Self {
            claimed: true,
            run_id: claim.run.id.to_string(),
            reclaimed: claim.reclaimed,
            workflow_prompt: prompt.to_owned(),
            workflow_prompt_truncated: prompt.len() < claim.workflow_prompt.len(),
            backlog_item: BacklogItem::from(task),
            replayed: false,
        }
    }
}

impl Engine {
    /// Claims an item for the caller. The same label claims it again without effect and gets the same run.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown workspace or an item that isn't in it; `ALREADY_CLAIMED` with the holder;
    /// `FAILED_PRECONDITION` for an archived item, an epic or a plan; `CONFLICT` for a key used for another call;
    /// `FORBIDDEN` for an agent that Taskyard runs.
    pub async fn claim_task(&self, caller: &Caller, input: ClaimTask) -> Result<ClaimTaskOutput> {
        caller.require_person("claim a task")?;
        let (engine, caller) = (self.clone(), caller.clone());
        self.store().write(move |tx| Box::pin(async move { claim(&engine, tx, &caller, input).await })).await
    }
}

async fn claim(engine: &Engine, tx: &mut Tx, caller: &Caller, input: ClaimTask) -> Result<ClaimTaskOutput> {
    let key = Key::of(caller, "claim_task", input.idempotency_key.as_deref(), &input)?;
    let claimer = Claimer::of(input.actor_user_id.as_deref(), input.notes.as_deref())?;
    let workspace = handle::workspace(tx, caller, "workspace", Some(&input.workspace)).await?;
    let task = handle::task_in(tx, caller, workspace.id, "backlog_item_id", &input.backlog_item_id).await?;
    // The lock makes racing claims of the item, and repeated ones, wait for each other.
    let task = tx.task_lock(task.id).await?;
    let mut task = task.ok_or_else(|| Error::not_found("task", &input.backlog_item_id).with_field("backlog_item_id"))?;
    if let Some(before) = Key::replay::<ClaimTaskOutput>(key.as_ref(), tx, workspace.id).await? {
        claim::still_held(tx, &before.run_id).await?;
        return Ok(ClaimTaskOutput { replayed: true, ..before });
    }
    let claim = engine.claim(tx, caller, &mut task, claimer).await?;
    let output = ClaimTaskOutput::of(&claim, &task);
    Key::keep(key.as_ref(), tx, workspace.id, &output).await?;
    Ok(output)
}
