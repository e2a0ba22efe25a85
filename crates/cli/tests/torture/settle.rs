//! Rest: after the faults are over, everything that is under way comes to an end by itself, in bounded time.

use crate::base::Base;
use crate::dice::Dice;
use crate::stage::Stage;
use crate::wire::Face;
use serde_json::json;
use std::time::{Duration, Instant};

/// Longest that the server may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(75);

/// Waits until nothing is under way: no open run, no queued task, no effect, no unfinished merge. Questions are
/// answered meanwhile. What is still under way in the end is a violation.
pub async fn settle(stage: &Stage, dice: &mut Dice) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let left = under_way(stage).await;
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("not at rest after {} s: {}", PATIENCE.as_secs(), left.join("; ")));
        }
        answer_all(stage, dice).await;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

async fn answer_all(stage: &Stage, dice: &mut Dice) {
    let open = stage.wire.call(&Face::Call, "list_pending_questions", &json!({}), None).await;
    for question in open.done().and_then(|open| open["questions"].as_array()).into_iter().flatten() {
        let answer = json!({ "question_bundle_id": question["question_bundle_id"], "rejected": dice.chance(30) });
        drop(stage.wire.call(&Face::Call, "answer_question", &answer, None).await);
    }
}

/// What is under way, in words.
async fn under_way(stage: &Stage) -> Vec<String> {
    let mut base = match Base::open(&stage.data()).await {
        Ok(base) => base,
        Err(error) => return vec![format!("the database can't be read: {error}")],
    };
    let mut left = Vec::new();
    for (what, sql) in [
        (
            "open run",
            "SELECT r.id || ' of ' || t.short_id || ' ' || r.state FROM run r JOIN task t ON t.id = r.task_id WHERE r.state <> 'ended'",
        ),
        (
            "queued or working task",
            "SELECT short_id || ' ' || status FROM task WHERE status IN ('queued', 'in_progress', 'waiting_for_input')",
        ),
        ("effect", "SELECT kind || ' ' || payload || ' after ' || attempts || ' attempts: ' || coalesce(last_error, '') FROM outbox"),
        ("unfinished merge", "SELECT id || ' ' || state FROM merge_record WHERE state IN ('prepared', 'computed')"),
        ("half-made worktree", "SELECT path FROM worktree WHERE state = 'active' AND is_ready = 0"),
    ] {
        left.extend(base.column(sql).await.into_iter().map(|row| format!("{what}: {row}")));
    }
    left
}
