//! A person's word about a task's status: `ready`, `queued`, `cancelled`, `done`. One way in for every tool.
//!
//! Whether unmerged work stands against a word is asked of git before the transaction; the transaction checks
//! that the task is still the one that was asked about.

use super::creation;
use crate::merge::none_under_way;
use crate::resolve::Levels;
use crate::{Caller, Engine, change};
use serde_json::json;
use taskyard_domain::audit::{About, Action};
use taskyard_domain::task::{Context, Fact, Status, Task, Word};
use taskyard_domain::worktree::State;
use taskyard_domain::{Error, Result, Timestamp};
use taskyard_store::Tx;

/// A word with what is known about the task outside the database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spoken {
    word: Word,
    unmerged_changes: bool,
    seen: Timestamp,
}

impl Engine {
    /// Prepares `word` for `task` as it stands now.
    pub(crate) async fn prepare_word(&self, task: &Task, word: Word) -> Result<Spoken> {
        let unmerged_changes = match word {
            Word::Ready | Word::Done => self.unmerged_changes(task).await?,
            Word::Queued | Word::Cancelled => false,
        };
        Ok(Spoken { word, unmerged_changes, seen: task.updated_at })
    }
}

/// Applies a word to a locked task inside a larger change, where git can't be asked.
///
/// # Errors
/// As [`say`]; `FAILED_PRECONDITION` for a task with an active worktree: whether work stands against the word is git's to say.
pub(crate) async fn say_free(tx: &mut Tx, caller: &Caller, task: &mut Task, word: Word) -> Result<()> {
    if tx.worktree_current(task.id).await?.is_some_and(|worktree| worktree.state == State::Active) {
        return Err(Error::precondition(format!("{} has a worktree: its status is decided in Taskyard", task.short_id))
            .with_hint("review_task, merge_task or update_task_status decide on it"));
    }
    say(tx, caller, task, Spoken { word, unmerged_changes: false, seen: task.updated_at }).await
}

/// Applies a word to a locked task that has no open run. Writes status, event and audit entry.
///
/// # Errors
/// `FAILED_PRECONDITION` for what would skip a run or a merge; `CONFLICT` when the task changed meanwhile or a merge of
/// it goes on;
/// `FORBIDDEN` when a run decides on work that waits for review.
pub(crate) async fn say(tx: &mut Tx, caller: &Caller, task: &mut Task, spoken: Spoken) -> Result<()> {
    let open_run = tx.run_open_for_task(task.id).await?.is_some();
    let moved = match spoken.word {
        Word::Ready | Word::Done => task.updated_at != spoken.seen,
        Word::Cancelled => open_run,
        Word::Queued => false,
    };
    if moved {
        return Err(Error::conflict(format!("{} changed in this moment", task.short_id)).with_hint("repeat the call"));
    }
    if task.status == Status::WaitingForReview {
        caller.require_person("decide on work that waits for review")?;
    }
    if spoken.word == Word::Queued {
        let levels = Levels::of(tx, task.clone()).await?;
        creation::check_runnable(tx, &levels).await?;
    }
    let context = Context { open_run, unmerged_changes: spoken.unmerged_changes };
    let previous = task.status;
    let after = taskyard_domain::task::next(previous, Fact::Word(spoken.word), context);
    if after.as_ref().is_ok_and(|after| *after == previous) {
        return Ok(());
    }
    if !open_run {
        // A merge that lands a moment later would find a task that has gone its own way.
        none_under_way(tx, task).await?;
    }
    task.failure = None;
    task.not_before = None;
    task.interruptions = 0;
    change::status(tx, task, Fact::Word(spoken.word), context).await?;
    let data = json!({ "status": task.status, "previous_status": previous });
    change::audit(tx, caller, task.workspace_id, Action::TaskStatusSet, About::Task(task.id), data).await
}
