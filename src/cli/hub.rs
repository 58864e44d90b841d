//! `graph-relay hub`.

use std::process::ExitCode;
use std::sync::Arc;

use ::hub::{AdminError, Hub, NewConnection, NewDevice, Settings, open_store, serve};
use protocol::SystemClock;

use super::daemon::stop_asked;
use super::error::{CliError, INVALID, NOT_FOUND};
use super::logs;
use super::options::{
    HubArgs, HubCommand, HubConnectionCommand, HubData, HubDeviceCommand, HubMemberCommand, HubProjectCommand,
};
use super::print::{put, say};
use super::text::{local_time, table};
use crate::paths::Paths;

pub(super) async fn run(args: HubArgs) -> Result<ExitCode, CliError> {
    match args.command {
        None => listen(args).await?,
        Some(HubCommand::Project(command)) => project(command).await?,
        Some(HubCommand::Member(HubMemberCommand::Add { user, project, data })) => {
            open(&data, Settings::default()).await?.admin().add_member(&project, &user).await?;
            say(format!("{user} is a member of project {project}"));
        }
        Some(HubCommand::Connection(command)) => connection(command).await?,
        Some(HubCommand::Device(command)) => device(command).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn open(data: &HubData, settings: Settings) -> Result<Hub, CliError> {
    let url = match &data.data {
        Some(url) => url.clone(),
        None => {
            let paths = Paths::from_environment()?;
            paths.create()?;
            paths.state_dir.join("hub.db").to_string_lossy().into_owned()
        }
    };
    let store = open_store(&url).await.map_err(|error| {
        CliError::internal(format!("cannot use {url} as the hub's database: {error}"))
            .hint("--data names another file; see whether the disk has room and the folder can be written to")
    })?;
    Ok(Hub::new(store, Arc::new(SystemClock), settings))
}

async fn listen(args: HubArgs) -> Result<(), CliError> {
    logs::to_stderr("info")?;
    let listener = tokio::net::TcpListener::bind(args.listen).await.map_err(|error| {
        CliError::new(INVALID, format!("cannot listen on {}: {error}", args.listen))
            .hint("another program may be using the port; choose one with --listen")
    })?;
    let address = listener.local_addr()?;
    let public_url = args.public_url.unwrap_or_else(|| format!("http://{address}"));
    let queue_ttl = (!args.queue_ttl.is_zero()).then_some(args.queue_ttl);
    let settings = Settings { public_url: public_url.clone(), queue_ttl, ..Settings::default() };
    let hub = open(&args.data, settings).await?;
    if !address.ip().is_loopback() && public_url.starts_with("http://") {
        tracing::warn!(%address, "tokens travel in the clear: put a proxy with TLS in front and set --public-url");
    }
    tracing::info!(%address, mcp = format!("{public_url}/mcp"), "the hub listens");
    // For whoever started it: the one line on standard output, once requests are answered.
    put(public_url)?;
    Ok(serve(listener, hub, stop_asked()).await?)
}

async fn project(command: HubProjectCommand) -> Result<(), CliError> {
    match command {
        HubProjectCommand::Add { name, data } => {
            let project = open(&data, Settings::default()).await?.admin().add_project(&name).await?;
            put(project.id)?;
        }
        HubProjectCommand::List { data } => {
            let projects = open(&data, Settings::default()).await?.admin().projects().await?;
            let rows: Vec<_> = projects.into_iter().map(|project| vec![project.name, project.id.to_string()]).collect();
            put(table(&["PROJECT", "ID"], &rows))?;
        }
    }
    Ok(())
}

async fn connection(command: HubConnectionCommand) -> Result<(), CliError> {
    match command {
        HubConnectionCommand::Add { name, owner, project, scopes, actions, data } => {
            let new = NewConnection { name, owner, projects: project, scopes, actions };
            let (connection, token) = open(&data, Settings::default()).await?.admin().add_connection(new).await?;
            say(format!("connection {} ({}): its token, shown only this once:", connection.name, connection.id));
            put(token)?;
        }
        HubConnectionCommand::List { data } => {
            let connections = open(&data, Settings::default()).await?.admin().connections().await?;
            let rows: Vec<_> = connections
                .into_iter()
                .map(|connection| {
                    let projects: Vec<_> = connection.grants.iter().map(|grant| grant.project.name.as_str()).collect();
                    let projects = projects.join(", ");
                    vec![connection.name, connection.id, connection.owner, projects, state(connection.revoked_at)]
                })
                .collect();
            put(table(&["CONNECTION", "ID", "OWNER", "PROJECTS", "STATE"], &rows))?;
        }
        HubConnectionCommand::Revoke { id, data } => {
            open(&data, Settings::default()).await?.admin().revoke_connection(&id).await?;
            say(format!("connection {id} is shut out"));
        }
    }
    Ok(())
}

async fn device(command: HubDeviceCommand) -> Result<(), CliError> {
    match command {
        HubDeviceCommand::Add { name, owner, data } => {
            let new = NewDevice { name, owner };
            let (device, token) = open(&data, Settings::default()).await?.admin().add_device(new).await?;
            say(format!("desktop {} ({}): its token, shown only this once:", device.name, device.id));
            put(token)?;
        }
        HubDeviceCommand::List { data } => {
            let devices = open(&data, Settings::default()).await?.admin().devices().await?;
            let rows: Vec<_> = devices
                .into_iter()
                .map(|device| {
                    let seen = device.last_seen_at.map(|at| local_time(at.as_millisecond()));
                    let seen = seen.unwrap_or_else(|| "never".to_owned());
                    vec![device.name, device.id.to_string(), device.owner, seen, state(device.revoked_at)]
                })
                .collect();
            put(table(&["DESKTOP", "ID", "OWNER", "LAST SEEN", "STATE"], &rows))?;
        }
        HubDeviceCommand::Revoke { id, data } => {
            open(&data, Settings::default()).await?.admin().revoke_device(&id).await?;
            say(format!("desktop {id} is shut out"));
        }
    }
    Ok(())
}

fn state(revoked: Option<jiff::Timestamp>) -> String {
    revoked.map_or_else(|| "let in".to_owned(), |at| format!("shut out {}", local_time(at.as_millisecond())))
}

impl From<AdminError> for CliError {
    fn from(error: AdminError) -> Self {
        match &error {
            AdminError::Unknown { kind, .. } => {
                Self::new(NOT_FOUND, error.to_string()).hint(format!("graph-relay hub {kind} list shows them"))
            }
            AdminError::Invalid(_) => Self::new(INVALID, error.to_string()),
            AdminError::Store(_) => Self::internal(error.to_string()),
        }
    }
}
