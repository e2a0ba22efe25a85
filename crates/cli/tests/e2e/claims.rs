//! F1, F2, G6: claiming over MCP and the command line, races, restarts, several servers on one database, backlogs in files.

use crate::support::{Mcp, Server, Setup, Yard, eventually};
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use taskyard_testkit::postgres::TestDatabase;

/// How many claim at once.
const CLIENTS: usize = 64;
/// How often.
const ROUNDS: usize = 100;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}

async fn item(server: &Server, title: &str) -> Value {
    server.call("create_object", json!({ "workspace": "default", "kind": "task", "title": title, "status": "ready" })).await
}

/// Clients of the claims mode, spread over the servers.
async fn clients(servers: &[&Server]) -> Vec<Mcp> {
    let connect = (0..CLIENTS).map(|n| servers[n % servers.len()].mcp("mode=claims", None));
    join_all(connect).await
}

/// Every client claims the item at once, a hundred times: one wins, and every other one is told who holds it.
async fn race(servers: &[&Server]) {
    let clients = clients(servers).await;
    let item = text(&item(servers[0], "raced").await, "id").to_owned();
    for round in 0..ROUNDS {
        let claims = clients.iter().enumerate().map(|(n, client)| {
            // Half of them don't say who they are.
            let label = (n % 2 == 0).then(|| format!("client-{n}"));
            let mut arguments = json!({ "workspace": "default", "backlogItemId": item });
            if let Some(label) = label {
                arguments["actorUserId"] = label.into();
            }
            client.call("claim_task", arguments)
        });
        let (mut won, mut told) = (Vec::new(), BTreeSet::new());
        for (n, answer) in join_all(claims).await.into_iter().enumerate() {
            match answer {
                Ok(claimed) => {
                    let holder = if n % 2 == 0 { format!("client-{n}") } else { "anonymous".into() };
                    won.push((text(&claimed, "run_id").to_owned(), holder));
                }
                Err(error) => {
                    assert_eq!(error["code"], "ALREADY_CLAIMED", "round {round}: {error}");
                    told.insert((text(&error["details"], "run_id").to_owned(), text(&error["details"], "actor").to_owned()));
                }
            }
        }
        assert_eq!((won.len(), told.iter().collect::<Vec<_>>()), (1, vec![&won[0]]), "round {round}");
        let end = json!({ "workspace": "default", "run_id": won[0].0, "outcome": "abandoned" });
        clients[round % CLIENTS].call("complete_task", end).await.unwrap();
    }
    let shown = servers[0].call("get_audit_log", json!({ "workspace": "default", "target_id": item, "limit": 200 })).await;
    let claims = shown["entries"].as_array().unwrap().iter().filter(|entry| entry["action"] == "task.claimed").count();
    assert_eq!(claims, ROUNDS, "as many entries as claims");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_race_a_hundred_times_and_one_wins_each() {
    let server = Server::start().await;
    race(&[&server]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_postgresql_give_each_claim_once() {
    let Some(database) = TestDatabase::make().await.unwrap() else {
        println!("no PostgreSQL here: skipped");
        return;
    };
    let serve = ["--listen", "127.0.0.1:0", "--database-url", &database.url];
    let (one, two) = (Setup::new().args(&serve).start().await, Setup::new().args(&serve).start().await);
    // Through one of them, then through both.
    race(&[&one]).await;
    race(&[&one, &two]).await;
    // The next free ones, asked for on both at once: each given once, none passed over.
    let mut items = BTreeSet::new();
    for n in 0..40 {
        items.insert(text(&item(&one, &format!("next {n}")).await, "short_id").to_owned());
    }
    let clients = clients(&[&one, &two]).await;
    let nexts = clients.iter().map(|client| client.call("claim_next_task", json!({ "workspace": "default" })));
    let taken: Vec<String> = join_all(nexts)
        .await
        .into_iter()
        .filter_map(|answer| Some(answer.unwrap()["backlog_item"]["short_id"].as_str()?.to_owned()))
        .collect();
    assert_eq!(taken.len(), items.len() + 2, "those that were raced for are free again");
    assert!(items.is_subset(&taken.into_iter().collect()));
    // A server that goes away takes no claim along, nor does one that starts.
    drop(clients);
    let mut two = two;
    two.restart().await;
    let held = two.call("list_backlog", json!({ "workspace": "default", "status": "in_progress", "limit": 200 })).await;
    let still: BTreeSet<&str> = held["items"].as_array().unwrap().iter().map(|item| text(&item["held_by"], "run_id")).collect();
    assert_eq!(still.len(), 42, "{held}");
    drop((one, two));
    database.remove().await.unwrap();
}

#[tokio::test]
async fn a_claim_outlives_the_server_and_is_not_offered_again() {
    let mut server = Server::start().await;
    let item = item(&server, "x").await;
    let claim = json!({ "workspace": "default", "backlog_item_id": item["short_id"], "actor_user_id": "ada", "idempotency_key": "k" });
    let claimed = server.call("claim_task", claim.clone()).await;
    server.kill9().await;
    server.launch().await;
    let again = server.call("claim_task", claim).await;
    assert_eq!((&again["run_id"], &again["replayed"]), (&claimed["run_id"], &json!(true)));
    assert_eq!(server.call("claim_next_task", json!({ "workspace": "default" })).await["found"], false);
    server.refused("claim_task", json!({ "workspace": "default", "backlog_item_id": item["id"] }), "ALREADY_CLAIMED").await;
    let done = server.call("complete_task", json!({ "workspace": "default", "run_id": claimed["run_id"] })).await;
    assert_eq!(done["status"], "done");
    // The holder's word after somebody else has ended its claim.
    let other = server.call("claim_task", json!({ "workspace": "default", "backlog_item_id": item["id"] })).await;
    server.call("complete_task", json!({ "workspace": "default", "run_id": other["run_id"], "outcome": "abandoned" })).await;
    server.refused("complete_task", json!({ "workspace": "default", "run_id": other["run_id"] }), "CONFLICT").await;
}

#[tokio::test]
async fn the_claims_mode_has_five_tools_and_core_two_of_them() {
    let server = Server::start().await;
    let claims = server.mcp("mode=claims", None).await.tools().await;
    assert_eq!(claims, ["claim_next_task", "claim_task", "complete_task", "create_object", "list_backlog"]);
    let core = server.mcp("mode=core", None).await.tools().await;
    assert_eq!(core.iter().filter(|name| claims.contains(name)).collect::<Vec<_>>(), ["claim_task", "complete_task"]);
    let both = json!({ "workspace": "default", "backlogItemId": "TY-1", "backlog_item_id": "TY-1" });
    let refused = server.mcp("mode=claims", None).await.call("claim_task", both).await.unwrap_err();
    assert_eq!(refused["code"], "INVALID_ARGUMENT");
}

#[tokio::test]
async fn runs_of_taskyard_get_the_effective_prompt_and_are_not_claimable() {
    let yard = Yard::new().await;
    yard.server.call("workspace_prompt", json!({ "workspace": "default", "prompt": "House rules for {{short_id}}, {{status}}." })).await;
    yard.server.call("step_add", json!({ "list_id": yard.list, "name": "Build", "prompt": "You are in {{step}}." })).await;
    let steps = json!([{ "signal": yard.gate("up") }, { "wait_file": yard.gate("go") }, { "text": "Done." }]);
    let task = yard.queue("prompted", steps).await;
    yard.reached("up").await;
    let short = text(&yard.get(&task).await, "short_id").to_owned();
    let refused = yard.server.refused("claim_task", json!({ "workspace": "default", "backlog_item_id": task }), "ALREADY_CLAIMED").await;
    assert_eq!(refused["details"]["kind"], "managed");
    let prompt = format!("House rules for {short}, queued.\n\nYou are in Build.");
    eventually("the prompt in the log", async || yard.log(&task).await.contains(&prompt).then_some(())).await;
    assert!(!yard.log(&task).await.contains("worked on this task before"), "nobody has");
    yard.open("go");
    yard.reviewable(&task).await;
}

#[tokio::test]
async fn the_command_line_claims_and_completes() {
    let server = Server::start().await;
    let said = |args: &'static [&'static str]| server.cli(args);
    assert_eq!(said(&["workspace", "prompt", "default", "Rules."]).await.code, 0);
    assert!(said(&["backlog", "add", "plan", "Big plan"]).await.out.contains("is the plan big-plan, draft"));
    assert_eq!(
        said(&["backlog", "add", "task", "Small task", "--plan", "big-plan", "--ready", "--priority", "P0", "--body", "Do it."]).await.code,
        0
    );
    let claimable = said(&["backlog", "list", "--claimable"]).await;
    assert!(claimable.out.contains("small-task") && !claimable.out.contains("big-plan"), "{claimable:?}");
    let next = said(&["next", "--as", "ada"]).await;
    for part in ["TY-2 is claimed: run ", "Rules.", "Small task", "Do it."] {
        assert!(next.out.contains(part), "{next:?}");
    }
    let taken = said(&["claim", "TY-2", "--as", "bob"]).await;
    assert_eq!((taken.code, taken.err.contains("ada")), (5, true), "{taken:?}");
    let again = said(&["--json", "claim", "ty-2", "--as", "ada"]).await.json();
    let run = text(&again, "run_id").to_owned();
    assert_eq!(again["reclaimed"], true);
    let nothing = said(&["next"]).await;
    assert_eq!((nothing.code, nothing.out.as_str(), nothing.err.contains("nothing can be claimed now")), (1, "", true));
    let done = server.cli(&["complete", &run, "--summary", "as told"]).await;
    assert!(done.out.contains("ended as done; it is done"), "{done:?}");
    assert_eq!(server.cli(&["complete", &run, "--outcome", "failed"]).await.code, 4);
    let audit = said(&["audit", "--action", "task.claimed"]).await;
    assert!(audit.out.contains("ada") && audit.out.contains("cli"), "{audit:?}");
    assert_eq!(said(&["workspace", "add", "acme", "--name", "Acme"]).await.code, 0);
    let several = said(&["next"]).await;
    assert_eq!((several.code, several.err.contains("acme")), (2, true), "{several:?}");
    assert_eq!(said(&["claim", "TY-2", "--workspace", "acme"]).await.code, 3, "nothing crosses");
    assert!(said(&["workspace", "list"]).await.out.contains("Acme"));
    assert_eq!(said(&["workspace", "rename", "acme", "Acme Ltd"]).await.code, 0);
}

#[tokio::test]
async fn steps_and_their_prompts_are_set_by_the_command_line() {
    let server = Server::start().await;
    let said = |args: &'static [&'static str]| server.cli(args);
    assert_eq!(said(&["list", "add", "Flow"]).await.code, 0);
    assert_eq!(said(&["step", "prompt", "Flow", "Work on {{title}}."]).await.code, 0);
    assert_eq!(said(&["step", "add", "Flow", "Build", "--prompt", "You are in {{step}}; {{nothing}} stays."]).await.code, 0);
    assert_eq!(said(&["step", "add", "Flow", "Check", "--stage", "review"]).await.code, 0);
    assert_eq!(said(&["step", "set", "Flow", "Check", "--name", "Look"]).await.code, 0);
    let listed = said(&["step", "list", "Flow"]).await;
    for part in ["Work on {{title}}.", "Build (work)", "Look (review)"] {
        assert!(listed.out.contains(part), "{part} in {listed:?}");
    }
    assert_eq!(said(&["task", "add", "Wall", "--list", "Flow"]).await.code, 0);
    let claimed = said(&["claim", "TY-1", "--as", "ada"]).await;
    assert!(claimed.out.contains("Work on Wall.\n\nYou are in Build; {{nothing}} stays."), "{claimed:?}");
    let run = text(&said(&["--json", "claim", "TY-1", "--as", "ada"]).await.json(), "run_id").to_owned();
    let done = server.cli(&["complete", &run]).await;
    assert!(done.out.contains("waiting_for_review"), "a workflow with a review step has a person look: {done:?}");
    for (args, code, words) in [
        (&["step", "set", "Flow", "Paint", "--name", "x"][..], 3, "Build, Look"),
        (&["step", "add", "Flow", "Build"][..], 4, "of this name already"),
        (&["step", "add", "Flow", "X", "--stage", "dance"][..], 2, "backlog"),
    ] {
        let refused = server.cli(args).await;
        assert_eq!((refused.code, refused.err.contains(words)), (code, true), "{args:?}: {refused:?}");
    }
    assert_eq!(said(&["step", "remove", "Flow", "Look"]).await.code, 0);
    assert!(!said(&["step", "list", "Flow"]).await.out.contains("Look"));
}

#[tokio::test]
async fn g6_a_claim_whose_answer_is_lost_is_made_once() {
    let yard = Yard::new().await;
    let mcp = yard.server.mcp("mode=claims", None).await;
    let first = item(&yard.server, "one").await;
    item(&yard.server, "two").await;
    let claim = json!({ "workspace": "default", "backlog_item_id": first["id"], "idempotency_key": "claim-1" });
    let next = json!({ "workspace": "default", "idempotency_key": "next-1" });
    let add = json!({ "workspace": "default", "kind": "plan", "title": "Plan", "idempotency_key": "plan-1" });
    let retried = async |tool: &str, arguments: &Value| {
        crate::mcp_surface::send_and_hang_up(&yard, tool, arguments).await;
        mcp.call(tool, arguments.clone()).await.unwrap()
    };
    let claimed = retried("claim_task", &claim).await;
    let other = retried("claim_next_task", &next).await;
    let plan = retried("create_object", &add).await;
    assert_eq!((claimed["backlog_item"]["title"].as_str(), other["backlog_item"]["title"].as_str()), (Some("one"), Some("two")));
    let again = yard.server.call("create_object", add).await;
    assert_eq!((&again["id"], &again["replayed"]), (&plan["id"], &json!(true)));
    // Ending a claim needs no key: the same word has the same answer, however often it is said.
    let end = json!({ "workspace": "default", "run_id": claimed["run_id"], "outcome": "done" });
    let ended = retried("complete_task", &end).await;
    assert_eq!(mcp.call("complete_task", end).await.unwrap(), ended);
    let of = async |action: &str| {
        let asked = json!({ "workspace": "default", "action": action });
        yard.server.call("get_audit_log", asked).await["entries"].as_array().unwrap().len()
    };
    assert_eq!((of("task.claimed").await, of("task.completed").await, of("task.created").await), (2, 1, 3));
}

#[tokio::test]
async fn the_audit_tells_the_whole_life_of_a_task() {
    let yard = Yard::new().await;
    let project = crate::project::Project::own(&yard).await;
    let task = project.work("Told", json!([{ "write": { "path": "f.txt", "content": "one\n" } }, { "commit": "first" }])).await;
    project.approve(&task).await;
    eventually("the folder's end", async || yard.audited(&task).await.contains(&"worktree.removed".to_owned()).then_some(())).await;
    yard.server.call("revert_merge", json!({ "task_id": task })).await;
    let short = yard.get(&task).await["short_id"].as_str().unwrap().to_owned();
    let shown = yard.server.cli(&["--json", "audit", "--about", &short]).await.json();
    let told: Vec<&str> = shown["entries"].as_array().unwrap().iter().rev().map(|entry| text(entry, "action")).collect();
    let expected = [
        "task.created",
        "run.opened",
        "worktree.planned",
        "worktree.prepared",
        "run.turn_started",
        "worktree.advanced",
        "run.ended",
        "merge.begun",
        "task.reviewed",
        "task.merged",
        "worktree.removed",
        "merge.begun",
        "task.merge_reverted",
    ];
    assert_eq!(told, expected, "{shown}");
    assert_eq!(yard.server.cli(&["task", "delete", &short]).await.code, 0);
    let gone = yard.server.cli(&["audit", "--about", &short]).await;
    assert!(gone.out.contains("task.deleted") && gone.out.contains("task.created"), "{gone:?}");
    let nobody = yard.server.cli(&["audit", "--about", "TY-9999"]).await;
    assert_eq!((nobody.code, nobody.err.contains("TY-9999")), (3, true), "{nobody:?}");
    let danced = yard.server.cli(&["audit", "--action", "task.danced"]).await;
    assert_eq!((danced.code, danced.err.contains("task.claimed")), (2, true), "{danced:?}");
}

#[tokio::test]
async fn a_folder_of_files_and_the_backlog_follow_each_other() {
    let server = Server::start().await;
    let folder = server.folder().join("backlog");
    std::fs::create_dir_all(folder.join("plans")).unwrap();
    let (plan, task) = (folder.join("plans/Plan-p.md"), folder.join("Task-t.md"));
    std::fs::write(&plan, "---\nkind: plan\nslug: p\ntitle: P\nstatus: ready\n---\n").unwrap();
    let first = "---\nkind: task\nslug: t\ntitle: T # odd\nplan_slug: p\nstatus: ready\npriority: P2\nowner: ada\n---\nText\n";
    std::fs::write(&task, first).unwrap();
    std::fs::write(folder.join("README.md"), "# Read me\n").unwrap();
    let at = folder.to_str().unwrap();
    let imported = server.cli(&["backlog", "import", at]).await;
    assert_eq!((imported.code, imported.out.matches("created").count()), (0, 2), "{imported:?}");
    let clean = server.cli(&["backlog", "export", at]).await;
    assert_eq!((clean.code, std::fs::read_to_string(&task).unwrap().as_str()), (0, first), "{clean:?}");
    server.call("update_task", json!({ "task_id": "TY-2", "state": "done", "priority": "high" })).await;
    assert_eq!(server.cli(&["backlog", "export", at]).await.code, 0);
    let exported = std::fs::read_to_string(&task).unwrap();
    assert_eq!(exported, first.replace("status: ready", "status: done").replace("P2", "P1"));
    std::fs::write(&task, exported.replace("Text", "File's text")).unwrap();
    server.call("update_task", json!({ "task_id": "TY-2", "description": "Other text" })).await;
    let conflict = server.cli(&["backlog", "import", at]).await;
    assert_eq!((conflict.code, conflict.out.contains("body")), (4, true), "{conflict:?}");
    assert_eq!(server.cli(&["backlog", "export", at]).await.code, 4);
    assert!(std::fs::read_to_string(&task).unwrap().contains("File's text"), "never overwritten");
    assert_eq!(server.call("get_task", json!({ "task_id": "TY-2" })).await["description"], "Other text");
    // An export that writes one field takes none of the file's own.
    server.call("update_task", json!({ "task_id": "TY-2", "title": "New title", "description": "Text" })).await;
    assert_eq!(server.cli(&["backlog", "export", at]).await.code, 4);
    let file = std::fs::read_to_string(&task).unwrap();
    assert!(file.contains("New title") && file.contains("File's text"), "{file}");
    assert_eq!(server.call("get_task", json!({ "task_id": "TY-2" })).await["description"], "Text");
    let imported = server.cli(&["backlog", "import", at]).await;
    assert_eq!((imported.code, imported.out.contains("body")), (0, true), "{imported:?}");
    assert_eq!(server.call("get_task", json!({ "task_id": "TY-2" })).await["description"], "File's text");
    let elsewhere = server.folder().join("elsewhere");
    assert_eq!(server.cli(&["backlog", "export", elsewhere.to_str().unwrap()]).await.code, 0);
    assert!(std::fs::read_to_string(elsewhere.join("Task-t.md")).unwrap().contains("owner: ada"));
    let missing = server.cli(&["backlog", "import", "/nowhere/at/all"]).await;
    assert_eq!((missing.code, missing.err.contains("/nowhere/at/all")), (2, true), "{missing:?}");
}

#[tokio::test]
async fn every_command_takes_a_workspace_where_there_are_several() {
    let server = Server::start().await;
    for command in [
        &["workspace", "add", "acme"][..],
        &["--workspace", "acme", "list", "add", "Theirs"],
        &["--workspace", "default", "list", "add", "Ours"],
    ] {
        let done = server.cli(command).await;
        assert_eq!(done.code, 0, "{command:?}: {done:?}");
    }
    let lists = server.cli(&["list", "--workspace", "acme"]).await;
    assert!(lists.out.contains("Theirs") && !lists.out.contains("Ours"), "{lists:?}");
    let agent = server.cli(&["--workspace", "acme", "agent", "add", "a", "--driver", "exec", "--", "true"]).await;
    let added = server.cli(&["--workspace", "acme", "task", "add", "Do it"]).await;
    let shown = server.cli(&["--workspace", "acme", "task", "list"]).await;
    assert_eq!((agent.code, added.code, shown.out.contains("Do it")), (0, 0, true), "{agent:?} {added:?} {shown:?}");
    let nameless = server.cli(&["task", "list"]).await;
    assert_eq!((nameless.code, nameless.err.contains("--workspace")), (2, true), "{nameless:?}");
}
