//! Which words a run starts with.

use crate::resolve::Levels;
use taskyard_domain::run::{Outcome, Run};

/// The prompt of a new run: the given one, else a nudge to go on after a break, else the task itself.
pub(crate) fn choose(given: Option<String>, before: Option<&Run>, levels: &Levels) -> String {
    match (given, before.and_then(|run| run.outcome)) {
        (Some(text), _) => text,
        (None, Some(Outcome::Interrupted)) => go_on("the server stopped", before, levels),
        (None, Some(Outcome::Limited)) => go_on("the account reached its usage limit", before, levels),
        (None, _) => levels.prompt(),
    }
}

const CUT_SHORT: &str = "Your last turn was cut short because ";
const ASKED: &str = "\n\nWhat was asked last:\n\n";

/// A nudge to go on. What a person had asked beyond the task itself is repeated: the agent may not have seen it.
fn go_on(why: &str, before: Option<&Run>, levels: &Levels) -> String {
    let nudge = format!("{CUT_SHORT}{why}. The working tree is as you left it. Go on with the task from there and finish it.");
    let last = before.map(|run| run.prompt.as_str()).unwrap_or_default();
    let asked = match last.split_once(ASKED) {
        Some((_, asked)) if last.starts_with(CUT_SHORT) => asked,
        _ if last.starts_with(CUT_SHORT) || before.is_some_and(|run| last == levels.prompt_at(run.prior_status)) => "",
        _ => last,
    };
    if asked.is_empty() { nudge } else { format!("{nudge}{ASKED}{asked}") }
}

/// The prompt for an agent that can't remember: the task, then what was said since.
pub(crate) fn retell(run: &Run, levels: &Levels) -> String {
    let (prompt, task) = (&run.prompt, levels.prompt_at(run.prior_status));
    if *prompt == task {
        return task;
    }
    format!(
        "{task}\n\n---\nYou (or another agent) have worked on this task before; the working tree and its git log show what was done. \
         What is asked now:\n\n{prompt}"
    )
}
