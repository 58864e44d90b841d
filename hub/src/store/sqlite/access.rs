//! People, machines and permissions.

use std::time::Duration;

use jiff::Timestamp;
use protocol::{Project, ProjectId};
use rusqlite::{Row, Transaction, params};

use super::presence::Presence;
use super::rows::{all, first, optional_time, parsed, time};
use super::{Moment, commands, rows};
use crate::command::Event;
use crate::model::{Connection, DeviceRecord, Grant, UnknownName, parse_words, words};
use crate::store::{Result, StoreError};
use crate::token::TokenHash;

pub(super) fn add_project(tx: &Transaction<'_>, project: &Project, now: Timestamp) -> Result<()> {
    tx.execute(
        "INSERT INTO projects (id, name, created_at) VALUES ($1, $2, $3)",
        params![project.id.as_str(), project.name, now.as_millisecond()],
    )?;
    Ok(())
}

fn project(row: &Row<'_>) -> Result<Project> {
    Ok(Project { id: parsed(row, 0, "project id")?, name: row.get(1)? })
}

pub(super) fn projects(tx: &Transaction<'_>) -> Result<Vec<Project>> {
    let mut statement = tx.prepare_cached("SELECT id, name FROM projects ORDER BY name, id")?;
    all(statement.query([])?, project)
}

pub(super) fn projects_of(tx: &Transaction<'_>, user: &str) -> Result<Vec<Project>> {
    let mut statement = tx.prepare_cached(
        "SELECT p.id, p.name FROM projects p JOIN members m ON m.project_id = p.id
         WHERE m.user_name = $1 ORDER BY p.name, p.id",
    )?;
    all(statement.query([user])?, project)
}

pub(super) fn add_member(tx: &Transaction<'_>, project: &ProjectId, user: &str, now: Timestamp) -> Result<bool> {
    let exists = tx.prepare_cached("SELECT 1 FROM projects WHERE id = $1")?.exists([project.as_str()])?;
    if !exists {
        return Ok(false);
    }
    tx.execute(
        "INSERT INTO users (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        params![user, now.as_millisecond()],
    )?;
    tx.execute(
        "INSERT INTO members (project_id, user_name) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        params![project.as_str(), user],
    )?;
    Ok(true)
}

pub(super) fn add_connection(tx: &Transaction<'_>, new: &Connection, token: &TokenHash) -> Result<()> {
    tx.execute(
        "INSERT INTO connections (id, name, owner, token_hash, scopes, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
        params![new.id, new.name, new.owner, token.as_str(), words(&new.scopes), new.created_at.as_millisecond()],
    )?;
    for grant in &new.grants {
        tx.execute(
            "INSERT INTO grants (connection_id, project_id, actions) VALUES ($1, $2, $3)",
            params![new.id, grant.project.id.as_str(), words(&grant.actions)],
        )?;
    }
    Ok(())
}

const CONNECTION: &str = "SELECT id, name, owner, scopes, created_at, revoked_at FROM connections";

fn connection(tx: &Transaction<'_>, row: &Row<'_>) -> Result<Connection> {
    let id: String = row.get(0)?;
    let scopes: String = row.get(3)?;
    Ok(Connection {
        grants: grants(tx, &id)?,
        id,
        name: row.get(1)?,
        owner: row.get(2)?,
        scopes: parse_words(&scopes)
            .map_err(|e: UnknownName| StoreError::Corrupt { what: "scope", why: e.to_string() })?,
        created_at: time(row, 4, "created_at")?,
        revoked_at: optional_time(row, 5, "revoked_at")?,
    })
}

/// A grant counts only while the connection's owner is a member of the project.
fn grants(tx: &Transaction<'_>, connection: &str) -> Result<Vec<Grant>> {
    let mut statement = tx.prepare_cached(
        "SELECT p.id, p.name, g.actions FROM grants g
         JOIN connections c ON c.id = g.connection_id
         JOIN members m ON m.project_id = g.project_id AND m.user_name = c.owner
         JOIN projects p ON p.id = g.project_id
         WHERE g.connection_id = $1 ORDER BY p.name, p.id",
    )?;
    all(statement.query([connection])?, |row| {
        let actions: String = row.get(2)?;
        let actions = parse_words(&actions)
            .map_err(|e: UnknownName| StoreError::Corrupt { what: "action", why: e.to_string() })?;
        Ok(Grant { project: project(row)?, actions })
    })
}

