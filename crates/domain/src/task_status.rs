//! The task's status as a pure function of facts. Nothing else decides it.

use crate::error::{Error, Result};
use crate::run::Outcome;
use serde::{Deserialize, Serialize};

crate::vocabulary! {
    /// Where a task stands. Archived, blocked and stalled are facts beside it.
    Status, "status", {
        /// Being written.
        Draft = "draft",
        /// Could be queued.
        Ready = "ready",
        /// Waiting for a slot.
        Queued = "queued",
        /// A run is open.
        InProgress = "in_progress",
        /// The open run waits for a person.
        WaitingForInput = "waiting_for_input",
        /// Its work waits for a person's decision.
        WaitingForReview = "waiting_for_review",
        /// Merged, or nothing was to be done.
        Done = "done",
        /// The last run failed.
        Failed = "failed",
        /// Called off.
        Cancelled = "cancelled",
    } aliases {
        "idle" => Ready, "todo" => Ready, "open" => Ready, "notstarted" => Ready, "created" => Ready,
        "running" => InProgress, "active" => InProgress, "review" => WaitingForReview,
        "complete" => Done, "completed" => Done, "canceled" => Cancelled,
    }
}

impl Status {
    /// What it means, for `get_task_status_values`.
    pub fn meaning(self) -> &'static str {
        match self {
            Status::Draft => "being written; not yet ready to run",
            Status::Ready => "can be queued",
            Status::Queued => "waits for a free slot",
            Status::InProgress => "a run is open",
            Status::WaitingForInput => "the open run waits for a person's answer",
            Status::WaitingForReview => "the work waits for review",
            Status::Done => "merged, or approved with nothing to merge",
            Status::Failed => "the last run failed; reset or continue it",
            Status::Cancelled => "called off by a person",
        }
    }

    /// Whether a run is open in this status.
    pub fn is_running(self) -> bool {
        matches!(self, Status::InProgress | Status::WaitingForInput)
    }

    /// Whether waiting for a change is over for a task in this status.
    pub fn is_settled(self) -> bool {
        !matches!(self, Status::Queued | Status::InProgress)
    }
}

crate::vocabulary! {
    /// What a person may set a status to.
    Word, "status", {
        /// Can be queued.
        Ready = "ready",
        /// To the queue.
        Queued = "queued",
        /// Called off.
        Cancelled = "cancelled",
        /// Nothing is left to do.
        Done = "done",
    } aliases {
        "idle" => Ready, "todo" => Ready, "open" => Ready, "notstarted" => Ready, "created" => Ready,
        "complete" => Done, "completed" => Done, "canceled" => Cancelled,
    }
}

/// Something that happened to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// A person's word.
    Word(Word),
    /// The queue or the override slot opened a run.
    RunStarted,
    /// An outside agent opened a run.
    Claimed,
    /// The open run asks a person.
    RunWaits,
    /// The open run goes on.
    RunGoesOn,
    /// The open run ended; `requeue` says whether the rules give an interrupted one another try.
    RunEnded {
        /// How.
        outcome: Outcome,
        /// Whether an interrupted run may start again.
        requeue: bool,
    },
    /// The outside agent that held it says that it is finished; `review` says whether a person looks at it first.
    ClaimDone {
        /// Whether a person looks at it first.
        review: bool,
    },
    /// Review: merged or nothing to merge.
    Approved,
    /// Review: to be done again with feedback.
    SentBack,
    /// Review: put aside.
    Parked,
    /// Review: called off.
    CalledOff,
    /// Its merge was undone.
    Reverted,
    /// A failed task is made ready again, its worktree kept.
    Reset,
}

/// The facts beside the status that a transition depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Context {
    /// A managed or claimed run is open.
    pub open_run: bool,
    /// An active worktree holds changes that no merge has taken.
    pub unmerged_changes: bool,
}

