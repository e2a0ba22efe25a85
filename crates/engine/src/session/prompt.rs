//! Which words a run starts with.

use crate::resolve::Levels;
use taskyard_domain::run::{Outcome, Run};

/// The prompt of a new run: the given one, else a nudge to go on after a break, else the task itself.
pub(crate) fn choose(given: Option<String>, before: Option<&Run>, levels: &Levels) -> String {
    match (given, before.and_then(|run| run.outcome)) {
        (Some(text), _) => text,
        (None, Some(Outcome::Interrupted)) => go_on("the server stopped"),
        (None, Some(Outcome::Limited)) => go_on("the account reached its usage limit"),
        (None, _) => levels.prompt(),
    }
}

fn go_on(why: &str) -> String {
    format!("Your last turn was cut short because {why}. The working tree is as you left it. Go on with the task from there and finish it.")
}

/// The prompt for an agent that can't remember: the task, then what was said since.
pub(crate) fn retell(prompt: &str, levels: &Levels) -> String {
    let task = levels.prompt();
    if prompt == task {
        return task;
    }
    format!(
        "{task}\n\n---\nYou (or another agent) have worked on this task before; the working tree and its git log show what was done. \
         What is asked now:\n\n{prompt}"
    )
}
