//! What a task changed, as tools and command line tell it: real names, and answers in time however much it is.

use crate::project::{Project, write};
use crate::support::{Mcp, Yard};
use serde_json::{Value, json};
use std::time::Instant;

/// Every page of the listing.
async fn listed(mcp: &Mcp, task: &str, max_bytes: u64) -> Vec<Value> {
    let (mut files, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = json!({ "task_id": task, "stat_only": true, "max_bytes": max_bytes, "cursor": cursor });
        let page = mcp.call("get_task_diff", page).await.unwrap();
        files.extend(page["files"].as_array().unwrap().iter().cloned());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return files;
        }
    }
}

/// The whole patch of one file, part by part.
async fn patch(mcp: &Mcp, task: &str, path: &str) -> String {
    let (mut text, mut cursor) = (String::new(), Value::Null);
    loop {
        let page = json!({ "task_id": task, "path": path, "max_bytes": 262_144, "cursor": cursor });
        let page = mcp.call("get_task_diff", page).await.unwrap();
        text += page["files"][0]["patch"].as_str().unwrap();
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return text;
        }
    }
}

#[tokio::test]
async fn e1_names_are_real_in_listing_and_patch() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let lines: String = (0..30).map(|n| format!("line {n}\n")).collect();
    for name in ["Aufträge/é x.md", "old.md"] {
        project.write(name, &lines);
    }
    project.commit("More").await;
    let odd = "tab\there \"quoted\" => arrow";
    let steps = json!([
        { "append": { "path": "Aufträge/é x.md", "content": "more\n" } },
        { "rename": { "from": "old.md", "to": "new.md" } },
        { "append": { "path": "new.md", "content": "and more\n" } },
        { "commit": "work" },
        write(odd, "odd\n"), write("-n", "dash\n"),
    ]);
    let task = project.work("Names", steps).await;
    let mcp = yard.server.mcp("mode=external", None).await;
    let files = listed(&mcp, &task, 10_000).await;
    let names: Vec<_> = files.iter().map(|file| (file["path"].as_str().unwrap(), file["old_path"].as_str())).collect();
    assert_eq!(names, [("-n", None), ("Aufträge/é x.md", None), ("new.md", Some("old.md")), (odd, None)]);
    for (name, added) in [("-n", "+dash"), ("Aufträge/é x.md", "+more"), ("new.md", "+and more"), ("old.md", "+and more"), (odd, "+odd")]
    {
        let one = mcp.call("get_task_diff", json!({ "task_id": task, "path": name })).await.unwrap();
        assert_eq!(one["files"].as_array().unwrap().len(), 1, "{name}: {one}");
        assert!(one["files"][0]["patch"].as_str().unwrap().contains(added), "{name}: {one}");
    }
    let told = yard.server.cli(&["task", "diff", &task]).await;
    for name in ["Aufträge/é x.md", "new.md", "old.md", odd] {
        assert!(told.code == 0 && told.out.contains(name), "{name}: {told:?}");
    }
    assert_eq!(project.approve(&task).await["merged"], true);
}

#[tokio::test]
async fn e4_many_and_large_files_are_listed_in_time_and_nothing_is_withheld() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    let steps = json!([
        { "shell": "seq -f 'entry %.0f' 200000 > package.lock; mkdir many; for n in $(seq 5000); do echo $n > many/$n.txt; done; \
            yes 'let value = compute(value);' | head -c 1048576 > source.rs" },
        { "commit": "work" },
    ]);
    let task = project.work("Large", steps).await;
    let folder = yard.worktree(&task).await;
    let mcp = yard.server.mcp("mode=external", None).await;
    for state in ["committed", "uncommitted"] {
        if state == "uncommitted" {
            // By hand: the dearest case, for nothing of it is stored.
            for n in 1..=5000 {
                std::fs::write(folder.join(format!("many/{n}.txt")), format!("{n} and more\n")).unwrap();
            }
        }
        // What git itself needs to see and count them, on this machine now.
        let started = Instant::now();
        project.git_in(&folder, &["status", "--porcelain", "--untracked-files=all"]).await;
        project.git_in(&folder, &["add", "--dry-run", "."]).await;
        let bare = started.elapsed();
        let started = Instant::now();
        let files = listed(&mcp, &task, 262_144).await;
        let took = started.elapsed();
        println!("{state}: {} files listed in {} ms; bare git {} ms", files.len(), took.as_millis(), bare.as_millis());
        assert_eq!(files.len(), 5002, "{state}");
        let first = mcp.call("get_task_diff", json!({ "task_id": task })).await.unwrap();
        assert!(first.to_string().len() < 11_000 && first["truncated"] == true, "{state}: {}", first.to_string().len());
        if state == "uncommitted" {
            continue;
        }
        // Cut, and all of it for who asks for more.
        for (name, lines) in [("package.lock", 200_000), ("source.rs", 37_449)] {
            let small = mcp.call("get_task_diff", json!({ "task_id": task, "path": name })).await.unwrap()["files"][0].clone();
            let added = small["additions"].as_i64().unwrap();
            assert!(small["patch_truncated"] == true && small["patch"].as_str().unwrap().len() > 1000, "{name}");
            assert!((lines - added).abs() <= 1, "{name}: {added}");
        }
        let whole = patch(&mcp, &task, "source.rs").await;
        let added = whole.lines().filter(|line| line.starts_with("+let value")).count();
        assert!(whole.len() > 1_048_576 && added >= 37_449, "{} bytes, {added} lines", whole.len());
    }
}
