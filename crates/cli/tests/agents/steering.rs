//! A message in mid-turn: the driver hands it to the agent, whose model sees it in the same turn. Taskyard's tools don't
//! send such messages, so this drives the agent without a server.

use crate::harness::Configure;
use crate::support::eventually;
use std::time::Duration;
use taskyard_agents::{Answer, Command, Event, Handle, Heard, Launch, TurnEnd, TurnStop};
use taskyard_process::tree;
use taskyard_testkit::model::Model;
use taskyard_testkit::model::scenario::{Scenario, run, say};
use taskyard_testkit::repo::Repo;

const MESSAGE: &str = "Paint it blue instead";

/// A message is sent while a tool runs. The model reads it in its next request, before the turn is over.
pub async fn hears(configure: Configure) {
    let model = Model::start().await.unwrap();
    let work = run("touch begun; until test -e go; do sleep 0.1; done; sleep 1");
    let playing = model.play(Scenario::new().reply([work]).reply([say("I heard: {{user}}")]));
    let agent = configure(playing.url(), &[]);
    let repo = Repo::new().await.unwrap();
    agent.settle(&repo.outside().join("home"));
    let (driver, variables, command) = agent.parts();
    let marker = format!("TEST_STEERING={}", repo.outside().display());
    let mut env = repo.env().clone().with("TEST_STEERING", repo.outside());
    for (name, value) in variables {
        env.set(name, value);
    }
    let mut handle = taskyard_agents::start(Launch {
        driver,
        command,
        cwd: repo.path(),
        writable_dirs: vec![repo.path().join(".git")],
        env,
        marker: marker.clone(),
        model: None,
        mode: None,
        max_turns: None,
        system_prompt: None,
        mcp_servers: Vec::new(),
        resume: None,
        raw_log: repo.outside().join("agent.raw"),
        heard: Heard::default(),
        stderr_log: repo.outside().join("agent.stderr"),
        line_cap: 16 << 20,
        start_limit: Duration::from_secs(60),
    })
    .unwrap();
    handle.commands.send(Command::Prompt("Paint the house".into())).unwrap();
    let begun = eventually("the tool to begin", async || repo.path().join("begun").exists().then_some(()));
    tokio::select! {
        () = begun => {}
        end = turn_end(&mut handle) => panic!("the turn is over before its tool began: {end:?}\n{:#?}", playing.served()),
    }
    handle.commands.send(Command::Steer(MESSAGE.into())).unwrap();
    std::fs::write(repo.path().join("go"), "").unwrap();
    let end = turn_end(&mut handle).await;
    assert_eq!(end.stop, TurnStop::Ended, "{end:?}");
    let heard = playing.served().iter().any(|served| served.reply == Some(1) && served.user.contains(MESSAGE));
    assert!(heard && end.last_text.contains(MESSAGE), "{end:?} {:#?}", playing.served());
    assert_eq!(playing.problems(), Vec::<String>::new());
    handle.commands.send(Command::Close { grace: Duration::from_secs(3) }).unwrap();
    while handle.events.recv().await.is_some() {}
    assert!(tree::marked(&marker).is_empty(), "processes are left over");
}

/// Answers questions with yes until the turn is over.
async fn turn_end(handle: &mut Handle) -> TurnEnd {
    while let Some(event) = handle.events.recv().await {
        match event {
            Event::Permission(asked) => {
                let _ = handle.commands.send(Command::Permission { request_id: asked.request_id, answer: Answer::Allow(None) });
            }
            Event::SteerRefused { text } => panic!("refused: {text}"),
            Event::TurnEnded(end) => return end,
            Event::Exited { code, stderr_tail, .. } => panic!("the agent ended ({code:?}): {stderr_tail}"),
            _ => {}
        }
    }
    panic!("the driver is gone")
}
