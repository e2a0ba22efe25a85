//! Agents that write far too much, or no text at all.

use crate::support::Yard;
use serde_json::json;

/// The most memory that process `pid` has had, megabytes.
fn peak_memory(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_huge_line_bad_bytes_and_a_flood_cost_themselves_only() {
    let yard = Yard::new().await;
    let mut steps = vec![json!({ "huge_line": 64 << 20 }), json!("bad_utf8"), json!({ "stderr_flood": 64 << 20 })];
    steps.extend((1..=10).map(|n| json!({ "thought": format!("event {n} of ten\n") })));
    steps.extend([json!({ "write": { "path": "a.txt", "content": "a\n" } }), json!({ "commit": "Write a" })]);
    let task = yard.queue("Make noise", json!(steps)).await;
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded"]);
    let log = yard.log(&task).await;
    assert!(log.contains("bytes from the agent was dropped"), "{log}");
    for n in 1..=10 {
        assert!(log.contains(&format!("event {n} of ten")), "{n}: {log}");
    }
    assert!(log.contains("bad \u{fffd} byte"), "{log}");
    let peak = peak_memory(yard.server.pid());
    assert!(peak < 400, "the server took {peak} MB");
}

#[tokio::test]
async fn a_flood_of_small_updates_arrives_whole_and_in_order() {
    let yard = Yard::new().await;
    let task = yard.queue("Talk a lot", json!([{ "flood": 20_000 }, { "text": "and done" }])).await;
    yard.reviewable(&task).await;
    let log = yard.log(&task).await;
    assert!(log.contains("19998 19999 and done"), "{}", &log[log.floor_char_boundary(log.len().saturating_sub(300))..]);
    let peak = peak_memory(yard.server.pid());
    assert!(peak < 400, "the server took {peak} MB");
}
