//! The step: a place that a workflow's tasks go through, with the prompt that holds there.

use crate::id::{ListId, StepId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// What a step is for; it ties the step to the statuses of tasks.
    Stage, "stage", {
        /// Tasks that nobody works on yet.
        Backlog = "backlog",
        /// Tasks that are being worked on.
        Work = "work",
        /// Work that a person looks at.
        Review = "review",
        /// Finished tasks.
        Done = "done",
    }
}

/// A step of a workflow (list).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its UUID.
    pub id: StepId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// The workflow (list) it belongs to.
    pub list_id: ListId,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub stage: Stage,
    /// Put after the workflow's prompt, before the task's description.
    pub prompt: String,
    /// Place in the workflow, lower first.
    pub sort_order: f64,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The step whose prompt holds while a task is worked on: the first one of stage `work`. `steps` come in their order.
pub fn working(steps: &[Step]) -> Option<&Step> {
    steps.iter().find(|step| step.stage == Stage::Work)
}

/// Whether finished work goes to a person before it is done.
pub fn has_review(steps: &[Step]) -> bool {
    steps.iter().any(|step| step.stage == Stage::Review)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn step(n: u128, stage: Stage) -> Step {
        Step {
            id: StepId(Uuid::from_u128(n)),
            workspace_id: WorkspaceId(Uuid::from_u128(1)),
            list_id: ListId(Uuid::from_u128(2)),
            name: format!("step {n}"),
            stage,
            prompt: String::new(),
            sort_order: 0.0,
            created_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn the_first_step_of_work_holds() {
        let steps = [step(1, Stage::Backlog), step(2, Stage::Work), step(3, Stage::Work)];
        assert_eq!(working(&steps).map(|step| step.id), Some(StepId(Uuid::from_u128(2))));
        assert_eq!(working(&steps[..1]), None);
    }

    #[test]
    fn a_review_step_means_review() {
        assert!(!has_review(&[step(1, Stage::Work), step(2, Stage::Done)]));
        assert!(has_review(&[step(1, Stage::Work), step(2, Stage::Review)]));
    }
}
