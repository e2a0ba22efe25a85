//! Tasks, their order and their blockers.

use super::entity;
use crate::tx::{Read, Tx};
use crate::value::{Field, Value, values};
use std::fmt::Write as _;
use taskyard_domain::id::{ListId, TaskId, WorkspaceId};
use taskyard_domain::name::ShortId;
use taskyard_domain::task::{Kind, Status, Task};
use taskyard_domain::{Error as Domain, Result, Timestamp};

entity!(Task, "task", "task", {
    id, workspace_id, list_id, short_id, title, description, kind, slug, priority, parent_id, status, sort_order, due_at, manual, my_day,
    config as json, not_before, last_outcome, failure, interruptions, next_prompt, created_by, archived_at, created_at, updated_at,
}, derived { "search" => searchable });

/// What a search looks at. Lower case is made here, because SQLite knows only that of ASCII.
fn searchable(task: &Task) -> String {
    format!("{} {}\n{}", task.short_id, task.title, task.description).to_lowercase()
}

/// Which tasks; every part that is given must fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFilter {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The list.
    pub list: Option<ListId>,
    /// One of these statuses; any when empty.
    pub status: Vec<Status>,
    /// Children of this task.
    pub parent: Option<TaskId>,
    /// Every word of it in short id, title or description, in any letter case.
    pub query: Option<String>,
    /// Archived ones too.
    pub include_archived: bool,
    /// The kind.
    pub kind: Option<Kind>,
}

impl TaskFilter {
    /// Everything in `workspace` that isn't archived.
    pub fn all(workspace: WorkspaceId) -> Self {
        Self { workspace, list: None, status: Vec::new(), parent: None, query: None, include_archived: false, kind: None }
    }
}

/// A place in the order of tasks: the next page begins behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskCursor {
    /// The task's place in the queue.
    pub sort_order: f64,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its id.
    pub id: TaskId,
}

impl From<&Task> for TaskCursor {
    fn from(task: &Task) -> Self {
        Self { sort_order: task.sort_order, created_at: task.created_at, id: task.id }
    }
}

/// The order of tasks everywhere.
pub(super) const ORDER: &str = "ORDER BY sort_order, created_at, id";

/// A `WHERE` clause that grows together with its values.
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, condition: &str, value: &impl Field) {
        self.values.push(value.value());
        let _ = write!(self.sql, " AND {condition} ${}", self.values.len());
    }
}

fn conditions(filter: &TaskFilter, after: Option<TaskCursor>) -> Conditions {
    let mut found = Conditions { sql: "WHERE workspace_id = $1".into(), values: values![filter.workspace] };
    if let Some(list) = &filter.list {
        found.add("list_id =", list);
    }
    if let Some(parent) = &filter.parent {
        found.add("parent_id =", parent);
    }
    if let Some(kind) = &filter.kind {
        found.add("kind =", kind);
    }
    if !filter.include_archived {
        found.sql.push_str(" AND archived_at IS NULL");
    }
    if !filter.status.is_empty() {
        let first = found.values.len() + 1;
        found.values.extend(filter.status.iter().map(Field::value));
        let marks: Vec<String> = (first..=found.values.len()).map(|n| format!("${n}")).collect();
        let _ = write!(found.sql, " AND status IN ({})", marks.join(", "));
    }
    for word in filter.query.iter().flat_map(|query| query.split_whitespace()) {
        found.add("search LIKE", &pattern(word));
        found.sql.push_str(" ESCAPE '!'");
    }
    if let Some(after) = after {
        let first = found.values.len() + 1;
        found.values.extend(values![after.sort_order, after.created_at, after.id]);
        let _ = write!(found.sql, " AND (sort_order, created_at, id) > (${first}, ${}, ${})", first + 1, first + 2);
    }
    found
}

/// `word` anywhere, its own wildcards taken literally.
fn pattern(word: &str) -> String {
    let literal = word.to_lowercase().replace('!', "!!").replace('%', "!%").replace('_', "!_");
    format!("%{literal}%")
}

impl Tx {
    /// Stores a new task.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when its list isn't in its workspace.
    pub async fn task_insert(&mut self, task: &Task) -> Result<()> {
        self.insert(task).await
    }

