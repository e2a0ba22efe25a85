//! Turns: work, figures, order, steering, limits, errors.

use crate::support::{Yard, text};
use taskyard_agents::{Command, Event, TurnStop};
use taskyard_domain::transcript::{Item, PlanEntry};
use taskyard_testkit::scripted::Step;
use taskyard_testkit::scripted::scenario::{Content, Figures, Limit, RpcError, Traits, prompt_with};

fn write(path: &str, content: &str) -> Step {
    Step::Write(Content { path: path.into(), content: content.into() })
}

#[tokio::test]
async fn an_agent_works_and_commits() {
    let steps = vec![
        Step::Thought("Let me see".into()),
        Step::Plan(vec![("write".into(), "completed".into()), ("commit".into(), "in_progress".into())]),
        write("src/new.txt", "hello\n"),
        Step::Commit("Add a file".into()),
        Step::Usage(Figures { input_tokens: 100, output_tokens: 7, cost_usd: Some(0.25) }),
        text("All "),
        text("done"),
    ];
    let yard = Yard::new(steps).await;
    let (mut agent, end) = yard.turn().await;
    assert_eq!((end.stop, end.errors.len(), end.last_text.as_str()), (TurnStop::Ended, 0, "All done"));
    assert_eq!(yard.repo.git(&["log", "-1", "--format=%s %an", "--name-only"]).await.unwrap(), "Add a file Test\n\nsrc/new.txt");
    let usage = agent.usage.unwrap();
    assert_eq!((usage.turns, usage.input_tokens, usage.output_tokens, usage.cost_usd), (1, 100, 7, Some(0.25)));
    let plan = [("write", "completed"), ("commit", "in_progress")];
    let plan = plan.map(|(text, status)| PlanEntry { text: text.into(), status: status.into() }).to_vec();
    assert!(agent.items.contains(&Item::Plan { entries: plan }));
    let completed = |item: &&Item| matches!(item, Item::ToolUpdate { status, .. } if status == "completed");
    assert_eq!(agent.items.iter().filter(completed).count(), 2);
    let ids: Vec<_> =
        agent.items.iter().filter_map(|item| if let Item::Text { message_id, .. } = item { Some(message_id) } else { None }).collect();
    assert!(ids.len() == 2 && ids[0] == ids[1]);
    assert_eq!(agent.close().await.code, Some(0));
    yard.assert_swept();
    let raw = std::fs::read_to_string(yard.log()).unwrap();
    assert!(raw.lines().last().unwrap().contains("end_turn"), "{raw}");
}

#[tokio::test]
async fn prompts_given_at_once_are_turns_one_after_another() {
    let yard = Yard::new(vec![text("turn ${turn}: ${prompt}. ")]).await;
    let mut agent = yard.begin();
    agent.prompt("a");
    agent.prompt("b");
    agent.until_ready().await;
    assert_eq!(agent.until_end().await.last_text, "turn 0: a. ");
    assert_eq!(agent.until_end().await.last_text, "turn 1: b. ");
    agent.prompt(&prompt_with("c", &[text("by block")]));
    assert_eq!(agent.until_end().await.last_text, "by block");
    assert_eq!(agent.text(), "turn 0: a. turn 1: b. by block");
}

#[tokio::test]
async fn a_flood_arrives_whole_and_in_order() {
    let yard = Yard::new(vec![Step::Flood(20_000)]).await;
    let (agent, end) = yard.turn().await;
    assert_eq!(end.stop, TurnStop::Ended);
    let expected: String = (0..20_000).map(|n| format!("{n} ")).collect();
    assert!(agent.text() == expected, "{} characters of {}", agent.text().len(), expected.len());
    assert!(expected.ends_with(&end.last_text) && end.last_text.len() > 3000);
}

#[tokio::test]
async fn a_reader_that_lags_gets_everything_and_bounds_memory() {
    let yard = Yard::new(vec![Step::Flood(20_000), Step::Signal("flooded".into())]).await;
    let (mut agent, _) = yard.ready().await;
    agent.prompt("Flood");
    // Nobody reads until the agent stands still or is through.
    while !yard.path("flooded").exists() && agent.handle.events.len() < agent.handle.events.max_capacity() {
        tokio::task::yield_now().await;
    }
    assert!(agent.handle.events.len() <= agent.handle.events.max_capacity());
    agent.until_end().await;
    let expected: String = (0..20_000).map(|n| format!("{n} ")).collect();
    assert!(agent.text() == expected);
}

