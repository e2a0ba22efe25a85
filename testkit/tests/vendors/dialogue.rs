//! What holds for both conversations, Claude's and Codex's.

use super::support::Yard;
use rstest::rstest;
use taskyard_agents::{Answer, Command, Event, TurnStop};
use taskyard_domain::agent::DriverKind::{self, Claude, Codex};
use taskyard_domain::transcript::Item;

#[rstest]
#[tokio::test]
async fn an_allowed_edit_is_made_and_the_conversation_goes_on(#[values(Claude, Codex)] driver: DriverKind) {
    let yard = Yard::new(driver);
    let mut agent = yard.prompted("write it");
    let (id, resumed) = agent.until_ready().await;
    assert!(id.is_some() && !resumed);
    let permission = agent.until_permission().await;
    assert_eq!((permission.kind.as_str(), permission.paths[0].to_str()), ("edit", Some("hello.txt")));
    assert!(!yard.path("wt/hello.txt").exists());
    agent.answer(&permission, Answer::Allow(None));
    assert_eq!(agent.until_end().await.stop, TurnStop::Ended);
    assert!(yard.path("wt/hello.txt").exists());
    assert!(agent.items.iter().any(|item| matches!(item, Item::ToolUpdate { status, .. } if status == "completed")));
    agent.tell(Command::Prompt("more please".into()));
    assert_eq!(agent.until_end().await.last_text, "heard: more please");
    agent.close();
    assert_eq!(agent.until_exit().await.0, Some(0));
    assert_eq!(agent.seen, ["ready", "permission", "usage", "end", "usage", "end", "exited"]);
    yard.assert_swept();
}

#[rstest]
#[tokio::test]
async fn a_denied_edit_is_not_made(#[values(Claude, Codex)] driver: DriverKind) {
    let yard = Yard::new(driver);
    let mut agent = yard.prompted("write it");
    let permission = agent.until_permission().await;
    agent.answer(&permission, Answer::Deny { reason: "no".into(), option_id: None });
    agent.until_end().await;
    assert!(!yard.path("wt/hello.txt").exists());
    assert!(agent.items.iter().any(|item| matches!(item, Item::ToolUpdate { status, .. } if status == "failed")));
}

#[rstest]
#[tokio::test]
async fn a_cancelled_turn_ends_and_the_next_one_runs(#[values(Claude, Codex)] driver: DriverKind, #[values("hang", "write")] what: &str) {
    let yard = Yard::new(driver);
    let mut agent = yard.prompted(what);
    if what == "hang" {
        agent.until_item("thinking").await;
    } else {
        agent.until_permission().await;
    }
    agent.tell(Command::CancelTurn);
    assert_eq!(agent.until_end().await.stop, TurnStop::Cancelled);
    assert!(!yard.path("wt/hello.txt").exists());
    agent.tell(Command::Prompt("more".into()));
    assert_eq!(agent.until_end().await.stop, TurnStop::Ended);
}

#[rstest]
#[tokio::test]
async fn an_agent_that_ignores_a_cancel_is_ended(#[values(Claude, Codex)] driver: DriverKind) {
    let yard = Yard::new(driver);
    let mut agent = yard.prompted("deaf");
    agent.until_item("thinking").await;
    agent.tell(Command::CancelTurn);
    agent.until_exit().await;
    assert!(agent.notices().iter().any(|text| text.contains("didn't stop")), "{:?}", agent.notices());
    yard.assert_swept();
}

#[rstest]
#[tokio::test]
async fn steering_reaches_the_turn_that_runs(#[values(Claude, Codex)] driver: DriverKind) {
    let yard = Yard::new(driver);
    let mut agent = yard.prompted("hang");
    agent.until_item("thinking").await;
    agent.tell(Command::Steer("hurry".into()));
    assert_eq!(agent.until_end().await.last_text, "steered: hurry");
    agent.tell(Command::Steer("too late".into()));
    agent.until(|event| matches!(event, Event::SteerRefused { text } if text == "too late").then_some(())).await;
}

#[rstest]
#[case("known", true)]
#[case("forgotten", false)]
#[tokio::test]
async fn a_conversation_is_taken_up_or_begun_anew(#[values(Claude, Codex)] driver: DriverKind, #[case] id: &str, #[case] resumed: bool) {
    let mut yard = Yard::new(driver);
    yard.resume = Some(id.into());
    let mut agent = yard.prompted("hello");
    let ready = agent.until_ready().await;
    assert_eq!((ready.0.as_deref() == Some(id), ready.1), (resumed, resumed));
    assert_eq!(agent.notices().is_empty(), resumed, "{:?}", agent.notices());
    assert_eq!(agent.until_end().await.last_text, "heard: hello");
    agent.close();
    agent.until_exit().await;
    assert_eq!(agent.seen, ["ready", "usage", "end", "exited"]);
    yard.assert_swept();
}

#[rstest]
#[tokio::test]
async fn an_agent_that_dies_in_a_turn_exits_with_its_last_words(#[values(Claude, Codex)] driver: DriverKind) {
    let yard = Yard::new(driver);
    let mut agent = yard.prompted("die");
    assert_eq!(agent.until_exit().await, (Some(3), "the end".into()));
    assert!(!agent.seen.contains(&"end"));
}

#[rstest]
#[tokio::test]
async fn a_huge_line_costs_that_line(#[values(Claude, Codex)] driver: DriverKind) {
    let yard = Yard::new(driver);
    let mut agent = yard.prompted("flood");
    assert_eq!(agent.until_end().await.stop, TurnStop::Ended);
    assert!(agent.notices().iter().any(|text| text.contains("2097152 bytes")), "{:?}", agent.notices());
    assert!(std::fs::metadata(yard.path("logs/raw.log")).unwrap().len() > 2 << 20);
}

#[rstest]
#[tokio::test]
async fn the_token_is_in_no_argument_and_leaves_nothing_behind(#[values(Claude, Codex)] driver: DriverKind) {
    let yard = Yard::new(driver);
    let mut agent = yard.prompted("where");
    agent.until_ready().await;
    let argv = std::fs::read_to_string(format!("/proc/{}/cmdline", agent.handle.pid)).unwrap();
    assert!(!argv.contains("secret"), "{argv}");
    agent.until_end().await;
    let told = agent.items.iter().find_map(|item| if let Item::Text { text, .. } = item { Some(text.clone()) } else { None });
    let told: serde_json::Value = serde_json::from_str(&told.unwrap()).unwrap();
    assert_eq!(told["cwd"].as_str(), yard.path("wt").to_str());
    let (name, value) = if driver == Claude { ("MCP_TOOL_TIMEOUT", "90000") } else { ("NO_COLOR", "1") };
    assert_eq!(told["env"][name], value);
    agent.close();
    agent.until_exit().await;
    let left: Vec<_> = std::fs::read_dir(yard.path("logs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(std::fs::read_dir(yard.path("wt")).unwrap().count(), 0);
}
