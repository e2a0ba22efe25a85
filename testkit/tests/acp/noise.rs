//! Output that isn't what it should be (case D8), and logs.

use crate::support::{Yard, text};
use taskyard_agents::TurnStop;
use taskyard_testkit::scripted::Step;

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn a_huge_line_bad_bytes_and_a_flood_of_errors_cost_only_themselves() {
    let mut steps = vec![text("before "), Step::StderrFlood(8 * MIB), Step::HugeLine(64 * MIB), Step::BadUtf8];
    steps.extend((0..10).map(|n| text(&format!("event {n};"))));
    let yard = Yard::new(steps).await;
    let before = peak_memory();
    let (agent, end) = yard.turn().await;
    assert_eq!(end.stop, TurnStop::Ended);
    let tens: String = (0..10).map(|n| format!("event {n};")).collect();
    assert_eq!(agent.text(), format!("before bad \u{fffd} byte{tens}"));
    let dropped = format!("{}", 64 * MIB);
    assert!(agent.notices().iter().any(|notice| notice.contains(&dropped)), "{:?}", agent.notices());
    assert!(agent.notices().iter().any(|notice| notice.contains("not a message")), "{:?}", agent.notices());
    let grown = peak_memory() - before;
    assert!(grown < 40 * MIB, "memory grew by {grown} bytes");
    assert!(std::fs::metadata(yard.log()).unwrap().len() > 64 * MIB, "the raw log keeps every byte");
}

#[tokio::test]
async fn lines_that_are_no_messages_are_shown_a_few_times() {
    let mut steps: Vec<Step> = (0..50).map(|n| Step::RawLine(format!("debug {n}"))).collect();
    steps.extend(
        ["[]", "17", "{}", r#"{"jsonrpc":"2.0","method":"_x/y","params":{}}"#, r#"{"jsonrpc":"2.0","id":"odd","result":1}"#]
            .map(|line| Step::RawLine(line.into())),
    );
    steps.push(text("fine"));
    let (agent, end) = Yard::new(steps).await.turn().await;
    assert_eq!((end.stop, end.last_text.as_str()), (TurnStop::Ended, "fine"));
    let shown = agent.notices().iter().filter(|notice| notice.contains("debug")).count();
    assert_eq!(shown, 20);
}

#[tokio::test]
async fn standard_error_is_kept_and_its_end_told() {
    let yard = Yard::new(vec![Step::StderrFlood(MIB), Step::Stderr("the reason".into()), Step::Crash(3)]).await;
    let (mut agent, _) = yard.ready().await;
    agent.prompt("Die");
    let exit = agent.until_exit().await;
    assert_eq!(exit.code, Some(3));
    assert!(exit.stderr_tail.ends_with("the reason") && exit.stderr_tail.len() <= 8 << 10);
    assert!(std::fs::metadata(yard.repo.outside().join("logs/stderr.log")).unwrap().len() > MIB);
}

#[tokio::test]
async fn the_raw_log_goes_on_where_an_earlier_run_ended() {
    let yard = Yard::new(vec![text("said")]).await;
    let (mut agent, _) = yard.turn().await;
    agent.close().await;
    let first = std::fs::read(yard.log()).unwrap();
    let (mut agent, _) = yard.turn().await;
    agent.close().await;
    let both = std::fs::read(yard.log()).unwrap();
    assert!(both.len() > first.len() && both.starts_with(&first));
}

/// The most memory this process ever used, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
