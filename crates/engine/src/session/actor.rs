//! The actor of one live session: from an opened run to its end.

use super::ground::Ground;
use super::launch::Facts;
use super::recording::Recorder;
use super::waiting::Waiting;
use super::{Ending, Msg, prompt};
use crate::resolve::Levels;
use crate::{Engine, fold};
use std::time::Duration;
use taskyard_agents::{Answer, Command, Event, Handle, LimitNotice, Permission, TurnEnd, TurnStop};
use taskyard_domain::agent::{Agent, Profile};
use taskyard_domain::id::RunId;
use taskyard_domain::run::{Evidence, Outcome, Run, judge};
use taskyard_domain::session::Session;
use taskyard_domain::settings::Settings;
use taskyard_domain::transcript::Item;
use taskyard_domain::{Error, Result};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// How long a cancelled turn may take to end by itself, seconds.
const CANCEL_GRACE_S: f64 = 3.0;
/// How long each step of ending a process may take, seconds.
const CLOSE_GRACE_S: f64 = 3.0;

/// Lives as long as the run is open. Always ends it.
pub(super) async fn live(engine: Engine, run_id: RunId, mut inbox: mpsc::UnboundedReceiver<Msg>) {
    let ending = match load(&engine, run_id).await {
        Ok(Some(facts)) => Box::pin(work(&engine, facts, &mut inbox)).await,
        Ok(None) => return,
        Err(error) => error.into(),
    };
    if let Err(error) = engine.end_run(run_id, ending).await {
        tracing::error!(run = %run_id, %error, "a run's end couldn't be recorded; the reconciler will");
    }
}

/// The rows that a run is made of.
struct Loaded {
    run: Run,
    session: Session,
    profile: Profile,
    agent: Agent,
    levels: Levels,
    settings: Settings,
}

async fn load(engine: &Engine, run_id: RunId) -> Result<Option<Loaded>> {
    engine
        .store()
        .read(move |read| {
            Box::pin(async move {
                let Some(run) = read.run_fetch(run_id).await?.filter(Run::is_open) else { return Ok(None) };
                let gone = |what: &str| Error::precondition(format!("the run's {what} is gone"));
                let session = run.session_id.ok_or_else(|| gone("session"))?;
                let session = read.session_fetch(session).await?.ok_or_else(|| gone("session"))?;
                let profile = read.profile_fetch(session.profile_id).await?.ok_or_else(|| gone("agent profile"))?;
                let agent = read.agent_fetch(session.agent_id).await?.ok_or_else(|| gone("agent"))?;
                let task = read.task_fetch(run.task_id).await?.ok_or_else(|| gone("task"))?;
                let levels = Levels::of(read, task).await?;
                let settings = read.settings_fetch().await?;
                Ok(Some(Loaded { run, session, profile, agent, levels, settings }))
            })
        })
        .await
}

/// What has been learnt of the run so far.
#[derive(Default)]
struct Learnt {
    cancelled: bool,
    stopping: bool,
    stalled_out: bool,
    limit: Option<LimitNotice>,
    turn: Option<TurnEnd>,
    exit_code: Option<i32>,
    exited: bool,
    stderr_tail: String,
}

async fn work(engine: &Engine, facts: Loaded, inbox: &mut mpsc::UnboundedReceiver<Msg>) -> Ending {
    let mut recorder = Recorder::open(engine, facts.run.id, facts.session.id).await;
    let mut learnt = Learnt { cancelled: facts.run.cancel_requested, ..Learnt::default() };
    let ground = tokio::select! {
        ground = engine.prepare_ground(&facts.run, &facts.session, &facts.levels, &facts.settings, &mut recorder) => ground,
        () = called_off(inbox, &mut learnt) => Err(Error::conflict("called off while the worktree was being prepared")),
    };
    let ending = match ground {
        Ok(ground) => {
            let turn = Turn { engine, facts: &facts, ground: &ground, recorder: &mut recorder, learnt: &mut learnt };
            match turn.run(inbox).await {
                Ok(()) => conclude(engine, &facts, &ground, &learnt, &mut recorder).await,
                Err(error) => broken_off(&learnt, error),
            }
        }
        Err(error) => broken_off(&learnt, error),
    };
    if let Some(cause) = &ending.cause {
        let level = if ending.outcome == Outcome::Failed { "error" } else { "info" };
        note(&mut recorder, level, format!("{}: {cause}", ending.outcome)).await;
    }
    // What a broken-off setup left outside its process group; after an orderly turn nothing is left.
    taskyard_process::tree::sweep(&super::launch::marker(facts.session.id)).await;
    if let Err(error) = recorder.flush(true).await {
        tracing::error!(run = %facts.run.id, %error, "the end of a transcript couldn't be written; the raw log has it");
    }
    ending
}

