//! An engine at rest on one database, the steps taken on it, and everything it holds as one value.

use super::steps::{DECISIONS, Step, WORDS};
use crate::effect::Effect;
use crate::merge::tests::yard::input;
use crate::session::Ending;
use crate::{Caller, Engine, Options, Paths, queue};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use taskyard_agents::{LimitNotice, Permission, PermissionOption};
use taskyard_domain::id::{QuestionId, RunId, WorkspaceId};
use taskyard_domain::queue::{Plan, plan};
use taskyard_domain::run::Outcome;
use taskyard_domain::{Clock, Error, Face, Ids, Result, Timestamp};
use taskyard_git::Git;
use taskyard_store::{Database, Options as StoreOptions, Store, TaskFilter};
use taskyard_testkit::postgres::TestDatabase;
use taskyard_testkit::repo::Repo;
use tempfile::TempDir;
use uuid::Uuid;

/// How often a command that waits for an effect is looked after.
const LOOK: std::time::Duration = std::time::Duration::from_millis(5);
/// More rows than any sequence makes.
const ALL: i64 = 100_000;

struct Still(AtomicI64);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

struct Counted(AtomicU64);

impl Ids for Counted {
    fn next(&self) -> Uuid {
        Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + u128::from(self.0.fetch_add(1, Ordering::SeqCst)))
    }
}

pub struct World {
    pub name: &'static str,
    engine: Engine,
    clock: Arc<Still>,
    workspace: WorkspaceId,
    lists: Vec<String>,
    /// Every task that was made, by short id, deleted ones too.
    tasks: Vec<String>,
    questions: Vec<QuestionId>,
    postgres: Option<TestDatabase>,
    repo: Arc<Repo>,
    _folder: TempDir,
}

impl World {
    /// One on SQLite, and one on PostgreSQL where there is one.
    pub async fn each() -> Vec<Self> {
        let repo = Arc::new(Repo::new().await.unwrap());
        let folder = quick_folder();
        let database = Database::Sqlite { path: folder.path().join("taskyard.db") };
        let mut worlds = vec![Self::on("SQLite", database, folder, None, &repo).await];
        if let Some(made) = TestDatabase::make().await.unwrap() {
            let database = Database::Postgres { url: made.url.clone() };
            worlds.push(Self::on("PostgreSQL", database, quick_folder(), Some(made), &repo).await);
        }
        worlds
    }

    async fn on(name: &'static str, database: Database, folder: TempDir, postgres: Option<TestDatabase>, repo: &Arc<Repo>) -> Self {
        let clock = Arc::new(Still(AtomicI64::new(1_767_323_045_000_000)));
        let ids: Arc<dyn Ids> = Arc::new(Counted(AtomicU64::new(1)));
        let options =
            StoreOptions { database, backup_dir: folder.path().join("backup"), clock: clock.clone(), ids: ids.clone(), audited: true };
        let store = Store::open(options).await.unwrap();
        let engine = Engine::new(Options {
            store,
            git: Git::new(repo.env().clone()),
            environment: repo.env().clone(),
            paths: Paths::new(folder.path().canonicalize().unwrap()),
            clock: clock.clone(),
            ids,
            node: "test:1".into(),
            patience: 0.01,
        });
        engine.ensure_first_workspace().await.unwrap();
        let workspaces = engine.store().read(|read| Box::pin(async move { read.workspace_list().await })).await.unwrap();
        let mut world = Self {
            name,
            engine,
            clock,
            workspace: workspaces[0].id,
            lists: Vec::new(),
            tasks: Vec::new(),
            questions: Vec::new(),
            postgres,
            repo: repo.clone(),
            _folder: folder,
        };
        world.furnish().await;
        world
    }

    /// A list over a repository, one without, two agents of which the second runs once at a time.
    async fn furnish(&mut self) {
        let (me, path) = (me(), self.repo.path());
        for list in [json!({ "name": "Over a repository", "local_path": path }), json!({ "name": "Bare" })] {
            self.lists.push(self.engine.create_list(&me, input(list)).await.unwrap().list_id);
        }
        for (name, more) in [("first", json!({})), ("second", json!({ "max_parallel": 1 }))] {
            let mut agent = json!({ "name": name, "driver": "exec", "command": ["true"] });
            agent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            self.engine.agent_add(&me, input(agent)).await.unwrap();
        }
    }

