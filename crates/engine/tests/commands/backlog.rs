//! Plans, epics and tasks by slug; the effective prompt; Markdown files in and out.

use crate::support::{Yard, input};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use taskyard_domain::{Class, Error};
use taskyard_engine::commands::output::CreateObjectOutput;
use taskyard_engine::operator::ImportedFile;

/// A folder of Markdown files.
type Folder = BTreeMap<String, String>;

impl Yard {
    async fn object(&self, values: Value) -> Result<CreateObjectOutput, Error> {
        let mut arguments = json!({ "workspace": "main" });
        arguments.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        self.engine.create_object(&self.me(), input(arguments)).await
    }

    async fn import(&self, folder: &Folder) -> Vec<ImportedFile> {
        self.import_from("/a", folder).await
    }

    async fn import_from(&self, name: &str, folder: &Folder) -> Vec<ImportedFile> {
        let arguments = json!({ "workspace": "main", "folder": name, "files": texts(folder) });
        self.engine.backlog_import(&self.me(), input(arguments)).await.unwrap().files
    }

    async fn import_one(&self, folder: &Folder, path: &str) -> ImportedFile {
        self.import(folder).await.into_iter().find(|file| file.path == path).unwrap()
    }

    /// Exports as the command line does: writes, then imports what was written. What was left alone, by path.
    async fn export(&self, folder: &mut Folder) -> Vec<(String, String)> {
        self.export_to("/a", folder).await
    }

    async fn export_to(&self, name: &str, folder: &mut Folder) -> Vec<(String, String)> {
        let arguments = json!({ "workspace": "main", "folder": name, "files": texts(folder) });
        let out = self.engine.backlog_export(&self.me(), input(arguments)).await.unwrap();
        let written: Folder = out.files.into_iter().map(|file| (file.path, file.text)).collect();
        self.import_from(name, &written).await;
        folder.extend(written);
        out.left_alone.into_iter().map(|left| (left.path, left.reason)).collect()
    }
}

fn texts(folder: &Folder) -> Vec<Value> {
    folder.iter().map(|(path, text)| json!({ "path": path, "text": text })).collect()
}

