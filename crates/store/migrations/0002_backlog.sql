-- Backlogs: named items, steps with prompts, and what was last agreed on with the Markdown file of an item.

ALTER TABLE task ADD COLUMN slug TEXT;
CREATE UNIQUE INDEX task_slug ON task (workspace_id, kind, slug) WHERE slug IS NOT NULL;
-- What may be claimed next, and what the queue looks at.
CREATE INDEX task_claimable ON task (workspace_id, sort_order, created_at, id) WHERE status IN ('ready', 'queued');

CREATE TABLE step (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    list_id TEXT NOT NULL,
    name TEXT NOT NULL,
    stage TEXT NOT NULL,
    prompt TEXT NOT NULL,
    sort_order DOUBLE PRECISION NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT step_name UNIQUE (list_id, name),
    FOREIGN KEY (list_id, workspace_id) REFERENCES list (id, workspace_id) ON DELETE CASCADE
);
CREATE INDEX step_by_list ON step (list_id, sort_order, created_at, id);

-- Outlives its item: a file whose item was deleted doesn't bring it back.
CREATE TABLE backlog_file (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    task_id TEXT REFERENCES task (id) ON DELETE SET NULL,
    kind TEXT NOT NULL,
    slug TEXT NOT NULL,
    path TEXT NOT NULL,
    text TEXT NOT NULL,
    agreed TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT backlog_file_slug UNIQUE (workspace_id, kind, slug)
);
CREATE INDEX backlog_file_by_task ON backlog_file (task_id);
