//! The database by itself: it is whole, the log has no holes and tells the state, everything has its audit entry.

use crate::base::Base;
use crate::stage::Stage;
use serde_json::Value;
use std::collections::BTreeMap;

/// What is wrong.
pub async fn check(stage: &Stage) -> Vec<String> {
    let mut base = match Base::open(&stage.data()).await {
        Ok(base) => base,
        Err(error) => return vec![format!("the database can't be opened: {error}")],
    };
    let mut wrong = Vec::new();
    let integrity = base.column("PRAGMA integrity_check").await;
    if integrity != ["ok"] {
        wrong.push(format!("integrity_check: {integrity:?}"));
    }
    let foreign = base.number("SELECT count(*) FROM pragma_foreign_key_check").await;
    if foreign != 0 {
        wrong.push(format!("{foreign} rows point to nothing"));
    }
    wrong.extend(rules(&mut base).await);
    wrong.extend(log(&mut base).await);
    wrong.extend(replay(&mut base).await);
    wrong
}

/// Rows that no rule allows, each with the query that finds them.
async fn rules(base: &mut Base) -> Vec<String> {
    let mut wrong = Vec::new();
    for (what, sql) in [
        ("an ended run without an outcome", "SELECT id FROM run WHERE state = 'ended' AND outcome IS NULL"),
        ("an ended run with a living token", "SELECT id FROM run WHERE state = 'ended' AND token_hash IS NOT NULL"),
        ("an ended run without a cause", "SELECT id FROM run WHERE outcome IN ('failed', 'interrupted') AND coalesce(cause, '') = ''"),
        ("a failed task without a failure", "SELECT short_id FROM task WHERE status = 'failed' AND coalesce(failure, '') = ''"),
        (
            "an open question of an ended run",
            "SELECT q.id FROM question q JOIN run r ON r.id = q.run_id WHERE q.state = 'open' AND r.state = 'ended'",
        ),
        (
            "a session that is running without a run",
            "SELECT id FROM session WHERE state IN ('starting', 'running') AND NOT EXISTS (SELECT 1 FROM run WHERE run.session_id = session.id AND run.state <> 'ended')",
        ),
        (
            "a task without exactly one audit entry task.created",
            "SELECT short_id FROM task WHERE (SELECT count(*) FROM audit WHERE action = 'task.created' AND target_id = task.id) <> 1",
        ),
        (
            "a landed merge without exactly one audit entry",
            "SELECT id FROM merge_record m WHERE state IN ('landed', 'reverted') AND (SELECT count(*) FROM audit WHERE action = CASE m.kind WHEN 'merge' THEN 'task.merged' ELSE 'task.merge_reverted' END AND json_extract(metadata, '$.merge_id') = m.id) <> 1",
        ),
        (
            "an audit entry of a merge that hasn't landed",
            "SELECT json_extract(metadata, '$.merge_id') FROM audit WHERE action IN ('task.merged', 'task.merge_reverted') AND json_extract(metadata, '$.merge_id') NOT IN (SELECT id FROM merge_record WHERE state IN ('landed', 'reverted'))",
        ),
        ("a landed merge without a commit", "SELECT id FROM merge_record WHERE state IN ('landed', 'reverted') AND target_after IS NULL"),
        (
            "a reverted merge without its revert",
            "SELECT id FROM merge_record m WHERE state = 'reverted' AND NOT EXISTS (SELECT 1 FROM merge_record r WHERE r.reverts = m.id AND r.state IN ('landed', 'reverted'))",
        ),
        ("a merged worktree without a kept tip", "SELECT id FROM worktree WHERE state = 'merged' AND (kept_ref IS NULL OR tip IS NULL)"),
        (
            "a run without its event run_opened",
            "SELECT id FROM run WHERE (SELECT count(*) FROM event WHERE kind = 'run_opened' AND run_id = run.id) <> 1",
        ),
        (
            "a run without its event run_ended",
            "SELECT id FROM run WHERE (SELECT count(*) FROM event WHERE kind = 'run_ended' AND run_id = run.id) <> 1",
        ),
        (
            "transcript with holes",
            "SELECT session_id FROM transcript_item GROUP BY session_id HAVING count(*) <> max(seq) - min(seq) + 1 OR min(seq) <> 1",
        ),
    ] {
        wrong.extend(base.column(sql).await.into_iter().map(|row| format!("{what}: {row}")));
    }
    wrong
}

/// The event log of each workspace: 1, 2, 3 … up to its counter.
async fn log(base: &mut Base) -> Vec<String> {
    let holes = "SELECT c.workspace_id || ': counter ' || c.value || ', ' || count(e.seq) || ' events, last ' || coalesce(max(e.seq), 0) \
                 FROM counter c LEFT JOIN event e ON e.workspace_id = c.workspace_id WHERE c.kind = 'event' GROUP BY c.workspace_id \
                 HAVING count(e.seq) <> c.value OR coalesce(max(e.seq), 0) <> c.value OR coalesce(min(e.seq), 1) <> 1";
    base.column(holes).await.into_iter().map(|row| format!("the event log has holes: {row}")).collect()
}

/// What the events tell, one after another, has to be what the rows say.
async fn replay(base: &mut Base) -> Vec<String> {
    let mut told: BTreeMap<(&str, String), String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in base.texts("SELECT kind, task_id, run_id, data FROM event ORDER BY workspace_id, seq").await {
        let data: Value = serde_json::from_str(&row[3]).unwrap_or_default();
        let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
        match row[0].as_str() {
            "task_created" => drop(told.insert(("task", row[1].clone()), text("status"))),
            "task_status_changed" => {
                let before = told.insert(("task", row[1].clone()), text("status"));
                if before.as_deref() != Some(&text("previous_status")) {
                    wrong.push(format!("task {} went from {before:?}, its event says from {}", row[1], text("previous_status")));
                }
            }
            "run_ended" => drop(told.insert(("run", row[2].clone()), text("outcome"))),
            "merge_changed" => drop(told.insert(("merge", text("merge_id")), text("state"))),
            "worktree_changed" => drop(told.insert(("worktree", text("worktree_id")), text("state"))),
            _ => {}
        }
    }
    for (kind, sql) in [
        ("task", "SELECT id, status FROM task"),
        ("run", "SELECT id, outcome FROM run"),
        ("merge", "SELECT id, state FROM merge_record"),
        ("worktree", "SELECT id, state FROM worktree"),
    ] {
        for row in base.texts(sql).await {
            let by_events = told.get(&(kind, row[0].clone()));
            if by_events != Some(&row[1]) {
                wrong.push(format!("{kind} {} is {}, by its events {by_events:?}", row[0], row[1]));
            }
        }
    }
    wrong
}