/// The status after `fact`.
///
/// # Errors
/// `FAILED_PRECONDITION` with the way out, when the fact can't happen to a task in this status.
pub fn next(status: Status, fact: Fact, context: Context) -> Result<Status> {
    match fact {
        Fact::Word(word) => word_spoken(status, word, context),
        Fact::RunStarted if context.open_run => Err(Error::precondition("a run of this task is open already")),
        Fact::RunStarted => Ok(Status::InProgress),
        Fact::Claimed => Ok(match status {
            Status::Draft | Status::Ready | Status::Queued => Status::InProgress,
            other => other,
        }),
        Fact::RunWaits => Ok(if status == Status::InProgress { Status::WaitingForInput } else { status }),
        Fact::RunGoesOn => Ok(if status == Status::WaitingForInput { Status::InProgress } else { status }),
        Fact::RunEnded { outcome, requeue } => Ok(if status.is_running() { after_run(outcome, requeue) } else { status }),
        Fact::ClaimDone { review } => Ok(claim_done(status, review || context.unmerged_changes)),
        Fact::Approved => reviewed(status, Status::Done),
        Fact::SentBack => reviewed(status, Status::Queued),
        Fact::Parked => reviewed(status, Status::Ready),
        Fact::CalledOff => reviewed(status, Status::Cancelled),
        Fact::Reverted if status == Status::Done => Ok(Status::WaitingForReview),
        Fact::Reverted => Err(refused(status, "reverted", "only a done task's merge can be reverted")),
        Fact::Reset if status == Status::Failed => Ok(Status::Ready),
        Fact::Reset if status == Status::Ready => Ok(Status::Ready),
        Fact::Reset => Err(refused(status, "reset", "only a failed task can be reset")),
    }
}

fn after_run(outcome: Outcome, requeue: bool) -> Status {
    match outcome {
        Outcome::Succeeded | Outcome::NoChanges => Status::WaitingForReview,
        Outcome::Failed => Status::Failed,
        Outcome::Cancelled => Status::Cancelled,
        Outcome::Limited => Status::Queued,
        Outcome::Interrupted if requeue => Status::Queued,
        Outcome::Interrupted => Status::Failed,
        Outcome::Abandoned => Status::Ready,
    }
}

/// Work that a person has to look at, or has accepted, stays what it is.
fn claim_done(status: Status, review: bool) -> Status {
    match status {
        Status::WaitingForReview | Status::Done => status,
        _ if review => Status::WaitingForReview,
        _ => Status::Done,
    }
}

fn reviewed(status: Status, then: Status) -> Result<Status> {
    if status == Status::WaitingForReview {
        Ok(then)
    } else {
        Err(refused(status, "reviewed", "only a task in waiting_for_review can be reviewed"))
    }
}

fn word_spoken(status: Status, word: Word, context: Context) -> Result<Status> {
    if context.open_run && word != Word::Cancelled {
        return Err(refused(status, &format!("set to {word}"), "a run of it is open: cancel_task ends it, or wait for its end"));
    }
    let skips_merge = context.unmerged_changes && matches!(word, Word::Ready | Word::Done);
    if skips_merge {
        let hint = "its worktree holds changes that no merge has taken: review_task (approve, reject_park or cancel) or merge_task \
                    decides on them; reset_failed_task makes a failed task ready and keeps them";
        return Err(refused(status, &format!("set to {word}"), hint));
    }
    match (word, status) {
        (Word::Queued, Status::WaitingForReview) => {
            Err(refused(status, "queued", "review_task with reject_rerun sends it back, with reject_park makes it ready"))
        }
        (Word::Queued, _) => Ok(Status::Queued),
        (Word::Cancelled, Status::Done) => Err(refused(status, "cancelled", "it is done; revert_merge undoes its merge")),
        (Word::Cancelled, _) => Ok(Status::Cancelled),
        (Word::Ready, _) => Ok(Status::Ready),
        (Word::Done, _) => Ok(Status::Done),
    }
}

