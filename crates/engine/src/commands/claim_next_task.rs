//! `claim_next_task`: the first item that may be claimed, claimed in the same moment.

use super::claim::{self, BacklogItem, Claimer};
use super::claim_task::ClaimTaskOutput;
use crate::change::Key;
use crate::{Caller, Engine, handle};
use serde::{Deserialize, Serialize};
use taskyard_domain::Result;
use taskyard_store::{Claimable, Tx};

/// Claims the next item.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimNextTask {
    /// Slug or UUID.
    pub workspace: String,
    /// What the claimer calls itself.
    #[serde(default)]
    pub actor_user_id: Option<String>,
    /// Only items of this workflow (list).
    #[serde(default)]
    pub workflow_id: Option<String>,
    /// A short text for the run.
    #[serde(default)]
    pub notes: Option<String>,
    /// Makes a repeated call give the first one's result.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// A claim, if there was anything to claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimNextTaskOutput {
    /// Whether an item was there and is claimed now.
    pub found: bool,
    /// The run that `complete_task` ends.
    pub run_id: Option<String>,
    /// What to follow: of workspace, workflow and step.
    pub workflow_prompt: Option<String>,
    /// Whether that was cut at 64 KB.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub workflow_prompt_truncated: bool,
    /// What to do.
    pub backlog_item: Option<BacklogItem>,
    /// Whether this is the result of an earlier call with the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl ClaimNextTaskOutput {
    fn of(claimed: Option<ClaimTaskOutput>) -> Self {
        let found = claimed.is_some();
        let (run_id, prompt, cut, item) = match claimed {
            Some(c) => (Some(c.run_id), Some(c.workflow_prompt), c.workflow_prompt_truncated, Some(c.backlog_item)),
            None => (None, None, false, None),
        };
        Self { found, run_id, workflow_prompt: prompt, workflow_prompt_truncated: cut, backlog_item: item, replayed: false }
    }
}

impl Engine {
    /// Claims the first claimable item: of kind task, ready or queued, unblocked, due, not manual, not archived, without
    /// an open run; queued ones first, then in the queue's order. None is no error.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown workspace or workflow; `CONFLICT` for a key used for another call; `FORBIDDEN` for an
    /// agent that Taskyard runs.
    pub async fn claim_next_task(&self, caller: &Caller, input: ClaimNextTask) -> Result<ClaimNextTaskOutput> {
        caller.require_person("claim a task")?;
        let (engine, caller) = (self.clone(), caller.clone());
        self.store().write(move |tx| Box::pin(async move { claim_next(&engine, tx, &caller, input).await })).await
    }
}

async fn claim_next(engine: &Engine, tx: &mut Tx, caller: &Caller, input: ClaimNextTask) -> Result<ClaimNextTaskOutput> {
    let key = Key::of(caller, "claim_next_task", input.idempotency_key.as_deref(), &input)?;
    let claimer = Claimer::of(input.actor_user_id.as_deref(), input.notes.as_deref())?;
    let workspace = handle::workspace(tx, caller, "workspace", Some(&input.workspace)).await?;
    let list = match &input.workflow_id {
        Some(list) => Some(handle::list_in(tx, caller, workspace.id, "workflow_id", list).await?.id),
        None => None,
    };
    if key.is_some() {
        // A repeated call waits for the first one, which locks another row than it would itself.
        tx.workspace_lock(workspace.id).await?;
    }
    if let Some(before) = Key::replay::<ClaimNextTaskOutput>(key.as_ref(), tx, workspace.id).await? {
        if let Some(run) = &before.run_id {
            claim::still_held(tx, run).await?;
        }
        return Ok(ClaimNextTaskOutput { replayed: true, ..before });
    }
    let among = Claimable { workspace: workspace.id, list, now: tx.now() };
    let Some(mut task) = tx.claimable_next(among).await? else { return Ok(ClaimNextTaskOutput::of(None)) };
    let claim = engine.claim(tx, caller, &mut task, claimer).await?;
    let output = ClaimNextTaskOutput::of(Some(ClaimTaskOutput::of(&claim, &task)));
    Key::keep(key.as_ref(), tx, workspace.id, &output).await?;
    Ok(output)
}
