//! Previews: the truth about a merge or a set of them, without touching anything.

use crate::project::{Project, committed, write};
use crate::support::Yard;
use futures::future::join_all;
use serde_json::json;

#[tokio::test]
async fn c5_a_preview_is_exact_and_free_of_effects_while_an_agent_works() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    project.write("old.txt", "1\n2\n3\n4\n5\n");
    project.write("gone.txt", "1\n");
    project.commit("More files").await;
    let steps = json!([
        write("a.txt", "theirs\n"), { "rename": { "from": "old.txt", "to": "renamed.txt" } }, { "delete": "gone.txt" }, { "commit": "work" },
    ]);
    let task = project.work("Conflict", steps).await;
    project.write("a.txt", "ours\n");
    project.write("old.txt", "1\n2\n3\n4\n5\n6\n");
    project.write("gone.txt", "1\n2\n");
    project.commit("Ours").await;
    // Another agent commits all the while.
    let busy = json!([{ "signal": yard.gate("busy") }, { "shell": format!("while ! test -e '{}'; do echo x >> busy.txt; git add -A; git commit -qm x; done", yard.gate("enough").display()) }]);
    let other = project.queue("Busy", busy).await;
    yard.reached("busy").await;
    let quiet = async || {
        let picture = project.picture().await;
        picture.lines().filter(|line| !line.contains("ty-2-busy") && !line.starts_with("HEAD ")).collect::<Vec<_>>().join("\n")
    };
    let index = yard.worktree(&task).await.join(".git");
    let git_dir = std::fs::read_to_string(index).unwrap().trim().trim_start_matches("gitdir: ").to_owned();
    let stamp = || std::fs::metadata(format!("{git_dir}/index")).unwrap().modified().unwrap();
    let (before, stamped) = (quiet().await, stamp());
    let previews = join_all((0..10).map(|_| yard.server.call("preview_merge", json!({ "task_id": task })))).await;
    for preview in &previews {
        assert_eq!((&preview["result"], &preview["conflict_files"]), (&json!("conflict"), &json!(["a.txt", "gone.txt"])), "{preview}");
    }
    assert_eq!((quiet().await, stamp()), (before, stamped));
    let error = yard.server.refused("merge_task", json!({ "task_id": task }), "CONFLICT").await;
    for (asked, told) in [("conflict_files", "files"), ("target_commit", "target_commit"), ("task_commit", "task_commit")] {
        assert_eq!(previews[0][asked], error["details"][told]);
    }
    let growing = yard.server.call("preview_merge", json!({ "task_id": other })).await;
    assert_eq!(growing["result"], "clean");
    yard.open("enough");
    yard.reviewable(&other).await;
    let preview = yard.server.call("preview_merge", json!({ "task_id": other })).await;
    let head = preview["task_commit"].as_str().unwrap();
    let merged = yard.server.call("merge_task", json!({ "task_id": other, "expected_head": head })).await;
    assert_eq!(merged["merge"]["target_before"], preview["target_commit"]);
}

#[tokio::test]
async fn a_set_is_previewed_in_order_and_the_merges_then_do_just_that() {
    let yard = Yard::new().await;
    let project = Project::own(&yard).await;
    project.write("b.txt", "b\n");
    project.commit("b").await;
    let first = project.work("First", committed("a.txt", "first\n")).await;
    let second = project.work("Second", committed("a.txt", "second\n")).await;
    let third = project.work("Third", committed("b.txt", "third\n")).await;
    let stale = project.work("Stale", committed("b.txt", "stale\n")).await;
    project.write("b.txt", "main\n");
    let nothing = yard.task("Never ran", json!([])).await;
    let mcp = yard.server.mcp("mode=core", None).await;
    let ids = json!([first, second, third, nothing]);
    let before = project.picture().await;
    let set = mcp.call("preview_merge_set", json!({ "task_ids": ids })).await.unwrap();
    assert_eq!(project.picture().await, before);
    assert_eq!(set["order_ok"], json!([first, third]));
    let left_out = &set["left_out"][0];
    assert_eq!(set["left_out"].as_array().map(Vec::len), Some(1), "{set}");
    assert_eq!((&left_out["task_id"], &left_out["files"]), (&json!(second), &json!(["a.txt"])), "{set}");
    assert_eq!((&left_out["conflicts_with"], &left_out["file_count"]), (&json!([first]), &json!(1)), "{set}");
    assert_eq!(set["overlap"], json!([{ "path": "a.txt", "task_ids": [first, second] }]));
    assert!(set["tasks"][3]["error"]["message"].is_string(), "{set}");
    let twice = mcp.call("preview_merge_set", json!({ "task_ids": [first, first] })).await.unwrap_err();
    assert_eq!(twice["code"], "INVALID_ARGUMENT");
    project.git(&["checkout", "-q", "b.txt"]).await;
    for task in [&first, &third] {
        assert_eq!(project.approve(task).await["merged"], true);
    }
    project.refused(&second, "CONFLICT").await;
    let alone = mcp.call("preview_merge_set", json!({ "task_ids": [second, stale] })).await.unwrap();
    let with = |n: usize| alone["left_out"][n]["conflicts_with"].clone();
    assert_eq!((alone["order_ok"].clone(), with(0), with(1)), (json!([]), json!(["target"]), json!(["target"])), "{alone}");
}
