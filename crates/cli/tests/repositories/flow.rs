//! The flow that every shape of repository goes through, once by each strategy, and two tasks in each other's way.

use crate::plain::{Plain, in_order, sound, tree_of};
use crate::project::{Project, message};
use crate::support::{Task, Yard, eventually, prompt};
use serde_json::{Value, json};
use std::time::Instant;

/// What agents and people do in a repository.
pub struct Work {
    /// A text file with at least 40 lines.
    pub file: &'static str,
    /// What ends its lines, as `sed` writes it: nothing, or `\r`.
    pub line_end: &'static str,
    /// What a task does by each strategy besides editing the file: shell commands whose result is committed.
    pub committed: [&'static str; 3],
    /// And what it leaves uncommitted.
    pub left: &'static str,
    /// How many files change at least by `committed` and `left`.
    pub files: u64,
}

const STRATEGIES: [&str; 3] = ["squash", "merge", "rebase"];

impl Work {
    /// A command that makes line `n` of the file say `text`.
    fn line(&self, n: usize, text: &str) -> String {
        format!("sed -i '{n}s/.*/{text}{}/' '{}'", self.line_end, self.file)
    }
}

/// Prints how long a step took.
struct Clock(Instant, &'static str);

impl Clock {
    fn tick(&mut self, step: &str) {
        eprintln!("{:>12} {:<40} {:>7} ms", self.1, step, self.0.elapsed().as_millis());
        self.0 = Instant::now();
    }
}

/// Everything, by every strategy.
pub async fn whole(yard: &Yard, project: &Project<'_>, name: &'static str, work: &Work) {
    let plain = Plain::beside(project).await;
    let mut kept = Vec::new();
    let mut clock = Clock(Instant::now(), name);
    for (turn, strategy) in STRATEGIES.into_iter().enumerate() {
        let round = Round { yard, project, plain: &plain, work, strategy, turn };
        round.run(&mut kept, &mut clock).await;
    }
    each_other(yard, project, work, &mut kept).await;
    clock.tick("two tasks on the same line");
    in_order(project, 1, &kept).await;
    sound(project).await;
    clock.tick("fsck");
}

/// One task from its start to its second merge.
struct Round<'r> {
    yard: &'r Yard,
    project: &'r Project<'r>,
    plain: &'r Plain<'r>,
    work: &'r Work,
    strategy: &'static str,
    turn: usize,
}

impl Round<'_> {
    async fn run(&self, kept: &mut Vec<String>, clock: &mut Clock) {
        let task = self.start().await;
        clock.tick(&format!("{}: queued to reviewable", self.strategy));
        self.review(&task).await;
        clock.tick("diff and preview");
        self.conflict(&task).await;
        clock.tick("conflict with a moved target");
        self.send_back(&task).await;
        clock.tick("sent back, settled");
        let merged = self.merge(&task).await;
        kept.extend(["tip", "commit"].map(|part| merged[part].as_str().unwrap().to_owned()));
        in_order(self.project, 0, kept).await;
        clock.tick("merged");
        let reverted = self.revert(&task, &merged).await;
        kept.push(reverted["commit"].as_str().unwrap().into());
        in_order(self.project, 0, kept).await;
        clock.tick("reverted");
        let again = self.again(&task, &merged, &reverted).await;
        kept.extend(["tip", "commit"].map(|part| again[part].as_str().unwrap().to_owned()));
        in_order(self.project, 0, kept).await;
        clock.tick("more work, merged again");
    }

    /// The line that task and user edit.
    fn own_line(&self) -> usize {
        5 + 10 * self.turn
    }

    /// Two commits and something uncommitted.
    async fn start(&self) -> Task {
        let steps = json!([
            { "shell": self.work.committed[self.turn] }, { "commit": "Special" },
            { "shell": self.work.line(self.own_line(), &format!("task by {}", self.strategy)) }, { "commit": "Edit" },
            { "shell": self.work.left },
        ]);
        let task = self.project.work(&format!("By {}", self.strategy), steps).await;
        let log = self.yard.log(&task).await;
        let left = log.contains("had left uncommitted");
        assert_eq!(left, !self.work.left.is_empty(), "{log}");
        task
    }

