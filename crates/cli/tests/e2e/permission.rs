//! Permission requests: a person answers once, slots aren't blocked meanwhile, nothing dangles after an end.

use crate::support::{Yard, eventually, work};
use serde_json::{Value, json};

/// A yard whose agent asks a person for everything.
async fn asking() -> Yard {
    let yard = Yard::new().await;
    yard.agent("ada", json!({ "permission_policy": "ask" })).await;
    yard
}

/// A request to run make; `more` says what follows.
fn ask(more: Value) -> Value {
    let mut ask = json!({ "title": "Run make", "kind": "execute", "input": { "command": "make" } });
    for (name, value) in more.as_object().unwrap() {
        ask[name] = value.clone();
    }
    json!({ "ask": ask })
}

fn make() -> Value {
    ask(json!({ "on_allow": work("made.txt", "made\n"), "on_deny": [{ "text": "So I don't." }] }))
}

#[tokio::test]
async fn a_person_allows_and_only_the_first_answer_counts() {
    let yard = asking().await;
    let task = yard.queue("Make it", json!([make()])).await;
    let shown = yard.wait_status(&task, "waiting_for_input").await;
    assert_eq!(shown["latest_run"]["state"], "waiting");
    let open = yard.questions().await;
    assert_eq!((open.len(), &open[0]["title"], &open[0]["task_id"]), (1, &json!("Run make"), &json!(task)));
    let listed = yard.server.cli(&["task", "answer"]).await;
    assert!(listed.out.contains("Run make") && listed.out.contains("id-allow_once"), "{listed:?}");
    let short = shown["short_id"].as_str().unwrap();
    let told = yard.server.cli(&["task", "answer", short, "--allow"]).await;
    assert_eq!(told.code, 0, "{told:?}");
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded"]);
    let again = json!({ "question_bundle_id": open[0]["question_bundle_id"] });
    let error = yard.server.refused("answer_question", again, "CONFLICT").await;
    assert!(error["message"].as_str().unwrap().contains("operator"), "{error}");
    assert!(yard.questions().await.is_empty());
    let audited = yard.audited(&task).await;
    let expected = [
        "task.created",
        "run.opened",
        "worktree.planned",
        "worktree.prepared",
        "run.turn_started",
        "question.asked",
        "question.answered",
        "worktree.advanced",
        "run.ended",
    ];
    assert_eq!(audited, expected);
}

#[tokio::test]
async fn a_person_denies_or_chooses_one_of_the_options() {
    let yard = asking().await;
    let denied = yard.queue("Make it", json!([make()])).await;
    let short = yard.wait_status(&denied, "waiting_for_input").await["short_id"].clone();
    let told = yard.server.cli(&["task", "answer", short.as_str().unwrap(), "--deny", "not today"]).await;
    assert_eq!(told.code, 0, "{told:?}");
    yard.reviewable(&denied).await;
    assert!(yard.log(&denied).await.contains("So I don't."));
    assert_eq!(yard.outcomes(&denied).await, ["no_changes"]);

    let chosen = yard.queue("Make it", json!([ask(json!({ "on_allow": [{ "text": "chosen: ${last}" }] }))])).await;
    let short = yard.wait_status(&chosen, "waiting_for_input").await["short_id"].clone();
    let wrong = yard.server.cli(&["task", "answer", short.as_str().unwrap(), "--option", "id-whatever"]).await;
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.err.contains("id-allow_always"), "{wrong:?}");
    let told = yard.server.cli(&["task", "answer", short.as_str().unwrap(), "--option", "id-allow_always"]).await;
    assert_eq!(told.code, 0, "{told:?}");
    yard.reviewable(&chosen).await;
    assert!(yard.log(&chosen).await.contains("chosen: id-allow_always"), "{}", yard.log(&chosen).await);
}

/// D3, G9: whoever waits for a person isn't silent, however long it takes.
#[tokio::test]
async fn an_open_question_is_neither_stalled_nor_ended() {
    let yard = asking().await;
    yard.server.set("stall_after", 1).await;
    yard.server.set("stall_kill_after", 2).await;
    let task = yard.queue("Make it", json!([make()])).await;
    yard.wait_status(&task, "waiting_for_input").await;
    // One that falls silent afterwards has its time.
    let silent = yard.queue("Fall silent", json!([{ "text": "…" }, "hang"])).await;
    yard.wait_status(&silent, "failed").await;
    let shown = yard.get(&task).await;
    assert_eq!((&shown["status"], &shown["latest_run"]["stalled"]), (&json!("waiting_for_input"), &json!(false)), "{shown}");
    let id = yard.questions().await[0]["question_bundle_id"].clone();
    yard.server.call("answer_question", json!({ "question_bundle_id": id })).await;
    yard.reviewable(&task).await;
}

