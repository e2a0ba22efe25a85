//! Claiming as clients see it: every key of an answer, every option of a command.

use crate::support::{Server, Told};
use serde_json::{Value, json};

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// The result of a call over `mode=claims` as it is on the wire: its text says what its structured content says.
async fn raw(client: &crate::support::Mcp, tool: &str, arguments: Value) -> Value {
    let answer = client.request("tools/call", json!({ "name": tool, "arguments": arguments })).await["result"].clone();
    let text: Value = serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, answer["structuredContent"], "{tool}");
    answer
}

#[tokio::test]
async fn answers_have_these_keys_and_no_others() {
    let server = Server::start().await;
    let client = server.mcp("mode=claims", None).await;
    let made = raw(&client, "create_object", json!({ "workspace": "default", "kind": "task", "title": "t", "status": "ready" })).await;
    let made = &made["structuredContent"];
    let item = made["id"].clone();
    assert_eq!(keys(made), ["created", "epic_slug", "id", "kind", "list_id", "plan_slug", "short_id", "slug", "status", "title"]);
    let claim = json!({ "workspace": "default", "backlogItemId": item, "actorUserId": "ada" });
    for reclaimed in [false, true] {
        let answer = raw(&client, "claim_task", claim.clone()).await;
        let answer = &answer["structuredContent"];
        assert_eq!(keys(answer), ["backlog_item", "claimed", "reclaimed", "run_id", "workflow_prompt"]);
        assert_eq!(keys(&answer["backlog_item"]), ["body_markdown", "id", "short_id", "status", "title"]);
        assert_eq!((answer["claimed"].clone(), answer["reclaimed"].clone()), (json!(true), json!(reclaimed)));
    }
    let run = raw(&client, "claim_task", claim).await["structuredContent"]["run_id"].clone();
    let held = raw(&client, "claim_task", json!({ "workspace": "default", "backlog_item_id": item })).await;
    let error = &held["structuredContent"]["error"];
    assert_eq!((&held["isError"], &error["code"]), (&json!(true), &json!("ALREADY_CLAIMED")));
    assert_eq!((&error["details"]["actor"], &error["details"]["run_id"]), (&json!("ada"), &run));
    let shown = raw(&client, "list_backlog", json!({ "workspace": "default" })).await;
    let row = &shown["structuredContent"]["items"][0];
    assert_eq!((&row["held_by"]["actor"], &row["held_by"]["run_id"]), (&json!("ada"), &run));
    let done = raw(&client, "complete_task", json!({ "workspace": "default", "runId": run, "outcome": "done" })).await;
    assert_eq!(keys(&done["structuredContent"]), ["completed", "outcome", "run_id", "short_id", "status", "task_id"]);
    let none = raw(&client, "claim_next_task", json!({ "workspace": "default" })).await;
    assert_eq!(none["structuredContent"]["found"], json!(false));
    let missing = raw(&client, "claim_task", json!({ "workspace": "default", "backlogItemId": "TY-99" })).await;
    assert_eq!((&missing["isError"], &missing["structuredContent"]["error"]["code"]), (&json!(true), &json!("NOT_FOUND")));
}

async fn ok(server: &Server, args: &[&str]) -> Told {
    let told = server.cli(args).await;
    assert_eq!(told.code, 0, "{args:?}: {told:?}");
    told
}

