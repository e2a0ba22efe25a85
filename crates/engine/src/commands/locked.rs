//! Takes hold of what a command is about to change.

use crate::{Caller, handle};
use taskyard_domain::task::Task;
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// The task that `handle` names, locked until the transaction ends.
pub(crate) async fn task(tx: &mut Tx, caller: &Caller, field: &str, handle: &str) -> Result<Task> {
    let found = handle::task(tx, caller, field, handle).await?;
    tx.task_lock(found.id).await?.ok_or_else(|| Error::not_found("task", handle).with_field(field))
}