pub(super) fn connections(tx: &Transaction<'_>) -> Result<Vec<Connection>> {
    let mut statement = tx.prepare(&format!("{CONNECTION} ORDER BY created_at, id"))?;
    all(statement.query([])?, |row| connection(tx, row))
}

pub(super) fn connection_by_token(tx: &Transaction<'_>, token: &TokenHash) -> Result<Option<Connection>> {
    let mut statement = tx.prepare_cached(&format!("{CONNECTION} WHERE token_hash = $1 AND revoked_at IS NULL"))?;
    first(statement.query([token.as_str()])?, |row| connection(tx, row))
}

pub(super) fn revoke_connection(tx: &Transaction<'_>, id: &str, now: Timestamp) -> Result<bool> {
    let sql = "UPDATE connections SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2";
    if tx.execute(sql, params![now.as_millisecond(), id])? == 0 {
        return Ok(false);
    }
    let sql = "SELECT id FROM commands WHERE connection_id = $1 AND (status = 'queued' OR status = 'running')";
    for command in open_commands(tx, sql, id)? {
        commands::apply(tx, &command, Event::Cancel, Moment::new(now, Duration::ZERO))?;
    }
    Ok(true)
}

pub(super) fn add_device(tx: &Transaction<'_>, new: &DeviceRecord, token: &TokenHash) -> Result<()> {
    tx.execute(
        "INSERT INTO devices (id, name, owner, token_hash, created_at) VALUES ($1, $2, $3, $4, $5)",
        params![new.id.as_str(), new.name, new.owner, token.as_str(), new.created_at.as_millisecond()],
    )?;
    Ok(())
}

const DEVICE: &str = "SELECT id, name, owner, created_at, last_seen_at, revoked_at FROM devices";

/// The database may be behind what this process has seen, and ahead of it where another process serves.
fn device(row: &Row<'_>, presence: &Presence) -> Result<DeviceRecord> {
    let id = parsed(row, 0, "device id")?;
    let last_seen = row.get::<_, Option<i64>>(4)?.max(presence.last_seen(&id));
    Ok(DeviceRecord {
        id,
        name: row.get(1)?,
        owner: row.get(2)?,
        created_at: time(row, 3, "created_at")?,
        last_seen_at: last_seen.map(|ms| rows::timestamp(ms, "last_seen_at")).transpose()?,
        revoked_at: optional_time(row, 5, "revoked_at")?,
    })
}

pub(super) fn devices(tx: &Transaction<'_>, presence: &Presence) -> Result<Vec<DeviceRecord>> {
    let mut statement = tx.prepare(&format!("{DEVICE} ORDER BY created_at, id"))?;
    all(statement.query([])?, |row| device(row, presence))
}

pub(super) fn device_by_token(
    tx: &Transaction<'_>,
    token: &TokenHash,
    presence: &Presence,
) -> Result<Option<DeviceRecord>> {
    let mut statement = tx.prepare_cached(&format!("{DEVICE} WHERE token_hash = $1 AND revoked_at IS NULL"))?;
    first(statement.query([token.as_str()])?, |row| device(row, presence))
}

pub(super) fn revoke_device(tx: &Transaction<'_>, id: &str, now: Timestamp) -> Result<bool> {
    let sql = "UPDATE devices SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2";
    if tx.execute(sql, params![now.as_millisecond(), id])? == 0 {
        return Ok(false);
    }
    tx.execute("DELETE FROM shares WHERE device_id = $1", [id])?;
    tx.execute("DELETE FROM syncs WHERE device_id = $1", [id])?;
    let sql = "SELECT id FROM commands WHERE device_id = $1 AND (status = 'queued' OR status = 'running')";
    for command in open_commands(tx, sql, id)? {
        commands::apply(tx, &command, Event::DeviceRevoked, Moment::new(now, Duration::ZERO))?;
    }
    Ok(true)
}

fn open_commands(tx: &Transaction<'_>, sql: &str, of: &str) -> Result<Vec<String>> {
    let mut statement = tx.prepare_cached(sql)?;
    all(statement.query([of])?, |row| Ok(row.get(0)?))
}
