//! What the owner shares: projects that are on, and the sessions ticked for them. Nothing is, by default.

use protocol::{GraphSessionId, MAX_SESSIONS_PER_SYNC, Project, ProjectId, SessionMetadata};
use rusqlite::{Connection, Transaction};

use super::graphs::{self, Summary};
use super::{StoreError, optional, rows, stored};
use crate::consent::{self, Situation};

/// A project, as the owner set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectState {
    /// The project.
    pub project: Project,
    /// Whether the owner switched it on.
    pub is_on: bool,
    /// How many sessions are ticked for it.
    pub shared: u32,
}

/// Keeps what the hub calls its projects. Names only: what is on stays as it was.
///
/// # Errors
/// [`StoreError`].
pub fn remember_projects(tx: &Transaction<'_>, hub: &str, projects: &[Project]) -> Result<(), StoreError> {
    for project in projects {
        tx.execute(
            "INSERT INTO projects (hub, id, name) VALUES ($1, $2, $3)
             ON CONFLICT (hub, id) DO UPDATE SET name = excluded.name",
            [hub, project.id.as_str(), &project.name],
        )?;
    }
    Ok(())
}

/// Switches a known project. False where it is unknown.
///
/// # Errors
/// [`StoreError`].
pub fn switch(tx: &Transaction<'_>, hub: &str, project: &ProjectId, on: bool) -> Result<bool, StoreError> {
    let changed =
        tx.execute("UPDATE projects SET is_on = $1 WHERE hub = $2 AND id = $3", (on, hub, project.as_str()))?;
    Ok(changed == 1)
}

/// Every known project of that hub, by name.
///
/// # Errors
/// [`StoreError`].
pub fn projects(connection: &Connection, hub: &str) -> Result<Vec<ProjectState>, StoreError> {
    let sql = "SELECT p.id, p.name, p.is_on,
            (SELECT count(*) FROM shares s WHERE s.hub = p.hub AND s.project_id = p.id)
        FROM projects p WHERE p.hub = $1 ORDER BY p.name, p.id";
    rows(connection, sql, [hub], |row| {
        Ok(ProjectState {
            project: Project { id: stored(&row.get::<_, String>(0)?)?, name: row.get(1)? },
            is_on: row.get(2)?,
            shared: row.get(3)?,
        })
    })
}

/// Ticks a session for a project. False where it was ticked already.
///
/// # Errors
/// [`StoreError`].
pub fn share(
    tx: &Transaction<'_>,
    hub: &str,
    project: &ProjectId,
    session: &GraphSessionId,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let added = tx.execute(
        "INSERT OR IGNORE INTO shares (hub, project_id, session_id, shared_at_ms) VALUES ($1, $2, $3, $4)",
        (hub, project.as_str(), session.as_str(), now_ms),
    )?;
    Ok(added == 1)
}

/// Takes the tick away. False where there was none.
///
/// # Errors
/// [`StoreError`].
pub fn unshare(
    tx: &Transaction<'_>,
    hub: &str,
    project: &ProjectId,
    session: &GraphSessionId,
) -> Result<bool, StoreError> {
    let removed = tx.execute(
        "DELETE FROM shares WHERE hub = $1 AND project_id = $2 AND session_id = $3",
        [hub, project.as_str(), session.as_str()],
    )?;
    Ok(removed == 1)
}

/// The projects for which a session is ticked.
///
/// # Errors
/// [`StoreError`].
pub fn shared_with(connection: &Connection, hub: &str, session: &GraphSessionId) -> Result<Vec<Project>, StoreError> {
    let sql = "SELECT p.id, p.name FROM shares s JOIN projects p ON p.hub = s.hub AND p.id = s.project_id
        WHERE s.hub = $1 AND s.session_id = $2 ORDER BY p.name";
    rows(connection, sql, [hub, session.as_str()], |row| {
        Ok(Project { id: stored(&row.get::<_, String>(0)?)?, name: row.get(1)? })
    })
}

/// What a sync may tell of one project: the first [`MAX_SESSIONS_PER_SYNC`] ticked sessions, the earliest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectShares {
    /// The project, which is on.
    pub project: ProjectId,
    /// Its ticked sessions.
    pub sessions: Vec<SessionMetadata>,
    /// Ticked sessions beyond the limit, which the hub is not told of.
    pub left_out: usize,
}

/// Every project that is on, with its ticked sessions.
///
/// # Errors
/// [`StoreError`].
pub fn to_sync(connection: &Connection, hub: &str) -> Result<Vec<ProjectShares>, StoreError> {
    projects_on(connection, hub)?.into_iter().map(|project| shares_of(connection, hub, project)).collect()
}

/// Every project that is on.
///
/// # Errors
/// [`StoreError`].
pub fn projects_on(connection: &Connection, hub: &str) -> Result<Vec<ProjectId>, StoreError> {
    rows(connection, "SELECT id FROM projects WHERE hub = $1 AND is_on ORDER BY id", [hub], |row| {
        stored::<ProjectId>(&row.get::<_, String>(0)?)
    })
}

fn shares_of(connection: &Connection, hub: &str, project: ProjectId) -> Result<ProjectShares, StoreError> {
    let sql = "SELECT count(*) FROM shares WHERE hub = $1 AND project_id = $2";
    let ticked: u32 = connection.prepare_cached(sql)?.query_row([hub, project.as_str()], |row| row.get(0))?;
    let left_out = (ticked as usize).saturating_sub(MAX_SESSIONS_PER_SYNC);
    let told = graphs::shared(connection, hub, &project, MAX_SESSIONS_PER_SYNC)?;
    Ok(ProjectShares { project, sessions: told.into_iter().map(metadata).collect(), left_out })
}

fn metadata(graph: Summary) -> SessionMetadata {
    let metadata = SessionMetadata {
        name: graphs::name(&graph.meta, &graph.slug).to_owned(),
        description: graphs::description(&graph.meta).to_owned(),
        id: graph.session_id,
        slug: graph.slug,
        version: graph.version,
        status: "ready".to_owned(),
    };
    // A hub refuses a body that is too large, and with it everything that is shared.
    metadata.capped()
}

/// Whether a command for this session, asked for under `slug_asked`, has the owner's consent right now.
///
/// # Errors
/// [`StoreError`].
pub fn consent(
    connection: &Connection,
    hub: &str,
    project: &ProjectId,
    session: &GraphSessionId,
    slug_asked: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT
        EXISTS (SELECT 1 FROM projects WHERE hub = $1 AND id = $2 AND is_on),
        EXISTS (SELECT 1 FROM shares WHERE hub = $1 AND project_id = $2 AND session_id = $3),
        (SELECT slug FROM graph_sessions WHERE id = $3)";
    let found = optional(connection, sql, [hub, project.as_str(), session.as_str()], |row| {
        Ok((row.get::<_, bool>(0)?, row.get::<_, bool>(1)?, row.get::<_, Option<String>>(2)?))
    })?;
    let (project_on, shared, slug_now) = found.unwrap_or_default();
    Ok(consent::given(&Situation { project_on, shared, slug_now: slug_now.as_deref(), slug_asked }))
}
