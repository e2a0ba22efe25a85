//! What every agent has to be able to do, however it is spoken to: each function sets a stage, does one thing, and looks
//! at what came of it in git, in Taskyard's records and on the model's side.

use crate::harness::{Configure, Stage};
use crate::support::{Task, eventually, lives};
use serde_json::{Value, json};
use taskyard_testkit::model::scenario::{Failure, Scenario, Step, Stop, Times, hang, mcp, run, say, write};

/// A command that leaves a process in a session of its own and then takes long itself; its argument marks both.
fn long() -> String {
    let seconds = long_seconds();
    format!("setsid sleep {seconds} </dev/null >/dev/null 2>&1 & echo begun > begun; sleep {seconds}")
}

/// Seconds that no other test's command takes.
fn long_seconds() -> u32 {
    1_000_000 + std::process::id()
}

/// Living processes of [`long`]. Some agents run commands in a namespace, where their ids are others.
fn sleepers() -> Vec<i32> {
    let wanted = long_seconds().to_string();
    let ids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<i32>().ok());
    let sleeps = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        words.first().is_some_and(|word| word.ends_with(b"sleep")) && words.get(1) == Some(&wanted.as_bytes())
    };
    ids.filter(sleeps).collect()
}

/// Waits until both processes of [`long`] run.
async fn long_begun(stage: &Stage, task: &str) -> Vec<i32> {
    stage.file(task, "begun").await;
    eventually("both sleeping processes", async || Some(sleepers()).filter(|pids| pids.len() == 2)).await
}

/// A file, a commit, a call of one of Taskyard's tools, a last word.
fn whole_job() -> Scenario {
    let subtask = json!({ "parent_id": "TY-1", "title": "What is left to do" });
    Scenario::new()
        .reply([say("I write the file."), write("{{cwd}}/hello.txt", "hello\n")])
        .reply([run("git add -A && git commit -q -m 'Add hello.txt' && git log --oneline | head -1")])
        .reply([mcp("taskyard", "add_subtask", subtask)])
        .reply([say("Done: hello.txt is committed.")])
        .tokens(1200, 80)
}

/// The whole job on default settings, up to the merge.
pub async fn job(configure: Configure) {
    let (stage, task) = whole(configure, &[], whole_job()).await;
    called_with_the_runs_token(&stage, &task).await;
    let run = stage.yard.run(&task).await;
    let served = i64::try_from(stage.playing.served().iter().filter(|served| served.reply.is_some()).count()).unwrap();
    assert!(served >= 4, "{:#?}", stage.playing.served());
    assert_eq!((&run["input_tokens"], &run["output_tokens"]), (&json!(served * 1200), &json!(served * 80)), "{run:#}");
    assert_eq!(run["turns"], served, "{run:#}");
    stage.server().call("delete_task", json!({ "task_id": "TY-2" })).await;
    approved(&stage, &task).await;
}

/// The same without figures, which not every protocol tells.
pub async fn job_without_figures(configure: Configure) {
    let (stage, task) = whole(configure, &[], whole_job()).await;
    called_with_the_runs_token(&stage, &task).await;
    stage.server().call("delete_task", json!({ "task_id": "TY-2" })).await;
    approved(&stage, &task).await;
}

/// The job up to the merge without a call of a tool, for agents that take no MCP servers.
pub async fn job_without_tools(configure: Configure) {
    let mut scenario = whole_job();
    scenario.replies.remove(2);
    let (stage, task) = whole(configure, &[], scenario).await;
    let log = stage.yard.log(&task).await;
    assert!(log.contains("works without Taskyard's tools"), "a person is told: {log}");
    approved(&stage, &task).await;
}

/// The job up to the merge, also without a call: for agents that know their tools only after a while.
pub async fn job_before_tools(configure: Configure) {
    let mut scenario = whole_job();
    scenario.replies.remove(2);
    let (stage, task) = whole(configure, &[], scenario).await;
    approved(&stage, &task).await;
}