    /// Writes the whole row.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn task_update(&mut self, task: &Task) -> Result<()> {
        self.update(task).await
    }

    /// The task, locked until the end of the transaction.
    pub async fn task_lock(&mut self, id: TaskId) -> Result<Option<Task>> {
        self.lock(id).await
    }

    /// Deletes a task with its runs, sessions, transcripts, worktree records, merge records, questions and
    /// messages. Children lose their parent; snapshots, events and audit entries stay.
    ///
    /// # Errors
    /// `NOT_FOUND` when it is gone.
    pub async fn task_delete(&mut self, id: TaskId) -> Result<()> {
        self.delete::<Task>(id).await
    }

    /// Makes `task` wait for `blocker`; saying it twice is no error. Rings are the caller's to refuse.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` when one of them doesn't exist.
    pub async fn blocker_add(&mut self, task: TaskId, blocker: TaskId) -> Result<()> {
        let sql = "INSERT INTO task_blocker (task_id, blocker_id) VALUES ($1, $2) ON CONFLICT (task_id, blocker_id) DO NOTHING";
        self.conn.exec(sql, values![task, blocker]).await?;
        Ok(())
    }

    /// Takes a blocker away; whether it was one.
    pub async fn blocker_remove(&mut self, task: TaskId, blocker: TaskId) -> Result<bool> {
        let sql = "DELETE FROM task_blocker WHERE task_id = $1 AND blocker_id = $2";
        Ok(self.conn.exec(sql, values![task, blocker]).await? > 0)
    }
}

impl Read {
    /// The task with this id.
    pub async fn task_fetch(&mut self, id: TaskId) -> Result<Option<Task>> {
        self.by_id(id).await
    }

    /// The task with this short id.
    pub async fn task_by_short(&mut self, short: &ShortId) -> Result<Option<Task>> {
        self.select_one("WHERE short_id = $1", values![short.clone()]).await
    }

    /// At most `limit` tasks behind `after`, ordered by sort order, creation time and id.
    pub async fn task_page(&mut self, filter: &TaskFilter, after: Option<TaskCursor>, limit: i64) -> Result<Vec<Task>> {
        let Conditions { sql, mut values } = conditions(filter, after);
        values.push(limit.value());
        self.select(&format!("{sql} {ORDER} LIMIT ${}", values.len()), values).await
    }

    /// The task's children in order, archived ones too.
    pub async fn task_children(&mut self, id: TaskId) -> Result<Vec<Task>> {
        self.select(&format!("WHERE parent_id = $1 {ORDER}"), values![id]).await
    }

    /// How many tasks of the list have each status, archived ones left out; statuses without any are missing.
    pub async fn task_counts_by_status(&mut self, list: ListId) -> Result<Vec<(Status, i64)>> {
        let sql = "SELECT status, COUNT(*) FROM task WHERE list_id = $1 AND archived_at IS NULL GROUP BY status ORDER BY status";
        let rows = self.conn.fetch(sql, values![list]).await?;
        let counts = rows.iter().map(|row| Ok((row.get(0, "task", "status")?, row.get(1, "task", "count")?)));
        counts.map(|count: Result<_, crate::Error>| count.map_err(Domain::from)).collect()
    }

    /// The highest sort order of the list's tasks.
    pub async fn task_max_sort(&mut self, list: ListId) -> Result<Option<f64>> {
        let found: Vec<Option<f64>> = self.column("SELECT MAX(sort_order) FROM task WHERE list_id = $1", values![list]).await?;
        Ok(found.into_iter().next().flatten())
    }

    /// The tasks that `task` waits for.
    pub async fn blockers_of(&mut self, task: TaskId) -> Result<Vec<TaskId>> {
        self.column("SELECT blocker_id FROM task_blocker WHERE task_id = $1 ORDER BY blocker_id", values![task]).await
    }

    /// The tasks that wait for `task`.
    pub async fn blocked_by_me(&mut self, task: TaskId) -> Result<Vec<TaskId>> {
        self.column("SELECT task_id FROM task_blocker WHERE blocker_id = $1 ORDER BY task_id", values![task]).await
    }

    /// Those of the tasks that `task` waits for which aren't done.
    pub async fn unfinished_blockers(&mut self, task: TaskId) -> Result<Vec<TaskId>> {
        let sql = "SELECT b.blocker_id FROM task_blocker b JOIN task t ON t.id = b.blocker_id \
                   WHERE b.task_id = $1 AND t.status <> 'done' ORDER BY b.blocker_id";
        self.column(sql, values![task]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_searched_word_is_literal() {
        assert_eq!(pattern("50%_Ä!"), "%50!%!_ä!!%");
    }
}
