//! `taskyard task …`

use crate::args::{Add, Answer, Diff, List, Merge, Preview, Review, Run, TaskCommand};
use crate::client::Client;
use crate::fail::{Result, Verdict};
use crate::run::{or_stdin, text, watch};
use crate::show::Show;
use crate::words;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use taskyard_domain::Error;

/// Bytes of patches asked for at once.
const DIFF_PAGE: i64 = 262_144;

/// Runs the command.
pub async fn run(client: &Client, show: &Show, command: TaskCommand) -> Result<Verdict> {
    let done = match command {
        TaskCommand::Add(add) => self::add(client, show, add).await,
        TaskCommand::Show(one) => show.task(&client.call("get_task", json!({ "task_id": one.task, "full": true })).await?),
        TaskCommand::List(list) => self::list(client, show, list).await,
        TaskCommand::Run(run) => return start(client, show, run).await,
        TaskCommand::Continue(go_on) => {
            let prompt = or_stdin(go_on.prompt)?;
            let arguments = json!({ "task_id": go_on.task, "prompt": prompt, "idempotency_key": go_on.idempotency_key });
            let answer = client.call("continue_task", arguments).await?;
            show.done(&answer, &format!("{} goes on", text(&answer, "short_id")))
        }
        TaskCommand::Cancel(cancel) => {
            for task in cancel.tasks {
                let answer = client.call("cancel_task", json!({ "task_id": task })).await?;
                let (short, status) = (text(&answer, "short_id"), text(&answer, "status"));
                let what = if answer["cancelled"] == true { "is cancelled".into() } else { format!("is {status}; its claim is ended") };
                show.done(&answer, &format!("{short} {what}"))?;
            }
            Ok(())
        }
        TaskCommand::Answer(answer) => self::answer(client, show, answer).await,
        TaskCommand::Diff(diff) => self::diff(client, show, diff).await,
        TaskCommand::Log(log) => {
            let arguments = json!({ "task_id": log.task, "run_id": log.run, "tail_bytes": log.tail });
            show.log(&client.call("get_task_log", arguments).await?)
        }
        TaskCommand::Wait(wait) => {
            return watch::wait(client, show, &wait.tasks, wait.timeout.map(Duration::from_secs)).await;
        }
        TaskCommand::Review(review) => self::review(client, show, review).await,
        TaskCommand::Merge(merge) => self::merge(client, show, merge).await,
        TaskCommand::Preview(preview) => self::preview(client, show, preview).await,
        TaskCommand::Revert(revert) => {
            let arguments = json!({ "task_id": revert.task, "target_branch": revert.target, "worktree_id": revert.worktree });
            let answer = client.call("revert_merge", arguments).await?;
            show.done(&answer, &format!("the merge of {} is undone by {}", revert.task, text(&answer["revert"], "commit")))
        }
        TaskCommand::Reset(one) => {
            let answer = client.call("reset_failed_task", json!({ "task_id": one.task })).await?;
            show.done(&answer, &format!("{} is ready again", one.task))
        }
        TaskCommand::Delete(one) => {
            let answer = client.call("delete_task", json!({ "task_id": one.task })).await?;
            show.done(&answer, &format!("{} is deleted{}", one.task, put_aside(&answer)))
        }
        TaskCommand::Runs(one) => {
            let answer = client.call("list_runs", json!({ "task_id": one.task })).await?;
            let columns = [
                ("id", "RUN"),
                ("state", "STATE"),
                ("outcome", "OUTCOME"),
                ("agent", "AGENT"),
                ("actor", "BY"),
                ("started_at", "STARTED"),
                ("exit_reason", "WHY"),
            ];
            show.rows(&answer, "runs", &columns)
        }
    };
    done.map(|()| Verdict::Good)
}

async fn add(client: &Client, show: &Show, add: Add) -> Result<()> {
    let list_id = client.list_id(add.list.as_deref()).await?;
    let description = add.description.map(or_stdin).transpose()?;
    let blocked_by = (!add.blocked_by.is_empty()).then_some(add.blocked_by);
    let arguments = json!({
        "list_id": list_id, "title": add.title, "description": description, "queue": add.queue, "priority": add.priority,
        "agent_profile_id": add.profile, "model": add.model, "blocked_by": blocked_by, "manual": add.manual, "due_at": add.due,
        "idempotency_key": add.idempotency_key,
    });
    let answer = client.call("add_task", arguments).await?;
    show.done(&answer, &format!("{} added: {} ({})", text(&answer, "short_id"), add.title, text(&answer, "status")))
}

async fn list(client: &Client, show: &Show, list: List) -> Result<()> {
    let list_id = match &list.list {
        Some(handle) => Some(client.list_id(Some(handle)).await?),
        None => None,
    };
    let arguments = json!({
        "list_id": list_id, "status": list.status, "query": list.query, "include_archived": list.archived, "limit": list.limit,
        "cursor": list.cursor,
    });
    let mut answer = client.call("list_tasks", arguments).await?;
    let mut columns = vec![("short_id", "TASK"), ("status", "STATUS"), ("priority", "PRIORITY"), ("title", "TITLE")];
    if !show.json && several_lists(&answer) {
        name_lists(&mut answer, &client.call("list_task_lists", json!({})).await?);
        columns.insert(1, ("list", "LIST"));
    }
    show.rows(&answer, "tasks", &columns)
}

