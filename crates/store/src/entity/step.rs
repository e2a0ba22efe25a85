//! Steps of workflows.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::values;
use taskyard_domain::Result;
use taskyard_domain::id::{ListId, StepId};
use taskyard_domain::step::Step;

entity!(Step, "step", "step", { id, workspace_id, list_id, name, stage, prompt, sort_order, created_at });

impl Tx {
    /// Stores a new step.
    ///
    /// # Errors
    /// `CONFLICT` when its workflow has a step of this name; `FAILED_PRECONDITION` when the workflow isn't in the workspace.
    pub async fn step_insert(&mut self, step: &Step) -> Result<()> {
        self.insert(step).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone; `CONFLICT` when the name is taken.
    pub async fn step_update(&mut self, step: &Step) -> Result<()> {
        self.update(step).await
    }

    /// Deletes a step.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn step_delete(&mut self, id: StepId) -> Result<()> {
        self.delete::<Step>(id).await
    }
}

impl Read {
    /// The workflow's steps in their order.
    pub async fn step_list(&mut self, list: ListId) -> Result<Vec<Step>> {
        self.select("WHERE list_id = $1 ORDER BY sort_order, created_at, id", values![list]).await
    }
}
