-- Times are milliseconds since the Unix epoch.

-- One row: this desktop, as it names itself to a hub.
CREATE TABLE device (
    only_row  INTEGER PRIMARY KEY CHECK (only_row = 1),
    id        TEXT NOT NULL
) STRICT;

-- Script texts by their hash, so that history names the very script and keeps each text once.
CREATE TABLE scripts (
    sha256  TEXT PRIMARY KEY,
    source  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE graph_sessions (
    id             TEXT PRIMARY KEY,
    slug           TEXT NOT NULL UNIQUE,
    latest         INTEGER NOT NULL,       -- version that a run takes
    created_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A saved Graph: one immutable row per version.
CREATE TABLE graphs (
    session_id   TEXT NOT NULL REFERENCES graph_sessions (id),
    version      INTEGER NOT NULL,
    file         TEXT NOT NULL,            -- shown in error positions
    sha256       TEXT NOT NULL REFERENCES scripts (sha256),
    meta         TEXT NOT NULL,            -- JSON
    saved_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (session_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE projects (
    hub   TEXT NOT NULL,
    id    TEXT NOT NULL,
    name  TEXT NOT NULL,
    is_on INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hub, id)
) STRICT, WITHOUT ROWID;

-- What the owner ticked: without a row here nothing is shared.
CREATE TABLE shares (
    hub           TEXT NOT NULL,
    project_id    TEXT NOT NULL,
    session_id    TEXT NOT NULL REFERENCES graph_sessions (id),
    shared_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (hub, project_id, session_id),
    FOREIGN KEY (hub, project_id) REFERENCES projects (hub, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE commands (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,   -- the order in which they run
    id              TEXT NOT NULL UNIQUE,
    hub             TEXT NOT NULL,
    project_id      TEXT NOT NULL,
    session_id      TEXT,                                -- none where the command could not be read
    slug            TEXT NOT NULL,
    arguments       TEXT NOT NULL,                       -- JSON
    problem         TEXT,                                -- why it cannot run, where that is known on arrival
    state           TEXT NOT NULL,
    execution_id    TEXT,
    queued_at_ms    INTEGER,
    received_at_ms  INTEGER NOT NULL,
    settled_at_ms   INTEGER
) STRICT;
CREATE INDEX commands_by_state ON commands (state, seq);

-- Commands without a usable id: nothing can be bound or reported, but the owner can see them.
CREATE TABLE refused_commands (
    hub      TEXT NOT NULL,
    reason   TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    times    INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (hub, reason)
) STRICT, WITHOUT ROWID;

-- Every execution that was asked for from outside is tied to the project that asked.
CREATE TABLE bindings (
    channel      TEXT PRIMARY KEY,
    hub          TEXT NOT NULL,
    project_id   TEXT NOT NULL,
    bound_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE executions (
    id              TEXT PRIMARY KEY,
    channel         TEXT REFERENCES bindings (channel),  -- none where the owner started it
    graph           TEXT NOT NULL,
    session_id      TEXT REFERENCES graph_sessions (id), -- none for a file that was not saved
    version         INTEGER,
    sha256          TEXT NOT NULL REFERENCES scripts (sha256),
    file            TEXT NOT NULL,
    arguments       TEXT NOT NULL,                       -- JSON
    status          TEXT NOT NULL,
    result          TEXT,                                -- JSON, whole
    error           TEXT,                                -- JSON
    input_tokens    INTEGER NOT NULL DEFAULT 0,
    output_tokens   INTEGER NOT NULL DEFAULT 0,
    estimated       INTEGER NOT NULL DEFAULT 0,          -- 1 where a backend did not report its tokens
    cost            REAL,
    agents          INTEGER NOT NULL DEFAULT 0,
    agent_failures  INTEGER NOT NULL DEFAULT 0,
    started_at_ms   INTEGER NOT NULL,
    finished_at_ms  INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX executions_by_time ON executions (started_at_ms);
CREATE INDEX executions_by_status ON executions (status);

CREATE TABLE events (
    execution_id  TEXT NOT NULL REFERENCES executions (id),
    seq           INTEGER NOT NULL,
    at_ms         INTEGER NOT NULL,
    event         TEXT NOT NULL,                         -- JSON
    PRIMARY KEY (execution_id, seq)
) STRICT, WITHOUT ROWID;