fn folder(files: &[(&str, &str)]) -> Folder {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

const PLAN: &str = "---\nkind: plan\nslug: p\ntitle: The plan\nstatus: ready\n---\nWhy\n";
const EPIC: &str = "---\nkind: epic\nslug: e\ntitle: The epic\nplan_slug: p\nstatus: draft\n---\n";
const TASK: &str = "---\nkind: task\nslug: t\ntitle: The task # not a comment\nplan_slug: p\nepic_slug: e\nstatus: ready\npriority: P1\nowner: ada\ncursor_todo_id: null\n---\n\n# Do it\n";

fn backlog() -> Folder {
    folder(&[("a/Task-t.md", TASK), ("Epic-e.md", EPIC), ("Plan-p.md", PLAN), ("README.md", "# Not an item\n")])
}

#[tokio::test]
async fn items_have_slugs_and_stand_below_one_another() {
    let yard = Yard::new().await;
    let plan = yard.object(json!({ "kind": "plan", "title": "Big Plan" })).await.unwrap();
    let epic = yard.object(json!({ "kind": "epic", "title": "Epic", "plan_slug": "big-plan", "status": "ready" })).await.unwrap();
    let made = json!({ "kind": "task", "title": "Task", "epic_slug": "epic", "priority": "P0", "body_markdown": "text" });
    let task = yard.object(made).await.unwrap();
    let twin = yard.object(json!({ "kind": "task", "title": "Task!" })).await.unwrap();
    assert_eq!((plan.slug.as_str(), plan.status.as_str(), epic.status.as_str()), ("big-plan", "draft", "ready"));
    assert_eq!((task.slug.as_str(), twin.slug.as_str(), task.short_id.as_str()), ("task", "task-2", "TY-3"));
    let rows = |filter: Value| {
        let yard = &yard;
        let mut arguments = json!({ "workspace": "main" });
        arguments.as_object_mut().unwrap().extend(filter.as_object().unwrap().clone());
        async move {
            let found = yard.engine.list_backlog(&yard.me(), input(arguments)).await.unwrap();
            found.items.into_iter().map(|item| item.short_id).collect::<Vec<_>>()
        }
    };
    assert_eq!(rows(json!({})).await, ["TY-1", "TY-2", "TY-3", "TY-4"]);
    assert_eq!(rows(json!({ "plan_slug": "big-plan" })).await, ["TY-2", "TY-3"]);
    assert_eq!(rows(json!({ "epic_slug": "epic" })).await, ["TY-3"]);
    assert_eq!(rows(json!({ "kind": "task", "status": "draft" })).await, ["TY-3", "TY-4"]);
    let found = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main", "limit": 3 }))).await.unwrap();
    assert!(found.has_more && found.items[2].plan_slug.as_deref() == Some("big-plan"));
    let rest = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main", "cursor": found.next_cursor }))).await.unwrap();
    assert_eq!(rest.items.len(), 1);
}

#[tokio::test]
async fn items_that_fit_nowhere_are_refused_by_field() {
    let yard = Yard::new().await;
    for values in [
        json!({ "kind": "plan", "title": "p" }),
        json!({ "kind": "plan", "title": "q" }),
        json!({ "kind": "epic", "title": "e", "plan_slug": "p" }),
    ] {
        yard.object(values).await.unwrap();
    }
    for (values, class, field) in [
        (json!({ "kind": "plan", "title": "x", "plan_slug": "p" }), Class::InvalidArgument, "plan_slug"),
        (json!({ "kind": "epic", "title": "x", "epic_slug": "e" }), Class::InvalidArgument, "epic_slug"),
        (json!({ "kind": "task", "title": "x", "plan_slug": "q", "epic_slug": "e" }), Class::InvalidArgument, "epic_slug"),
        (json!({ "kind": "task", "title": "x", "plan_slug": "none" }), Class::NotFound, "plan_slug"),
        (json!({ "kind": "story", "title": "x" }), Class::InvalidArgument, "kind"),
        (json!({ "kind": "task", "title": " " }), Class::InvalidArgument, "title"),
        (json!({ "kind": "task", "title": "x", "status": "done" }), Class::InvalidArgument, "status"),
        (json!({ "kind": "task", "title": "x", "slug": "A b" }), Class::InvalidArgument, "slug"),
        (json!({ "kind": "plan", "title": "x", "slug": "p" }), Class::Conflict, "slug"),
    ] {
        let error = yard.object(values.clone()).await.unwrap_err();
        assert_eq!((error.class, error.field.as_deref()), (class, Some(field)), "{values}");
    }
    assert_eq!(yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main" }))).await.unwrap().items.len(), 3);
    let key = json!({ "kind": "task", "title": "once", "idempotency_key": "k" });
    let (first, again) = (yard.object(key.clone()).await.unwrap(), yard.object(key).await.unwrap());
    assert!(again.replayed && again.id == first.id);
}

#[tokio::test]
async fn the_prompt_is_workspace_workflow_step_in_that_order_and_literal() {
    let yard = Yard::new().await;
    yard.object(json!({ "kind": "plan", "title": "P", "slug": "p" })).await.unwrap();
    let task = json!({ "kind": "task", "title": "{{description}} $(rm)", "plan_slug": "p", "body_markdown": "secret", "status": "ready" });
    let item = yard.object(task).await.unwrap();
    let list = item.list_id.clone();
    yard.engine.workspace_prompt(&yard.me(), input(json!({ "workspace": "main", "prompt": "W {{ title }} {{nothing}}" }))).await.unwrap();
    yard.engine.list_prompt(&yard.me(), input(json!({ "list_id": list, "prompt": "L {{plan_slug}}/{{slug}}" }))).await.unwrap();
    let step = json!({ "list_id": list, "name": "Work", "prompt": "S {{short_id}} in {{step}} of {{workflow}}, {{priority}}" });
    yard.engine.step_add(&yard.me(), input(step)).await.unwrap();
    let claim = json!({ "workspace": "main", "backlog_item_id": item.id });
    let claimed = yard.engine.claim_task(&yard.me(), input(claim)).await.unwrap();
    let expected =
        format!("W {{{{description}}}} $(rm) {{{{nothing}}}}\n\nL p/{}\n\nS {} in Work of Backlog, medium", item.slug, item.short_id);
    assert_eq!(claimed.workflow_prompt, expected);
}

#[tokio::test]
async fn steps_are_changed_by_name_and_audited() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    let add = |name: &str, stage: &str| json!({ "list_id": list, "name": name, "stage": stage });
    yard.engine.step_add(&yard.me(), input(add("A", "work"))).await.unwrap();
    assert_eq!(yard.engine.step_add(&yard.me(), input(add("A", "work"))).await.unwrap_err().class, Class::Conflict);
    assert_eq!(yard.engine.step_add(&yard.me(), input(add("B", "nowhere"))).await.unwrap_err().field.as_deref(), Some("stage"));
    let set =
        yard.engine.step_update(&yard.me(), input(json!({ "list_id": list, "step": "A", "name": "B", "prompt": "p" }))).await.unwrap();
    assert_eq!((set.steps[0].name.as_str(), set.steps[0].prompt.as_str()), ("B", "p"));
    let gone = yard.engine.step_update(&yard.me(), input(json!({ "list_id": list, "step": "A" }))).await.unwrap_err();
    assert!(gone.class == Class::NotFound && gone.hint.unwrap().contains('B'));
    assert!(yard.engine.step_remove(&yard.me(), input(json!({ "list_id": list, "step": "B" }))).await.unwrap().steps.is_empty());
    let actions: Vec<String> = yard
        .engine
        .get_audit_log(&yard.me(), input(json!({ "workspace": "main" })))
        .await
        .unwrap()
        .entries
        .into_iter()
        .map(|e| e.action)
        .collect();
    assert_eq!(actions[..3], ["step.removed", "step.updated", "step.added"]);
}

#[tokio::test]
async fn a_backlog_comes_in_and_goes_out_unchanged() {
    let yard = Yard::new().await;
    let mut files = backlog();
    let outcomes: BTreeMap<String, String> = yard.import(&files).await.into_iter().map(|file| (file.path, file.outcome)).collect();
    assert_eq!(outcomes.values().filter(|outcome| *outcome == "created").count(), 3, "{outcomes:?}");
    assert_eq!(outcomes["README.md"], "ignored");
    let task = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main", "kind": "task" }))).await.unwrap().items.remove(0);
    assert_eq!((task.title.as_str(), task.status.as_str(), task.priority.as_str()), ("The task", "ready", "high"));
    assert_eq!((task.plan_slug.as_deref(), task.epic_slug.as_deref()), (Some("p"), Some("e")));
    assert!(yard.import(&files).await.iter().all(|file| matches!(file.outcome.as_str(), "unchanged" | "ignored")));
    assert_eq!(yard.export(&mut files).await, []);
    assert_eq!(files, backlog(), "not a byte differs");
    let mut elsewhere = Folder::new();
    assert_eq!(yard.export(&mut elsewhere).await, []);
    let mut items = backlog();
    items.remove("README.md");
    assert_eq!(elsewhere, items, "unknown fields are there in a new folder too");
}

#[tokio::test]
async fn each_side_s_changes_reach_the_other() {
    let yard = Yard::new().await;
    let mut files = backlog();
    yard.import(&files).await;
    let text =
        TASK.replace("title: The task", "title: The file's title").replace("owner: ada", "owner: bob").replace("# Do it", "# Do it well");
    files.insert("a/Task-t.md".into(), text.clone());
    let item = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main", "kind": "task" }))).await.unwrap().items.remove(0);
    yard.engine.update_task(&yard.me(), input(json!({ "task_id": item.id, "priority": "low", "state": "done" }))).await.unwrap();
    let taken = yard.import_one(&files, "a/Task-t.md").await;
    assert_eq!((taken.outcome.as_str(), taken.conflicts.len()), ("updated", 0), "{taken:?}");
    let task = yard.task(&item.short_id).await;
    assert_eq!((task.title.as_str(), task.description.as_str()), ("The file's title", "# Do it well"));
    assert_eq!((task.status.to_string(), task.priority.to_string()), ("done".into(), "low".into()), "what changed here stays");
    assert_eq!(yard.export(&mut files).await, []);
    assert_eq!(files["a/Task-t.md"], text.replace("status: ready", "status: done").replace("P1", "P3"));
    let audited = yard
        .engine
        .get_audit_log(&yard.me(), input(json!({ "workspace": "main", "target_id": item.id, "action": "task.updated" })))
        .await
        .unwrap();
    assert!(audited.entries.iter().any(|entry| entry.metadata["file"] == "a/Task-t.md"));
    let agreed = json!({ "workspace": "main", "target_id": item.id, "action": "backlog.agreed" });
    let agreed = yard.engine.get_audit_log(&yard.me(), input(agreed)).await.unwrap().entries;
    assert!(agreed.iter().all(|entry| entry.metadata["slug"] == "t" && entry.target_id == item.id) && !agreed.is_empty());
}

#[tokio::test]
async fn what_changed_on_both_sides_is_reported_and_left_alone() {
    let yard = Yard::new().await;
    let mut files = backlog();
    yard.import(&files).await;
    let item = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main", "kind": "task" }))).await.unwrap().items.remove(0);
    yard.engine.update_task(&yard.me(), input(json!({ "task_id": item.id, "title": "Here" }))).await.unwrap();
    files.insert("a/Task-t.md".into(), TASK.replace("title: The task # not a comment", "title: There"));
    let before = files.clone();
    let taken = yard.import_one(&files, "a/Task-t.md").await;
    assert_eq!(taken.outcome, "conflict");
    assert_eq!(yard.task(&item.short_id).await.title, "Here");
    assert_eq!(yard.export(&mut files).await, [("a/Task-t.md".to_owned(), "conflict".to_owned())]);
    assert_eq!(files, before);
    files.insert("a/Task-t.md".into(), TASK.replace("title: The task # not a comment", "title: Here"));
    assert_eq!(yard.import_one(&files, "a/Task-t.md").await.outcome, "unchanged", "made the same, it is agreed on");
    files.insert("a/Task-t.md".into(), TASK.replace("title: The task # not a comment", "title: Later"));
    assert_eq!(yard.export(&mut files).await, [("a/Task-t.md".to_owned(), "changed_in_file".to_owned())]);
    assert_eq!(yard.import_one(&files, "a/Task-t.md").await.outcome, "updated");
}

/// F4: a parent waits for its children, so a file can't put an item below one that it waits for.
#[tokio::test]
async fn a_file_closes_no_ring() {
    let yard = Yard::new().await;
    let alone = TASK.replace("plan_slug: p\nepic_slug: e\n", "");
    let mut files = folder(&[("Task-t.md", &alone), ("Epic-e.md", EPIC), ("Plan-p.md", PLAN)]);
    yard.import(&files).await;
    let all = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main" }))).await.unwrap().items;
    let id = |slug: &str| all.iter().find(|item| item.slug.as_deref() == Some(slug)).unwrap().id.clone();
    let waits = json!({ "task_id": id("t"), "depends_on_task_id": id("e") });
    yard.engine.add_task_dependency(&yard.me(), input(waits)).await.unwrap();
    files.insert("Task-t.md".into(), TASK.replace("The task", "Renamed"));
    let taken = yard.import_one(&files, "Task-t.md").await;
    assert_eq!(taken.outcome, "conflict");
    assert!(taken.notes.iter().any(|note| note.contains("ring")), "{taken:?}");
    let task = yard.task("TY-3").await;
    assert_eq!((task.title.as_str(), task.parent_id), ("Renamed", None));
}

/// Which side is newer is known of each folder by itself: another clone that is behind takes nothing back.
#[tokio::test]
async fn a_second_copy_that_is_behind_undoes_nothing() {
    let yard = Yard::new().await;
    let (mut first, mut second) = (backlog(), backlog());
    yard.import_from("/a", &first).await;
    yard.task_of("t", json!({ "title": "Newer" })).await;
    assert_eq!(yard.export_to("/a", &mut first).await, []);
    let behind = yard.import_from("/b", &second).await.into_iter().find(|file| file.path == "a/Task-t.md").unwrap();
    assert_eq!((behind.outcome.as_str(), behind.fields.len()), ("conflict", 0));
    let notes = behind.notes.join("\n");
    assert!(notes.contains("title: \"Newer\" here, \"The task\" in the file") && notes.contains("folder is new"), "{notes}");
    assert_eq!(yard.task("TY-3").await.title, "Newer");
    assert_eq!(yard.export_to("/b", &mut second).await, [("a/Task-t.md".to_owned(), "conflict".to_owned())]);
    assert_eq!(second, backlog());
    // Brought up to date by git, it agrees; and then its changes are changes.
    second.clone_from(&first);
    assert!(yard.import_from("/b", &second).await.iter().all(|file| matches!(file.outcome.as_str(), "unchanged" | "ignored")));
    let text = second["a/Task-t.md"].replace("P1", "P0");
    second.insert("a/Task-t.md".into(), text);
    assert!(yard.import_from("/b", &second).await.iter().any(|file| file.outcome == "updated"));
    assert_eq!(yard.export_to("/a", &mut first).await, []);
    assert_eq!(first, second);
}

/// What was agreed on before folders were told apart is the first folder's that comes.
#[tokio::test]
async fn what_was_agreed_on_without_a_folder_is_taken_over() {
    let yard = Yard::new().await;
    let mut files = backlog();
    yard.import_from("", &files).await;
    files.insert("a/Task-t.md".into(), TASK.replace("The task", "Changed"));
    assert!(yard.import_from("/a", &files).await.iter().any(|file| file.outcome == "updated"));
    let behind = yard.import_from("/b", &backlog()).await;
    assert!(behind.iter().any(|file| file.outcome == "conflict"), "{behind:?}");
}

#[tokio::test]
async fn what_a_file_cannot_say_is_refused_and_the_rest_goes_in() {
    let yard = Yard::new().await;
    let files = folder(&[
        ("1.md", "---\nkind: task\nslug: a\ntitle: A\nstatus: nonsense\n---\n"),
        ("2.md", "---\nkind: task\nslug: b\ntitle: B\nplan_slug: none\n---\n"),
        ("3.md", "---\nkind: task\nslug: c\ntitle: C\nstatus: in_progress\n---\n"),
        ("4.md", "---\nkind: task\nslug: d\ntitle: D\nstatus: done\n---\n"),
        ("5.md", "---\nkind: task\nslug: e\ntitle: E\n---\n"),
        ("6.md", "---\nkind: task\nslug: e\ntitle: also\n---\n"),
    ]);
    let outcomes: Vec<String> = yard.import(&files).await.into_iter().map(|file| file.outcome).collect();
    assert_eq!(outcomes, ["refused", "refused", "created", "created", "refused", "refused"]);
    assert_eq!((yard.task("TY-1").await.status.to_string(), yard.task("TY-2").await.status.to_string()), ("draft".into(), "done".into()));
}

#[tokio::test]
async fn a_file_does_not_end_a_run() {
    let yard = Yard::new().await;
    let mut files = folder(&[("3.md", "---\nkind: task\nslug: c\ntitle: C\nstatus: ready\n---\n")]);
    yard.import(&files).await;
    let claim = yard.engine.claim_next_task(&yard.me(), input(json!({ "workspace": "main" }))).await.unwrap();
    assert_eq!(yard.export(&mut files).await, []);
    assert!(files["3.md"].contains("status: in_progress"), "{files:?}");
    for word in ["done", "cancelled", "ready"] {
        let said = folder(&[("3.md", &files["3.md"].replace("in_progress", word))]);
        assert_eq!(yard.import(&said).await[0].outcome, "conflict", "{word}");
        let run = yard.engine.get_run(&yard.me(), input(json!({ "run_id": claim.run_id }))).await.unwrap().run.unwrap();
        assert_eq!((run.state.as_str(), yard.task("TY-1").await.status.to_string().as_str()), ("running", "in_progress"), "{word}");
    }
}

impl Yard {
    /// Changes the task with that slug.
    async fn task_of(&self, slug: &str, mut changes: Value) {
        let all = self.engine.list_backlog(&self.me(), input(json!({ "workspace": "main", "kind": "task" }))).await.unwrap();
        changes["task_id"] = all.items.into_iter().find(|item| item.slug.as_deref() == Some(slug)).unwrap().id.into();
        self.engine.update_task(&self.me(), input(changes)).await.unwrap();
    }
}

#[tokio::test]
async fn an_item_that_was_deleted_here_is_not_brought_back_by_its_file() {
    let yard = Yard::new().await;
    let mut files = backlog();
    yard.import(&files).await;
    let item = yard.engine.list_backlog(&yard.me(), input(json!({ "workspace": "main", "kind": "task" }))).await.unwrap().items.remove(0);
    yard.engine.delete_task(&yard.me(), input(json!({ "task_id": item.id }))).await.unwrap();
    assert_eq!(yard.import_one(&files, "a/Task-t.md").await.outcome, "deleted");
    assert!(yard.import_from("/b", &files).await.iter().any(|file| file.outcome == "deleted"), "nor by that of another folder");
    assert_eq!(yard.export(&mut files).await, [("a/Task-t.md".to_owned(), "without_item".to_owned())]);
    let terse = folder(&[("t.md", "---\nkind: task\nslug: terse\ntitle: Says little\n---\n")]);
    let short = yard.import(&terse).await.remove(0).short_id.unwrap();
    yard.engine.delete_task(&yard.me(), input(json!({ "task_id": short }))).await.unwrap();
    assert_eq!(yard.import(&terse).await[0].outcome, "deleted", "what a file doesn't say hasn't changed");
    files.insert("a/Task-t.md".into(), TASK.replace("Do it", "Do more"));
    assert_eq!(yard.import_one(&files, "a/Task-t.md").await.outcome, "conflict");
    let again = json!({ "workspace": "main", "files": texts(&files), "recreate": true });
    let files = yard.engine.backlog_import(&yard.me(), input(again)).await.unwrap().files;
    assert!(files.iter().any(|file| file.path == "a/Task-t.md" && file.outcome == "created"));
}

#[tokio::test]
async fn a_file_that_cannot_be_changed_alone_is_left_to_a_person() {
    let yard = Yard::new().await;
    let text = "---\n{kind: task, slug: t, title: T, status: ready}\n---\n";
    let mut files = folder(&[("t.md", text)]);
    yard.import(&files).await;
    yard.task_of("t", json!({ "title": "Other" })).await;
    assert_eq!(yard.export(&mut files).await, [("t.md".to_owned(), "unwritable".to_owned())]);
    assert_eq!(files["t.md"], text);
}
