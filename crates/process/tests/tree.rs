//! Process trees: ended as a whole, found by their marker, told apart from later ones with the same id.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;
use taskyard_process::{Child, Command, Environment, Spawn, run, spawn, tree};
use tokio::io::{AsyncBufReadExt, BufReader};

const GRACE: Duration = Duration::from_millis(200);

struct Tree {
    child: Child,
    marker: String,
    /// Process ids that the script wrote, one per line.
    pids: Vec<i32>,
}

/// Starts a script that writes `count` process ids and goes on.
async fn start(name: &str, script: &str, count: usize) -> Tree {
    let marker = format!("TASKYARD_TEST={name}-{}", std::process::id());
    let (variable, value) = marker.split_once('=').unwrap();
    let env = Environment::from_vars(std::env::vars_os()).with(variable, value);
    let what = Spawn {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: std::env::temp_dir(),
        env,
        stdin: false,
        marker: Some(marker.clone()),
    };
    let mut child = spawn(what).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut pids = Vec::new();
    while pids.len() < count {
        pids.push(lines.next_line().await.unwrap().expect("the script ended early").trim().parse().unwrap());
    }
    Tree { child, marker, pids }
}

fn alive(pids: &[i32]) -> Vec<i32> {
    pids.iter().copied().filter(|pid| tree::start_time(*pid).is_some()).collect()
}

const DETACHED: &str = "setsid -f sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!'";

#[tokio::test]
async fn ending_reaches_the_group_and_what_left_it() {
    let script = format!("sleep 1000 & echo $!; {DETACHED}; wait");
    let mut tree = start("all", &script, 2).await;
    assert_eq!(alive(&tree.pids), tree.pids);
    // The shell in between may still be on its way out.
    while tree::marked(&tree.marker).len() > 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(tree::marked(&tree.marker).len(), 3);
    let exit = tree.child.end(GRACE).await.unwrap();
    assert_eq!((exit.code, exit.signal), (None, Some(15)));
    assert_eq!(alive(&tree.pids), Vec::<i32>::new());
}

#[tokio::test]
async fn what_ignores_sigterm_is_killed() {
    let mut tree = start("stubborn", "trap '' TERM; echo $$; while :; do sleep 1000; done", 1).await;
    let exit = tree.child.end(GRACE).await.unwrap();
    assert_eq!(exit.signal, Some(9));
    assert_eq!(tree::marked(&tree.marker), Vec::<i32>::new());
}

#[tokio::test]
async fn a_graceful_end_is_waited_for() {
    let mut tree = start("graceful", "trap 'exit 5' TERM; echo $$; while :; do sleep 0.01; done", 1).await;
    let exit = tree.child.end(Duration::from_secs(20)).await.unwrap();
    assert_eq!((exit.code, exit.signal), (Some(5), None));
}

#[tokio::test]
async fn descendants_of_a_child_that_is_gone_are_swept() {
    let mut tree = start("orphans", &format!("sleep 1000 & echo $!; {DETACHED}"), 2).await;
    let exit = tree.child.wait().await.unwrap();
    assert_eq!(exit.code, Some(0));
    assert_eq!(alive(&tree.pids), tree.pids);
    assert_eq!(tree.child.end(GRACE).await, Some(exit));
    assert_eq!(alive(&tree.pids), Vec::<i32>::new());
}

#[tokio::test]
async fn a_sweep_kills_only_what_carries_exactly_this_marker() {
    let mut other = start("sweep-other", "echo $$; exec sleep 1000", 1).await;
    let tree = start("sweep", &format!("{DETACHED}; echo $$; exec sleep 1000"), 2).await;
    assert!(tree::sweep(&tree.marker).await >= 2);
    assert_eq!(alive(&tree.pids), Vec::<i32>::new());
    assert_eq!(alive(&other.pids), other.pids);
    assert_eq!(tree::sweep("TASKYARD_TEST=nobody").await, 0);
    other.child.end(GRACE).await;
}

#[tokio::test]
async fn a_process_is_named_by_its_id_and_its_start() {
    let mut tree = start("identity", "echo $$; exec sleep 1000", 1).await;
    let (pid, started) = (tree.child.pid(), tree.child.start_time());
    assert_eq!((pid, tree::start_time(pid)), (tree.pids[0], Some(started)));
    assert!(tree::is_alive(pid, started) && !tree::is_alive(pid, started + 1));
    // As if the id had been given to another process since: that one is left alone.
    assert_eq!(tree::end(pid, started + 1, "TASKYARD_TEST=nobody").await, 0);
    assert!(tree::is_alive(pid, started));
    tree::end(pid, started, "TASKYARD_TEST=nobody").await;
    tree.child.wait().await.unwrap();
    assert!(!tree::is_alive(pid, started));
}

#[tokio::test]
async fn a_zombie_is_not_alive() {
    let mut tree = start("zombie", "sh -c 'echo $$' & exec sleep 1000", 1).await;
    while tree::start_time(tree.pids[0]).is_some() {
        tokio::task::yield_now().await;
    }
    tree.child.end(GRACE).await;
}

#[tokio::test]
async fn processes_inside_a_folder_are_found() {
    let folder = std::env::temp_dir().join(format!("taskyard-inside-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    let script = format!("cd '{}/deep' && echo $$ && exec sleep 1000", folder.display());
    let mut tree = start("inside", &script, 1).await;
    assert_eq!(tree::inside(&folder), tree.pids);
    tree.child.end(GRACE).await;
    assert_eq!(tree::inside(&folder), Vec::<i32>::new());
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn commands_of_our_own_do_not_live_in_a_folder() {
    let folder = std::env::temp_dir().join(format!("taskyard-helper-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let script = "sleep 1000 & echo $! >pid; touch started; wait";
    let command = Command::new("sh", &folder, Environment::from_vars(std::env::vars_os())).arg("-c").arg(script);
    let working = tokio::spawn(run(command));
    while !folder.join("started").exists() {
        tokio::task::yield_now().await;
    }
    assert_eq!(tree::inside(&folder), Vec::<i32>::new());
    working.abort();
    assert!(working.await.unwrap_err().is_cancelled());
    let left: i32 = std::fs::read_to_string(folder.join("pid")).unwrap().trim().parse().unwrap();
    while tree::start_time(left).is_some() {
        tokio::task::yield_now().await;
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn dropping_a_child_kills_its_group() {
    let tree = start("dropped", "sleep 1000 & echo $!; wait", 1).await;
    let pids = tree.pids.clone();
    drop(tree);
    while !alive(&pids).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn signals_to_no_group_or_to_everybody_are_not_sent() {
    for group in [i32::MIN, -1, 0, 1] {
        tree::signal_group(group, tree::Signal::Kill);
    }
}

#[tokio::test]
async fn the_age_of_a_program_s_oldest_process_is_known() {
    assert_eq!(tree::oldest("no-such-program"), None);
    let own = std::fs::read_to_string("/proc/self/comm").unwrap();
    let age = tree::oldest(own.trim_end()).unwrap();
    assert!(age < Duration::from_secs(24 * 3600), "{age:?}");
}
