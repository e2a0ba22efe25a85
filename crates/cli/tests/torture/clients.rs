//! The load: clients that add, watch, answer, review, merge, revert and call off, each by dice of its own, over MCP
//! and the command line's calls, now and then cut off in mid-answer.
//!
//! Two clients never decide about the same task at once, so that the ledger says what each task was told. Whatever
//! comes is written down; nothing is judged here.

use crate::dice::Dice;
use crate::faults::WORK;
use crate::jobs;
use crate::ledger::Once;
use crate::stage::{SHARED, Stage};
use crate::wire::{Answer, Face};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a keyed call is repeated until its client knows what it came to.
const TRIES: usize = 12;

/// How long the load goes on at most.
const LONGEST: Duration = Duration::from_secs(20);

/// Tasks that some client decides about right now.
#[derive(Debug, Default)]
pub struct Busy(Mutex<BTreeSet<String>>);

/// A client.
pub struct Client<'s> {
    stage: &'s Stage,
    busy: &'s Busy,
    dice: Dice,
    name: String,
    face: Face,
    count: usize,
    /// Percent of calls that are cut off.
    cuts: usize,
}

impl<'s> Client<'s> {
    /// Client number `n` of the round `seed`.
    pub async fn new(stage: &'s Stage, busy: &'s Busy, seed: u64, n: usize, cuts: usize) -> Self {
        let name = format!("c{n}");
        let face = if n == 0 { None } else { stage.wire.connect_mcp().await };
        Self { stage, busy, dice: Dice::new(seed, &name), name, face: face.unwrap_or(Face::Call), count: 0, cuts }
    }

    /// Works until all clients together have done what a round holds, or its time is over.
    pub async fn work(mut self) {
        let began = Instant::now();
        while self.stage.progress.fetch_add(1, Ordering::Relaxed) < WORK && began.elapsed() < LONGEST {
            if self.dice.chance(12) {
                self.add().await;
            } else if self.dice.chance(12) {
                self.answer().await;
            } else {
                self.decide().await;
            }
            let pause = self.dice.millis(0, 60);
            tokio::time::sleep(pause).await;
        }
    }

    fn mark(&mut self) -> String {
        self.count += 1;
        format!("{}-{}", self.name, self.count)
    }

