-- The first schema, one text for SQLite and PostgreSQL.
-- Ids, words and JSON are TEXT; times are microseconds since 1970 UTC; truth values are 0 and 1.
-- Composite foreign keys keep a row from pointing into another workspace.

CREATE TABLE workspace (
    id TEXT PRIMARY KEY,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    task_prefix TEXT NOT NULL,
    prompt TEXT NOT NULL,
    default_profile_id TEXT,
    created_at BIGINT NOT NULL,
    CONSTRAINT workspace_slug UNIQUE (slug),
    CONSTRAINT workspace_task_prefix UNIQUE (task_prefix)
);

-- One row per counter, so that numbering tasks and numbering events don't wait for each other.
CREATE TABLE counter (
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    value BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, kind)
);

CREATE TABLE repository (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    local_path TEXT,
    remote_url TEXT,
    default_branch TEXT,
    branch_prefix TEXT NOT NULL,
    setup_script TEXT,
    cleanup_script TEXT,
    verify_script TEXT,
    copy_files TEXT NOT NULL,
    hook_policy TEXT NOT NULL,
    sign_policy TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT repository_in_workspace UNIQUE (id, workspace_id),
    CONSTRAINT repository_path UNIQUE (workspace_id, local_path)
);

CREATE TABLE list (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    prompt TEXT NOT NULL,
    sort_order DOUBLE PRECISION NOT NULL,
    config TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT list_in_workspace UNIQUE (id, workspace_id)
);
CREATE INDEX list_by_workspace ON list (workspace_id, sort_order, created_at, id);

CREATE TABLE agent (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    driver TEXT NOT NULL,
    command TEXT NOT NULL,
    env TEXT NOT NULL,
    limited_until BIGINT,
    limit_reason TEXT,
    limit_strikes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT agent_in_workspace UNIQUE (id, workspace_id),
    CONSTRAINT agent_name UNIQUE (workspace_id, name)
);

CREATE TABLE profile (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    agent_id TEXT NOT NULL,
    name TEXT NOT NULL,
    model TEXT,
    mode TEXT,
    permission_policy TEXT NOT NULL,
    allowed_tools TEXT NOT NULL,
    env TEXT NOT NULL,
    max_parallel BIGINT,
    auto_commit BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT profile_name UNIQUE (workspace_id, name),
    FOREIGN KEY (agent_id, workspace_id) REFERENCES agent (id, workspace_id)
);
CREATE INDEX profile_by_agent ON profile (agent_id);

CREATE TABLE task (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    list_id TEXT NOT NULL,
    short_id TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    kind TEXT NOT NULL,
    priority TEXT NOT NULL,
    parent_id TEXT REFERENCES task (id) ON DELETE SET NULL,
    status TEXT NOT NULL,
    sort_order DOUBLE PRECISION NOT NULL,
    due_at BIGINT,
    manual BIGINT NOT NULL,
    my_day BIGINT NOT NULL,
    config TEXT NOT NULL,
    not_before BIGINT,
    last_outcome TEXT,
    failure TEXT,
    interruptions BIGINT NOT NULL,
    next_prompt TEXT,
    created_by TEXT NOT NULL,
    archived_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- Title, short id and description in lower case: what a search looks at, the same on every database.
    search TEXT NOT NULL,
    CONSTRAINT task_in_workspace UNIQUE (id, workspace_id),
    CONSTRAINT task_short_id UNIQUE (short_id),
    FOREIGN KEY (list_id, workspace_id) REFERENCES list (id, workspace_id)
);
CREATE INDEX task_by_workspace ON task (workspace_id, sort_order, created_at, id);
CREATE INDEX task_by_list ON task (list_id, sort_order, created_at, id);
CREATE INDEX task_by_parent ON task (parent_id);
CREATE INDEX task_queued ON task (sort_order, created_at, id) WHERE status = 'queued';

CREATE TABLE task_blocker (
    task_id TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    blocker_id TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    PRIMARY KEY (task_id, blocker_id)
);
CREATE INDEX task_blocker_by_blocker ON task_blocker (blocker_id, task_id);

