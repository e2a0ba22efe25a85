//! What agents are told to do: every kind of work, good and bad, with a proof of everything that must not be lost.
//!
//! A proof is a line in a file outside of all that is broken, written after the work it speaks of was done:
//! `commit TASK ID FILE`, `file TASK BLOB FILE` or `prompt MARK`.

use crate::dice::Dice;
use crate::stage::SHARED;
use serde_json::{Value, json};
use taskyard_testkit::scripted::scenario::{Step, prompt_with};

/// The kinds of work.
const KINDS: &[&str] = &[
    "commits",
    "commits",
    "commits",
    "shared",
    "leaves uncommitted",
    "asks",
    "crashes",
    "kills itself",
    "grandchildren",
    "fails",
    "shared",
    "calls",
    "slow",
    "hangs",
];

/// A file name that no other turn uses.
const FRESH: &str = "f=w-$TASKYARD_TASK_ID-$$-NAME.txt; cat /proc/sys/kernel/random/uuid > $f";

/// A shell command that commits a new file and proves it.
pub fn proven_commit(name: &str) -> String {
    let fresh = FRESH.replace("NAME", name);
    format!(
        "{fresh} && git add $f && git commit -q -m 'Work {name}' && \
         h=$(git rev-parse HEAD) && echo \"commit $TASKYARD_TASK_ID $h $f\" >> \"$PROOFS\""
    )
}

/// A shell command that leaves a new file uncommitted and proves it.
fn proven_file(name: &str) -> String {
    let fresh = FRESH.replace("NAME", name);
    format!("{fresh} && h=$(git hash-object $f) && echo \"file $TASKYARD_TASK_ID $h $f\" >> \"$PROOFS\"")
}

/// A shell command that changes the middle of the shared file and commits it.
fn shared_commit(name: &str) -> String {
    format!(
        "sed -i \"1a $TASKYARD_TASK_ID {name}\" {SHARED} && git commit -q -m 'Shared {name}' {SHARED} && \
         h=$(git rev-parse HEAD) && echo \"commit $TASKYARD_TASK_ID $h -\" >> \"$PROOFS\""
    )
}

/// The steps of one turn.
fn steps(dice: &mut Dice, name: &str) -> Value {
    let pause = dice.below(300);
    let commit = || json!({ "shell": proven_commit(name) });
    match *dice.pick(KINDS) {
        "commits" => json!([{ "text": "I commit." }, commit(), { "wait": pause }, { "shell": proven_commit("second") }]),
        "leaves uncommitted" => json!([commit(), { "wait": pause }, { "shell": proven_file(name) }]),
        "asks" => json!([
            { "shell": proven_file("before") },
            { "ask": { "title": "Run make", "kind": "execute", "input": { "command": "make" }, "on_allow": [commit()], "on_deny": [{ "text": "Well." }] } },
        ]),
        "crashes" => json!([commit(), { "shell": proven_file("crash") }, { "wait": pause }, { "crash": 3 }]),
        "kills itself" => json!([{ "shell": proven_file("kill") }, { "wait": pause }, "kill"]),
        "grandchildren" => json!([
            commit(), { "shell": "setsid sleep 1000 >/dev/null 2>&1 & setsid setsid sleep 1001 >/dev/null 2>&1 &" }, { "wait": pause },
        ]),
        "fails" => json!([commit(), { "wait": pause }, { "error": { "code": -32000, "message": "I can't." } }]),
        "shared" => json!([{ "shell": shared_commit(name) }, { "wait": pause }, commit()]),
        "calls" => json!([{ "mcp": { "tool": "list_tasks", "args": {} } }, commit(), { "text": "${last}" }]),
        "slow" => json!([{ "repeat": { "times": 8, "steps": [{ "text": "tick " }, { "wait": 60 }] } }, commit()]),
        _ => json!([commit(), { "wait": 400 + pause }, "ignore_sigterm", { "wait": pause }]),
    }
}

/// A prompt for a task, or for going on with one; its agent proves that `mark` was delivered before it does anything.
pub fn prompt(dice: &mut Dice, mark: &str) -> String {
    let mut all = vec![json!({ "shell": format!("echo 'prompt {mark}' >> \"$PROOFS\"") })];
    all.extend(steps(dice, mark).as_array().unwrap().iter().cloned());
    let all: Vec<Step> = serde_json::from_value(Value::Array(all)).unwrap();
    prompt_with(mark, &all)
}