/// G9: the same over a stop in good order.
#[tokio::test]
async fn a_stopped_servers_request_is_asked_anew_once() {
    let mut yard = asking().await;
    let scenario = json!({ "turns": [[], [make()]] }).to_string();
    yard.agent("ada", json!({ "permission_policy": "ask", "env": { "TASKYARD_SCENARIO": scenario } })).await;
    let task = yard.queue("Make it", json!([make()])).await;
    yard.wait_status(&task, "waiting_for_input").await;
    let old = yard.questions().await[0]["question_bundle_id"].clone();
    yard.server.restart().await;
    yard.wait_status(&task, "waiting_for_input").await;
    let open = yard.questions().await;
    assert!(open.len() == 1 && open[0]["question_bundle_id"] != old, "{open:?}");
    yard.server.refused("answer_question", json!({ "question_bundle_id": old }), "CONFLICT").await;
    yard.server.call("answer_question", json!({ "question_bundle_id": open[0]["question_bundle_id"] })).await;
    yard.reviewable(&task).await;
    assert!(yard.questions().await.is_empty());
}

#[tokio::test]
async fn two_answers_at_once_have_one_winner() {
    let yard = asking().await;
    let task = yard.queue("Make it", json!([make()])).await;
    yard.wait_status(&task, "waiting_for_input").await;
    let id = yard.questions().await[0]["question_bundle_id"].clone();
    let answer = |rejected: bool| yard.server.try_call("answer_question", json!({ "question_bundle_id": id, "rejected": rejected }));
    let (one, two) = tokio::join!(answer(false), answer(true));
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    assert_eq!(one.as_ref().err().or(two.as_ref().err()).unwrap()["code"], "CONFLICT");
    yard.reviewable(&task).await;
    let outcome = if one.is_ok() { "succeeded" } else { "no_changes" };
    assert_eq!(yard.outcomes(&task).await, [outcome]);
}

#[tokio::test]
async fn a_waiting_run_gives_its_slot_back_and_goes_on_ahead_of_new_tasks() {
    let yard = asking().await;
    yard.server.set("configured_slots", 1).await;
    yard.server.set("slot_yield_after", 1).await;
    let on_allow = json!([{ "signal": yard.gate("allowed") }, { "wait_file": yard.gate("finish") }]);
    let asks = yard.queue("Asks", json!([ask(json!({ "on_allow": on_allow }))])).await;
    let busy = yard.queue("Busy", json!([{ "text": "Busy." }, { "signal": yard.gate("busy") }, { "wait_file": yard.gate("free") }])).await;
    let new = yard.queue("New", json!([{ "text": "New." }, { "signal": yard.gate("new") }])).await;
    yard.reached("busy").await;
    let state = yard.server.call("get_queue_state", json!({})).await;
    assert_eq!((&state["without_slot"][0]["task_id"], &state["active_slots"][0]["task_id"]), (&json!(asks), &json!(busy)), "{state}");
    let id = yard.questions().await[0]["question_bundle_id"].clone();
    yard.server.call("answer_question", json!({ "question_bundle_id": id })).await;
    assert_eq!(yard.status(&asks).await, "in_progress");
    let state = yard.server.call("get_queue_state", json!({})).await;
    assert_eq!((&state["without_slot"][0]["wants_slot"], &state["waiting_task_ids"]), (&json!(true), &json!([new])), "{state}");
    assert!(!yard.gate("allowed").exists(), "the agent goes on without a slot");
    yard.open("free");
    yard.reached("allowed").await;
    let state = yard.server.call("get_queue_state", json!({})).await;
    assert_eq!((&state["active_slots"][0]["task_id"], &state["waiting_task_ids"]), (&json!(asks), &json!([new])), "{state}");
    assert!(!yard.gate("new").exists(), "a new task came first");
    yard.open("finish");
    for task in [&asks, &busy, &new] {
        yard.reviewable(task).await;
    }
}

#[tokio::test]
async fn a_run_that_was_answered_goes_on_while_the_queue_is_paused() {
    let yard = asking().await;
    yard.server.set("slot_yield_after", 0).await;
    let task = yard.queue("Make it", json!([make()])).await;
    yard.wait_status(&task, "waiting_for_input").await;
    eventually("the slot to be given back", async || (yard.run(&task).await["slot"].is_null()).then_some(())).await;
    yard.server.call("queue_pause", json!({})).await;
    let id = yard.questions().await[0]["question_bundle_id"].clone();
    yard.server.call("answer_question", json!({ "question_bundle_id": id })).await;
    yard.reviewable(&task).await;
}

