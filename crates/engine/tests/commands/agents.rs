//! Which agents there are, and who knows them.

use crate::support::{Yard, input};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use taskyard_domain::agent::DriverKind;

#[tokio::test]
async fn known_and_configured_agents_are_told_apart() {
    let yard = Yard::new().await;
    let program = yard.path().join("bin/claude");
    std::fs::write(&program, "#!/bin/sh\necho '2.1.3 (Claude Code)'\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let list = async || yard.engine.list_agents(&yard.me(), input(json!({}))).await.unwrap();

    let before = list().await;
    assert!(before.hint.unwrap().contains("taskyard agent add"));
    let claude = before.agents.iter().find(|agent| agent.name == "claude").unwrap();
    assert_eq!((claude.configured, claude.installed, claude.version.as_deref()), (false, true, Some("2.1.3")));
    let codex = before.agents.iter().find(|agent| agent.name == "codex").unwrap();
    assert_eq!((codex.installed, codex.driver.as_str()), (false, "codex"));

    let add = json!({ "name": "Claude", "driver": "claude", "command": ["claude"], "env": { "KEY": "secret" }, "model": "opus" });
    yard.engine.agent_add(&yard.me(), input(add)).await.unwrap();
    yard.agent("mine", DriverKind::Exec).await;
    let after = list().await;
    assert_eq!(after.hint, None);
    let named: Vec<(&str, bool, bool)> = after.agents.iter().take(2).map(|a| (a.name.as_str(), a.configured, a.installed)).collect();
    assert_eq!(named, [("Claude", true, true), ("mine", true, false)]);
    assert!(!after.agents.iter().any(|agent| agent.name == "claude"), "the known one is the one that is set up");
    let row = &after.agents[0];
    assert_eq!((row.version.as_deref(), row.env.as_slice()), (Some("2.1.3"), ["KEY".to_owned()].as_slice()));
    assert_eq!(row.models, ["haiku", "sonnet", "opus"]);
    assert_eq!((row.profiles[0].name.as_str(), row.profiles[0].is_default), ("Claude", true));
    assert!(!serde_json::to_string(&after).unwrap().contains("secret"));
}

#[tokio::test]
async fn whoever_adds_an_agent_is_told_that_its_program_is_not_there() {
    let yard = Yard::new().await;
    let there = yard.path().join("bin/there");
    std::fs::write(&there, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (folder, there) = (yard.path().join("bin"), there.to_str().unwrap().to_owned());
    for (program, path, word) in [
        ("there", None, None),
        (there.as_str(), None, None),
        ("nowhere", None, Some("isn't on the server's PATH")),
        ("there", Some("/no/such/folder"), Some("isn't on the server's PATH")),
        ("/no/such/there", None, Some("/no/such/there isn't there")),
        ("./there", None, Some("looked up in each task's worktree")),
    ] {
        let mut add = json!({ "name": "a", "driver": "exec", "command": [program] });
        if let Some(path) = path {
            add["env"] = json!({ "PATH": path });
        }
        let warning = yard.engine.agent_add(&yard.me(), input(add)).await.unwrap().warning;
        let fits = match (&warning, word) {
            (Some(said), Some(word)) => said.contains(word),
            (None, None) => true,
            _ => false,
        };
        assert!(fits, "{program} with {path:?} and {}: {warning:?}", folder.display());
        let listed = yard.engine.list_agents(&yard.me(), input(json!({}))).await.unwrap().agents;
        assert_eq!(listed[0].installed, word.is_none(), "{program}");
    }
}

#[tokio::test]
async fn programs_are_asked_once_a_minute() {
    let yard = Yard::new().await;
    let program = yard.path().join("bin/codex");
    let install = |version: &str| {
        std::fs::write(&program, format!("#!/bin/sh\necho 'codex-cli {version}'\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let version = async || {
        let agents = yard.engine.list_agents(&yard.me(), input(json!({}))).await.unwrap().agents;
        agents.into_iter().find(|agent| agent.name == "codex").unwrap().version.unwrap()
    };
    install("1.0.0");
    assert_eq!(version().await, "1.0.0");
    install("1.1.0");
    assert_eq!(version().await, "1.0.0");
    yard.clock.advance(61);
    assert_eq!(version().await, "1.1.0");
}