#[tokio::test]
async fn texts_around_the_turn_are_kept() {
    let traits = Traits { early_text: Some("early ".into()), ..Traits::default() };
    let yard = Yard::with(traits, vec![text("in "), Step::TextAfterEnd("late".into())]).await;
    let (mut agent, end) = yard.turn().await;
    assert_eq!(end.last_text, "in ");
    agent.until_item(|item| matches!(item, Item::Text { text, .. } if text == "late")).await;
    assert_eq!(agent.text(), "early in late");
}

#[tokio::test]
async fn a_stop_reason_is_passed_on() {
    for (reason, stop) in [("max_tokens", TurnStop::MaxTokens), ("max_turn_requests", TurnStop::MaxTurns), ("refusal", TurnStop::Refused)] {
        let (_, end) = Yard::new(vec![Step::Stop(reason.into())]).await.turn().await;
        assert_eq!(end.stop, stop);
    }
}

#[tokio::test]
async fn errors_of_a_prompt_end_the_turn_and_not_the_session() {
    let yard = Yard::new(vec![Step::Error(RpcError { code: 500, message: "terminated".into(), data: None })]).await;
    let (mut agent, end) = yard.turn().await;
    assert_eq!((end.stop, end.errors), (TurnStop::Failed, vec!["terminated".to_owned()]));
    agent.prompt(&prompt_with("", &[Step::AuthError]));
    assert_eq!(agent.until_end().await.stop, TurnStop::AuthRequired);
    agent.prompt(&prompt_with("", &[text("fine")]));
    assert_eq!(agent.until_end().await.last_text, "fine");
}

#[tokio::test]
async fn a_usage_limit_is_reported_beside_the_turns_end() {
    let error = Limit { reset_in_s: Some(20), ..Limit::default() };
    for (limit, with_time) in [(error.clone(), true), (Limit { as_text: true, ..error }, true), (Limit::default(), false)] {
        let yard = Yard::new(vec![Step::Limit(limit.clone())]).await;
        let (mut agent, _) = yard.ready().await;
        agent.prompt("Work");
        let Some(Event::Limit(notice)) = agent.next().await else { panic!("no limit for {limit:?}") };
        assert_eq!(notice.reset_at.is_some(), with_time, "{notice:?}");
        assert!(notice.message.contains("usage limit"), "{notice:?}");
        let end = agent.until_end().await;
        assert_eq!(end.stop, if limit.as_text { TurnStop::Ended } else { TurnStop::Failed });
    }
}

#[tokio::test]
async fn a_steering_message_reaches_the_running_turn() {
    let steps = vec![Step::Signal("running".into()), Step::WaitSteer, text("heard: ${last}")];
    let yard = Yard::with(Traits { steering: true, ..Traits::default() }, steps).await;
    let (mut agent, _) = yard.ready().await;
    agent.prompt("Work");
    agent.tell(Command::Steer("hurry".into()));
    assert_eq!(agent.until_end().await.last_text, "heard: hurry");
}

#[tokio::test]
async fn a_steering_message_that_cannot_be_delivered_comes_back() {
    let yard = Yard::new(vec![Step::WaitFile("go".into()), text("done")]).await;
    let (mut agent, _) = yard.ready().await;
    agent.tell(Command::Steer("too early".into()));
    assert!(matches!(agent.next().await, Some(Event::SteerRefused { text }) if text == "too early"));
    agent.prompt("Work");
    agent.tell(Command::Steer("hurry".into()));
    assert!(matches!(agent.next().await, Some(Event::SteerRefused { text }) if text == "hurry"));
    std::fs::write(yard.path("go"), "").unwrap();
    agent.until_end().await;
}

#[tokio::test]
async fn unknown_updates_are_kept() {
    let update = serde_json::json!({"sessionUpdate": "hologram", "depth": 3});
    let (agent, _) = Yard::new(vec![Step::RawUpdate(update.clone()), Step::RawUpdate(7.into())]).await.turn().await;
    assert!(agent.items.contains(&Item::Unknown { raw: update }) && agent.items.contains(&Item::Unknown { raw: 7.into() }));
}

#[tokio::test]
async fn files_are_read_and_written_for_the_agent_inside_the_worktree_only() {
    let put = |path: &str| Step::WriteViaClient(Content { path: path.into(), content: "via client".into() });
    let read = |path: &str| Step::ReadViaClient(path.into());
    let steps = vec![put("deep/new.txt"), read("deep/new.txt"), read("missing"), put("../escape"), read("/etc/passwd")];
    let yard = Yard::new(steps).await;
    let (agent, _) = yard.turn().await;
    let expected = [("completed", "done"), ("completed", "via client"), ("failed", "-32002"), ("failed", "-32602"), ("failed", "-32602")];
    assert_eq!(agent.outputs(), expected);
    assert_eq!(std::fs::read_to_string(yard.path("deep/new.txt")).unwrap(), "via client");
    assert!(!yard.repo.outside().join("escape").exists());
}