#[tokio::test]
async fn a_cancel_voids_the_open_request() {
    let yard = asking().await;
    let task = yard.queue("Make it", json!([make()])).await;
    yard.wait_status(&task, "waiting_for_input").await;
    let id = yard.questions().await[0]["question_bundle_id"].clone();
    yard.server.call("cancel_task", json!({ "task_id": task })).await;
    assert_eq!(yard.status(&task).await, "cancelled");
    assert!(yard.questions().await.is_empty());
    yard.server.refused("answer_question", json!({ "question_bundle_id": id }), "CONFLICT").await;
    yard.nothing_lives(&task).await;
    let audited = yard.audited(&task).await;
    let of_question: Vec<&String> = audited.iter().filter(|action| action.starts_with("question.")).collect();
    assert_eq!(of_question, ["question.asked", "question.voided"], "{audited:?}");
}

#[tokio::test]
async fn a_killed_servers_request_is_void_and_asked_anew_once() {
    let mut yard = asking().await;
    yard.later_turns("ada", json!([[], [make()]])).await;
    yard.agent(
        "ada",
        json!({ "permission_policy": "ask", "env": { "TASKYARD_SCENARIO": json!({ "turns": [[], [make()]] }).to_string() } }),
    )
    .await;
    let task = yard.queue("Make it", json!([make()])).await;
    yard.wait_status(&task, "waiting_for_input").await;
    let old = yard.questions().await[0]["question_bundle_id"].clone();
    yard.server.crash().await;
    let error = yard.server.refused("answer_question", json!({ "question_bundle_id": old }), "CONFLICT").await;
    assert!(error["message"].as_str().unwrap().contains("void"), "{error}");
    yard.wait_status(&task, "waiting_for_input").await;
    let open = yard.questions().await;
    assert!(open.len() == 1 && open[0]["question_bundle_id"] != old, "{open:?}");
    yard.server.call("answer_question", json!({ "question_bundle_id": open[0]["question_bundle_id"] })).await;
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded", "interrupted"]);
    assert!(yard.questions().await.is_empty());
}

#[tokio::test]
async fn a_request_that_the_agent_takes_back_is_closed_and_the_turn_goes_on() {
    let yard = asking().await;
    let gate = yard.gate("never mind");
    let task = yard.queue("Make it", json!([ask(json!({ "withdraw_after": gate, "on_deny": work("a.txt", "a\n") }))])).await;
    yard.wait_status(&task, "waiting_for_input").await;
    yard.open("never mind");
    yard.reviewable(&task).await;
    assert!(yard.questions().await.is_empty());
    let audited = yard.audited(&task).await;
    assert!(audited.contains(&"question.voided".to_owned()) && !audited.contains(&"question.answered".to_owned()), "{audited:?}");
}

#[tokio::test]
async fn policies_allow_what_they_say_and_ask_about_the_rest() {
    let yard = Yard::new().await;
    let listed = json!({ "permission_policy": "listed", "allowed_tools": ["execute(make *)", "execute(make)"] });
    yard.agent("ada", listed).await;
    let two = json!([make(), ask(json!({ "title": "Remove all", "input": { "command": "rm -rf /" } }))]);
    let task = yard.queue("Make and remove", two).await;
    yard.wait_status(&task, "waiting_for_input").await;
    assert_eq!(yard.questions().await[0]["title"], "Remove all");
    assert!(yard.worktree(&task).await.join("made.txt").exists());
    yard.server.call("cancel_task", json!({ "task_id": task })).await;

    yard.agent("ada", json!({ "permission_policy": "worktree" })).await;
    let edit = |title: &str, path: Value| ask(json!({ "title": title, "kind": "edit", "input": {}, "paths": [path] }));
    let steps = json!([edit("Edit inside", json!("src/a.rs")), edit("Edit outside", json!(yard.gate("stolen")))]);
    let task = yard.queue("Edit", steps).await;
    yard.wait_status(&task, "waiting_for_input").await;
    let open = yard.questions().await;
    assert_eq!((open.len(), &open[0]["title"]), (1, &json!("Edit outside")), "{open:?}");
    assert!(yard.log(&task).await.contains("allowed by the profile's policy: Edit inside"), "{}", yard.log(&task).await);
}
