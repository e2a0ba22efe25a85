-- An entry about something of a task (a run, worktree, merge, question, snapshot) says which, so that what became of a
-- task can be asked for when its rows are gone. Null for entries about the task itself.

ALTER TABLE audit ADD COLUMN task_id TEXT;
UPDATE audit SET task_id = (SELECT r.task_id FROM run r WHERE r.id = audit.target_id) WHERE target_type IN ('run', 'agent_run');
UPDATE audit SET task_id = (SELECT w.task_id FROM worktree w WHERE w.id = audit.target_id) WHERE target_type = 'worktree';
UPDATE audit SET task_id = (SELECT m.task_id FROM merge_record m WHERE m.id = audit.target_id) WHERE target_type = 'merge';
UPDATE audit SET task_id = (SELECT q.task_id FROM question q WHERE q.id = audit.target_id) WHERE target_type = 'question';
UPDATE audit SET task_id = (SELECT s.task_id FROM snapshot s WHERE s.id = audit.target_id) WHERE target_type = 'snapshot';
CREATE INDEX audit_by_task ON audit (workspace_id, task_id, id) WHERE task_id IS NOT NULL;
-- A deleted task is still known by its short id.
CREATE INDEX audit_of_deletions ON audit (workspace_id, id) WHERE action = 'task.deleted';