async fn note(recorder: &mut Recorder, level: &str, text: String) {
    if let Err(error) = recorder.notice(level, text).await {
        tracing::error!(%error, "a notice couldn't be recorded");
    }
}

/// Waits until the run is called off or the server stops.
async fn called_off(inbox: &mut mpsc::UnboundedReceiver<Msg>, learnt: &mut Learnt) {
    loop {
        match inbox.recv().await {
            Some(Msg::Cancel) => learnt.cancelled = true,
            Some(Msg::Stop) | None => learnt.stopping = true,
            Some(Msg::Answer { .. } | Msg::SlotGranted | Msg::SlotGivenBack) => continue,
        }
        return;
    }
}

/// The ending of a run that came to no turn's end.
fn broken_off(learnt: &Learnt, error: Error) -> Ending {
    if learnt.cancelled {
        Ending::cancelled()
    } else if learnt.stopping {
        Ending { orderly: true, ..Ending::new(Outcome::Interrupted, "the server was stopped") }
    } else {
        Ending { exit_code: learnt.exit_code, ..error.into() }
    }
}

/// Judges a run whose process is gone, by facts.
async fn conclude(engine: &Engine, facts: &Loaded, ground: &Ground, learnt: &Learnt, recorder: &mut Recorder) -> Ending {
    if learnt.cancelled || learnt.stopping {
        return broken_off(learnt, Error::conflict("called off"));
    }
    let turn_well = learnt.turn.as_ref().is_some_and(|turn| !failed(turn));
    let limit = match moved_on(turn_well, ground).await {
        Ok(true) => None,
        Ok(false) => learnt.limit.clone(),
        Err(error) => return Ending { exit_code: learnt.exit_code, ..error.into() },
    };
    let well = turn_well && limit.is_none() && !learnt.stalled_out;
    let changes = match engine.take_stock(facts.run.id, facts.profile.auto_commit && well, &facts.levels.task, ground, recorder).await {
        Ok(changes) => changes,
        Err(error) => return Ending { exit_code: learnt.exit_code, ..error.into() },
    };
    let evidence = Evidence {
        cancelled: false,
        limited: limit.is_some(),
        errors: !well,
        error_text: learnt.turn.as_ref().is_some_and(|turn| turn.stop == TurnStop::Silent || reads_like_error(&turn.last_text)),
        changes,
    };
    let outcome = judge(evidence);
    let cause = match outcome {
        Outcome::Failed => Some(why_failed(facts, learnt)),
        Outcome::Limited => limit.as_ref().map(|limit| limit.message.clone()),
        Outcome::NoChanges => learnt.turn.as_ref().and_then(cut_short).or(Some("the agent finished without changing anything".into())),
        _ => learnt.turn.as_ref().and_then(cut_short),
    };
    Ending { outcome, cause, exit_code: learnt.exit_code, limit, orderly: false }
}

/// Whether the agent ended its turn in good order with commits of this run: then words about a limit are just words.
async fn moved_on(turn_well: bool, ground: &Ground) -> Result<bool> {
    let head = ground.tree.head().await.map_err(fold::git)?;
    Ok(turn_well && head.oid() != Some(&ground.start_commit))
}

/// A turn that didn't end as a turn should. One that was cancelled by nobody here is the agent's own breaking off.
fn failed(turn: &TurnEnd) -> bool {
    let stop = matches!(turn.stop, TurnStop::Failed | TurnStop::AuthRequired | TurnStop::Refused | TurnStop::Cancelled);
    stop || !turn.errors.is_empty()
}

/// What a reviewer should know of a turn that the agent's own limits ended.
fn cut_short(turn: &TurnEnd) -> Option<String> {
    match turn.stop {
        TurnStop::MaxTurns => Some("the agent stopped at its limit of turns (max_turns); the work may be unfinished".into()),
        TurnStop::MaxTokens => Some("the agent stopped at the model's output limit; the work may be unfinished".into()),
        _ => None,
    }
}

