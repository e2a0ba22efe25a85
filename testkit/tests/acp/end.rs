//! Cancelling, closing, crashing, killing; what is left of the tree (cases D1, D2, D3).

use crate::support::{Agent, GRACE, Yard, text};
use taskyard_agents::{Command, TurnStop};
use taskyard_domain::transcript::Item;
use taskyard_process::tree;
use taskyard_testkit::scripted::Step;
use taskyard_testkit::scripted::scenario::{Grandchildren, Traits};

fn said(word: &'static str) -> impl Fn(&Item) -> bool {
    move |item| matches!(item, Item::Text { text, .. } if text == word)
}

async fn hanging(traits: Traits, mut steps: Vec<Step>) -> (Yard, Agent, String) {
    steps.extend([text("working"), Step::Hang]);
    let yard = Yard::with(traits, steps).await;
    let (mut agent, id) = yard.ready().await;
    agent.prompt("Work");
    agent.until_item(said("working")).await;
    (yard, agent, id)
}

fn grandchildren(hold_output: bool) -> Step {
    Step::Grandchildren(Grandchildren { pids: "pids".into(), hold_output })
}

fn pids(yard: &Yard) -> Vec<i32> {
    let text = std::fs::read_to_string(yard.path("pids")).unwrap();
    text.lines().map(|pid| pid.parse().unwrap()).collect()
}

fn alive(pids: &[i32]) -> usize {
    pids.iter().filter(|pid| tree::start_time(**pid).is_some()).count()
}

#[tokio::test]
async fn cancelling_ends_the_turn_and_the_session_goes_on() {
    let (_yard, mut agent, _) = hanging(Traits::default(), vec![]).await;
    agent.tell(Command::CancelTurn);
    let end = agent.until_end().await;
    assert_eq!((end.stop, end.last_text.as_str()), (TurnStop::Cancelled, "working"));
    agent.prompt("```scenario\n[{\"text\": \"again\"}]\n```");
    assert_eq!(agent.until_end().await.last_text, "again");
}

#[tokio::test]
async fn an_agent_that_ignores_cancelling_is_ended() {
    let (yard, mut agent, _) = hanging(Traits::default(), vec![Step::IgnoreCancel]).await;
    agent.tell(Command::CancelTurn);
    agent.until_exit().await;
    assert!(agent.notices().iter().any(|notice| notice.contains("didn't stop")), "{:?}", agent.notices());
    yard.assert_swept();
}

#[tokio::test]
async fn closing_reaches_every_descendant() {
    for hold_output in [false, true] {
        let (yard, mut agent, _) = hanging(Traits::default(), vec![grandchildren(hold_output)]).await;
        let left = pids(&yard);
        assert_eq!((left.len(), alive(&left)), (2, 2));
        agent.close().await;
        assert_eq!(alive(&left), 0);
        yard.assert_swept();
    }
}

#[tokio::test]
async fn descendants_are_gone_when_the_agent_ends_by_itself() {
    let yard = Yard::new(vec![grandchildren(true), Step::ExitAfterEnd(4)]).await;
    let (mut agent, end) = yard.turn().await;
    assert_eq!(end.stop, TurnStop::Silent);
    assert_eq!(agent.until_exit().await.code, Some(4));
    assert_eq!(alive(&pids(&yard)), 0);
}

#[tokio::test]
async fn what_ignores_everything_is_killed() {
    let traits = Traits { ignore_eof: true, ignore_sigterm: true, ..Traits::default() };
    let (yard, mut agent, _) = hanging(traits, vec![grandchildren(false)]).await;
    assert_eq!(agent.close().await.signal, Some(9));
    yard.assert_swept();
}

#[tokio::test]
async fn a_crash_in_mid_turn_is_an_exit_after_everything_that_was_said() {
    let yard = Yard::new(vec![text("last words"), Step::Stderr("panic!".into()), Step::Crash(7)]).await;
    let (mut agent, _) = yard.ready().await;
    agent.prompt("Work");
    let exit = agent.until_exit().await;
    assert_eq!((exit.code, exit.signal, exit.stderr_tail.as_str()), (Some(7), None, "panic!"));
    assert_eq!(agent.text(), "last words");
    assert_eq!(agent.seen, ["ready", "exited"]);
}

#[tokio::test]
async fn an_agent_that_closes_its_output_is_ended() {
    let yard = Yard::new(vec![text("x"), Step::CloseOutput, Step::Hang]).await;
    let (mut agent, _) = yard.ready().await;
    agent.prompt("Work");
    agent.until_exit().await;
    yard.assert_swept();
}

#[tokio::test]
async fn nobody_listening_ends_the_agent() {
    let (yard, agent, _) = hanging(Traits::default(), vec![grandchildren(false)]).await;
    let (pid, started) = (agent.handle.pid, agent.handle.start_time);
    let left = pids(&yard);
    drop(agent);
    tokio::time::timeout(std::time::Duration::from_secs(20), async {
        while tree::is_alive(pid, started) || alive(&left) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_silent_agent_stays_alive_until_it_is_closed() {
    let (yard, mut agent, _) = hanging(Traits::default(), vec![]).await;
    assert!(tree::is_alive(agent.handle.pid, agent.handle.start_time));
    agent.tell(Command::Close { grace: GRACE });
    // Standard input's end is enough for this one.
    assert_eq!(agent.until_exit().await.code, Some(0));
    yard.assert_swept();
}

#[tokio::test]
async fn after_a_kill_the_session_is_loaded_and_nothing_is_said_twice() {
    let (mut yard, mut agent, id) = hanging(Traits::default(), vec![grandchildren(false)]).await;
    let (pid, started) = (agent.handle.pid, agent.handle.start_time);
    // As the server does at its next start: it knows pid, start time and marker.
    assert!(tree::end(pid, started, &yard.marker).await > 0);
    assert_eq!(agent.until_exit().await.signal, Some(9));
    assert_eq!(alive(&pids(&yard)), 0);
    yard.scenario.turns = vec![vec![], vec![text("turn ${turn} in ${cwd}")]];
    yard.resume = Some(id.clone());
    let (mut agent, loaded) = yard.ready().await;
    assert_eq!(loaded, id);
    agent.prompt("Go on");
    agent.until_end().await;
    assert_eq!(agent.text(), format!("turn 1 in {}", yard.repo.path().display()));
}

#[tokio::test]
async fn an_unmarked_process_that_holds_the_output_does_not_hold_the_end_back() {
    let mut yard = Yard::new(vec![]).await;
    yard.edit = Box::new(|launch| {
        let script = "setsid -f env -i sh -c 'echo $$ > part; mv part pids; exec sleep 1000'; while [ ! -e pids ]; do :; done; exit 3";
        launch.command = ["sh", "-c", script].map(String::from).to_vec();
    });
    let mut agent = yard.begin();
    assert_eq!(agent.until_exit().await.code, Some(3));
    let left = pids(&yard);
    assert_eq!(alive(&left), 1, "nothing tells that this process is ours");
    tree::signal_group(left[0], tree::Signal::Kill);
}