/// A task that commits `hello.txt` without anybody being asked, up to the review.
async fn whole(configure: Configure, words: &[&str], scenario: Scenario) -> (Stage, Task) {
    let stage = Stage::with(configure, words, scenario).await;
    let task = stage.queue("Say hello in a file").await;
    stage.wait(&task, "waiting_for_review").await;
    assert_eq!(stage.commits(&task).await, ["Add hello.txt"]);
    assert_eq!(stage.yard.outcomes(&task).await, ["succeeded"]);
    let worktree = stage.yard.worktree(&task).await;
    // A patch's last line comes without its end by some agents.
    assert_eq!(std::fs::read_to_string(worktree.join("hello.txt")).unwrap().trim_end(), "hello");
    let left = stage.yard.repo.git_in(&worktree, &["status", "--porcelain"]).await.unwrap();
    assert_eq!(left, "", "the agent's own commit holds everything");
    stage.yard.nothing_lives(&task).await;
    stage.no_problems();
    (stage, task)
}

async fn approved(stage: &Stage, task: &str) {
    stage.server().call("review_task", json!({ "task_id": task, "decision": "approve" })).await;
    assert_eq!(stage.yard.repo.git(&["show", "main:hello.txt"]).await.unwrap(), "hello");
}

/// The subtask is there, and the audit log says that this task's run made it over MCP.
async fn called_with_the_runs_token(stage: &Stage, task: &str) {
    let workspace = stage.server().call("list_workspaces", json!({})).await["workspaces"][0]["id"].clone();
    let log = stage.server().call("get_audit_log", json!({ "workspace": workspace, "action": "task.created" })).await;
    let run = stage.yard.run(task).await["id"].as_str().unwrap().to_owned();
    let transcript = stage.yard.log(task).await;
    let by_run = |entry: &&Value| entry["face"] == "mcp" && entry["actor"].as_str().unwrap().contains(&run);
    let entry =
        log["entries"].as_array().unwrap().iter().find(by_run).unwrap_or_else(|| panic!("no entry of {run}: {log:#}\n{transcript}"));
    let child = stage.yard.get(entry["target_id"].as_str().unwrap()).await;
    assert_eq!(child["title"], "What is left to do", "{child:#}");
}

/// With the policy `ask` a person allows one command and refuses the next: the agent is told and goes on.
pub async fn permission(configure: Configure) {
    one_of_two_is_refused(configure, run("echo yes > allowed.txt"), run("echo no > refused.txt")).await;
}

async fn one_of_two_is_refused(configure: Configure, allowed: Step, refused: Step) {
    let scenario = Scenario::new().reply([allowed]).reply([refused]).reply([say("Then I leave it.")]);
    let stage = Stage::with(configure, &["--permissions", "ask"], scenario).await;
    let task = stage.queue("Ask before you do anything").await;
    let mut answers = 0;
    // Some agents ask about more than the commands; only what would write the second file is refused.
    while stage.yard.status(&task).await != "waiting_for_review" {
        let open = eventually("a question or the end", async || {
            let open = stage.yard.questions().await;
            let status = stage.yard.status(&task).await;
            let goes_on = ["queued", "in_progress", "waiting_for_input", "waiting_for_review"].contains(&status.as_str());
            assert!(goes_on, "{status}: {:?}\n{}", stage.end(&task).await, stage.yard.log(&task).await);
            (!open.is_empty() || status == "waiting_for_review").then_some(open)
        })
        .await;
        let Some(question) = open.first() else { break };
        let refuses = question.to_string().contains("refused.txt");
        let answer: &[&str] = if refuses { &["--deny", "not this one"] } else { &["--allow"] };
        let told = stage.server().cli(&[&["task", "answer", "TY-1"], answer].concat()).await;
        assert_eq!(told.code, 0, "{told:?}");
        answers += 1;
    }
    assert!(answers >= 2, "{answers} questions");
    let worktree = stage.yard.worktree(&task).await;
    assert!(worktree.join("allowed.txt").exists() && !worktree.join("refused.txt").exists());
    assert_eq!(stage.yard.outcomes(&task).await, ["succeeded"]);
    let log = stage.yard.log(&task).await;
    assert!(log.contains("Then I leave it."), "{log}");
    stage.no_problems();
}

