//! What the owner shares, and with whom.

use std::collections::HashSet;
use std::sync::Arc;

use protocol::{Project, ProjectId};

use super::desktop::Desktop;
use super::message::{Failure, FailureKind, Reply};
use super::views::ProjectView;
use crate::relay::Relay;
use crate::store::sharing::{self, ProjectState};

impl Desktop {
    pub(super) async fn list_projects(&self) -> Result<Reply, Failure> {
        let relay = self.hub()?;
        let at_hub = self.refresh_projects(relay).await?;
        let views = self.projects(relay).await?.into_iter().map(|state| ProjectView {
            at_hub: at_hub.contains(&state.project.id),
            id: state.project.id,
            name: state.project.name,
            is_on: state.is_on,
            shared: state.shared,
        });
        Ok(Reply::Projects(views.collect()))
    }

    pub(super) async fn switch_project(&self, project: String, on: bool) -> Result<Reply, Failure> {
        let relay = self.hub()?;
        let project = self.find_project(relay, &project).await?;
        let (hub, id) = (relay.hub.base_url().to_owned(), project.id.clone());
        self.runner.store.write(move |tx| sharing::switch(tx, &hub, &id, on)).await?;
        self.tell_relay();
        Ok(Reply::Done(if on {
            format!("project `{}` is on: the Graphs that you share with it can be run from there", project.name)
        } else {
            format!("project `{}` is off: nothing can be run from there", project.name)
        }))
    }

    pub(super) async fn share(&self, graph: String, project: String, shared: bool) -> Result<Reply, Failure> {
        let relay = self.hub()?;
        let graph = self.find_graph(&graph).await?;
        let project = self.find_project(relay, &project).await?;
        let (hub, id, session) = (relay.hub.base_url().to_owned(), project.id.clone(), graph.session_id.clone());
        let now_ms = self.runner.clock.now_ms();
        let is_on = self
            .runner
            .store
            .write(move |tx| {
                if shared {
                    sharing::share(tx, &hub, &id, &session, now_ms)?;
                } else {
                    sharing::unshare(tx, &hub, &id, &session)?;
                }
                Ok(sharing::projects(tx, &hub)?.iter().any(|state| state.project.id == id && state.is_on))
            })
            .await?;
        self.tell_relay();
        let (slug, name) = (&graph.slug, &project.name);
        Ok(Reply::Done(match (shared, is_on) {
            (true, true) => format!("`{slug}` is shared with project `{name}`"),
            (true, false) => {
                format!("`{slug}` is ticked for project `{name}`, which is off: graph-relay project on '{name}'")
            }
            (false, _) => format!("`{slug}` is no longer shared with project `{name}`"),
        }))
    }

    fn hub(&self) -> Result<&Arc<Relay>, Failure> {
        self.relay.as_ref().ok_or_else(|| {
            Failure { kind: FailureKind::Hub, message: "no hub is configured".to_owned(), hint: None }.hint(
                "set url under [hub] in config.toml, and put the device token into the file device-token beside it",
            )
        })
    }

    async fn projects(&self, relay: &Relay) -> Result<Vec<ProjectState>, Failure> {
        let hub = relay.hub.base_url().to_owned();
        Ok(self.runner.store.read(move |connection| sharing::projects(connection, &hub)).await?)
    }

    async fn refresh_projects(&self, relay: &Relay) -> Result<HashSet<ProjectId>, Failure> {
        let projects: Vec<Project> = relay.hub.projects().await?.projects;
        let (hub, remembered) = (relay.hub.base_url().to_owned(), projects.clone());
        self.runner.store.write(move |tx| sharing::remember_projects(tx, &hub, &remembered)).await?;
        Ok(projects.into_iter().map(|project| project.id).collect())
    }

    /// The project that an id or a name means. The hub is asked only for one that is not known yet: switching
    /// off and unsharing must work without it.
    async fn find_project(&self, relay: &Relay, asked: &str) -> Result<Project, Failure> {
        if let Some(found) = pick(self.projects(relay).await?, asked)? {
            return Ok(found);
        }
        self.refresh_projects(relay).await?;
        pick(self.projects(relay).await?, asked)?.ok_or_else(|| {
            Failure::not_found(format!("the hub lists no project `{asked}` for you"))
                .hint("graph-relay project list shows yours")
        })
    }
}

fn pick(projects: Vec<ProjectState>, asked: &str) -> Result<Option<Project>, Failure> {
    if let Some(by_id) = projects.iter().find(|state| state.project.id.as_str() == asked) {
        return Ok(Some(by_id.project.clone()));
    }
    let mut named = projects.into_iter().filter(|state| state.project.name == asked);
    match (named.next(), named.next()) {
        (Some(_), Some(_)) => Err(Failure::invalid(format!("several projects are called `{asked}`"))
            .hint("give the project's id, which graph-relay project list shows")),
        (found, _) => Ok(found.map(|state| state.project)),
    }
}