    pub async fn finish(self) {
        self.engine.store().close().await;
        if let Some(postgres) = self.postgres {
            postgres.remove().await.unwrap();
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What the queue would do now.
    pub async fn planned(&self) -> Plan {
        let now = self.now();
        let snapshot = self.engine.store().read(move |read| Box::pin(async move { queue::snapshot(read, now).await })).await.unwrap();
        plan(snapshot, now)
    }

    /// What the tool says of the queue.
    pub async fn queue_state(&self) -> Value {
        serde_json::to_value(self.engine.get_queue_state(&me(), input(json!({}))).await.unwrap()).unwrap()
    }

    /// Everything in the database that has a meaning.
    pub async fn look(&self) -> Value {
        let (ws, known) = (self.workspace, self.questions.clone());
        let read = self.engine.store().read(move |read| {
            Box::pin(async move {
                let everything = TaskFilter { include_archived: true, ..TaskFilter::all(ws) };
                let tasks = read.task_page(&everything, None, ALL).await?;
                let (mut blockers, mut sessions, mut questions) = (Vec::new(), Vec::new(), Vec::new());
                for task in &tasks {
                    blockers.push(json!({ "task": task.id, "on": read.blockers_of(task.id).await? }));
                    sessions.extend(read.session_list(task.id).await?);
                }
                for question in known {
                    questions.extend(read.question_fetch(question).await?);
                }
                let outbox: Vec<Value> = read.outbox_due(Timestamp::MAX, ALL).await?.into_iter().map(|row| row.payload).collect();
                let audit: Vec<Value> =
                    read.audit_page(ws, None, None, None, ALL).await?.into_iter().map(|entry| json!(entry.body)).collect();
                Ok(json!({
                    "tasks": tasks, "blockers": blockers, "sessions": sessions, "questions": questions, "outbox": outbox, "audit": audit,
                    "open_questions": read.question_list_open(None).await?,
                    "runs": read.run_page(None, None, None, ALL).await?,
                    "events": read.events_after(ws, 0, ALL).await?,
                    "head": read.event_head(ws).await?,
                    "agents": read.agent_list(ws).await?,
                    "profiles": read.profile_list(ws).await?,
                    "settings": read.settings_fetch().await?,
                }))
            })
        });
        read.await.unwrap()
    }

    fn task(&self, number: u8) -> String {
        let known = |count: usize| self.tasks[usize::from(number) % count].clone();
        if self.tasks.is_empty() { "TY-999".to_owned() } else { known(self.tasks.len()) }
    }

    /// The open run of this number, oldest first, as `state` has it.
    fn run(state: &Value, number: u8) -> Option<RunId> {
        let runs = state["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let open: Vec<&Value> = runs.iter().rev().filter(|run| run["state"] != "ended").collect();
        let run = open.get(usize::from(number) % open.len().max(1))?;
        run["id"].as_str()?.parse().ok()
    }

    /// Takes a step; its outcome without what differs between two databases by nature.
    pub async fn take(&mut self, step: &Step, state: &Value) -> Value {
        let outcome = match step {
            Step::Dispatch => said(self.engine.dispatch(&mut HashMap::new()).await),
            Step::Repair => said(self.engine.reconcile_start().await),
            Step::Pass(seconds) => {
                self.clock.0.fetch_add(i64::from(*seconds) * 1_000_000, Ordering::SeqCst);
                json!({ "ok": null })
            }
            Step::Turn { run }
            | Step::Ask { run, .. }
            | Step::Withdraw { run, .. }
            | Step::GiveSlotBack { run }
            | Step::End { run, .. } => match Self::run(state, *run) {
                Some(run) => self.of_run(step, run).await,
                None => json!({ "ok": "no run" }),
            },
            _ => self.command(step).await,
        };
        self.clock.0.fetch_add(1_000, Ordering::SeqCst);
        if let Some(short) = outcome["ok"]["short_id"].as_str().filter(|_| outcome["ok"]["added"] == true)
            && !self.tasks.iter().any(|known| known == short)
        {
            self.tasks.push(short.to_owned());
        }
        outcome
    }

    /// What a run's session does.
    async fn of_run(&mut self, step: &Step, run: RunId) -> Value {
        match step {
            Step::Turn { .. } => {
                self.started(run).await;
                said(self.engine.turn_started(run, None).await)
            }
            Step::Ask { request, .. } => {
                let asked = self.engine.ask_permission(run, permission(*request)).await;
                self.questions.extend(asked.as_ref().ok());
                said(asked)
            }
            Step::Withdraw { request, .. } => said(self.engine.withdraw_permission(run, request.to_string()).await),
            Step::GiveSlotBack { .. } => said(self.engine.yield_slot_to_person(run).await),
            Step::End { outcome, .. } => {
                self.started(run).await;
                said(self.engine.end_run(run, self.ending(*outcome)).await)
            }
            _ => Value::Null,
        }
    }

    /// A person's command.
    async fn command(&mut self, step: &Step) -> Value {
        let (engine, me) = (&self.engine, &me());
        let about = |task: &u8| json!({ "task_id": self.task(*task) });
        match step {
            Step::Add { list, queue, manual, blocked_by, key, sort, due } => {
                let blockers: Vec<String> = blocked_by.iter().filter(|_| !self.tasks.is_empty()).map(|task| self.task(*task)).collect();
                let due = due.map(|seconds| (self.now() + jiff::SignedDuration::from_secs(i64::from(seconds))).to_string());
                let new = json!({ "list_id": self.lists[usize::from(*list) % 2], "title": "A task", "queue": queue, "manual": manual,
                    "blocked_by": blockers, "idempotency_key": key.map(|key| format!("add-{key}")), "sort_order": sort, "due_at": due });
                said(engine.add_task(me, input(new)).await)
            }
            Step::Sub { parent, queue, key } => {
                let key = key.map(|key| format!("sub-{key}"));
                let new = json!({ "parent_id": self.task(*parent), "title": "A part", "queue": queue, "idempotency_key": key });
                said(engine.add_subtask(me, input(new)).await)
            }
            Step::Update { task, what } => said(engine.update_task(me, input(with(about(task), update(*what)))).await),
            Step::Configure { task, what } => said(engine.set_task_config(me, input(with(about(task), configuration(*what)))).await),
            Step::Word { task, word } => {
                let call = with(about(task), json!({ "status": WORDS[usize::from(*word) % WORDS.len()] }));
                self.while_effects(engine.update_task_status(me, input(call))).await
            }
            Step::Cancel { task } => self.while_effects(engine.cancel_task(me, input(about(task)))).await,
            Step::Block { task, on } => {
                said(engine.add_task_dependency(me, input(with(about(task), json!({ "depends_on_task_id": self.task(*on) })))).await)
            }
            Step::Unblock { task, on } => {
                said(engine.remove_task_dependency(me, input(with(about(task), json!({ "depends_on_task_id": self.task(*on) })))).await)
            }
            Step::Delete { task } => said(engine.delete_task(me, input(about(task))).await),
            Step::Reset { task } => said(engine.reset_failed_task(me, input(about(task))).await),
            Step::Review { task, decision } => {
                let decision = json!({ "decision": DECISIONS[usize::from(*decision) % DECISIONS.len()], "feedback": "more" });
                said(engine.review_task(me, input(with(about(task), decision))).await)
            }
            Step::RunNow { task } => said(engine.run_task_now(me, input(about(task))).await),
            Step::Continue { task, key } => {
                let more = json!({ "prompt": "go on", "idempotency_key": key.map(|key| format!("continue-{key}")) });
                said(engine.continue_task(me, input(with(about(task), more))).await)
            }
            Step::Answer { question, how } => {
                let question = self.questions.get(usize::from(*question) % self.questions.len().max(1));
                let id = question.map_or_else(|| Uuid::nil().to_string(), ToString::to_string);
                said(engine.answer_question(me, input(with(json!({ "question_bundle_id": id }), answer(*how)))).await)
            }
            Step::Pause(true) => said(engine.queue_pause(me, input(json!({}))).await),
            Step::Pause(false) => said(engine.queue_resume(me, input(json!({}))).await),
            Step::Slots(slots) => said(engine.settings_update(me, input(json!({ "settings": { "configured_slots": slots } }))).await),
            Step::ResumeLimited(on) => said(engine.settings_update(me, input(json!({ "settings": { "resume_limited": on } }))).await),
            Step::Unlimit(agent) => {
                let name = ["first", "second"][usize::from(*agent) % 2];
                said(engine.agent_unlimit(me, input(json!({ "name": name }))).await)
            }
            _ => Value::Null,
        }
    }

    /// The outcome of a command that waits for an effect to be done.
    async fn while_effects<T: Serialize>(&self, command: impl Future<Output = Result<T>>) -> Value {
        // Side by side: a command that waits in the middle of a transaction must not be left standing there.
        let effects = async {
            loop {
                tokio::time::sleep(LOOK).await;
                self.stop_runs().await;
            }
        };
        let outcome = tokio::select! {
            outcome = command => said(outcome),
            () = effects => Value::Null,
        };
        self.stop_runs().await;
        outcome
    }

    /// Ends the runs that were called off.
    async fn stop_runs(&self) {
        for (id, effect) in self.effects().await {
            if let Effect::StopRun { run_id } = effect {
                self.engine.stop_run(run_id).await.unwrap();
                // Last what this is found by: the command may be over before it is, and then it is done again.
                self.started(run_id).await;
                self.done(id).await;
            }
        }
    }

    /// The run's actor has been started, as far as the outbox knows.
    async fn started(&self, run: RunId) {
        for (id, effect) in self.effects().await {
            if effect == (Effect::StartRun { run_id: run }) {
                self.done(id).await;
            }
        }
    }

    async fn effects(&self) -> Vec<(i64, Effect)> {
        let rows = self.engine.store().read(|read| Box::pin(async move { read.outbox_due(Timestamp::MAX, ALL).await })).await.unwrap();
        rows.into_iter().map(|row| (row.id, serde_json::from_value(row.payload).unwrap())).collect()
    }

    async fn done(&self, effect: i64) {
        self.engine.store().write(move |tx| Box::pin(async move { tx.outbox_done(effect).await })).await.unwrap();
    }

    fn ending(&self, number: u8) -> Ending {
        let limit = |reset_at| Some(LimitNotice { reset_at, message: "limit".into() });
        let of = |outcome| Ending { outcome, cause: Some("a cause".into()), exit_code: Some(0), limit: None, orderly: false };
        match number {
            0 | 1 => of(Outcome::Succeeded),
            2 => of(Outcome::NoChanges),
            3 => of(Outcome::Failed),
            4 => Ending { orderly: true, ..of(Outcome::Interrupted) },
            5 => of(Outcome::Interrupted),
            6 => Ending { limit: limit(Some(self.now() + jiff::SignedDuration::from_secs(300))), ..of(Outcome::Limited) },
            _ => Ending { limit: limit(None), ..of(Outcome::Limited) },
        }
    }
}

/// A folder in memory where there is one: a disk that other tests keep busy would make this wait most of the time.
fn quick_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    TempDir::with_prefix_in("taskyard-world-", place).unwrap()
}

fn me() -> Caller {
    Caller::operator(Face::Mcp)
}

fn said<T: Serialize>(outcome: Result<T>) -> Value {
    match outcome {
        Ok(value) => json!({ "ok": value }),
        Err(Error { class, message, field, details, hint, .. }) => {
            json!({ "error": { "class": class.code(), "message": message, "field": field, "details": details, "hint": hint } })
        }
    }
}

fn with(mut call: Value, more: Value) -> Value {
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call
}

fn update(what: u8) -> Value {
    match what {
        0 => json!({ "title": "Another title" }),
        1 => json!({ "manual": true }),
        2 => json!({ "manual": false, "sort_order": -1.5 }),
        3 => json!({ "description": "More", "priority": "high" }),
        4 => json!({ "clear": ["description"] }),
        5 => json!({ "state": "queued", "title": "Queued by an update" }),
        6 => json!({ "state": "done" }),
        _ => json!({ "title": " " }),
    }
}

fn configuration(what: u8) -> Value {
    match what {
        0 => json!({ "agent_profile_id": "first" }),
        1 => json!({ "agent_profile_id": "second" }),
        2 => json!({ "clear": ["agent_profile_id"] }),
        3 => json!({ "max_turns": 7 }),
        4 => json!({ "agent_profile_id": "third" }),
        _ => json!({ "target_branch": "no such branch" }),
    }
}

fn answer(how: u8) -> Value {
    match how {
        0 => json!({}),
        1 => json!({ "answers": [{ "selected_option": "yes" }] }),
        2 => json!({ "answers": [{ "selected_option": "no" }] }),
        3 => json!({ "rejected": true, "reject_reason": "no" }),
        _ => json!({ "answers": [{ "selected_option": "unheard of" }] }),
    }
}

fn permission(request: u8) -> Permission {
    let option = |id: &str, kind: &str| PermissionOption { id: id.into(), label: id.into(), kind: kind.into() };
    Permission {
        request_id: request.to_string(),
        title: "May I?".into(),
        kind: "execute".into(),
        tool: None,
        input: json!({ "command": "make" }),
        paths: Vec::new(),
        options: vec![option("yes", "allow_once"), option("no", "reject_once")],
    }
}