    async fn tip(&self, task: &str) -> String {
        let branch = self.yard.get(task).await["worktree"]["branch"].as_str().unwrap().to_owned();
        self.project.git(&["rev-parse", &format!("refs/heads/{branch}")]).await
    }

    /// The diff lists what git lists, by its real names, each with a patch; the preview says it is clean.
    async fn review(&self, task: &str) {
        let tip = self.tip(task).await;
        let range = format!("main...{tip}");
        let listed = self.project.git(&["-c", "core.quotepath=false", "diff", "--no-renames", "--name-only", "-z", &range]).await;
        let mut listed: Vec<&str> = listed.split('\0').filter(|name| !name.is_empty()).collect();
        let (mut found, mut cursor) = (Vec::new(), Value::Null);
        let started = Instant::now();
        loop {
            let page = json!({ "task_id": task, "stat_only": true, "max_bytes": 262_144, "cursor": cursor });
            let page = self.yard.server.call("get_task_diff", page).await;
            assert_eq!(page["tip_commit"], tip.as_str());
            for file in page["files"].as_array().unwrap() {
                found.push(file["path"].as_str().unwrap().to_owned());
                let is_move = file["status"] == "renamed";
                found.extend(file["old_path"].as_str().filter(|_| is_move).map(str::to_owned));
            }
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        eprintln!("             {} files listed in {} ms", found.len(), started.elapsed().as_millis());
        found.sort();
        listed.sort_unstable();
        assert_eq!(found, listed);
        assert!(found.len() as u64 >= self.work.files, "{} files: {:?}", found.len(), found.first());
        for name in found.iter().step_by(found.len().div_ceil(12)) {
            let one = self.yard.server.call("get_task_diff", json!({ "task_id": task, "path": name })).await;
            let patch = one["files"][0]["patch"].as_str().unwrap();
            assert!(patch.starts_with("diff --git"), "{name}: {one}");
        }
        let preview = self.yard.server.call("preview_merge", json!({ "task_id": task })).await;
        assert_eq!(preview["result"], "clean", "{preview}");
    }

    /// The user changes the same line: preview and every strategy say so, and nothing changes.
    async fn conflict(&self, task: &str) {
        self.project.git(&["reset", "-q", "--hard"]).await;
        self.shell(&self.work.line(self.own_line(), &format!("user against {}", self.strategy))).await;
        self.project.git(&["commit", "-q", "-a", "-m", "Meanwhile"]).await;
        let before = self.state().await;
        let preview = self.yard.server.call("preview_merge", json!({ "task_id": task })).await;
        assert_eq!(preview["result"], "conflict", "{preview}");
        for strategy in STRATEGIES {
            let arguments = json!({ "task_id": task, "strategy": strategy });
            let error = self.yard.server.refused("merge_task", arguments, "CONFLICT").await;
            assert_eq!(error["details"]["files"], json!([self.work.file]), "{strategy}: {error}");
            assert_eq!(error["details"]["nothing_changed"], true);
        }
        assert_eq!(self.state().await, before);
    }

    /// The agent takes the target in and keeps both: by a merge, or by rebasing where that is what will be done.
    async fn send_back(&self, task: &str) {
        let settle = if self.strategy == "rebase" { "git rebase -q -X theirs main" } else { "git merge -q -X ours --no-edit main" };
        let runs = self.yard.outcomes(task).await.len();
        let feedback = prompt("It conflicts: take main in.", json!([{ "shell": settle }]));
        self.yard.server.call("review_task", json!({ "task_id": task, "decision": "reject_rerun", "feedback": feedback })).await;
        eventually("the next run", async || (self.yard.outcomes(task).await.len() > runs).then_some(())).await;
        self.yard.reviewable(task).await;
    }

    async fn merge(&self, task: &str) -> Value {
        // Something that doesn't touch the task's work, so that nothing is a fast-forward.
        self.shell(&format!("echo {} > meanwhile.txt", self.strategy)).await;
        self.project.git(&["add", "meanwhile.txt"]).await;
        self.project.git(&["commit", "-q", "-m", "Meanwhile, elsewhere"]).await;
        let (target, tip) = (self.project.git(&["rev-parse", "main"]).await, self.tip(task).await);
        let expected = self.plain.merged(self.strategy, &target, &tip).await;
        let merged = self.yard.server.call("merge_task", json!({ "task_id": task, "strategy": self.strategy })).await;
        let merged = merged["merge"].clone();
        assert_eq!((merged["target_before"].as_str(), merged["tip"].as_str()), (Some(&*target), Some(&*tip)));
        assert_eq!(tree_of(self.project, "main").await, expected, "{}", self.strategy);
        let parents = self.project.git(&["rev-list", "--parents", "-1", "main"]).await.split(' ').count() - 1;
        assert_eq!(parents, if self.strategy == "merge" { 2 } else { 1 });
        merged
    }

    async fn revert(&self, task: &str, merged: &Value) -> Value {
        let before = merged["target_before"].as_str().unwrap();
        let answer = self.yard.server.call("revert_merge", json!({ "task_id": task })).await;
        assert_eq!(tree_of(self.project, "main").await, tree_of(self.project, before).await);
        assert_eq!(self.yard.status(task).await, "waiting_for_review");
        answer["revert"].clone()
    }

    /// More work on the same branch, then all of it lands.
    async fn again(&self, task: &str, merged: &Value, reverted: &Value) -> Value {
        let more = self.work.line(self.own_line() + 4, &format!("more by {}", self.strategy));
        let steps = json!([{ "shell": more }, { "commit": "More" }]);
        let runs = self.yard.outcomes(task).await.len();
        let prompt = prompt("Go on.", steps);
        self.yard.server.call("continue_task", json!({ "task_id": task, "prompt": prompt })).await;
        eventually("the next run", async || (self.yard.outcomes(task).await.len() > runs).then_some(())).await;
        self.yard.reviewable(task).await;
        let (target, tip) = (self.project.git(&["rev-parse", "main"]).await, self.tip(task).await);
        let revert = reverted["commit"].as_str().unwrap();
        let expected = self.plain.merged_again(&target, revert, merged["tip"].as_str().unwrap(), &tip).await;
        let again = self.yard.server.call("merge_task", json!({ "task_id": task, "strategy": self.strategy })).await;
        assert_eq!(tree_of(self.project, "main").await, expected, "{}", self.strategy);
        again["merge"].clone()
    }

    async fn shell(&self, command: &str) {
        self.project.git(&["-c", &format!("alias.sh=!{command}"), "sh"]).await;
    }

    /// Refs, status and worktrees of the project: what a refusal must not change.
    async fn state(&self) -> Vec<String> {
        let mut state = Vec::new();
        for args in [&["for-each-ref"][..], &["status", "--porcelain=v2", "--branch"], &["worktree", "list", "--porcelain"]] {
            state.push(self.project.git(args).await);
        }
        state
    }
}

/// Two tasks change the same line: the set's preview says which stays out, and so does the second merge.
async fn each_other(yard: &Yard, project: &Project<'_>, work: &Work, kept: &mut Vec<String>) {
    let mut tasks = Vec::new();
    for name in ["one", "two"] {
        let steps = json!([{ "shell": work.line(37, name) }, { "commit": name }]);
        tasks.push(project.queue(&format!("Task {name}"), steps).await);
    }
    for task in &tasks {
        yard.reviewable(task).await;
    }
    let set = yard.server.call("preview_merge_set", json!({ "task_ids": tasks })).await;
    assert_eq!((set["order_ok"].as_array().unwrap().len(), set["left_out_count"].as_i64()), (1, Some(1)), "{set}");
    assert!(set["overlap"].to_string().contains(work.file), "{set}");
    let merged = project.approve(&tasks[0]).await;
    kept.extend(["tip", "commit"].map(|part| merged["merge"][part].as_str().unwrap().to_owned()));
    let error = project.refused(&tasks[1], "CONFLICT").await;
    assert!(message(&error).contains(work.file), "{error}");
}