CREATE TABLE worktree (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    repository_id TEXT NOT NULL,
    path TEXT NOT NULL,
    branch TEXT NOT NULL,
    base_branch TEXT,
    base_commit TEXT NOT NULL,
    state TEXT NOT NULL,
    is_ready BIGINT NOT NULL,
    has_folder BIGINT NOT NULL,
    tip TEXT,
    kept_ref TEXT,
    copied_files TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    FOREIGN KEY (task_id, workspace_id) REFERENCES task (id, workspace_id) ON DELETE CASCADE,
    FOREIGN KEY (repository_id, workspace_id) REFERENCES repository (id, workspace_id)
);
CREATE INDEX worktree_by_task ON worktree (task_id, created_at, id);
CREATE INDEX worktree_by_repository ON worktree (repository_id, created_at, id);
CREATE INDEX worktree_by_workspace ON worktree (workspace_id, created_at, id);

CREATE TABLE session (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    agent_id TEXT NOT NULL REFERENCES agent (id),
    profile_id TEXT NOT NULL REFERENCES profile (id),
    worktree_id TEXT REFERENCES worktree (id) ON DELETE SET NULL,
    is_primary BIGINT NOT NULL,
    state TEXT NOT NULL,
    agent_session_id TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    FOREIGN KEY (task_id, workspace_id) REFERENCES task (id, workspace_id) ON DELETE CASCADE
);
CREATE INDEX session_by_task ON session (task_id, created_at, id);
CREATE UNIQUE INDEX session_one_primary ON session (task_id) WHERE is_primary = 1;

