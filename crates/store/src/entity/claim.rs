//! What an outside agent may claim, and a backlog's pages: one condition for both.

use super::task::{ORDER, TaskCursor};
use crate::tx::{Read, Tx};
use crate::value::{Field as _, Value, values};
use std::fmt::Write as _;
use taskyard_domain::id::{ListId, TaskId, WorkspaceId};
use taskyard_domain::task::{Kind, Status, Task};
use taskyard_domain::{Result, Timestamp};

/// Among which items the next claim is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimable {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The workflow (list), if only one counts.
    pub list: Option<ListId>,
    /// What is due later than this doesn't count.
    pub now: Timestamp,
}

/// Which items of a backlog; every part that is given must fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BacklogFilter {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The kind.
    pub kind: Option<Kind>,
    /// The status.
    pub status: Option<Status>,
    /// Below this plan, directly or by an epic of it.
    pub plan: Option<TaskId>,
    /// Below this epic.
    pub epic: Option<TaskId>,
    /// Only what could be claimed at this moment.
    pub claimable_at: Option<Timestamp>,
}

/// Claimable at `$n`: what the queue could start, `ready` as well as `queued`. A limit of the account that would run it here
/// (`not_before`) doesn't concern an agent from outside.
fn claimable(now: usize) -> String {
    format!(
        " AND kind = 'task' AND status IN ('ready', 'queued') AND archived_at IS NULL AND manual = 0 \
         AND (due_at IS NULL OR due_at <= ${now}) \
         AND NOT EXISTS (SELECT 1 FROM run WHERE run.task_id = task.id AND run.state <> 'ended') \
         AND NOT EXISTS (SELECT 1 FROM merge_record m WHERE m.task_id = task.id AND m.state IN ('prepared', 'computed', 'open')) \
         AND NOT EXISTS (SELECT 1 FROM task_blocker b JOIN task other ON other.id = b.blocker_id \
         WHERE b.task_id = task.id AND other.status <> 'done')"
    )
}

impl Tx {
    /// The item that the next claim gets, locked until the end of the transaction: queued ones first, then the queue's
    /// order. What another transaction is just taking is passed over.
    pub async fn claimable_next(&mut self, among: Claimable) -> Result<Option<Task>> {
        let mut values = values![among.workspace, among.now];
        let mut sql = format!("WHERE workspace_id = $1{}", claimable(2));
        if let Some(list) = among.list {
            values.push(list.value());
            sql.push_str(" AND list_id = $3");
        }
        let lock = if self.conn.is_postgres() { "FOR NO KEY UPDATE SKIP LOCKED" } else { "" };
        let queued_first = "CASE status WHEN 'queued' THEN 0 ELSE 1 END";
        self.select_one(&format!("{sql} ORDER BY {queued_first}, sort_order, created_at, id LIMIT 1 {lock}"), values).await
    }
}

impl Read {
    /// At most `limit` items of a backlog behind `after`, in the order of tasks, archived ones left out.
    pub async fn backlog_page(&mut self, filter: &BacklogFilter, after: Option<TaskCursor>, limit: i64) -> Result<Vec<Task>> {
        let mut values = values![filter.workspace];
        let mut sql = String::from("WHERE workspace_id = $1 AND archived_at IS NULL");
        let mut add = |sql: &mut String, condition: &str, value: Value| {
            values.push(value);
            let _ = write!(sql, "{}", condition.replace("$$", &format!("${}", values.len())));
        };
        if let Some(kind) = filter.kind {
            add(&mut sql, " AND kind = $$", kind.value());
        }
        if let Some(status) = filter.status {
            add(&mut sql, " AND status = $$", status.value());
        }
        if let Some(epic) = filter.epic {
            add(&mut sql, " AND parent_id = $$", epic.value());
        }
        if let Some(plan) = filter.plan {
            let below = " AND (parent_id = $$ OR parent_id IN (SELECT e.id FROM task e WHERE e.parent_id = $$))";
            add(&mut sql, below, plan.value());
        }
        if let Some(now) = filter.claimable_at {
            values.push(now.value());
            sql.push_str(&claimable(values.len()));
        }
        if let Some(after) = after {
            let first = values.len() + 1;
            values.extend(values![after.sort_order, after.created_at, after.id]);
            let _ = write!(sql, " AND (sort_order, created_at, id) > (${first}, ${}, ${})", first + 1, first + 2);
        }
        values.push(limit.value());
        self.select(&format!("{sql} {ORDER} LIMIT ${}", values.len()), values).await
    }
}
