//! Drives one agent by hand and prints what its driver reports, for trying out real agents.
//!
//! `drive '{"driver":"claude","command":["claude"],"cwd":"/tmp/wt"}' STEP..` with the steps
//! `prompt TEXT`, `steer TEXT`, `cancel`, `after SECONDS steer TEXT`, `after SECONDS cancel`, `after SECONDS close`, `after SECONDS kill`, `allow`, `deny`,
//! `ready` and `turn` (wait for the handshake, a turn's end).
#![expect(clippy::print_stdout, clippy::unwrap_used, clippy::panic, reason = "a tool for maintainers, not shipped")]

use serde_json::Value;
use std::time::Duration;
use taskyard_agents::{Answer, Command, Event, Heard, Launch, McpServer, Resume, start};
use taskyard_process::Environment;

fn launch(spec: &Value) -> Launch {
    let text = |key: &str| spec[key].as_str().map(str::to_owned);
    let list = |key: &str| spec[key].as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let marker = "TASKYARD_RUN_ID=drive-by-hand";
    let logs = std::path::PathBuf::from(text("logs").unwrap_or_else(|| "/tmp/taskyard-drive".into()));
    let mcp = spec["mcp"].as_str().map(|url| McpServer {
        name: "taskyard".into(),
        url: url.into(),
        headers: vec![("Authorization".into(), "Bearer test-token".into())],
        tool_timeout_s: 600,
    });
    Launch {
        driver: serde_json::from_value(spec["driver"].clone()).unwrap(),
        command: list("command"),
        cwd: text("cwd").unwrap().into(),
        writable_dirs: list("writable_dirs").into_iter().map(Into::into).collect(),
        env: Environment::from_vars(std::env::vars_os()).with("TASKYARD_RUN_ID", "drive-by-hand"),
        marker: marker.into(),
        model: text("model"),
        mode: text("mode"),
        max_turns: spec["max_turns"].as_i64(),
        system_prompt: text("system_prompt"),
        mcp_servers: mcp.into_iter().collect(),
        resume: text("resume").map(|agent_session_id| Resume { agent_session_id }),
        raw_log: logs.join("raw.log"),
        heard: Heard::default(),
        stderr_log: logs.join("stderr.log"),
        line_cap: 32 << 20,
        start_limit: Duration::from_secs(30),
    }
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let spec: Value = serde_json::from_str(&args.next().unwrap()).unwrap();
    let mut handle = start(launch(&spec)).unwrap();
    println!("pid {}", handle.pid);
    let mut allow = true;
    for step in args {
        let words: Vec<&str> = step.splitn(2, ' ').collect();
        match words.as_slice() {
            ["allow"] => allow = true,
            ["deny"] => allow = false,
            ["prompt", text] => drop(handle.commands.send(Command::Prompt((*text).to_owned()))),
            ["after", rest] => later(&handle, rest),
            ["cancel"] => drop(handle.commands.send(Command::CancelTurn)),
            ["steer", text] => drop(handle.commands.send(Command::Steer((*text).to_owned()))),
            ["ready"] => while !matches!(handle.events.recv().await, Some(Event::Ready { .. }) | None) {},
            ["turn"] => while !report(&mut handle, allow).await {},
            other => panic!("unknown step {other:?}"),
        }
    }
    let _ = handle.commands.send(Command::Close { grace: Duration::from_secs(3) });
    while !handle.events.is_closed() || !handle.events.is_empty() {
        if report(&mut handle, allow).await {
            break;
        }
    }
}

fn later(handle: &taskyard_agents::Handle, rest: &str) {
    let (commands, pid, started) = (handle.commands.clone(), handle.pid, handle.start_time);
    let words: Vec<String> = rest.splitn(3, ' ').map(str::to_owned).collect();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs_f64(words[0].parse().unwrap())).await;
        let command = match words[1].as_str() {
            "kill" => {
                taskyard_process::tree::end(pid, started, "TASKYARD_RUN_ID=drive-by-hand").await;
                return;
            }
            "steer" => Command::Steer(words[2].clone()),
            "close" => Command::Close { grace: Duration::from_secs(3) },
            _ => Command::CancelTurn,
        };
        println!(">>> {command:?}");
        let _ = commands.send(command);
    });
}

/// Prints the next event; whether it ends a turn or everything.
async fn report(handle: &mut taskyard_agents::Handle, allow: bool) -> bool {
    let Some(event) = handle.events.recv().await else { return true };
    println!("{event:?}");
    if let Event::Permission(permission) = &event {
        let answer = if allow { Answer::Allow(None) } else { Answer::Deny { reason: "not today".into(), option_id: None } };
        let _ = handle.commands.send(Command::Permission { request_id: permission.request_id.clone(), answer });
    }
    matches!(event, Event::TurnEnded(_) | Event::Exited { .. })
}