/// Cancelled while a tool runs: everything ends, also what left the process group; work goes on in the same conversation.
pub async fn cancel(configure: Configure) {
    let scenario = Scenario::new()
        .reply([say("This takes long."), run(&long())])
        .reply([run("rm begun && echo went on > on.txt && git add on.txt && git commit -qm 'Go on'")])
        .reply([say("Done.")]);
    let stage = Stage::new(configure, scenario).await;
    let task = stage.queue("Do something long").await;
    let pids = long_begun(&stage, &task).await;
    let asked_at = std::time::Instant::now();
    let cancelled = stage.server().call("cancel_task", json!({ "task_id": task })).await;
    println!("cancelled after {} ms", asked_at.elapsed().as_millis());
    assert_eq!((&cancelled["status"], &cancelled["worktree_kept"]), (&json!("cancelled"), &json!(true)));
    all_gone(&pids);
    stage.yard.nothing_lives(&task).await;
    assert_eq!(stage.end(&task).await, ("cancelled".into(), "cancelled by a person".into()));
    stage.server().call("continue_task", json!({ "task_id": task, "prompt": "Go on after all" })).await;
    stage.wait(&task, "waiting_for_review").await;
    assert_eq!(stage.commits(&task).await, ["Go on"]);
    assert_eq!(stage.yard.outcomes(&task).await, ["succeeded", "cancelled"]);
    went_on_in_the_same_conversation(&stage, &task).await;
}

/// Cancelled while the model says nothing more.
pub async fn cancel_silent_model(configure: Configure) {
    let stage = Stage::new(configure, Scenario::new().reply([say("I think about it and never stop."), hang()])).await;
    let task = stage.queue("Think").await;
    stage.served("hanging").await;
    let cancelled = stage.server().call("cancel_task", json!({ "task_id": task })).await;
    assert_eq!(cancelled["status"], "cancelled");
    stage.yard.nothing_lives(&task).await;
    assert_eq!(stage.end(&task).await, ("cancelled".into(), "cancelled by a person".into()));
    stage.no_problems();
}

/// `kill -9` of the server in mid-tool: at the next start everything left over is ended, and the conversation goes on.
pub async fn crash(configure: Configure) {
    let scenario = Scenario::new()
        .reply([say("This takes long."), run(&long())])
        .reply([run("rm begun && echo back > back.txt && git add -A && git commit -qm 'Come back'")])
        .reply([say("Done.")]);
    let mut stage = Stage::new(configure, scenario).await;
    let task = stage.queue("Survive a crash").await;
    let pids = long_begun(&stage, &task).await;
    stage.yard.server.kill9().await;
    stage.yard.server.launch().await;
    stage.wait(&task, "waiting_for_review").await;
    all_gone(&pids);
    assert_eq!(stage.commits(&task).await, ["Come back"]);
    assert_eq!(stage.yard.outcomes(&task).await, ["succeeded", "interrupted"]);
    went_on_in_the_same_conversation(&stage, &task).await;
    stage.yard.nothing_lives(&task).await;
}

/// What an agent gets over by itself: the work is done in one run, and the transcript tells of the trouble.
pub async fn recovers(configure: Configure, failures: Vec<Step>) {
    let work = run("echo ok > ok.txt && git add -A && git commit -qm 'Get through'");
    let first = failures.into_iter().chain([say("Now it works."), work]);
    let stage = Stage::new(configure, Scenario::new().reply(first).reply([say("Done.")])).await;
    let task = stage.queue("Get through").await;
    stage.wait(&task, "waiting_for_review").await;
    assert_eq!(stage.commits(&task).await, ["Get through"]);
    assert_eq!(stage.yard.outcomes(&task).await, ["succeeded"]);
    assert!(stage.playing.served().iter().any(|served| served.outcome != "answered"), "{:#?}", stage.playing.served());
    stage.no_problems();
}

/// The model's answer is cut at its output limit. Agents that go on by themselves get the work done.
pub async fn output_cut(configure: Configure) -> Stage {
    let work = run("echo ok > ok.txt && git add -A && git commit -qm 'Say the rest'");
    let scenario = Scenario::new().reply([say("This answer is cut"), Step::Stop(Stop::MaxTokens)]).reply([work]).reply([say("Done.")]);
    Stage::new(configure, scenario).await
}