    /// One call, cut off now and then.
    async fn call(&mut self, tool: &str, arguments: &Value) -> Answer {
        // Most answers are between 300 and 1500 bytes long.
        let cut = self.dice.chance(self.cuts).then(|| self.dice.below(900));
        if cut.is_some() {
            self.stage.ledger.count("answers cut off");
        }
        let answer = self.stage.wire.call(&self.face, tool, arguments, cut).await;
        if matches!(&answer, Answer::Unclear(why) if why.contains("refused")) {
            // Nobody is there: nothing to hurry for.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.stage.ledger.count(&format!(
            "calls {}",
            match &answer {
                Answer::Done(_) => "done",
                Answer::Refused(_) => "refused",
                Answer::Unclear(_) => "unclear",
            }
        ));
        if let Answer::Refused(error) = &answer
            && error["code"] == "INTERNAL"
        {
            self.stage.ledger.count("internal errors");
            self.stage.ledger.open().internal.push(format!("{tool}: {error}"));
        }
        answer
    }

    /// A call that may be repeated until its outcome is known.
    async fn keyed(&mut self, tool: &str, mut arguments: Value, once: &mut Once) -> Option<Value> {
        arguments["idempotency_key"] = json!(once.mark);
        for _ in 0..TRIES {
            let answer = self.call(tool, &arguments).await;
            once.told.add(&answer);
            match answer {
                Answer::Done(value) => return Some(value),
                Answer::Refused(_) => return None,
                Answer::Unclear(_) => tokio::time::sleep(Duration::from_millis(150)).await,
            }
        }
        None
    }

    /// Adds a task, queued in most cases.
    pub async fn add(&mut self) {
        let mark = self.mark();
        let project = self.dice.below(self.stage.projects.len());
        let description = jobs::prompt(&mut self.dice, &mark);
        let queue = self.dice.chance(85);
        let arguments = json!({ "list_id": self.stage.projects[project].list, "title": mark, "description": description, "queue": queue });
        let mut once = Once { mark: mark.clone(), ..Once::default() };
        let added = self.keyed("add_task", arguments, &mut once).await;
        once.task = added.as_ref().and_then(|added| added["task_id"].as_str()).map(str::to_owned);
        let mut book = self.stage.ledger.open();
        if let Some(task) = &once.task {
            book.tasks.entry(task.clone()).or_default().title = mark;
        }
        book.adds.push(once);
    }

    /// Answers the questions that are open.
    async fn answer(&mut self) {
        let open = self.call("list_pending_questions", &json!({})).await;
        let Some(open) = open.done().and_then(|open| open["questions"].as_array().cloned()) else { return };
        for question in open {
            let rejected = self.dice.chance(30);
            let arguments = json!({ "question_bundle_id": question["question_bundle_id"], "rejected": rejected });
            if self.call("answer_question", &arguments).await.done().is_some() {
                self.stage.ledger.count("questions answered");
            }
        }
    }

    /// Looks at a task and does something that fits.
    async fn decide(&mut self) {
        let known: Vec<String> = self.stage.ledger.open().tasks.keys().cloned().collect();
        if known.is_empty() {
            return;
        }
        // Rather one that can be decided about than one that is being worked on.
        for try_again in [true, true, false] {
            let task = self.dice.pick(&known).clone();
            if !self.busy.0.lock().unwrap().insert(task.clone()) {
                continue;
            }
            let shown = self.call("get_task", &json!({ "task_id": task })).await;
            let status = shown.done().and_then(|shown| shown["status"].as_str()).unwrap_or_default();
            match status {
                "waiting_for_review" => self.review(&task).await,
                "done" => self.finished(&task).await,
                "failed" | "cancelled" | "ready" => self.again(&task, status == "failed").await,
                "" => (),
                _ if try_again && self.dice.chance(70) => {
                    self.busy.0.lock().unwrap().remove(&task);
                    continue;
                }
                _ => self.watch(&task).await,
            }
            self.busy.0.lock().unwrap().remove(&task);
            return;
        }
    }

    async fn review(&mut self, task: &str) {
        let strategy = *self.dice.pick(&["merge", "squash", "rebase"]);
        match self.dice.below(12) {
            0..4 => self.merge("review_task", json!({ "task_id": task, "decision": "approve", "strategy": strategy })).await,
            4 => self.merge("merge_task", json!({ "task_id": task, "strategy": strategy })).await,
            5 => self.merge("merge_task", json!({ "task_id": task, "on_conflict": "leave_open" })).await,
            6 => {
                drop(self.call("preview_merge", &json!({ "task_id": task })).await);
            }
            7 => {
                let feedback = json!({ "task_id": task, "decision": "reject_rerun", "feedback": "Once more." });
                drop(self.call("review_task", &feedback).await);
            }
            8 => {
                let arguments = json!({ "task_id": task, "discard_changes": self.dice.chance(50) });
                drop(self.call("cleanup_task_worktree", &arguments).await);
            }
            9 => self.retitle(task).await,
            _ => self.go_on(task).await,
        }
    }

    /// Merges, and deals with a conflict that is left open.
    async fn merge(&mut self, tool: &str, arguments: Value) {
        let task = arguments["task_id"].as_str().unwrap_or_default().to_owned();
        let answer = self.call(tool, &arguments).await;
        self.merge_told(&task, &answer);
        let Some(path) = answer.done().and_then(|done| done["merge_worktree_path"].as_str()) else { return };
        self.stage.ledger.count("conflicts left open");
        match self.dice.below(3) {
            0 => drop(self.call("abort_merge", &json!({ "task_id": task })).await),
            1 => {
                let path = Path::new(path);
                if std::fs::write(path.join(SHARED), "first\nresolved\nlast\n").is_ok()
                    && self.stage.git(path, &["add", SHARED]).await.is_ok()
                {
                    let answer = self.call("continue_merge", &json!({ "task_id": task })).await;
                    self.merge_told(&task, &answer);
                }
            }
            _ => {}
        }
    }

    fn merge_told(&self, task: &str, answer: &Answer) {
        let mut book = self.stage.ledger.open();
        let told = book.tasks.entry(task.into()).or_default();
        match answer {
            Answer::Done(done) => told.merged.extend(done["merge"]["merge_id"].as_str().map(str::to_owned)),
            Answer::Unclear(_) => told.merges_unclear += 1,
            Answer::Refused(_) => {}
        }
    }

    async fn finished(&mut self, task: &str) {
        if self.dice.chance(50) {
            return self.retitle(task).await;
        }
        let answer = self.call("revert_merge", &json!({ "task_id": task })).await;
        let mut book = self.stage.ledger.open();
        let told = book.tasks.entry(task.into()).or_default();
        match &answer {
            Answer::Done(done) => told.reverted.extend(done["revert"]["merge_id"].as_str().map(str::to_owned)),
            Answer::Unclear(_) => told.reverts_unclear += 1,
            Answer::Refused(_) => {}
        }
    }

    /// Sends a prompt to the task's session.
    async fn go_on(&mut self, task: &str) {
        let mark = self.mark();
        let prompt = jobs::prompt(&mut self.dice, &mark);
        let mut once = Once { mark, task: Some(task.into()), ..Once::default() };
        self.keyed("continue_task", json!({ "task_id": task, "prompt": prompt }), &mut once).await;
        self.stage.ledger.open().prompts.push(once);
    }

    async fn again(&mut self, task: &str, failed: bool) {
        if failed && self.dice.chance(50) {
            return self.go_on(task).await;
        }
        if failed {
            drop(self.call("reset_failed_task", &json!({ "task_id": task })).await);
        }
        drop(self.call("update_task_status", &json!({ "task_id": task, "status": "queued" })).await);
    }

    /// What can be done while an agent works.
    async fn watch(&mut self, task: &str) {
        match self.dice.below(10) {
            0 => {
                let answer = self.call("cancel_task", &json!({ "task_id": task })).await;
                self.stage.ledger.open().tasks.entry(task.into()).or_default().cancels.add(&answer);
            }
            1..3 => self.retitle(task).await,
            3 => {
                drop(self.call("preview_merge", &json!({ "task_id": task })).await);
            }
            4 => {
                drop(self.call("get_task_log", &json!({ "task_id": task })).await);
            }
            _ => {
                drop(self.call("wait_for_task_change", &json!({ "task_ids": [task], "timeout_seconds": 1 })).await);
            }
        }
    }

    async fn retitle(&mut self, task: &str) {
        let title = format!("{} again", self.mark());
        let answer = self.call("update_task", &json!({ "task_id": task, "title": title })).await;
        let mut book = self.stage.ledger.open();
        let told = book.tasks.entry(task.into()).or_default();
        match answer {
            Answer::Done(_) => told.title = title,
            Answer::Unclear(_) => {
                told.titles_unclear.insert(title);
            }
            Answer::Refused(_) => {}
        }
    }
}
