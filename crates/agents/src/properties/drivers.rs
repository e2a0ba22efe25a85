//! Whole drivers with a process that writes anything and ends: the turn's end and the exit are always told, in a
//! moment, and every byte is in the raw log.

use super::lines::{Protocol, line};
use crate::contract::{Command, Event, Heard, Launch};
use proptest::prelude::*;
use std::path::Path;
use std::time::Duration;
use taskyard_domain::agent::DriverKind;
use taskyard_process::Environment;
use taskyard_testkit::property::config;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/drivers.txt");
/// Longer than any of this takes, however busy the machine.
const SOON: Duration = Duration::from_secs(60);

fn launch(driver: DriverKind, output: &Path) -> Launch {
    let folder = output.parent().unwrap();
    let mut env = Environment::default();
    env.set("PATH", std::env::var("PATH").unwrap());
    env.set("MARK", output.display().to_string());
    Launch {
        driver,
        command: ["sh", "-c", "cat \"$0\"", output.to_str().unwrap()].map(str::to_owned).into(),
        cwd: folder.to_owned(),
        writable_dirs: Vec::new(),
        env,
        marker: format!("MARK={}", output.display()),
        model: None,
        mode: None,
        max_turns: None,
        system_prompt: None,
        mcp_servers: Vec::new(),
        resume: None,
        raw_log: folder.join("raw"),
        heard: Heard::default(),
        stderr_log: folder.join("stderr"),
        line_cap: 64 << 10,
        start_limit: SOON,
    }
}

/// All events of a driver whose process writes `bytes`.
async fn told(driver: DriverKind, bytes: &[u8]) -> Result<Vec<Event>, TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    std::fs::write(&output, bytes).unwrap();
    let launch = launch(driver, &output);
    let raw_log = launch.raw_log.clone();
    let mut handle = crate::start(launch).unwrap();
    handle.commands.send(Command::Prompt("go".into())).unwrap();
    let mut events = Vec::new();
    let all = async {
        while let Some(event) = handle.events.recv().await {
            events.push(event);
        }
    };
    prop_assert!(tokio::time::timeout(SOON, all).await.is_ok(), "{:?} doesn't end", driver);
    prop_assert!(std::fs::read(raw_log).unwrap() == bytes, "the raw log isn't what was written");
    Ok(events)
}

proptest! {
    #![proptest_config(config(12, KEPT))]

    #[test]
    fn every_driver_comes_to_an_end_whatever_the_agent_writes(
        lines in prop::sample::select(Protocol::ALL.to_vec()).prop_flat_map(|protocol| prop::collection::vec(line(protocol), 0..40)),
        last in prop::sample::select(vec![&b"\n"[..], b"", b"{\"half", b"\xff"]),
    ) {
        let bytes = [lines.join(&b'\n'), last.to_vec()].concat();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for driver in [DriverKind::Acp, DriverKind::Claude, DriverKind::Codex, DriverKind::Exec] {
                let events = told(driver, &bytes).await?;
                prop_assert!(matches!(events.last(), Some(Event::Exited { .. })), "{:?}: {:?}", driver, events.last());
                let exits = events.iter().filter(|event| matches!(event, Event::Exited { .. })).count();
                prop_assert_eq!(exits, 1, "{:?}", driver);
            }
            Ok(())
        })?;
    }
}