/// Whether the tasks shown are of more than one list.
fn several_lists(answer: &Value) -> bool {
    let mut lists = answer["tasks"].as_array().into_iter().flatten().map(|task| &task["list_id"]);
    lists.next().is_some_and(|first| lists.any(|list| list != first))
}

/// Gives each task the name of its list.
fn name_lists(answer: &mut Value, lists: &Value) {
    let all = ["lists", "further"].iter().filter_map(|key| lists[key].as_array()).flatten();
    let names: BTreeMap<&str, &str> = all.map(|list| (text(list, "id"), text(list, "name"))).collect();
    for task in answer["tasks"].as_array_mut().into_iter().flatten() {
        let id = text(task, "list_id").to_owned();
        task["list"] = names.get(id.as_str()).map_or(id.as_str(), |name| name).into();
    }
}

async fn start(client: &Client, show: &Show, run: Run) -> Result<Verdict> {
    for task in &run.tasks {
        let (operation, arguments, word) = if run.now {
            ("run_task_now", json!({ "task_id": task }), "has started")
        } else {
            ("update_task_status", json!({ "task_id": task, "status": "queued" }), "is queued")
        };
        let answer = client.call(operation, arguments).await?;
        if !(run.wait && show.json) {
            show.done(&answer, &format!("{task} {word}"))?;
        }
    }
    if run.wait {
        return watch::wait(client, show, &run.tasks, None).await;
    }
    Ok(Verdict::Good)
}

async fn answer(client: &Client, show: &Show, answer: Answer) -> Result<()> {
    let open = client.call("list_pending_questions", json!({})).await?;
    let decides = answer.allow || answer.deny.is_some() || answer.option.is_some();
    if !decides {
        return show.questions(&open);
    }
    let bundle = match &answer.question {
        Some(id) => id.clone(),
        None => only_question(client, &open, answer.task.as_deref()).await?,
    };
    let answers = answer.option.map(|option| json!([{ "selected_option": option }]));
    let arguments = json!({
        "question_bundle_id": bundle, "answers": answers, "rejected": answer.deny.is_some(), "reject_reason": answer.deny,
    });
    let done = client.call("answer_question", arguments).await?;
    show.done(&done, &format!("{}: the agent goes on", text(&done, "state")))
}

async fn only_question(client: &Client, open: &Value, task: Option<&str>) -> Result<String> {
    let task_id = match task {
        Some(task) => Some(text(&client.call("get_task", json!({ "task_id": task })).await?, "id").to_owned()),
        None => None,
    };
    let all = open["questions"].as_array().cloned().unwrap_or_default();
    let of_task = |q: &&Value| task_id.as_deref().is_none_or(|id| q["task_id"] == id);
    let ids: Vec<&str> = all.iter().filter(of_task).filter_map(|q| q["question_bundle_id"].as_str()).collect();
    match ids.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(Error::precondition("no permission request is open").with_hint("`taskyard task answer` shows all open ones")),
        _ => Err(Error::invalid("question", format!("question: several requests are open, name one with --question ({})", ids.join(", ")))),
    }
}

async fn diff(client: &Client, show: &Show, diff: Diff) -> Result<()> {
    let mut cursor: Option<String> = None;
    loop {
        let arguments = json!({
            "task_id": diff.task, "path": diff.path, "stat_only": diff.stat, "max_bytes": DIFF_PAGE, "cursor": cursor,
        });
        let page = client.call("get_task_diff", arguments).await?;
        show.diff(&page, diff.stat)?;
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(());
        }
    }
}

async fn review(client: &Client, show: &Show, review: Review) -> Result<()> {
    let (decision, feedback) = match &review.reject {
        Some(feedback) => ("reject_rerun", Some(or_stdin(feedback.clone())?)),
        None if review.approve => ("approve", None),
        None if review.park => ("reject_park", None),
        None => ("cancel", None),
    };
    let arguments = json!({
        "task_id": review.task, "decision": decision, "feedback": feedback, "target_branch": review.target,
        "strategy": review.strategy, "expected_head": review.expected_head,
    });
    let answer = client.call("review_task", arguments).await?;
    show.done(&answer, &reviewed(&review.task, &answer))
}

/// What a review came to.
fn reviewed(task: &str, answer: &Value) -> String {
    let merged = match answer["merge"]["commit"].as_str() {
        Some(commit) => format!(", merged into {} as {commit}", text(&answer["merge"], "target")),
        None if answer["nothing_to_merge"] == true => "; there was nothing to merge".into(),
        None => String::new(),
    };
    let note = answer["note"].as_str().map(|note| format!("\nnote: {}", words::hint(note, Some(task)))).unwrap_or_default();
    format!("{task} is {}{merged}{note}", text(answer, "status"))
}

