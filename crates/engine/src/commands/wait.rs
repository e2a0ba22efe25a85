//! What a wait sees: which of its tasks left the queue and their runs since a point in the log.
//!
//! A look reads one snapshot: the events since the last look, then the tasks as they are. Positions move with the
//! looks, so that the cursor of an answer names exactly what the answer took into account.

use super::named;
use super::paging;
use super::wait_for_task_change::{ABOUT_TASKS, ChangedTask, StuckTask, WaitForTaskChangeOutput};
use crate::{Caller, handle};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use taskyard_domain::alias::Vocabulary;
use taskyard_domain::event::{Event, Kind};
use taskyard_domain::id::{TaskId, WorkspaceId};
use taskyard_domain::task::{Status, Task};
use taskyard_domain::{Class, Result};
use taskyard_store::Read;

/// Events read at a time.
const PAGE: i64 = 500;
/// Bytes that the rows of an answer may take.
const ROOM: usize = 9_000;
/// A cursor this far behind isn't followed up event by event.
const FAR: i64 = 50_000;

/// A task that is waited for.
#[derive(Debug, Clone)]
struct Watched {
    handle: String,
    /// `None` while nothing is known by that name.
    id: Option<TaskId>,
    /// Its status at the first look.
    first: Option<Status>,
}

/// A wait under way.
#[derive(Debug)]
pub(crate) struct Watch {
    caller: Caller,
    watched: Vec<Watched>,
    /// The caller's cursor, by workspace.
    cursor: BTreeMap<WorkspaceId, i64>,
    with_cursor: bool,
    /// How far the events were read, by workspace.
    positions: BTreeMap<WorkspaceId, i64>,
    /// Workspaces of which the cursor says nothing (any more): whoever is outside counts.
    fresh: BTreeSet<WorkspaceId>,
    /// Tasks that left since the cursor, or since the first look, with their status before.
    left: BTreeMap<TaskId, Option<Status>>,
    /// Every task that something happened to since.
    touched: BTreeSet<TaskId>,
    /// Tasks that were deleted since, by UUID and by short id.
    deleted: BTreeSet<String>,
    /// What queued tasks wait for, as of the last look.
    blockers: BTreeSet<TaskId>,
    resync: bool,
}

/// What a look saw.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Whether the wait is over.
    pub ends: bool,
    changed: Vec<ChangedTask>,
    not_found: Vec<String>,
    stuck: Vec<StuckTask>,
    settled: bool,
    resync: bool,
    cursor: BTreeMap<WorkspaceId, i64>,
    /// The cursor that the call came with.
    given: Option<BTreeMap<WorkspaceId, i64>>,
}

impl Look {
    /// The answer that this look gives. What a small answer has no room for isn't lost: the cursor then is the one that
    /// the call came with.
    pub(crate) fn answer(mut self, timed_out: bool) -> Result<WaitForTaskChangeOutput> {
        let truncated = self.fit();
        let cursor = match (truncated, &self.given) {
            (false, _) => paging::encode(&self.cursor)?,
            (true, Some(given)) => paging::encode(given)?,
            (true, None) => String::new(),
        };
        let hint = if truncated {
            Some("more changed than fits in: call again with this cursor and without the tasks named here".to_owned())
        } else {
            (!self.settled).then(|| "not all are settled: call again with this cursor to go on waiting".to_owned())
        };
        Ok(WaitForTaskChangeOutput {
            changed: self.changed,
            not_found: self.not_found,
            stuck: self.stuck,
            settled: self.settled,
            timed_out,
            resync: self.resync,
            truncated,
            cursor,
            hint,
        })
    }

    /// Leaves out what a small answer has no room for; says whether it did.
    fn fit(&mut self) -> bool {
        let all = self.changed.len() + self.stuck.len() + self.not_found.len();
        let mut room = ROOM.saturating_sub(paging::size(&self.cursor) * 4 / 3);
        keep(&mut self.not_found, &mut room);
        keep(&mut self.changed, &mut room);
        keep(&mut self.stuck, &mut room);
        self.changed.len() + self.stuck.len() + self.not_found.len() < all
    }
}

