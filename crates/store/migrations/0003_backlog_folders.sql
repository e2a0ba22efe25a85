-- What was last agreed on is kept for each folder of files: a second copy that is behind isn't a change.
-- Rows of before have no folder; the first that is seen takes them over.

CREATE TABLE backlog_file_by_folder (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    task_id TEXT REFERENCES task (id) ON DELETE SET NULL,
    folder TEXT NOT NULL,
    kind TEXT NOT NULL,
    slug TEXT NOT NULL,
    path TEXT NOT NULL,
    text TEXT NOT NULL,
    agreed TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT backlog_file_place UNIQUE (workspace_id, kind, slug, folder)
);
INSERT INTO backlog_file_by_folder (id, workspace_id, task_id, folder, kind, slug, path, text, agreed, updated_at)
    SELECT id, workspace_id, task_id, '', kind, slug, path, text, agreed, updated_at FROM backlog_file;
DROP TABLE backlog_file;
ALTER TABLE backlog_file_by_folder RENAME TO backlog_file;
CREATE INDEX backlog_file_by_task ON backlog_file (task_id);
