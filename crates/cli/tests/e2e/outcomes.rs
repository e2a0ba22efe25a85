//! How runs end, judged by facts.

use crate::support::Yard;
use serde_json::json;

#[tokio::test]
async fn a_committed_change_waits_for_review_and_merges() {
    let yard = Yard::new().await;
    let task = yard.queue("Add a file", json!([{ "write": { "path": "a.txt", "content": "a\n" } }, { "commit": "Add a" }])).await;
    yard.reviewable(&task).await;
    assert_eq!(yard.outcomes(&task).await, ["succeeded"]);
    yard.server.call("review_task", json!({ "task_id": task, "decision": "approve" })).await;
    assert_eq!(yard.status(&task).await, "done");
    assert_eq!(yard.repo.git(&["show", "main:a.txt"]).await.unwrap(), "a");
    yard.nothing_lives(&task).await;
}
