//! What the demo's agents do: six tasks, two of which want the same line.

use serde_json::{Value, json};

/// The place of the task whose merge is undone at the end.
pub const REVERTED: usize = 4;

/// The agents' names.
pub const AGENTS: [&str; 3] = ["ada", "grace", "linus"];

/// One task of the demo.
#[derive(Debug)]
pub struct Part {
    pub title: &'static str,
    pub agent: &'static str,
    words: &'static str,
    steps: Value,
}

impl Part {
    /// The task's description: words for a person, steps for the scripted agent.
    pub fn prompt(&self) -> String {
        with_steps(self.words, &self.steps)
    }
}

fn with_steps(words: &str, steps: &Value) -> String {
    format!("{words}\n\n```scenario\n{steps}\n```\n")
}

fn write(path: &str, content: &str) -> Value {
    json!({ "write": { "path": path, "content": content } })
}

/// The six tasks.
pub fn parts() -> Vec<Part> {
    let part = |title, agent, words, steps| Part { title, agent, words, steps };
    vec![
        part(
            "Add a greeting",
            AGENTS[0],
            "Say hello in the program.",
            json!([
                { "text": "I add the greeting." }, { "wait": 300 }, write("src/greeting.txt", "Hello, yard!\n"), { "commit": "Add a greeting" },
            ]),
        ),
        part(
            "Write a guide",
            AGENTS[1],
            "Explain how to start.",
            json!([
                { "plan": [["outline", "completed"], ["write", "in_progress"]] }, { "wait": 400 },
                write("docs/guide.md", "# Guide\n\nRun it.\n"), { "commit": "Write a guide" },
            ]),
        ),
        part(
            "Set the title to Yard",
            AGENTS[2],
            "The title is Yard.",
            json!([
                { "wait": 300 }, write("title.txt", "Yard\n"), { "commit": "Set the title to Yard" },
            ]),
        ),
        part(
            "Set the title to Taskyard",
            AGENTS[0],
            "The title is Taskyard.",
            json!([
                { "wait": 200 }, write("title.txt", "Taskyard\n"), { "commit": "Set the title to Taskyard" },
            ]),
        ),
        part(
            "Add a risky switch",
            AGENTS[1],
            "Add the switch.",
            json!([
                { "text": "This may be a bad idea." }, { "wait": 200 }, write("src/switch.txt", "on\n"), { "commit": "Add a risky switch" },
            ]),
        ),
        part(
            "Tidy the notes",
            AGENTS[2],
            "Sort the notes. (This agent forgets to commit; Taskyard does it.)",
            json!([
                { "wait": 200 }, write("notes.txt", "a\nb\nc\n"), { "text": "Sorted." },
            ]),
        ),
    ]
}

/// What the conflicting task is told when it is sent back: take the other's title in and say both.
pub fn feedback() -> String {
    let resolve = "git merge -q main || true; printf 'Taskyard, the yard\\n' > title.txt; git add -A; \
                   git -c core.editor=true commit -qm 'Say both names in the title'";
    with_steps(
        "Another title was merged meanwhile. Merge main into your branch and say both names.",
        &json!([{ "text": "I take the other title in." }, { "shell": resolve }]),
    )
}