/// Some agents end a turn in good order with an error as their last words.
fn reads_like_error(text: &str) -> bool {
    let text = text.trim_start().to_ascii_lowercase();
    ["error:", "api error", "authentication failed", "{\"error\"", "error authenticating"].iter().any(|start| text.starts_with(start))
}

fn why_failed(facts: &Loaded, learnt: &Learnt) -> String {
    if learnt.stalled_out {
        return format!("the agent was silent for {} s and was ended (stall_kill_after)", facts.settings.stall_kill_after);
    }
    let said = learnt.turn.as_ref().map(|turn| if turn.errors.is_empty() { turn.last_text.clone() } else { turn.errors.join("; ") });
    match (&learnt.turn, said.filter(|s| !s.is_empty())) {
        (Some(turn), Some(said)) if turn.stop == TurnStop::AuthRequired => format!("the agent is not logged in: {said}"),
        (Some(turn), _) if turn.stop == TurnStop::Silent => {
            "the agent ended its turn without a word or a deed; its login, its model or its limits may be why".into()
        }
        (Some(_), Some(said)) => format!("the agent reported an error: {said}"),
        (Some(_), None) => "the agent reported an error without saying which".into(),
        (None, _) => {
            let how = learnt.exit_code.map_or_else(|| "was ended by a signal".into(), |code| format!("exited with code {code}"));
            let tail = if learnt.stderr_tail.is_empty() { String::new() } else { format!("; it said: {}", learnt.stderr_tail) };
            format!("the agent {how} in the middle of its turn{tail}")
        }
    }
}

/// One turn of a live agent.
struct Turn<'a> {
    engine: &'a Engine,
    facts: &'a Loaded,
    ground: &'a Ground,
    recorder: &'a mut Recorder,
    learnt: &'a mut Learnt,
}

