//! Commands that read a prompt and exit.

use super::support::{GRACE, Yard};
use taskyard_agents::{Command, Event, TurnStop};
use taskyard_domain::agent::DriverKind;
use taskyard_domain::transcript::Item;

fn yard() -> Yard {
    Yard::new(DriverKind::Exec)
}

#[tokio::test]
async fn the_prompt_goes_in_and_lines_come_out() {
    let yard = Yard { system_prompt: Some("Be brief.".into()), resume: Some("known".into()), ..yard() };
    let mut agent = yard.prompted("please write");
    assert_eq!(agent.until_ready().await, (None, false));
    let end = agent.until_end().await;
    assert_eq!((end.stop, end.last_text.as_str()), (TurnStop::Ended, "heard: Be brief.||please write\n"));
    assert_eq!(agent.until_exit().await.0, Some(0));
    assert!(yard.path("wt/hello.txt").exists());
    let output = Item::Text { message_id: "output".into(), text: "heard: Be brief.||please write\n".into() };
    assert_eq!(agent.items, [output]);
}

#[tokio::test]
async fn a_failure_carries_code_and_words() {
    let mut agent = yard().prompted("die");
    let end = agent.until_end().await;
    assert_eq!((end.stop, end.errors), (TurnStop::Failed, vec!["the command exited with 3".to_owned(), "out of ideas".to_owned()]));
    assert_eq!(agent.until_exit().await.0, Some(3));
}

#[tokio::test]
async fn a_usage_limit_is_told_before_the_end() {
    let mut agent = yard().prompted("limit");
    let until = agent.until(|event| if let Event::Limit(limit) = event { Some(limit.reset_at) } else { None }).await;
    assert!(until.is_some());
    assert_eq!(agent.until_end().await.stop, TurnStop::Failed);
}

#[tokio::test]
async fn a_cancel_ends_the_process() {
    let yard = yard();
    let mut agent = yard.prompted("hang");
    agent.until_ready().await;
    agent.tell(Command::CancelTurn);
    let end = agent.until_end().await;
    assert_eq!((end.stop, end.errors), (TurnStop::Cancelled, vec![]));
    agent.until_exit().await;
    yard.assert_swept();
}

#[tokio::test]
async fn without_a_prompt_closing_just_exits() {
    let yard = yard();
    let mut agent = yard.start();
    agent.until_ready().await;
    agent.tell(Command::Steer("hurry".into()));
    agent.tell(Command::Close { grace: GRACE });
    agent.until_exit().await;
    assert_eq!(agent.seen, ["ready", "steer refused", "exited"]);
    yard.assert_swept();
}
