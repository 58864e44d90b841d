//! Saved Graphs. A version is immutable; the session that it belongs to keeps its id for ever.

use fleet::Meta;
use protocol::{GraphSessionId, ProjectId};
use rusqlite::{Connection, Row, Transaction};
use sha2::{Digest, Sha256};

use super::{StoreError, optional, rows, stored, stored_json, to_json};

/// A Graph to save.
#[derive(Debug, Clone)]
pub struct NewGraph {
    /// The file that it came from, shown in error positions.
    pub file: String,
    /// The script.
    pub source: String,
    /// What the script says of itself.
    pub meta: Meta,
}

/// One version of a saved Graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// The session that it belongs to.
    pub session_id: GraphSessionId,
    /// The name by which it is called.
    pub slug: String,
    /// Counts from 1.
    pub version: u32,
    /// The file that it came from.
    pub file: String,
    /// The script's SHA-256, in hex.
    pub sha256: String,
    /// The script.
    pub source: String,
    /// What the script says of itself.
    pub meta: Meta,
    /// When this version was saved.
    pub saved_at_ms: i64,
}

impl Graph {
    /// What people call it.
    pub fn name(&self) -> &str {
        name(&self.meta, &self.slug)
    }

    /// What it does, in its author's words.
    pub fn description(&self) -> &str {
        description(&self.meta)
    }
}

/// Saves a first version under a new session id. None where the slug is taken.
///
/// # Errors
/// [`StoreError`].
pub fn add(tx: &Transaction<'_>, slug: &str, graph: &NewGraph, now_ms: i64) -> Result<Option<Graph>, StoreError> {
    if latest(tx, slug)?.is_some() {
        return Ok(None);
    }
    let id = GraphSessionId::generate();
    tx.execute(
        "INSERT INTO graph_sessions (id, slug, latest, created_at_ms) VALUES ($1, $2, 1, $3)",
        (id.as_str(), slug, now_ms),
    )?;
    insert_version(tx, &id, 1, graph, now_ms)?;
    latest(tx, slug)
}

/// Saves the next version. None where there is no such Graph; the same script again adds no version.
///
/// # Errors
/// [`StoreError`].
pub fn update(tx: &Transaction<'_>, slug: &str, graph: &NewGraph, now_ms: i64) -> Result<Option<Graph>, StoreError> {
    let Some(current) = latest(tx, slug)? else { return Ok(None) };
    if current.source == graph.source && current.file == graph.file {
        return Ok(Some(current));
    }
    let version = current.version + 1;
    insert_version(tx, &current.session_id, version, graph, now_ms)?;
    tx.execute("UPDATE graph_sessions SET latest = $1 WHERE id = $2", (version, current.session_id.as_str()))?;
    latest(tx, slug)
}

/// Gives a Graph another slug. Commands that were asked for under the old one no longer have consent.
/// False where there is no such Graph, or the new slug is taken.
///
/// # Errors
/// [`StoreError`].
pub fn rename(tx: &Transaction<'_>, slug: &str, new_slug: &str) -> Result<bool, StoreError> {
    if latest(tx, new_slug)?.is_some() {
        return Ok(false);
    }
    Ok(tx.execute("UPDATE graph_sessions SET slug = $1 WHERE slug = $2", [new_slug, slug])? == 1)
}

fn insert_version(
    tx: &Transaction<'_>,
    id: &GraphSessionId,
    version: u32,
    graph: &NewGraph,
    now_ms: i64,
) -> Result<(), StoreError> {
    let sha256 = keep_script(tx, &graph.source)?;
    tx.execute(
        "INSERT INTO graphs (session_id, version, file, sha256, meta, saved_at_ms) VALUES ($1, $2, $3, $4, $5, $6)",
        (id.as_str(), version, &graph.file, sha256, to_json(&graph.meta)?, now_ms),
    )?;
    Ok(())
}