/// A failed model for every way to fail that passes.
pub fn passing_failures() -> Vec<Step> {
    vec![
        Failure::status(429).message("slow down").header("retry-after", 1).into(),
        Failure::status(500).into(),
        Step::Break { text: "these words are cut off somewhere in the middle of them".into(), times: Times::Only(1) },
    ]
}

/// A failure that doesn't pass: the task fails and the reason says what a person has to know.
pub async fn fails(configure: Configure, failure: Failure, words: &[&str]) {
    let stage = Stage::new(configure, Scenario::new().reply([failure.into()])).await;
    let task = stage.queue("Fail").await;
    let shown = stage.wait(&task, "failed").await;
    let (outcome, reason) = stage.end(&task).await;
    assert_eq!(outcome, "failed", "{shown:#}");
    for word in words {
        assert!(reason.contains(word), "no {word:?} in: {reason}");
    }
    // The task shows the beginning of it.
    assert!(reason.starts_with(shown["failure"].as_str().unwrap()), "{shown:#}");
    stage.yard.nothing_lives(&task).await;
    stage.no_problems();
}

/// A usage limit: the task is queued again until the stated time, the account pauses, nothing counts as a failure.
pub async fn limit(configure: Configure, failure: impl Fn(i64) -> Failure) {
    let reset_at = (seconds_now() + 3 * 3600) / 60 * 60;
    let work = run("echo ok > ok.txt && git add -A && git commit -qm 'After the pause'");
    let scenario = Scenario::new().reply([failure(reset_at).into(), work]).reply([say("Done.")]);
    let stage = Stage::new(configure, scenario).await;
    let task = stage.queue("Hit the limit").await;
    let shown = paused(&stage, &task).await;
    let until: taskyard_domain::Timestamp = shown["not_before"].as_str().unwrap().parse().unwrap();
    let off = until.as_second() - reset_at;
    assert!(off.abs() <= 60, "paused until {until}, {off} s off");
    let agents = stage.server().call("list_agents", json!({})).await;
    assert_eq!(agents["agents"][0]["limited_until"], shown["not_before"], "{agents:#}");
    assert_eq!(shown["failure"], Value::Null);
    stage.no_problems();
}

/// An account that stays throttled without saying until when: the task is queued again with a back-off.
pub async fn throttled(configure: Configure, failure: Failure) {
    let stage = Stage::new(configure, Scenario::new().reply([failure.into()])).await;
    let task = stage.queue("Be throttled").await;
    let shown = paused(&stage, &task).await;
    let until: taskyard_domain::Timestamp = shown["not_before"].as_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&(until.as_second() - seconds_now())), "paused until {until}");
    let (outcome, reason) = stage.end(&task).await;
    assert!(outcome == "limited" && reason.contains("429"), "{outcome}: {reason}");
    stage.no_problems();
}

/// Waits until a usage limit has paused the task.
async fn paused(stage: &Stage, task: &str) -> Value {
    eventually("the task to be paused", async || {
        let shown = stage.yard.get(task).await;
        assert_ne!(shown["status"], "failed", "{shown:#}");
        (shown["status"] == "queued" && shown["last_outcome"] == "limited").then_some(shown)
    })
    .await
}

fn seconds_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

fn all_gone(pids: &[i32]) {
    let left: Vec<&i32> = pids.iter().filter(|pid| lives(**pid)).collect();
    assert!(left.is_empty() && sleepers().is_empty(), "left over: {left:?} of {pids:?}");
}

/// The model was shown the history (the second reply was asked for), and nobody was told of a new beginning.
async fn went_on_in_the_same_conversation(stage: &Stage, task: &str) {
    let replies: Vec<usize> = stage.playing.served().iter().filter_map(|served| served.reply).collect();
    assert_eq!(replies.iter().filter(|reply| **reply == 0).count(), 1, "{:#?}", stage.playing.served());
    assert!(replies.contains(&1), "{replies:?}");
    let log = stage.yard.log(task).await;
    assert!(!log.contains("a new one begins"), "{log}");
    stage.no_problems();
}