fn refused(status: Status, what: &str, hint: &str) -> Error {
    Error::precondition(format!("a task that is {status} can't be {what}: {hint}")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Cancelled, Done, Draft, Failed, InProgress, Queued, Ready, WaitingForInput, WaitingForReview};

    const FREE: Context = Context { open_run: false, unmerged_changes: false };
    const OPEN: Context = Context { open_run: true, unmerged_changes: false };
    const CHANGED: Context = Context { open_run: false, unmerged_changes: true };

    /// For each fact, the status it leads to from every status in the order of `Status::ALL`; `None` is a refusal.
    fn table() -> Vec<(Fact, Context, [Option<Status>; 9])> {
        let (d, r, q, p, i, w, k, f, c) = (
            Some(Draft),
            Some(Ready),
            Some(Queued),
            Some(InProgress),
            Some(WaitingForInput),
            Some(WaitingForReview),
            Some(Done),
            Some(Failed),
            Some(Cancelled),
        );
        let ended = |outcome, requeue| Fact::RunEnded { outcome, requeue };
        vec![
            (Fact::Word(Word::Ready), FREE, [r; 9]),
            (Fact::Word(Word::Ready), OPEN, [None; 9]),
            (Fact::Word(Word::Ready), CHANGED, [None; 9]),
            (Fact::Word(Word::Queued), FREE, [q, q, q, q, q, None, q, q, q]),
            (Fact::Word(Word::Queued), OPEN, [None; 9]),
            (Fact::Word(Word::Queued), CHANGED, [q, q, q, q, q, None, q, q, q]),
            (Fact::Word(Word::Cancelled), FREE, [c, c, c, c, c, c, None, c, c]),
            (Fact::Word(Word::Cancelled), OPEN, [c, c, c, c, c, c, None, c, c]),
            (Fact::Word(Word::Cancelled), CHANGED, [c, c, c, c, c, c, None, c, c]),
            (Fact::Word(Word::Done), FREE, [k; 9]),
            (Fact::Word(Word::Done), OPEN, [None; 9]),
            (Fact::Word(Word::Done), CHANGED, [None; 9]),
            (Fact::RunStarted, FREE, [p; 9]),
            (Fact::RunStarted, OPEN, [None; 9]),
            (Fact::Claimed, FREE, [p, p, p, p, i, w, k, f, c]),
            (Fact::RunWaits, OPEN, [d, r, q, i, i, w, k, f, c]),
            (Fact::RunGoesOn, OPEN, [d, r, q, p, p, w, k, f, c]),
            (ended(Outcome::Succeeded, false), OPEN, [d, r, q, w, w, w, k, f, c]),
            (ended(Outcome::NoChanges, false), OPEN, [d, r, q, w, w, w, k, f, c]),
            (ended(Outcome::Failed, false), OPEN, [d, r, q, f, f, w, k, f, c]),
            (ended(Outcome::Cancelled, false), OPEN, [d, r, q, c, c, w, k, f, c]),
            (ended(Outcome::Interrupted, true), OPEN, [d, r, q, q, q, w, k, f, c]),
            (ended(Outcome::Interrupted, false), OPEN, [d, r, q, f, f, w, k, f, c]),
            (ended(Outcome::Limited, false), OPEN, [d, r, q, q, q, w, k, f, c]),
            (ended(Outcome::Abandoned, false), OPEN, [d, r, q, r, r, w, k, f, c]),
            (Fact::ClaimDone { review: false }, OPEN, [k, k, k, k, k, w, k, k, k]),
            (Fact::ClaimDone { review: true }, OPEN, [w, w, w, w, w, w, k, w, w]),
            (Fact::ClaimDone { review: false }, CHANGED, [w, w, w, w, w, w, k, w, w]),
            (Fact::Approved, FREE, [None, None, None, None, None, k, None, None, None]),
            (Fact::SentBack, FREE, [None, None, None, None, None, q, None, None, None]),
            (Fact::Parked, CHANGED, [None, None, None, None, None, r, None, None, None]),
            (Fact::CalledOff, CHANGED, [None, None, None, None, None, c, None, None, None]),
            (Fact::Reverted, FREE, [None, None, None, None, None, None, w, None, None]),
            (Fact::Reset, CHANGED, [None, r, None, None, None, None, None, r, None]),
        ]
    }

    #[test]
    fn the_whole_table() {
        for (fact, context, expected) in table() {
            for (status, expected) in Status::ALL.iter().zip(expected) {
                assert_eq!(next(*status, fact, context).ok(), expected, "{status} after {fact:?} with {context:?}");
            }
        }
    }

    #[test]
    fn refusals_say_what_would_work() {
        for (fact, context, _) in table() {
            for status in Status::ALL {
                if let Err(error) = next(*status, fact, context) {
                    assert_eq!(error.class, crate::Class::FailedPrecondition);
                    assert!(error.hint.is_some() || fact == Fact::RunStarted, "{error:?}");
                }
            }
        }
    }

    #[test]
    fn aliases_are_read_in_any_spelling() {
        use crate::alias::Vocabulary;
        for (text, status) in [
            ("Idle", Ready),
            ("not started", Ready),
            ("WaitingForReview", WaitingForReview),
            ("IN-PROGRESS", InProgress),
            ("Canceled", Cancelled),
        ] {
            assert_eq!(Status::read("status", text).unwrap(), status);
        }
        assert!(Status::read("status", "nonsense").unwrap_err().message.contains("waiting_for_review"));
    }
}
