//! Permission requests: allowed, refused, cancelled, taken back.

use crate::support::{Agent, Yard, text};
use taskyard_agents::{Answer, Command, Event, TurnStop};
use taskyard_testkit::scripted::Step;
use taskyard_testkit::scripted::scenario::Ask;

fn ask() -> Ask {
    Ask {
        title: "Run the tests".into(),
        kind: "execute".into(),
        input: serde_json::json!({"command": "make test"}),
        paths: vec!["Makefile".into()],
        on_allow: vec![text("allowed by ${last}")],
        on_deny: vec![text("denied by ${last}")],
        withdraw_after: None,
    }
}

async fn asked() -> (Yard, Agent, String) {
    let yard = Yard::new(vec![Step::Ask(ask()), text(".")]).await;
    let (mut agent, _) = yard.ready().await;
    agent.prompt("Work");
    let permission = agent.until_permission().await;
    assert_eq!((permission.title.as_str(), permission.kind.as_str()), ("Run the tests", "execute"));
    assert_eq!(permission.input["command"], "make test");
    assert_eq!(permission.paths, [yard.path("Makefile")]);
    assert_eq!(permission.options.len(), 4);
    (yard, agent, permission.request_id)
}

async fn answered(answer: Answer) -> String {
    let (_yard, mut agent, request_id) = asked().await;
    agent.tell(Command::Permission { request_id, answer });
    agent.until_end().await.last_text
}

#[tokio::test]
async fn allowing_means_once_unless_a_person_chose_otherwise() {
    assert_eq!(answered(Answer::Allow(None)).await, "allowed by id-allow_once.");
    assert_eq!(answered(Answer::Allow(Some("id-allow_always".into()))).await, "allowed by id-allow_always.");
}

#[tokio::test]
async fn refusing_goes_on_with_the_turn() {
    let deny = Answer::Deny { reason: "no".into(), option_id: None };
    assert_eq!(answered(deny).await, "denied by id-reject_once.");
    assert_eq!(answered(Answer::Cancelled).await, "denied by cancelled.");
}

#[tokio::test]
async fn cancelling_the_turn_answers_what_is_open() {
    let (_yard, mut agent, request_id) = asked().await;
    agent.tell(Command::CancelTurn);
    assert!(matches!(agent.next().await, Some(Event::PermissionWithdrawn { request_id: id }) if id == request_id));
    assert_eq!(agent.until_end().await.stop, TurnStop::Cancelled);
    // An answer that comes too late changes nothing.
    agent.tell(Command::Permission { request_id, answer: Answer::Allow(None) });
    assert_eq!(agent.close().await.code, Some(0));
}

#[tokio::test]
async fn a_request_taken_back_is_reported() {
    let steps = vec![Step::Ask(Ask { withdraw_after: Some("enough".into()), ..ask() })];
    let yard = Yard::new(steps).await;
    let (mut agent, _) = yard.ready().await;
    agent.prompt("Work");
    let permission = agent.until_permission().await;
    std::fs::write(yard.path("enough"), "").unwrap();
    assert!(matches!(agent.next().await, Some(Event::PermissionWithdrawn { request_id }) if request_id == permission.request_id));
    assert_eq!(agent.until_end().await.last_text, "denied by cancelled");
}

#[tokio::test]
async fn an_agent_that_dies_while_it_waits_only_exits() {
    let (yard, mut agent, _) = asked().await;
    taskyard_process::tree::signal_group(agent.handle.pid, taskyard_process::tree::Signal::Kill);
    assert!(matches!(agent.next().await, Some(Event::PermissionWithdrawn { .. })));
    assert_eq!(agent.until_exit().await.signal, Some(9));
    yard.assert_swept();
}