#[tokio::test]
async fn every_option_of_the_commands_does_what_it_says() {
    let server = Server::start().await;
    ok(&server, &["backlog", "add", "plan", "Plan", "--slug", "p"]).await;
    ok(&server, &["backlog", "add", "epic", "Epic", "--slug", "e", "--plan", "p"]).await;
    let add = ["backlog", "add", "task", "Below", "--epic", "e", "--ready", "--key", "k1", "--slug", "below"];
    let (first, again) = (ok(&server, &add).await, ok(&server, &add).await);
    assert_eq!(first.out, again.out, "the key made it once");
    ok(&server, &["backlog", "add", "task", "Draft"]).await;
    let rows = async |args: &[&str]| {
        let told = ok(&server, &[&["--json", "backlog", "list"], args].concat()).await.json();
        told["items"].as_array().unwrap().iter().map(|row| row["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(rows(&["--kind", "plan"]).await, ["Plan"]);
    assert_eq!(rows(&["--status", "ready"]).await, ["Below"]);
    assert_eq!(rows(&["--plan", "p"]).await, ["Epic", "Below"]);
    assert_eq!(rows(&["--epic", "e"]).await, ["Below"]);
    assert_eq!(rows(&["--claimable"]).await, ["Below"]);
    let page = ok(&server, &["--json", "backlog", "list", "--limit", "3"]).await.json();
    let cursor = page["next_cursor"].as_str().unwrap().to_owned();
    assert_eq!(rows(&["--cursor", &cursor]).await, ["Draft"]);

    ok(&server, &["list", "add", "Elsewhere"]).await;
    assert_eq!(server.cli(&["next", "--list", "Elsewhere"]).await.code, 1);
    let next = ["--json", "next", "--list", "Backlog", "--as", "ada", "--notes", "on it", "--key", "n1"];
    let (first, again) = (ok(&server, &next).await.json(), ok(&server, &next).await.json());
    let run = first["run_id"].as_str().unwrap().to_owned();
    assert_eq!((&again["run_id"], &again["replayed"]), (&first["run_id"], &json!(true)));
    let view = async || server.call("get_run", json!({ "run_id": run })).await["run"].clone();
    assert_eq!((&view().await["notes"], &view().await["actor"]), (&json!("on it"), &json!("ada")));
    let held = ok(&server, &["backlog", "list"]).await;
    assert!(held.out.lines().any(|line| line.contains("Below") && line.contains("ada")), "{held:?}");
    let runs = ok(&server, &["task", "runs", "TY-3"]).await;
    assert!(runs.out.contains("ada") && runs.out.contains(&run), "{runs:?}");
    ok(&server, &["complete", &run, "--outcome", "abandoned", "--summary", "no time", "--notes", "half done"]).await;
    let ended = view().await;
    assert_eq!((&ended["outcome"], &ended["exit_reason"], &ended["notes"]), (&json!("abandoned"), &json!("no time"), &json!("half done")));
    let claim = ["--json", "claim", "TY-3", "--key", "c1", "--notes", "again"];
    let (first, again) = (ok(&server, &claim).await.json(), ok(&server, &claim).await.json());
    assert_eq!((&again["run_id"], &again["replayed"]), (&first["run_id"], &json!(true)));
    let twice = server.cli(&["list", "add", "Elsewhere"]).await;
    assert_eq!((twice.code, twice.err.contains("there is a list Elsewhere already")), (4, true), "{twice:?}");
    ok(&server, &["workspace", "add", "acme"]).await;
    assert!(ok(&server, &["workspace", "rename", "acme", "Acme Ltd"]).await.out.contains("Acme Ltd"));
    assert!(ok(&server, &["workspace", "list"]).await.out.contains("Acme Ltd"));
}

#[tokio::test]
async fn a_deleted_item_is_made_anew_when_that_is_asked_for() {
    let server = Server::start().await;
    let folder = server.folder().join("backlog");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("Task-t.md"), "---\nkind: task\nslug: t\ntitle: T\nstatus: ready\n---\n").unwrap();
    let at = folder.to_str().unwrap();
    ok(&server, &["backlog", "import", at]).await;
    ok(&server, &["task", "delete", "TY-1"]).await;
    let kept = server.cli(&["backlog", "import", at]).await;
    assert!(kept.out.contains("deleted") && kept.out.contains("--recreate"), "{kept:?}");
    assert!(!ok(&server, &["backlog", "list"]).await.out.contains("TY-2"));
    ok(&server, &["backlog", "import", at, "--recreate"]).await;
    assert!(ok(&server, &["backlog", "list"]).await.out.contains("TY-2"));
}

#[tokio::test]
async fn a_command_for_one_workspace_reaches_no_other() {
    let server = Server::start().await;
    ok(&server, &["workspace", "add", "acme"]).await;
    ok(&server, &["list", "add", "L", "--workspace", "acme"]).await;
    ok(&server, &["task", "add", "theirs", "--list", "L", "--workspace", "acme"]).await;
    for args in [
        &["task", "show", "AC-1"][..],
        &["task", "cancel", "AC-1"],
        &["task", "delete", "AC-1"],
        &["task", "log", "AC-1"],
        &["list", "show", "L"],
    ] {
        let told = server.cli(&[args, &["--workspace", "default"]].concat()).await;
        assert_eq!(told.code, 3, "{args:?}: {told:?}");
    }
    assert_eq!(server.cli(&["list", "--workspace", "nope"]).await.code, 3);
    let shown = ok(&server, &["task", "show", "AC-1", "--workspace", "acme"]).await;
    assert!(shown.out.contains("theirs"), "{shown:?}");
}

#[tokio::test]
async fn what_needs_a_decision_is_one_document() {
    let server = Server::start().await;
    let folder = server.folder().join("backlog");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.md"), "---\nkind: task\nslug: a\ntitle: A\nstatus: nonsense\n---\n").unwrap();
    let told = server.cli(&["--json", "backlog", "import", folder.to_str().unwrap()]).await;
    let document: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((told.code, &document["error"]["code"]), (4, &json!("CONFLICT")));
    assert_eq!(document["error"]["details"]["files"][0]["outcome"], "refused");
}
