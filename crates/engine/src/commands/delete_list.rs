//! `delete_list`: takes an empty list away.

use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// Which list to delete.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeleteList {
    /// The list.
    pub list_id: String,
}

/// The list that is gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeleteListOutput {
    /// True.
    pub deleted: bool,
    /// The list.
    pub list_id: String,
    /// Its name.
    pub name: String,
}

impl Engine {
    /// Deletes a list that has no tasks; its repository stays.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown list; `FAILED_PRECONDITION` with the count while tasks are in it.
    pub async fn delete_list(&self, caller: &Caller, input: DeleteList) -> Result<DeleteListOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { delete(tx, &caller, input).await })).await
    }
}

async fn delete(tx: &mut Tx, caller: &Caller, input: DeleteList) -> Result<DeleteListOutput> {
    let list = handle::list(tx, caller, "list_id", &input.list_id).await?;
    let tasks: i64 = tx.task_counts_by_status(list.id).await?.into_iter().map(|(_, n)| n).sum();
    if tasks > 0 {
        let some = if tasks == 1 { "1 task is".into() } else { format!("{tasks} tasks are") };
        let hint = "delete its tasks first with delete_task or batch_delete_tasks; list_tasks(list_id, include_archived: true) names them";
        return Err(Error::precondition(format!("the list {} can't be deleted: {some} in it", list.name))
            .with_field("list_id")
            .with_details(json!({ "tasks": tasks }))
            .with_hint(hint));
    }
    tx.list_delete(list.id).await?;
    let data = json!({ "list_id": list.id, "name": list.name });
    tx.event(NewEvent::new(list.workspace_id, Kind::ListDeleted).data(data.clone()));
    change::audit(tx, caller, list.workspace_id, "list.deleted", ("list", list.id), data).await?;
    Ok(DeleteListOutput { deleted: true, list_id: list.id.to_string(), name: list.name })
}
