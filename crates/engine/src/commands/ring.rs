//! Keeps what waits for what free of rings: blockers, and parents that wait for their children.
//!
//! Owns no state; reads the graph as far as it has to. The caller holds the workspace's lock, so that two
//! updates that are each fine alone can't close a ring together.

use serde_json::json;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use taskyard_domain::id::TaskId;
use taskyard_domain::task::Task;
use taskyard_domain::{Error, Result};
use taskyard_store::Read;

/// Refuses that `task` waits for `blocker` when `blocker` waits for `task` already, in however many steps.
///
/// # Errors
/// `FAILED_PRECONDITION` about `field` naming the ring.
pub(crate) async fn check(read: &mut Read, field: &str, task: &Task, blocker: &Task) -> Result<()> {
    let Some(path) = path(read, blocker, task.id).await? else { return Ok(()) };
    let names: Vec<String> = std::iter::once(task.short_id.to_string()).chain(path).collect();
    let ring = names.join(" → ");
    Err(Error::precondition(format!("{field}: {} can't wait for {}, because that closes a ring: {ring}", task.short_id, blocker.short_id))
        .with_field(field)
        .with_details(json!({ "ring": names }))
        .with_hint("remove one of these dependencies first (a parent waits for its children)"))
}

/// The short ids on the shortest way from `from` to `to` along "waits for", both included.
async fn path(read: &mut Read, from: &Task, to: TaskId) -> Result<Option<Vec<String>>> {
    let mut before: BTreeMap<TaskId, Option<TaskId>> = BTreeMap::from([(from.id, None)]);
    let mut names: BTreeMap<TaskId, String> = BTreeMap::from([(from.id, from.short_id.to_string())]);
    let mut next = VecDeque::from([from.id]);
    while let Some(id) = next.pop_front() {
        if id == to {
            return Ok(Some(trail(&before, &names, to)));
        }
        let mut waits_for = super::named::blockers(read, id).await?;
        waits_for.extend(read.task_children(id).await?);
        for task in waits_for {
            if let Entry::Vacant(unseen) = before.entry(task.id) {
                unseen.insert(Some(id));
                names.insert(task.id, task.short_id.to_string());
                next.push_back(task.id);
            }
        }
    }
    Ok(None)
}

fn trail(before: &BTreeMap<TaskId, Option<TaskId>>, names: &BTreeMap<TaskId, String>, end: TaskId) -> Vec<String> {
    let mut trail = Vec::new();
    let mut at = Some(end);
    while let Some(id) = at {
        trail.extend(names.get(&id).cloned());
        at = before.get(&id).copied().flatten();
    }
    trail.reverse();
    trail
}