/// Keeps a script's text and gives back the hash under which it stands.
pub(super) fn keep_script(tx: &Transaction<'_>, source: &str) -> Result<String, StoreError> {
    let sha256 = hex::encode(Sha256::digest(source.as_bytes()));
    tx.execute("INSERT OR IGNORE INTO scripts (sha256, source) VALUES ($1, $2)", [sha256.as_str(), source])?;
    Ok(sha256)
}

/// What may be told of a saved Graph: everything but its script, which is far larger.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The session.
    pub session_id: GraphSessionId,
    /// The name by which it is called.
    pub slug: String,
    /// The version that a run takes.
    pub version: u32,
    /// What the script says of itself.
    pub meta: Meta,
}

/// The Graphs ticked for a project, the earliest ticked first.
///
/// # Errors
/// [`StoreError`].
pub fn shared(
    connection: &Connection,
    hub: &str,
    project: &ProjectId,
    limit: usize,
) -> Result<Vec<Summary>, StoreError> {
    let sql = "SELECT s.id, s.slug, g.version, g.meta FROM shares x
        JOIN graph_sessions s ON s.id = x.session_id
        JOIN graphs g ON g.session_id = s.id AND g.version = s.latest
        WHERE x.hub = $1 AND x.project_id = $2 ORDER BY x.shared_at_ms, x.session_id LIMIT $3";
    rows(connection, sql, (hub, project.as_str(), limit as i64), |row| {
        Ok(Summary {
            session_id: stored(&row.get::<_, String>(0)?)?,
            slug: row.get(1)?,
            version: row.get(2)?,
            meta: stored_json(&row.get::<_, String>(3)?)?,
        })
    })
}

/// How many Graphs are saved.
///
/// # Errors
/// [`StoreError`].
pub fn count(connection: &Connection) -> Result<usize, StoreError> {
    let sql = "SELECT count(*) FROM graph_sessions";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, u32>(0))? as usize)
}

/// What people call a Graph.
pub fn name<'a>(meta: &'a Meta, slug: &'a str) -> &'a str {
    meta.name.as_deref().unwrap_or(slug)
}

/// What a Graph does, in its author's words.
pub fn description(meta: &Meta) -> &str {
    meta.description.as_deref().unwrap_or_default()
}

const SELECT: &str = "SELECT s.id, s.slug, g.version, g.file, g.sha256, t.source, g.meta, g.saved_at_ms
    FROM graph_sessions s JOIN graphs g ON g.session_id = s.id JOIN scripts t ON t.sha256 = g.sha256";

fn read(row: &Row<'_>) -> Result<Graph, StoreError> {
    Ok(Graph {
        session_id: stored(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?,
        slug: row.get(1)?,
        version: row.get(2)?,
        file: row.get(3)?,
        sha256: row.get(4)?,
        source: row.get(5)?,
        meta: stored_json(&row.get::<_, String>(6)?)?,
        saved_at_ms: row.get(7)?,
    })
}

/// The version that a run takes.
///
/// # Errors
/// [`StoreError`].
pub fn latest(connection: &Connection, slug: &str) -> Result<Option<Graph>, StoreError> {
    optional(connection, &format!("{SELECT} WHERE s.slug = $1 AND g.version = s.latest"), [slug], read)
}

/// The same, by the session's id.
///
/// # Errors
/// [`StoreError`].
pub fn latest_of_session(connection: &Connection, id: &GraphSessionId) -> Result<Option<Graph>, StoreError> {
    optional(connection, &format!("{SELECT} WHERE s.id = $1 AND g.version = s.latest"), [id.as_str()], read)
}

/// One version.
///
/// # Errors
/// [`StoreError`].
pub fn version(connection: &Connection, slug: &str, version: u32) -> Result<Option<Graph>, StoreError> {
    optional(connection, &format!("{SELECT} WHERE s.slug = $1 AND g.version = $2"), (slug, version), read)
}

/// The latest version of every Graph, by slug.
///
/// # Errors
/// [`StoreError`].
pub fn list(connection: &Connection) -> Result<Vec<Graph>, StoreError> {
    rows(connection, &format!("{SELECT} WHERE g.version = s.latest ORDER BY s.slug"), [], read)
}
