//! The few ways in which commands write: a task's status, an audit entry, an idempotent result.

use crate::Caller;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use taskyard_domain::audit::{About, Action, NewEntry};
use taskyard_domain::event::{Kind, NewEvent};
use taskyard_domain::id::WorkspaceId;
use taskyard_domain::run::Run;
use taskyard_domain::task::{self, Context, Fact, Task};
use taskyard_domain::{Error, Result};
use taskyard_store::Tx;

/// How long an idempotency key is remembered.
const KEY_LIFE: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// Moves a task's status by `fact`, stores the task and writes the event. The only writer of statuses.
pub(crate) async fn status(tx: &mut Tx, task: &mut Task, fact: Fact, context: Context) -> Result<()> {
    let previous = task.status;
    task.status =
        task::next(previous, fact, context).map_err(|error| Error { message: format!("{}: {}", task.short_id, error.message), ..error })?;
    task.updated_at = tx.now();
    tx.task_update(task).await?;
    if task.status != previous {
        let data = json!({ "status": task.status, "previous_status": previous, "short_id": task.short_id });
        tx.event(NewEvent::new(task.workspace_id, Kind::TaskStatusChanged).task(task.id).data(data));
    }
    Ok(())
}

/// Stores a task whose fields changed and writes the event.
pub(crate) async fn task(tx: &mut Tx, task: &mut Task, fields: &[&str]) -> Result<()> {
    task.updated_at = tx.now();
    tx.task_update(task).await?;
    tx.event(NewEvent::new(task.workspace_id, Kind::TaskUpdated).task(task.id).data(json!({ "fields": fields })));
    Ok(())
}

/// Writes an audit entry.
pub(crate) async fn audit(
    tx: &mut Tx,
    caller: &Caller,
    workspace: WorkspaceId,
    action: Action,
    target: About,
    metadata: Value,
) -> Result<()> {
    audit_as(tx, caller, None, workspace, action, target, metadata).await
}

/// Writes an audit entry about a run or claim, with the label that the caller gave for itself.
pub(crate) async fn audit_run(tx: &mut Tx, caller: &Caller, label: Option<&str>, run: &Run, action: Action, metadata: Value) -> Result<()> {
    audit_as(tx, caller, label, run.workspace_id, action, About::from(run), metadata).await
}

/// Writes an audit entry with the label that the caller gave for itself.
async fn audit_as(
    tx: &mut Tx,
    caller: &Caller,
    label: Option<&str>,
    workspace: WorkspaceId,
    action: Action,
    target: About,
    metadata: Value,
) -> Result<()> {
    tx.audit(NewEntry {
        workspace_id: workspace,
        actor: caller.actor.clone(),
        actor_label: label.map(str::to_owned),
        face: caller.face,
        action,
        target_type: target.kind().into(),
        target_id: target.id(),
        task_id: target.task(),
        metadata: brief(metadata),
    })
    .await
}

/// Most of a text, characters, and most entries of a list in an audit entry: a page of them is small, whatever they are of.
const FACT: usize = 200;
const FACTS: usize = 20;

/// The same facts within their bounds.
fn brief(facts: Value) -> Value {
    match facts {
        Value::String(text) if text.chars().count() > FACT => {
            Value::String(text.chars().take(FACT - 1).chain(std::iter::once('…')).collect())
        }
        Value::Array(all) => {
            let further = all.len().saturating_sub(FACTS);
            let mut shown: Vec<Value> = all.into_iter().take(FACTS).map(brief).collect();
            if further > 0 {
                shown.push(format!("and {further} more").into());
            }
            Value::Array(shown)
        }
        Value::Object(facts) => Value::Object(facts.into_iter().map(|(name, fact)| (name, brief(fact))).collect()),
        other => other,
    }
}

/// An idempotency key with the call it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    key: String,
    caller: String,
    tool: &'static str,
    args_hash: String,
}

impl Key {
    /// The key of a call, if it has one. `args` is the whole input, without which the same key is a conflict.
    pub(crate) fn of(caller: &Caller, tool: &'static str, key: Option<&str>, args: &impl Serialize) -> Result<Option<Self>> {
        let Some(key) = key else { return Ok(None) };
        if key.is_empty() || key.len() > 200 {
            return Err(Error::invalid("idempotency_key", "idempotency_key takes 1 to 200 bytes"));
        }
        let args = serde_json::to_vec(args).map_err(|e| Error::internal(format!("can't hash the arguments of {tool}: {e}")))?;
        let args_hash = Sha256::digest(&args).iter().map(|b| format!("{b:02x}")).collect();
        Ok(Some(Self { key: key.into(), caller: caller.scope(), tool, args_hash }))
    }

    /// The stored result of the same call, if there is one.
    pub(crate) async fn replay<T: DeserializeOwned>(this: Option<&Self>, tx: &mut Tx, workspace: WorkspaceId) -> Result<Option<T>> {
        let Some(key) = this else { return Ok(None) };
        let oldest = tx.now().checked_sub(KEY_LIFE).unwrap_or(jiff::Timestamp::MIN);
        let Some(stored) = tx.idempotency_fetch(workspace, &key.caller, &key.key, oldest).await? else { return Ok(None) };
        if stored.tool != key.tool || stored.args_hash != key.args_hash {
            return Err(Error::conflict(format!("idempotency_key was used before for {} with other arguments", stored.tool))
                .with_field("idempotency_key")
                .with_hint("use a new key for a new call"));
        }
        let result =
            serde_json::from_value(stored.result).map_err(|e| Error::internal(format!("the stored result of {}: {e}", key.tool)))?;
        Ok(Some(result))
    }

    /// Stores the result of the call in its transaction.
    pub(crate) async fn keep(this: Option<&Self>, tx: &mut Tx, workspace: WorkspaceId, result: &impl Serialize) -> Result<()> {
        let Some(key) = this else { return Ok(()) };
        let result = serde_json::to_value(result).map_err(|e| Error::internal(format!("the result of {}: {e}", key.tool)))?;
        tx.idempotency_insert(workspace, &key.caller, &key.key, key.tool, &key.args_hash, result).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_have_bounds() {
        let long = json!({ "a": "ä".repeat(201), "b": (0..22).collect::<Vec<i32>>(), "c": "x".repeat(200), "d": null });
        let short = brief(long);
        assert_eq!(short["a"].as_str().map(|text| (text.chars().count(), text.ends_with('…'))), Some((200, true)));
        assert_eq!((short["b"].as_array().map(Vec::len), &short["b"][20]), (Some(21), &json!("and 2 more")));
        assert_eq!((short["c"].as_str().map(str::len), &short["d"]), (Some(200), &Value::Null));
    }
}
