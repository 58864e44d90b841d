//! What the command line does to a hub's store: projects, members, connections and devices.
//!
//! Nothing here is reachable over the network. It may run beside a serving hub, in another process, on the same
//! store: the server reads permissions at each request, so a revoked token is refused from then on.

use protocol::{Project, ProjectId};

use crate::model::{Connection, DeviceRecord, Grant, NewConnection, NewDevice};
use crate::store::{Store, StoreError};
use crate::{Hub, Token};

/// Names are shown in lists and sent to assistants; beyond this they are a mistake. Characters.
const MAX_NAME: usize = 100;

/// Why an administrative call did nothing.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The thing named does not exist.
    #[error("no {kind} `{id}`")]
    Unknown {
        /// What was looked for.
        kind: &'static str,
        /// The id or name given.
        id: String,
    },
    /// The request makes no sense; the text says why.
    #[error("{0}")]
    Invalid(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The administrative side of a [`Hub`].
#[derive(Debug, Clone, Copy)]
pub struct Admin<'a> {
    pub(crate) hub: &'a Hub,
}

impl Admin<'_> {
    fn store(&self) -> &dyn Store {
        self.hub.store()
    }

    fn now(&self) -> jiff::Timestamp {
        self.hub.now()
    }

    /// Makes a project, which has no members yet.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] for an empty or overlong name.
    pub async fn add_project(&self, name: &str) -> Result<Project, AdminError> {
        let project = Project { id: random_id("prj_").parse().expect("a prefix and hex digits"), name: named(name)? };
        self.store().add_project(&project, self.now()).await?;
        Ok(project)
    }

    /// All projects, by name.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn projects(&self) -> Result<Vec<Project>, AdminError> {
        Ok(self.store().projects().await?)
    }

    /// Makes a user a member of a project; the user comes into being with the first membership. Doing it again
    /// changes nothing.
    ///
    /// # Errors
    /// [`AdminError::Unknown`] for a project that does not exist.
    pub async fn add_member(&self, project: &ProjectId, user: &str) -> Result<(), AdminError> {
        if self.store().add_member(project, &named(user)?, self.now()).await? {
            return Ok(());
        }
        Err(AdminError::Unknown { kind: "project", id: project.to_string() })
    }

    /// Makes a connection and its token, which is not kept and cannot be shown again.
    ///
    /// # Errors
    /// When the owner is a member of no project, or not of one that was named, or when no scope or action is given.
    pub async fn add_connection(&self, new: NewConnection) -> Result<(Connection, Token), AdminError> {
        let memberships = self.memberships(&new.owner).await?;
        let projects = pick(memberships, &new.projects, &new.owner)?;
        let mut scopes = new.scopes;
        let mut actions = new.actions;
        scopes.sort_unstable();
        scopes.dedup();
        actions.sort_unstable();
        actions.dedup();
        if scopes.is_empty() || actions.is_empty() {
            return Err(AdminError::Invalid("a connection needs at least one scope and one action".to_owned()));
        }
        let connection = Connection {
            id: random_id("con_"),
            name: named(&new.name)?,
            owner: new.owner,
            scopes,
            grants: projects.into_iter().map(|project| Grant { project, actions: actions.clone() }).collect(),
            created_at: self.now(),
            revoked_at: None,
        };
        let token = Token::for_connection();
        self.store().add_connection(&connection, &token.hash()).await?;
        Ok((connection, token))
    }

    /// Makes a device and its token, which is not kept and cannot be shown again.
    ///
    /// # Errors
    /// When the owner is a member of no project.
    pub async fn add_device(&self, new: NewDevice) -> Result<(DeviceRecord, Token), AdminError> {
        self.memberships(&new.owner).await?;
        let device = DeviceRecord {
            id: random_id("dev_").parse().expect("a prefix and hex digits"),
            name: named(&new.name)?,
            owner: new.owner,
            created_at: self.now(),
            last_seen_at: None,
            revoked_at: None,
        };
        let token = Token::for_device();
        self.store().add_device(&device, &token.hash()).await?;
        Ok((device, token))
    }

    /// All connections, the oldest first, the revoked ones too.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn connections(&self) -> Result<Vec<Connection>, AdminError> {
        Ok(self.store().connections().await?)
    }

    /// All devices, the oldest first, the revoked ones too.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn devices(&self) -> Result<Vec<DeviceRecord>, AdminError> {
        Ok(self.store().devices().await?)
    }

    /// Ends a connection: its token is refused from now on, its queued commands are cancelled, its running ones
    /// are to be cancelled by their desktops.
    ///
    /// # Errors
    /// [`AdminError::Unknown`] for an id that is not there.
    pub async fn revoke_connection(&self, id: &str) -> Result<(), AdminError> {
        if self.store().revoke_connection(id, self.now()).await? {
            return Ok(());
        }
        Err(AdminError::Unknown { kind: "connection", id: id.to_owned() })
    }

    /// Ends a device: its token is refused from now on, what it shared is withdrawn, and its open commands are
    /// settled, since nobody can report on them any more.
    ///
    /// # Errors
    /// [`AdminError::Unknown`] for an id that is not there.
    pub async fn revoke_device(&self, id: &str) -> Result<(), AdminError> {
        if self.store().revoke_device(id, self.now()).await? {
            return Ok(());
        }
        Err(AdminError::Unknown { kind: "device", id: id.to_owned() })
    }

    async fn memberships(&self, owner: &str) -> Result<Vec<Project>, AdminError> {
        let projects = self.store().projects_of(owner).await?;
        if projects.is_empty() {
            return Err(AdminError::Invalid(format!("`{owner}` is a member of no project; add the member first")));
        }
        Ok(projects)
    }
}

/// The named projects out of the owner's, or all of them when none is named.
fn pick(memberships: Vec<Project>, named: &[ProjectId], owner: &str) -> Result<Vec<Project>, AdminError> {
    if let Some(foreign) = named.iter().find(|id| memberships.iter().all(|project| project.id != **id)) {
        return Err(AdminError::Invalid(format!("`{owner}` is not a member of project `{foreign}`")));
    }
    let wanted = |project: &Project| named.is_empty() || named.contains(&project.id);
    Ok(memberships.into_iter().filter(wanted).collect())
}

fn named(name: &str) -> Result<String, AdminError> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(AdminError::Invalid(format!("a name is 1 to {MAX_NAME} characters without control characters")));
    }
    Ok(name.to_owned())
}

/// 96 random bits: ids are no secrets, they only must not collide.
fn random_id(prefix: &str) -> String {
    let bits: [u8; 12] = rand::random();
    format!("{prefix}{}", hex::encode(bits))
}
