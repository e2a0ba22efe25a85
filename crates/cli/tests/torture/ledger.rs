//! What the clients were told and what the user did: what the checks hold the server to. Only ever written down
//! after an answer came (or didn't); knows nothing of how things are.

use crate::wire::Answer;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

/// How often something was said to be done, to have failed, or wasn't said.
#[derive(Debug, Default, Clone)]
pub struct Told {
    /// Calls said to be done.
    pub done: usize,
    /// Calls whose client never learnt.
    pub unclear: usize,
    /// Calls said to have failed.
    pub refused: usize,
}

impl Told {
    /// Writes an answer down.
    pub fn add(&mut self, answer: &Answer) {
        match answer {
            Answer::Done(_) => self.done += 1,
            Answer::Refused(_) => self.refused += 1,
            Answer::Unclear(_) => self.unclear += 1,
        }
    }
}

/// One thing that may happen at most once: a keyed call with its retries.
#[derive(Debug, Default, Clone)]
pub struct Once {
    /// What names it: a title, or the mark in a prompt.
    pub mark: String,
    /// The task, where it is known.
    pub task: Option<String>,
    /// Its answers.
    pub told: Told,
}

/// What is known about one task.
#[derive(Debug, Default, Clone)]
pub struct TaskTold {
    /// Ids of the merges that were said to be done.
    pub merged: BTreeSet<String>,
    /// Merge calls without an answer.
    pub merges_unclear: usize,
    /// Ids of the reverts that were said to be done.
    pub reverted: BTreeSet<String>,
    /// Revert calls without an answer.
    pub reverts_unclear: usize,
    /// Cancels.
    pub cancels: Told,
    /// The title that was said to be its last.
    pub title: String,
    /// Titles it may have instead: nobody learnt whether it got them.
    pub titles_unclear: BTreeSet<String>,
    /// Whether the user deleted its folder.
    pub folder_deleted: bool,
    /// Whether the user damaged its folder otherwise.
    pub folder_damaged: bool,
}

/// What the user did to one repository.
#[derive(Debug, Default, Clone)]
pub struct RepoTold {
    /// Commits the user made on the target.
    pub commits: Vec<String>,
    /// Whether the user moved the target back.
    pub moved_back: bool,
}

/// The book.
#[derive(Debug, Default)]
pub struct Book {
    /// Calls of `add_task`.
    pub adds: Vec<Once>,
    /// Calls of `continue_task`.
    pub prompts: Vec<Once>,
    /// By task.
    pub tasks: BTreeMap<String, TaskTold>,
    /// By repository, in the order of the plan.
    pub repositories: BTreeMap<usize, RepoTold>,
    /// How often each thing was injected or done.
    pub figures: BTreeMap<String, usize>,
    /// Errors that said `INTERNAL`.
    pub internal: Vec<String>,
}

/// The book, shared by all clients of a round.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Book>);

impl Ledger {
    /// Opens the book.
    pub fn open(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap()
    }

    /// Counts something.
    pub fn count(&self, what: &str) {
        *self.open().figures.entry(what.into()).or_default() += 1;
    }
}