/// Where what belonged to a deleted task is now.
fn put_aside(answer: &Value) -> String {
    let all = |key: &str| answer[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let mut told = String::new();
    for (key, words) in [("reparented", "moved up"), ("snapshots", "what was unsaved is snapshot")] {
        let names = all(key);
        if !names.is_empty() {
            told += &format!("; {words}: {names}");
        }
    }
    told
}

async fn merge(client: &Client, show: &Show, merge: Merge) -> Result<()> {
    let task = json!({ "task_id": merge.task });
    if merge.abort {
        let answer = client.call("abort_merge", task).await?;
        let sentence = if answer["was_open"] == true { "the open merge is given up" } else { "no merge was open" };
        let kept =
            answer["snapshot_id"].as_str().map(|id| format!("; what was resolved there is kept as the snapshot {id}")).unwrap_or_default();
        return show.done(&answer, &format!("{}: {sentence}{kept}", merge.task));
    }
    let answer = if merge.r#continue {
        client.call("continue_merge", task).await?
    } else {
        let arguments = json!({
            "task_id": merge.task, "strategy": merge.strategy, "target_branch": merge.target, "message": merge.message,
            "expected_head": merge.expected_head, "on_conflict": merge.leave_open.then_some("leave_open"),
        });
        client.call("merge_task", arguments).await?
    };
    if answer["merge_open"] == true {
        let path = text(&answer, "merge_worktree_path");
        return show.done(&answer, &format!("conflict: resolve it in {path}, then `taskyard task merge {} --continue`", merge.task));
    }
    show.done(
        &answer,
        &format!("{} is merged into {} as {}", merge.task, text(&answer["merge"], "target"), text(&answer["merge"], "commit")),
    )
}

async fn preview(client: &Client, show: &Show, preview: Preview) -> Result<()> {
    if let [task] = preview.tasks.as_slice() {
        let answer = client.call("preview_merge", json!({ "task_id": task, "target_branch": preview.target })).await?;
        return show.preview(&answer);
    }
    let arguments = json!({ "task_ids": preview.tasks, "target_branch": preview.target });
    let answer = client.call("preview_merge_set", arguments).await?;
    let names = names(client, &answer).await?;
    show.preview_set(&answer, &names)
}

/// Short ids and titles of the tasks whose UUIDs an answer holds.
pub async fn names(client: &Client, answer: &Value) -> Result<BTreeMap<String, String>> {
    let mut ids = Vec::new();
    collect(answer, &mut ids);
    ids.sort_unstable();
    ids.dedup();
    let mut names = BTreeMap::new();
    for id in ids {
        if let Ok(task) = client.call("get_task", json!({ "task_id": id })).await {
            names.insert(id, format!("{} {}", text(&task, "short_id"), text(&task, "title")));
        }
    }
    Ok(names)
}

fn collect(value: &Value, ids: &mut Vec<String>) {
    match value {
        Value::String(text) if text.len() == 36 && text.bytes().filter(|b| *b == b'-').count() == 4 => ids.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|v| collect(v, ids)),
        Value::Object(map) => map.iter().filter(|(key, _)| key.as_str() != "run_id").for_each(|(_, v)| collect(v, ids)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_tells_the_note_and_that_nothing_was_merged() {
        let answer = json!({ "status": "done", "merge": null, "nothing_to_merge": true, "note": "the work was put aside" });
        assert_eq!(reviewed("TY-1", &answer), "TY-1 is done; there was nothing to merge\nnote: the work was put aside");
        let merged = json!({ "status": "done", "merge": { "commit": "abc", "target": "main" }, "nothing_to_merge": false });
        assert_eq!(reviewed("TY-1", &merged), "TY-1 is done, merged into main as abc");
    }

    #[test]
    fn tasks_of_several_lists_are_told_apart() {
        let mut answer = json!({ "tasks": [{ "list_id": "1" }, { "list_id": "2" }, { "list_id": "3" }] });
        assert!(several_lists(&answer) && !several_lists(&json!({ "tasks": [{ "list_id": "1" }, { "list_id": "1" }] })));
        name_lists(&mut answer, &json!({ "lists": [{ "id": "1", "name": "One" }], "further": [{ "id": "2", "name": "Two" }] }));
        let names: Vec<&str> = answer["tasks"].as_array().unwrap().iter().map(|task| text(task, "list")).collect();
        assert_eq!(names, ["One", "Two", "3"]);
    }

    #[test]
    fn a_deletion_tells_where_things_went() {
        let answer = json!({ "deleted": true, "reparented": ["TY-2"], "snapshots": ["s1", "s2"] });
        assert_eq!(put_aside(&answer), "; moved up: TY-2; what was unsaved is snapshot: s1, s2");
        assert_eq!(put_aside(&json!({ "reparented": [], "snapshots": [] })), "");
    }
}
