//! The faults: what is broken, when, and how it is put right again before the round comes to rest.
//!
//! Each fault is something that the machine or the user does and that Taskyard has to live with. None of them touches
//! the database or Taskyard's private files: those are what is being tested.

use crate::dice::Dice;
use crate::disk;
use crate::shim::{self, COMMANDS, WAYS, Wrong};
use crate::stage::Stage;
use crate::{by_hand, target};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use taskyard_process::{Command, run};

/// How much the clients do in a round.
pub const WORK: usize = 60;
/// How long the next fault waits when the clients get nowhere.
const LULL: Duration = Duration::from_secs(4);
/// Hooks that a user may have.
const HOOKS: &[&str] = &["reference-transaction", "pre-merge-commit", "pre-commit", "commit-msg", "post-checkout", "post-merge"];

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL of the server; it is started again after so many milliseconds.
    KillServer(u64),
    /// The server is stopped in good order and started again.
    Restart,
    /// SIGKILL of some of the agents that run.
    KillAgents,
    /// Calls of git go wrong.
    Git(Vec<(&'static str, Wrong)>),
    /// The disk is full for so many milliseconds; the server may be killed meanwhile.
    FullDisk(u64, bool),
    /// The user does something with the target branch.
    Target(target::Move),
    /// The user does something in worktrees.
    ByHand(by_hand::Deed),
    /// A hook of a repository fails for so many milliseconds.
    Hook(usize, &'static str, u64),
}

impl Fault {
    /// Its name in the figures.
    fn name(&self) -> String {
        match self {
            Self::KillServer(_) => "server killed".into(),
            Self::Restart => "server stopped and started".into(),
            Self::KillAgents => "agents killed".into(),
            Self::Git(_) => "git armed to fail".into(),
            Self::FullDisk(_, _) => "disk full".into(),
            Self::Target(what) => format!("target: {what:?}"),
            Self::ByHand(what) => format!("by hand: {what:?}"),
            Self::Hook(_, name, _) => format!("hook fails: {name}"),
        }
    }
}

/// What goes wrong in a round.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What lies on a small disk of its own.
    pub disk: Option<disk::Small>,
    /// Percent of calls whose client is cut off.
    pub cuts: usize,
    /// The faults, each with how many things the clients have done by then.
    pub faults: Vec<(usize, Fault)>,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed, "faults");
        let disk = dice.chance(25).then(|| *dice.pick(&[disk::Small::Data, disk::Small::Project]));
        let cuts = if dice.chance(60) { 12 } else { 0 };
        let mut faults: Vec<(usize, Fault)> = (0..3 + dice.below(4)).map(|_| (5 + dice.below(WORK - 10), one(&mut dice))).collect();
        if disk.is_some() {
            faults.push((5 + dice.below(WORK - 10), Fault::FullDisk(200 + dice.next() % 700, dice.chance(40))));
        }
        if dice.chance(70) {
            faults.push((WORK, Fault::KillServer(dice.next() % 100)));
        }
        faults.sort_by_key(|(at, _)| *at);
        Self { disk, cuts, faults }
    }
}

fn one(dice: &mut Dice) -> Fault {
    match dice.below(20) {
        0..3 => Fault::KillServer(dice.next() % 200),
        3 => Fault::Restart,
        4..6 => Fault::KillAgents,
        6..11 => Fault::Git((0..=dice.below(4)).map(|_| (*dice.pick(COMMANDS), *dice.pick(WAYS))).collect()),
        11..14 => Fault::Target(target::Move::any(dice)),
        14..18 => Fault::ByHand(*dice.pick(by_hand::DEEDS)),
        _ => Fault::Hook(dice.below(2), dice.pick::<&str>(HOOKS), 100 + dice.next() % 800),
    }
}

/// Breaks what the plan says, one after another, and puts right what doesn't heal by itself.
///
/// # Errors
/// When the server can't be started again, or the user's own doings don't end.
pub async fn inject(stage: &Stage, seed: u64, plan: &Plan) -> Result<(), String> {
    let mut dice = Dice::new(seed, "injecting");
    let mut all = Ok(());
    for (at, fault) in &plan.faults {
        let began = Instant::now();
        while stage.progress.load(Ordering::Relaxed) < *at && began.elapsed() < LULL {
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        stage.ledger.count(&fault.name());
        all = all.and(break_it(stage, &mut dice, fault).await);
    }
    let hit = shim::disarm(&stage.shim());
    *stage.ledger.open().figures.entry("git calls that went wrong".into()).or_default() += hit;
    all
}

async fn break_it(stage: &Stage, dice: &mut Dice, fault: &Fault) -> Result<(), String> {
    match fault {
        Fault::KillServer(pause) => {
            stage.kill().await;
            tokio::time::sleep(Duration::from_millis(*pause)).await;
            stage.start().await
        }
        Fault::Restart => {
            let code = stage.stop().await;
            stage.start().await?;
            if code == Some(0) { Ok(()) } else { Err(format!("the server ended with {code:?} when it was asked to stop")) }
        }
        Fault::KillAgents => {
            kill_agents(stage, dice).await;
            Ok(())
        }
        Fault::Git(calls) => {
            for (command, way) in calls {
                shim::arm(&stage.shim(), command, *way);
            }
            Ok(())
        }
        Fault::FullDisk(millis, kill) => full_disk(stage, *millis, *kill).await,
        Fault::Target(what) => target::perform(stage, dice, *what).await,
        Fault::ByHand(what) => {
            by_hand::perform(stage, dice, *what).await;
            Ok(())
        }
        Fault::Hook(project, name, millis) => {
            let hook = stage.projects[*project].path.join(".git/hooks").join(name);
            std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
            std::fs::write(&hook, "#!/bin/sh\necho 'the hook says no' >&2\nexit 1\n").map_err(|error| error.to_string())?;
            std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
            tokio::time::sleep(Duration::from_millis(*millis)).await;
            std::fs::remove_file(&hook).map_err(|error| error.to_string())
        }
    }
}

async fn full_disk(stage: &Stage, millis: u64, kill: bool) -> Result<(), String> {
    let Some(disk) = stage.disk() else { return Ok(()) };
    disk.fill();
    tokio::time::sleep(Duration::from_millis(millis / 2)).await;
    if kill {
        stage.kill().await;
        // It may refuse to start on a full disk.
        if stage.start().await.is_err() {
            stage.ledger.count("starts refused on a full disk");
        }
    }
    tokio::time::sleep(Duration::from_millis(millis / 2)).await;
    disk.free();
    if stage.is_up().await { Ok(()) } else { stage.start().await }
}

/// Kills about half of the scripted agents that run, each by itself: what they had started stays.
async fn kill_agents(stage: &Stage, dice: &mut Dice) {
    let is_agent = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("scripted-agent"));
    for pid in stage.processes().into_iter().filter(is_agent) {
        if dice.chance(50) {
            stage.ledger.count("agent processes killed");
            let kill = Command::new("kill", stage.folder(), stage.env()).args(["-KILL".to_owned(), pid.to_string()]);
            let _ = run(kill).await;
        }
    }
}
