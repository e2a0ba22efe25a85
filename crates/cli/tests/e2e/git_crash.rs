//! Kills in the middle of a storm of merges: each task is merged and done, or untouched and waiting.

use crate::project::{Project, committed};
use crate::support::{Yard, eventually};
use futures::future::join_all;
use serde_json::json;

const TASKS: usize = 8;

#[tokio::test]
async fn merges_cut_off_by_kill_are_whole_or_have_not_happened() {
    let mut yard = Yard::new().await;
    yard.server.set("configured_slots", 4).await;
    let path = yard.repo.path();
    let tasks = {
        let project = Project::own(&yard).await;
        let queued = (0..TASKS).map(|n| {
            let project = &project;
            async move { project.queue(&format!("Task {n}"), committed(&format!("f{n}.txt"), "x\n")).await }
        });
        let tasks = join_all(queued).await;
        for task in &tasks {
            yard.reviewable(task).await;
        }
        tasks
    };
    let start = yard.repo.git(&["rev-parse", "main"]).await.unwrap();
    // A kill when the first has landed, when the third has, and as soon as the approvals are on their way.
    for landed in [1, 3, 3] {
        storm(&mut yard, &tasks, landed, &start).await;
        consistent(&yard, &tasks, &start).await;
    }
    let left: Vec<&String> = waiting(&yard, &tasks).await;
    for answer in join_all(left.iter().map(|task| yard.server.call("review_task", json!({ "task_id": task, "decision": "approve" })))).await
    {
        assert_eq!(answer["merged"], true, "{answer}");
    }
    assert_eq!(consistent(&yard, &tasks, &start).await, TASKS);
    for n in 0..TASKS {
        assert_eq!(std::fs::read_to_string(path.join(format!("f{n}.txt"))).unwrap(), "x\n");
    }
    eventually("all folders and branches to be tidied away", async || {
        let trees = yard.repo.git(&["worktree", "list", "--porcelain"]).await.unwrap().matches("worktree ").count();
        let branches = yard.repo.git(&["for-each-ref", "refs/heads/taskyard"]).await.unwrap();
        (trees == 1 && branches.is_empty()).then_some(())
    })
    .await;
}

/// Approves all that wait and kills the server once `landed` merges are in the target.
async fn storm(yard: &mut Yard, tasks: &[String], landed: usize, start: &str) {
    let left: Vec<String> = waiting(yard, tasks).await.into_iter().cloned().collect();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/api/internal/call/review_task", yard.server.url());
    let approvals: Vec<_> = left
        .iter()
        .map(|task| {
            let request = client.post(&url).json(&json!({ "task_id": task, "decision": "approve" }));
            // The kill takes the answers of those that are on their way.
            tokio::spawn(async move { drop(request.send().await) })
        })
        .collect();
    eventually("merges to land", async || (merges(yard, start).await >= landed.min(TASKS - 1)).then_some(())).await;
    yard.server.kill9().await;
    for approval in approvals {
        approval.await.unwrap();
    }
    yard.server.launch().await;
}

async fn waiting<'t>(yard: &Yard, tasks: &'t [String]) -> Vec<&'t String> {
    let mut left = Vec::new();
    for task in tasks {
        if yard.status(task).await == "waiting_for_review" {
            left.push(task);
        }
    }
    left
}

async fn merges(yard: &Yard, start: &str) -> usize {
    let count = yard.repo.git(&["rev-list", "--count", "--merges", &format!("{start}..main")]).await.unwrap();
    count.parse().unwrap()
}

/// Holds tasks, target, tree and refs against each other; how many tasks are merged.
async fn consistent(yard: &Yard, tasks: &[String], start: &str) -> usize {
    let mut done = 0;
    for (n, task) in tasks.iter().enumerate() {
        let shown = yard.get(task).await;
        let file = yard.repo.git(&["ls-tree", "--name-only", "main", &format!("f{n}.txt")]).await.unwrap();
        match shown["status"].as_str().unwrap() {
            "done" => {
                assert!(!file.is_empty() && shown["worktree"]["state"] == "merged", "{shown}");
                done += 1;
            }
            "waiting_for_review" => assert!(file.is_empty() && shown["worktree"]["state"] == "active", "{shown}"),
            _ => panic!("{shown}"),
        }
    }
    // One merge commit each, one after another on the first-parent line, and the user's tree shows them all.
    assert_eq!(merges(yard, start).await, done);
    let line = yard.repo.git(&["rev-list", "--first-parent", "--count", &format!("{start}..main")]).await.unwrap();
    assert_eq!(line, done.to_string());
    assert_eq!(yard.repo.git(&["status", "--porcelain"]).await.unwrap(), "");
    yard.repo.git(&["fsck", "--no-dangling", "--no-progress"]).await.unwrap();
    let private = async || {
        let refs = yard.repo.git(&["for-each-ref", "--format=%(refname)", "refs/taskyard"]).await.unwrap();
        let other: Vec<String> = refs.lines().filter(|name| !name.starts_with("refs/taskyard/tasks/")).map(str::to_owned).collect();
        let trees = yard.repo.git(&["worktree", "list", "--porcelain"]).await.unwrap();
        (other, trees.lines().filter(|line| line.contains("scratch")).map(str::to_owned).collect::<Vec<_>>())
    };
    eventually("nothing of the merges to be left", async || (private().await == (Vec::new(), Vec::new())).then_some(())).await;
    done
}
