//! What the scripted agent writes is the protocol: every message fits the SDK's types, so that a driver
//! which works with it works with others.

use crate::support::{Yard, text};
use agent_client_protocol::v1::schema as acp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use taskyard_agents::{Answer, Command};
use taskyard_testkit::scripted::scenario::{Ask, Content, Figures, Login, Traits};
use taskyard_testkit::scripted::{Step, program};

fn fits<T: DeserializeOwned>(value: &Value) {
    if let Err(error) = serde_json::from_value::<T>(value.clone()) {
        panic!("{error}: {value}");
    }
}

#[tokio::test]
async fn every_message_fits_the_sdks_types() {
    let ask = Ask {
        title: "t".into(),
        kind: "delete".into(),
        input: Value::Null,
        paths: vec!["a".into()],
        on_allow: vec![],
        on_deny: vec![],
        withdraw_after: None,
    };
    let steps = vec![
        Step::Thought("t".into()),
        Step::Plan(vec![("p".into(), "in_progress".into())]),
        Step::Write(Content { path: "a".into(), content: "b".into() }),
        Step::Shell("exit 1".into()),
        Step::Ask(ask),
        Step::WriteViaClient(Content { path: "c".into(), content: "d".into() }),
        Step::ReadViaClient("c".into()),
        Step::Usage(Figures { input_tokens: 1, output_tokens: 2, cost_usd: Some(0.5) }),
        text("x"),
    ];
    let traits = Traits { resume: true, modes: vec!["m".into()], models: vec!["l".into()], login: Login::None, ..Traits::default() };
    let yard = Yard::with(traits, steps).await;
    let (mut agent, _) = yard.ready().await;
    agent.prompt("Work");
    let request_id = agent.until_permission().await.request_id;
    agent.tell(Command::Permission { request_id, answer: Answer::Allow(None) });
    agent.until_end().await;
    agent.close().await;
    let (mut seen, mut answers) = (0, 0);
    for line in std::fs::read_to_string(yard.log()).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0");
        seen += 1;
        match message["method"].as_str() {
            Some("session/update") => fits::<acp::SessionNotification>(&message["params"]),
            Some("session/request_permission") => fits::<acp::RequestPermissionRequest>(&message["params"]),
            Some("fs/write_text_file") => fits::<acp::WriteTextFileRequest>(&message["params"]),
            Some("fs/read_text_file") => fits::<acp::ReadTextFileRequest>(&message["params"]),
            Some(other) => panic!("{other}"),
            None => {
                answers += 1;
                match answers {
                    1 => fits::<acp::InitializeResponse>(&message["result"]),
                    2 => fits::<acp::NewSessionResponse>(&message["result"]),
                    _ => fits::<acp::PromptResponse>(&message["result"]),
                }
            }
        }
    }
    assert_eq!((answers, seen), (3, 20));
}

#[tokio::test]
async fn other_crates_find_the_program() {
    assert_eq!(program().await.unwrap(), std::path::Path::new(env!("CARGO_BIN_EXE_taskyard-scripted-agent")));
}