impl Turn<'_> {
    /// Starts the agent, sees it through its turn and to the end of its process.
    async fn run(mut self, inbox: &mut mpsc::UnboundedReceiver<Msg>) -> Result<()> {
        if self.learnt.cancelled || self.learnt.stopping {
            self.engine.take_ground(self.facts.run.id, self.ground, None).await?;
            return Err(Error::conflict("called off"));
        }
        let (mut handle, heard) = self.start().await?;
        let seen = self.see_through(&mut handle, heard, inbox).await;
        self.close(&mut handle, inbox).await;
        seen
    }

    async fn start(&mut self) -> Result<(Handle, watch::Receiver<Instant>)> {
        let facts = self.facts;
        let ready = self.engine.launch(&Facts {
            run: &facts.run,
            session: &facts.session,
            agent: &facts.agent,
            profile: &facts.profile,
            cwd: self.ground.path(),
            writable_dirs: self.ground.writable_dirs(),
            max_turns: facts.levels.task.config.max_turns.or(facts.levels.list.config.max_turns),
            system_prompt: facts.levels.task.config.system_prompt.clone().or_else(|| facts.levels.list.config.system_prompt.clone()),
        });
        // The token works before the agent can show it.
        self.engine.take_ground(self.facts.run.id, self.ground, Some(ready.token_hash)).await?;
        let heard = ready.launch.heard.listen();
        let handle = taskyard_agents::start(ready.launch).map_err(|error| {
            Error::precondition(format!("the agent {} can't be started: {error}", facts.agent.name))
                .with_hint("check it with `taskyard doctor`")
        })?;
        let (pid, started) = (handle.pid, i64::try_from(handle.start_time).unwrap_or_default());
        // Recorded before anything is reported as running.
        if let Err(error) = self.record(move |run| (run.pid, run.pid_started) = (Some(pid), Some(started))).await {
            let _ = handle.commands.send(Command::Close { grace: Duration::ZERO });
            return Err(error);
        }
        Ok((handle, heard))
    }

    async fn record(&self, change: impl FnOnce(&mut Run) + Send + 'static) -> Result<()> {
        let run_id = self.facts.run.id;
        self.engine
            .store()
            .write(move |tx| {
                Box::pin(async move {
                    let run = tx.run_lock(run_id).await?.filter(Run::is_open);
                    let mut run = run.ok_or_else(|| Error::conflict("the run has ended"))?;
                    change(&mut run);
                    tx.bookkeeping();
                    super::slot::store(tx, &run).await
                })
            })
            .await
    }

    /// Handles events, messages and deadlines until the turn is over or the process is gone.
    async fn see_through(
        &mut self,
        handle: &mut Handle,
        mut heard: watch::Receiver<Instant>,
        inbox: &mut mpsc::UnboundedReceiver<Msg>,
    ) -> Result<()> {
        let mut silent_since = Instant::now();
        let mut waiting = Waiting::default();
        let mut cancel_by: Option<Instant> = None;
        loop {
            // Part of a line is a sign of life as well.
            let written = *heard.borrow_and_update();
            if written > silent_since {
                silent_since = written;
                self.recorder.heard(waiting.told_stalled.take().is_some());
            }
            let flush = self.recorder.due();
            tokio::select! {
                biased;
                msg = inbox.recv() => match msg {
                    Some(Msg::Cancel) => {
                        self.learnt.cancelled = true;
                        let _ = handle.commands.send(Command::CancelTurn);
                        cancel_by = Some(Instant::now() + self.engine.patience(CANCEL_GRACE_S));
                    }
                    Some(Msg::Stop) | None => {
                        self.learnt.stopping = true;
                        return Ok(());
                    }
                    Some(Msg::Answer { request_id, answer }) => {
                        silent_since = Instant::now();
                        waiting.answered(request_id, answer);
                        self.go_on(handle, &mut waiting).await?;
                    }
                    Some(Msg::SlotGranted) => {
                        silent_since = Instant::now();
                        waiting.without_slot = false;
                        waiting.release(handle);
                    }
                    Some(Msg::SlotGivenBack) => waiting.without_slot = true,
                },
                event = handle.events.recv() => {
                    silent_since = Instant::now();
                    self.recorder.heard(waiting.told_stalled.take().is_some());
                    let Some(event) = event else { self.learnt.exited = true; return Ok(()) };
                    if self.event(event, handle, &mut waiting).await? { return Ok(()) }
                }
                () = until(flush) => self.recorder.flush(false).await?,
                () = until(cancel_by) => return Ok(()),
                () = until(waiting.yield_at) => {
                    waiting.yield_at = None;
                    self.engine.yield_slot_to_person(self.facts.run.id).await?;
                }
                Ok(()) = heard.changed(), if waiting.told_stalled.is_some() => {}
                () = until(self.stall_at(silent_since, &waiting)) => {
                    if *heard.borrow() > silent_since { continue }
                    waiting.told_stalled = Some(silent_since);
                    if self.stalled(silent_since).await? { return Ok(()) }
                }
            }
        }
    }

    /// When silence of the agent next matters; never while it waits for a person or for a slot.
    fn stall_at(&self, silent_since: Instant, waiting: &Waiting) -> Option<Instant> {
        let settings = &self.facts.settings;
        if waiting.without_slot || !waiting.open.is_empty() || !waiting.held.is_empty() {
            return None;
        }
        let after = |seconds: i64| silent_since + Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let kill = (settings.stall_kill_after > 0).then(|| after(settings.stall_kill_after));
        if waiting.told_stalled == Some(silent_since) {
            kill
        } else {
            Some(kill.map_or(after(settings.stall_after), |k| k.min(after(settings.stall_after))))
        }
    }

    /// Marks the run as stalled, or ends it when its time is up. Returns whether it is over.
    async fn stalled(&mut self, silent_since: Instant) -> Result<bool> {
        let settings = &self.facts.settings;
        let silent = silent_since.elapsed().as_secs();
        if settings.stall_kill_after > 0 && silent >= u64::try_from(settings.stall_kill_after).unwrap_or(u64::MAX) {
            self.learnt.stalled_out = true;
            return Ok(true);
        }
        self.record(|run| run.stalled = true).await?;
        self.recorder.notice("warning", format!("no word from the agent for {silent} s")).await?;
        Ok(false)
    }

    /// Handles one event. Returns whether the turn is over.
    async fn event(&mut self, event: Event, handle: &Handle, waiting: &mut Waiting) -> Result<bool> {
        match event {
            Event::Ready { agent_session_id, resumed } => self.ready(handle, agent_session_id, resumed).await?,
            Event::Item(item) => self.recorder.item(item).await?,
            Event::Usage(usage) => self.recorder.usage(usage),
            Event::Permission(asked) => self.permission(asked, handle, waiting).await?,
            Event::PermissionWithdrawn { request_id } => {
                waiting.withdrawn(&request_id);
                self.engine.withdraw_permission(self.facts.run.id, request_id).await?;
            }
            Event::SteerRefused { text } => self.recorder.notice("warning", format!("could not be told in mid-turn: {text}")).await?,
            Event::Limit(limit) => self.learnt.limit = Some(limit),
            Event::TurnEnded(end) => {
                self.learnt.turn = Some(end);
                return Ok(true);
            }
            Event::Exited { code, stderr_tail, .. } => {
                self.exited(code, stderr_tail);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn exited(&mut self, code: Option<i32>, stderr_tail: String) {
        self.learnt.exited = true;
        self.learnt.exit_code = code;
        self.learnt.stderr_tail = stderr_tail;
    }

    /// The handshake is done: remember the conversation and give the prompt.
    async fn ready(&mut self, handle: &Handle, agent_session_id: Option<String>, resumed: bool) -> Result<()> {
        let facts = self.facts;
        let text = if resumed { facts.run.prompt.clone() } else { prompt::retell(&facts.run, &facts.levels) };
        self.engine.turn_started(facts.run.id, agent_session_id).await?;
        self.recorder.item(Item::Prompt { text: text.clone() }).await?;
        let _ = handle.commands.send(Command::Prompt(text));
        Ok(())
    }

    async fn permission(&mut self, asked: Permission, handle: &Handle, waiting: &mut Waiting) -> Result<()> {
        let profile = &self.facts.profile;
        let decision = taskyard_agents::permission::decide(profile.permission_policy, &profile.allowed_tools, &self.ground.path(), &asked);
        if decision == taskyard_agents::permission::Decision::Allow {
            self.recorder.notice("info", format!("allowed by the profile's policy: {}", asked.title)).await?;
            let _ = handle.commands.send(Command::Permission { request_id: asked.request_id, answer: Answer::Allow(None) });
            return Ok(());
        }
        self.recorder.notice("info", format!("asks for permission: {}", asked.title)).await?;
        self.recorder.flush(true).await?;
        waiting.asked(
            asked.request_id.clone(),
            Instant::now() + Duration::from_secs(u64::try_from(self.facts.settings.slot_yield_after).unwrap_or(10)),
        );
        self.engine.ask_permission(self.facts.run.id, asked).await.map(|_| ())
    }

    /// Gives held answers to the agent when the run has its slot; otherwise they wait for it.
    async fn go_on(&mut self, handle: &Handle, waiting: &mut Waiting) -> Result<()> {
        let run_id = self.facts.run.id;
        let run = self.engine.store().read(move |read| Box::pin(async move { read.run_fetch(run_id).await })).await?;
        if run.is_some_and(|run| run.slot.is_some() || !waiting.open.is_empty()) {
            waiting.release(handle);
        }
        Ok(())
    }

    /// Ends the process and its tree, reading what it still says.
    async fn close(&mut self, handle: &mut Handle, inbox: &mut mpsc::UnboundedReceiver<Msg>) {
        if !self.learnt.exited {
            let _ = handle.commands.send(Command::Close { grace: self.engine.patience(CLOSE_GRACE_S) });
        }
        while !self.learnt.exited {
            tokio::select! {
                event = handle.events.recv() => match event {
                    None => self.learnt.exited = true,
                    Some(Event::Exited { code, stderr_tail, .. }) => self.exited(code, stderr_tail),
                    Some(Event::Limit(limit)) => self.learnt.limit = Some(limit),
                    Some(Event::Usage(usage)) => self.recorder.usage(usage),
                    Some(Event::Item(item)) => {
                        if let Err(error) = self.recorder.item(item).await {
                            tracing::error!(%error, "a transcript couldn't be written; the raw log has it");
                        }
                    }
                    Some(Event::TurnEnded(end)) => {
                        self.learnt.turn.get_or_insert(end);
                    }
                    Some(_) => {}
                },
                msg = inbox.recv() => if let Some(Msg::Cancel) = msg { self.learnt.cancelled = true },
            }
        }
        // A daemon that outlived a polite end is found by its marker.
        taskyard_process::tree::sweep(&super::launch::marker(self.facts.session.id)).await;
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
