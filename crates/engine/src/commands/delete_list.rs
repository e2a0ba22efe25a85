//! `delete_list`: takes an empty list away.

use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::list::List;
use taskyard_domain::task::Task;
use taskyard_domain::{Error, Result};
use taskyard_store::{TaskFilter, Tx};

/// Tasks are counted up to here.
const COUNTED: i64 = 1000;

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
    let filter = TaskFilter { list: Some(list.id), include_archived: true, ..TaskFilter::all(list.workspace_id) };
    let tasks = tx.task_page(&filter, None, COUNTED).await?;
    if !tasks.is_empty() {
        return Err(in_use(&list, &tasks));
    }
    tx.list_delete(list.id).await?;
    let data = json!({ "list_id": list.id, "name": list.name });
    tx.event(NewEvent::new(list.workspace_id, Kind::ListDeleted).data(data.clone()));
    change::audit(tx, caller, list.workspace_id, Action::ListDeleted, About::List(list.id), data).await?;
    Ok(DeleteListOutput { deleted: true, list_id: list.id.to_string(), name: list.name })
}

fn in_use(list: &List, tasks: &[Task]) -> Error {
    let archived = tasks.iter().filter(|task| task.archived_at.is_some()).count();
    let least = if i64::try_from(tasks.len()).is_ok_and(|n| n >= COUNTED) { "at least " } else { "" };
    let some = if tasks.len() == 1 { "1 task is in it".to_owned() } else { format!("{least}{} tasks are in it", tasks.len()) };
    let of_those = if archived > 0 { format!(" ({archived} archived)") } else { String::new() };
    Error::precondition(format!("the list {} can't be deleted: {some}{of_those}", list.name))
        .with_field("list_id")
        .with_details(json!({ "tasks": tasks.len(), "archived": archived }))
        .with_hint("delete its tasks first with delete_task; list_tasks(list_id, include_archived: true) names them")
}