CREATE TABLE run (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    session_id TEXT REFERENCES session (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    outcome TEXT,
    cause TEXT,
    actor TEXT,
    agent_id TEXT REFERENCES agent (id),
    profile_id TEXT REFERENCES profile (id),
    model TEXT,
    prompt TEXT NOT NULL,
    slot TEXT,
    wants_slot BIGINT NOT NULL,
    cancel_requested BIGINT NOT NULL,
    waiting_since BIGINT,
    last_activity_at BIGINT NOT NULL,
    stalled BIGINT NOT NULL,
    token_hash TEXT,
    pid BIGINT,
    pid_started BIGINT,
    node TEXT,
    usage TEXT NOT NULL,
    exit_code BIGINT,
    notes TEXT,
    prior_status TEXT NOT NULL,
    start_commit TEXT,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    FOREIGN KEY (task_id, workspace_id) REFERENCES task (id, workspace_id) ON DELETE CASCADE
);
-- However many race, at most one run of a task is open.
CREATE UNIQUE INDEX run_one_open ON run (task_id) WHERE state <> 'ended';
CREATE INDEX run_open ON run (started_at, id) WHERE state <> 'ended';
CREATE INDEX run_by_token ON run (token_hash) WHERE token_hash IS NOT NULL AND state <> 'ended';
CREATE INDEX run_by_task ON run (task_id, started_at, id);
CREATE INDEX run_by_session ON run (session_id, started_at, id);
CREATE INDEX run_by_workspace ON run (workspace_id, started_at, id);

CREATE TABLE merge_record (
    id TEXT PRIMARY KEY,
    unit_id TEXT,
    workspace_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    worktree_id TEXT NOT NULL REFERENCES worktree (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    reverts TEXT REFERENCES merge_record (id) ON DELETE CASCADE,
    state TEXT NOT NULL,
    strategy TEXT NOT NULL,
    target TEXT NOT NULL,
    target_before TEXT NOT NULL,
    target_after TEXT,
    tip TEXT NOT NULL,
    merge_base TEXT,
    message TEXT,
    merge_worktree_path TEXT,
    actor TEXT NOT NULL,
    is_approval BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    landed_at BIGINT,
    FOREIGN KEY (task_id, workspace_id) REFERENCES task (id, workspace_id) ON DELETE CASCADE
);
CREATE INDEX merge_by_task ON merge_record (task_id, created_at, id);
CREATE INDEX merge_by_worktree ON merge_record (worktree_id, landed_at, id);
CREATE INDEX merge_by_reverts ON merge_record (reverts);
CREATE INDEX merge_unfinished ON merge_record (created_at, id) WHERE state IN ('prepared', 'computed', 'open');

-- A snapshot outlives its task and worktree: it is how their work comes back.
CREATE TABLE snapshot (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    repository_id TEXT NOT NULL,
    task_id TEXT REFERENCES task (id) ON DELETE SET NULL,
    worktree_id TEXT REFERENCES worktree (id) ON DELETE SET NULL,
    ref_name TEXT NOT NULL,
    commit_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    restored_to TEXT,
    FOREIGN KEY (repository_id, workspace_id) REFERENCES repository (id, workspace_id)
);
CREATE INDEX snapshot_by_task ON snapshot (task_id, created_at, id);
CREATE INDEX snapshot_by_repository ON snapshot (repository_id, created_at, id);
CREATE INDEX snapshot_by_worktree ON snapshot (worktree_id);

CREATE TABLE question (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    session_id TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    run_id TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    request_id TEXT,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    answer TEXT,
    answered_by TEXT,
    created_at BIGINT NOT NULL,
    closed_at BIGINT,
    FOREIGN KEY (task_id, workspace_id) REFERENCES task (id, workspace_id) ON DELETE CASCADE
);
CREATE INDEX question_by_run ON question (run_id, created_at, id);
CREATE INDEX question_by_task ON question (task_id, created_at, id);
CREATE INDEX question_by_session ON question (session_id);
CREATE INDEX question_open ON question (workspace_id, created_at, id) WHERE state = 'open';

CREATE TABLE message (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    session_id TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    task_id TEXT NOT NULL,
    sender TEXT NOT NULL,
    text TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    delivered_at BIGINT,
    reason TEXT,
    FOREIGN KEY (task_id, workspace_id) REFERENCES task (id, workspace_id) ON DELETE CASCADE
);
CREATE INDEX message_by_session ON message (session_id, created_at, id);
CREATE INDEX message_by_task ON message (task_id);
CREATE INDEX message_queued ON message (session_id, created_at, id) WHERE state = 'queued';

CREATE TABLE transcript_head (
    session_id TEXT PRIMARY KEY REFERENCES session (id) ON DELETE CASCADE,
    head BIGINT NOT NULL
);

CREATE TABLE transcript_item (
    session_id TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    seq BIGINT NOT NULL,
    run_id TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    at BIGINT NOT NULL,
    item TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
);
CREATE INDEX transcript_by_run ON transcript_item (run_id);

-- The log of what happened outlives what it happened to: no foreign keys but the workspace's.
CREATE TABLE event (
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    task_id TEXT,
    run_id TEXT,
    session_id TEXT,
    data TEXT NOT NULL,
    PRIMARY KEY (workspace_id, seq)
);

CREATE TABLE audit (
    id {{AUTO_ID}},
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    actor_label TEXT,
    face TEXT NOT NULL,
    action TEXT NOT NULL,
    target_type TEXT NOT NULL,
    target_id TEXT NOT NULL,
    metadata TEXT NOT NULL
);
CREATE INDEX audit_by_workspace ON audit (workspace_id, id);
CREATE INDEX audit_by_target ON audit (workspace_id, target_id, id);

CREATE TABLE outbox (
    id {{AUTO_ID}},
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    not_before BIGINT NOT NULL,
    last_error TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX outbox_due ON outbox (not_before, id);

CREATE TABLE idempotency (
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    caller TEXT NOT NULL,
    idem_key TEXT NOT NULL,
    tool TEXT NOT NULL,
    args_hash TEXT NOT NULL,
    result TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT idempotency_key PRIMARY KEY (workspace_id, caller, idem_key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- The server's settings: one row.
CREATE TABLE settings (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    body TEXT NOT NULL
);

CREATE TABLE mcp_session (
    id TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX mcp_session_by_age ON mcp_session (updated_at);

CREATE TABLE attachment (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    FOREIGN KEY (task_id, workspace_id) REFERENCES task (id, workspace_id) ON DELETE CASCADE
);
CREATE INDEX attachment_by_task ON attachment (task_id, created_at, id);

CREATE TABLE plan_document (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT plan_document_task UNIQUE (task_id),
    FOREIGN KEY (task_id, workspace_id) REFERENCES task (id, workspace_id) ON DELETE CASCADE
);

CREATE TABLE document (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    name TEXT NOT NULL,
    title TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT document_name UNIQUE (task_id, name),
    FOREIGN KEY (task_id, workspace_id) REFERENCES task (id, workspace_id) ON DELETE CASCADE
);
