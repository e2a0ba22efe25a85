//! `update_list`: a list's name and place.

use super::check;
use crate::{Caller, Engine, change, handle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskyard_domain::Result;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_store::Tx;

/// What to change about a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UpdateList {
    /// The list.
    pub list_id: String,
    /// Its new name.
    #[serde(default)]
    pub name: Option<String>,
    /// Its new place among the lists, lower first.
    #[serde(default)]
    pub sort_order: Option<f64>,
}

/// The list as it is now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UpdateListOutput {
    /// Whether anything changed.
    pub updated: bool,
    /// The list.
    pub list_id: String,
    /// Its name.
    pub name: String,
    /// Its place.
    pub sort_order: f64,
}

impl Engine {
    /// Renames a list or moves it among the others.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown list; `INVALID_ARGUMENT` for an empty or over-long name, or a call that changes nothing.
    pub async fn update_list(&self, caller: &Caller, input: UpdateList) -> Result<UpdateListOutput> {
        let caller = caller.clone();
        self.store().write(move |tx| Box::pin(async move { update(tx, &caller, input).await })).await
    }
}

async fn update(tx: &mut Tx, caller: &Caller, input: UpdateList) -> Result<UpdateListOutput> {
    let mut list = handle::list(tx, caller, "list_id", &input.list_id).await?;
    let before = list.clone();
    let mut named = Vec::new();
    if let Some(name) = &input.name {
        list.name = check::title("name", name)?;
        named.push("name");
    }
    if let Some(order) = input.sort_order {
        list.sort_order = check::order("sort_order", order)?;
        named.push("sort_order");
    }
    check::some(&named)?;
    let updated = list != before;
    if updated {
        tx.list_update(&list).await?;
        let data = json!({ "list_id": list.id, "fields": named });
        tx.event(NewEvent::new(list.workspace_id, Kind::ListUpdated).data(data.clone()));
        change::audit(tx, caller, list.workspace_id, Action::ListUpdated, About::List(list.id), data).await?;
    }
    Ok(UpdateListOutput { updated, list_id: list.id.to_string(), name: list.name, sort_order: list.sort_order })
}