/// Keeps those rows that there is `room` for, and takes it.
fn keep<T: Serialize>(rows: &mut Vec<T>, room: &mut usize) {
    if paging::size(rows) > *room {
        rows.truncate(paging::fitting(rows, *room));
    }
    *room = room.saturating_sub(paging::size(rows));
}

impl Watch {
    /// A wait for the tasks that `handles` name, each once, since `cursor`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a foreign cursor.
    pub(crate) fn new(caller: Caller, handles: Vec<String>, cursor: Option<&str>) -> Result<Self> {
        let cursor: Option<BTreeMap<WorkspaceId, i64>> = paging::decode(cursor)?;
        let mut watched: Vec<Watched> = Vec::new();
        for handle in handles {
            if !watched.iter().any(|known| known.handle == handle) {
                watched.push(Watched { handle, id: None, first: None });
            }
        }
        Ok(Self {
            caller,
            watched,
            with_cursor: cursor.is_some(),
            cursor: cursor.unwrap_or_default(),
            positions: BTreeMap::new(),
            fresh: BTreeSet::new(),
            left: BTreeMap::new(),
            touched: BTreeSet::new(),
            deleted: BTreeSet::new(),
            blockers: BTreeSet::new(),
            resync: false,
        })
    }

    /// How far the log was read, by workspace.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (WorkspaceId, i64)> {
        self.positions.iter().map(|(workspace, seq)| (*workspace, *seq))
    }

    /// Whether another look is needed after `event`.
    pub(crate) fn concerns(&self, event: &Event) -> bool {
        let Some(task) = event.body.task_id else { return false };
        self.blockers.contains(&task) || self.watched.iter().any(|watched| watched.id == Some(task))
    }

    /// Looks at the tasks.
    pub(crate) async fn look(&mut self, read: &mut Read) -> Result<Look> {
        let found = self.find(read).await?;
        let mut workspaces: BTreeSet<WorkspaceId> = found.iter().flatten().map(|task| task.workspace_id).collect();
        if found.iter().any(Option::is_none) {
            // What is unknown may have been deleted since the cursor, in any workspace that it tells of.
            let own = self.caller.workspace_id();
            workspaces.extend(self.cursor.keys().filter(|workspace| own.is_none_or(|own| own == **workspace)));
        }
        for workspace in workspaces {
            self.begin(read, workspace).await?;
            self.follow(read, workspace).await?;
        }
        let given = self.with_cursor.then(|| self.cursor.clone());
        let mut look = Look { settled: true, resync: self.resync, given, ..Look::default() };
        self.blockers.clear();
        let mut over = true;
        let mut seen = BTreeSet::new();
        for (index, task) in found.iter().enumerate() {
            match task {
                // One that is named twice, by UUID and by short id, is told of once.
                Some(task) if !seen.insert(task.id) => {}
                Some(task) => over &= self.see(read, index, task, &mut look).await?,
                None => self.miss(index, &mut look),
            }
        }
        // A cursor keeps its word about workspaces that this call doesn't ask about.
        look.cursor.clone_from(&self.cursor);
        look.cursor.extend(&self.positions);
        look.ends |= over || self.resync;
        Ok(look)
    }

    /// The tasks as they are, in the order of the handles; what is unknown or another workspace's is `None`.
    async fn find(&mut self, read: &mut Read) -> Result<Vec<Option<Task>>> {
        let mut found = Vec::with_capacity(self.watched.len());
        for watched in &mut self.watched {
            let task = match watched.id {
                Some(id) => read.task_fetch(id).await?,
                None => match handle::task(read, &self.caller, "task_ids", &watched.handle).await {
                    Ok(task) => Some(task),
                    Err(error) if error.class == Class::NotFound => None,
                    Err(error) => return Err(error),
                },
            };
            if let Some(task) = &task {
                watched.id = Some(task.id);
                watched.first = watched.first.or(Some(task.status));
            }
            found.push(task);
        }
        Ok(found)
    }

    /// Takes up the log of a workspace: at the cursor, where that is still good, else at its end.
    async fn begin(&mut self, read: &mut Read, workspace: WorkspaceId) -> Result<()> {
        if self.positions.contains_key(&workspace) {
            return Ok(());
        }
        let head = read.event_head(workspace).await?;
        let after = match self.cursor.get(&workspace) {
            Some(after) if is_in_log(read, workspace, *after, head).await? => *after,
            known => {
                self.resync |= known.is_some();
                self.fresh.insert(workspace);
                head
            }
        };
        self.positions.insert(workspace, after);
        Ok(())
    }

    /// Reads the events about tasks of a workspace up to its end.
    async fn follow(&mut self, read: &mut Read, workspace: WorkspaceId) -> Result<()> {
        let head = read.event_head(workspace).await?;
        loop {
            let after = self.positions.get(&workspace).copied().unwrap_or_default();
            if after >= head {
                return Ok(());
            }
            let events = read.events_of_kinds_after(workspace, ABOUT_TASKS, after, PAGE).await?;
            // What else there is up to the end is of no concern, and isn't looked at again.
            self.positions.insert(workspace, events.last().map_or(head, |event| event.seq));
            events.iter().for_each(|event| self.note(event));
        }
    }

    fn note(&mut self, event: &Event) {
        let Some(task) = event.body.task_id else { return };
        self.touched.insert(task);
        if event.body.kind == Kind::TaskDeleted {
            let short = event.body.data.get("short_id").and_then(serde_json::Value::as_str);
            self.deleted.extend(short.map(str::to_owned).into_iter().chain([task.to_string()]));
        }
        let status = |key: &str| event.body.data.get(key).and_then(serde_json::Value::as_str).and_then(Status::stored);
        if event.body.kind == Kind::TaskStatusChanged && status("status").is_some_and(Status::is_settled) {
            self.left.entry(task).or_insert_with(|| status("previous_status"));
        }
    }

    /// Enters a task into the look. Returns whether nothing is to be waited for any more.
    async fn see(&mut self, read: &mut Read, index: usize, task: &Task, look: &mut Look) -> Result<bool> {
        let settled = task.status.is_settled();
        look.settled &= settled;
        let left = self.left.get(&task.id).copied();
        if left.is_some() || (settled && self.fresh.contains(&task.workspace_id)) {
            let first = self.watched.get(index).and_then(|watched| watched.first).filter(|first| *first != task.status);
            look.changed.push(ChangedTask {
                task_id: task.id.to_string(),
                short_id: task.short_id.to_string(),
                status: task.status.to_string(),
                previous_status: left.flatten().or(first).map(|status| status.to_string()),
            });
            look.ends = true;
        }
        if task.status != Status::Queued {
            return Ok(settled);
        }
        let blockers = named::blockers(read, task.id).await?;
        self.blockers.extend(blockers.iter().map(|blocker| blocker.id));
        let Some((blocker, reason)) = blockers.iter().find_map(|blocker| Some((blocker, named::dead_end(blocker)?))) else {
            return Ok(false);
        };
        look.stuck.push(StuckTask { task_id: task.id.to_string(), short_id: task.short_id.to_string(), reason });
        let news = [blocker.id, task.id].iter().any(|id| self.touched.contains(id));
        look.ends |= news || self.fresh.contains(&task.workspace_id);
        Ok(true)
    }

    /// Enters a handle that names no task. It ends a first wait, and any wait in which the task went away.
    fn miss(&mut self, index: usize, look: &mut Look) {
        let Some(watched) = self.watched.get(index) else { return };
        look.not_found.push(watched.handle.clone());
        let named = [watched.handle.trim().to_ascii_uppercase(), watched.handle.trim().to_ascii_lowercase()];
        let went_away = watched.first.is_some() || named.iter().any(|name| self.deleted.contains(name));
        look.ends |= !self.with_cursor || went_away;
    }
}

/// Whether the log can say what happened after `after`.
async fn is_in_log(read: &mut Read, workspace: WorkspaceId, after: i64, head: i64) -> Result<bool> {
    if after < 0 || after > head || head - after > FAR {
        return Ok(false);
    }
    let next = read.events_after(workspace, after, 1).await?;
    Ok(next.first().map_or(after == head, |event| event.seq == after + 1))
}
