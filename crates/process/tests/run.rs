//! Commands run to their end: results, limits of time and output, what is inherited.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::time::{Duration, Instant};
use taskyard_process::{Command, Environment, Error, Input, run, tree};

fn env() -> Environment {
    Environment::from_vars(std::env::vars_os()).without_agents()
}

fn sh(script: &str) -> Command {
    Command::new("sh", std::env::temp_dir(), env()).args(["-c", script])
}

#[tokio::test]
async fn output_and_code_come_back() {
    let output = run(sh("cat; echo err >&2; exit 3").input(Input::Bytes(b"in".to_vec()))).await.unwrap();
    assert_eq!((output.code, output.stdout.as_slice(), output.stderr_tail().as_str()), (Some(3), b"in".as_slice(), "err"));
    assert!(!output.ok() && !output.truncated);
}

#[tokio::test]
async fn a_signal_is_told_from_a_code() {
    let output = run(sh("kill -9 $$")).await.unwrap();
    assert_eq!((output.code, output.signal), (None, Some(9)));
}

#[tokio::test]
async fn standard_input_is_never_inherited() {
    assert_eq!(run(sh("cat")).await.unwrap().stdout, b"");
}

#[tokio::test]
async fn input_that_nobody_reads_is_no_error() {
    let output = run(sh("exit 0").input(Input::Bytes(vec![b'x'; 4 << 20]))).await.unwrap();
    assert!(output.ok());
}

#[tokio::test]
async fn nothing_but_the_given_environment_is_there() {
    let env = Environment::default().with("ONLY", "this");
    let output = run(Command::new("/usr/bin/env", "/", env)).await.unwrap();
    assert_eq!(output.stdout, b"ONLY=this\n");
}

#[tokio::test]
async fn output_beyond_the_cap_is_read_and_dropped() {
    let script = "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; echo end";
    let output = run(sh(script).output_cap(1000)).await.unwrap();
    assert!(output.ok() && output.truncated);
    assert_eq!((output.stdout.len(), output.stderr.len()), (1000, 1000));
}

#[tokio::test]
async fn output_of_exactly_the_cap_is_whole() {
    let output = run(sh("printf 12345").output_cap(5)).await.unwrap();
    assert!(!output.truncated && output.stdout == b"12345");
}

#[tokio::test]
async fn a_time_limit_ends_the_whole_group_and_tells_what_was_said() {
    let folder = Folder::new("limit");
    let script = "echo why >&2; sleep 1000 & echo $! > pid; wait";
    let command = Command::new("sh", &folder.0, env()).args(["-c", script]).time_limit(Duration::from_secs(2));
    match run(command).await {
        Err(Error::TimedOut { argv, stderr, .. }) => assert!(argv.starts_with("sh -c") && stderr == "why", "{argv}: {stderr}"),
        other => panic!("{other:?}"),
    }
    let pid: i32 = std::fs::read_to_string(folder.0.join("pid")).unwrap().trim().parse().unwrap();
    assert_eq!(tree::start_time(pid), None);
}

#[tokio::test]
async fn what_stays_in_the_background_does_not_hold_the_result_back() {
    let begun = Instant::now();
    let output = run(sh("echo done; sleep 30 & echo $!")).await.unwrap();
    assert!(output.ok() && begun.elapsed() < Duration::from_secs(20));
    let text = String::from_utf8(output.stdout).unwrap();
    let (first, pid) = text.trim().split_once('\n').unwrap();
    assert_eq!(first, "done");
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_dropped_run_leaves_no_process() {
    let folder = Folder::new("dropped");
    let running = run(Command::new("sh", &folder.0, env()).args(["-c", "echo $$ > part; mv part pid; sleep 1000"]));
    let file = folder.0.join("pid");
    tokio::select! {
        done = running => panic!("{done:?}"),
        () = until(|| file.exists()) => {}
    }
    let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    until(|| tree::start_time(pid).is_none()).await;
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let nowhere = PathBuf::from("/nowhere/at/all");
    assert!(matches!(run(Command::new("true", &nowhere, env())).await, Err(Error::NoFolder { cwd, .. }) if cwd == nowhere));
    assert!(
        matches!(run(Command::new("/nowhere/program", "/", env())).await, Err(Error::Start { argv, .. }) if argv == "/nowhere/program")
    );
    let folder = Folder::new("unstartable");
    let script = folder.0.join("script");
    let path = script.to_str().unwrap();
    let at = |mode: u32, text: &str| {
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    let told = async |program: &str| run(Command::new(program, "/", env()).args(["--flag"; 100])).await.unwrap_err().to_string();
    let missing = "No such file or directory";
    assert_eq!(told("no-such-program").await, format!("can't start no-such-program: {missing} (it isn't on the server's PATH)"));
    let relative = "a path that isn't absolute is looked up in the folder that it runs in";
    assert_eq!(told("./no-such-program").await, format!("can't start ./no-such-program: {missing} ({relative})"));
    at(0o644, "#!/bin/sh\n");
    assert_eq!(told(path).await, format!("can't start {path}: Permission denied (is it a file, and executable?)"));
    at(0o755, "#!/no/such/shell\n");
    assert_eq!(told(path).await, format!("can't start {path}: {missing} (the interpreter that its first line names isn't there)"));
}

/// Waits until `fact` holds; a test that waits for ever is ended by its runner.
async fn until(fact: impl Fn() -> bool) {
    while !fact() {
        tokio::task::yield_now().await;
    }
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("taskyard-run-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
