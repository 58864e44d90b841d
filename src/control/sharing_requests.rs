//! What the owner shares, and with whom.

use std::collections::HashSet;

use protocol::{Project, ProjectId};

use super::desktop::{Desktop, NoRelay};
use super::message::{Failure, Reply};
use super::views::ProjectView;
use crate::store::sharing::{self, ProjectState};

impl Desktop {
    pub(super) async fn list_projects(&self) -> Result<Reply, Failure> {
        let hub = self.hub()?;
        let at_hub = self.refresh_projects().await?;
        let views = self.projects(hub).await?.into_iter().map(|state| ProjectView {
            at_hub: at_hub.contains(&state.project.id),
            id: state.project.id,
            name: state.project.name,
            is_on: state.is_on,
            shared: state.shared,
        });
        Ok(Reply::Projects(views.collect()))
    }

    pub(super) async fn switch_project(&self, project: String, on: bool) -> Result<Reply, Failure> {
        let hub = self.hub()?;
        let project = self.find_project(hub, &project).await?;
        let (hub, id) = (hub.to_owned(), project.id.clone());
        self.runner.store.write(move |tx| sharing::switch(tx, &hub, &id, on)).await?;
        self.tell_relay();
        Ok(Reply::Done(if on {
            format!("project `{}` is on: the Graphs that you share with it can be run from there", project.name)
        } else {
            format!("project `{}` is off: nothing can be run from there", project.name)
        }))
    }

    pub(super) async fn share(&self, graph: String, project: String, shared: bool) -> Result<Reply, Failure> {
        let hub = self.hub()?;
        let graph = self.find_graph(&graph).await?;
        let project = self.find_project(hub, &project).await?;
        let (hub, id, session) = (hub.to_owned(), project.id.clone(), graph.session_id.clone());
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

    fn hub(&self) -> Result<&str, Failure> {
        self.hub.as_deref().ok_or_else(|| Failure::from(&NoRelay::NoHub))
    }

    async fn projects(&self, hub: &str) -> Result<Vec<ProjectState>, Failure> {
        let hub = hub.to_owned();
        Ok(self.runner.store.read(move |connection| sharing::projects(connection, &hub)).await?)
    }

    /// Asks the hub for its projects and keeps their names. Gives back those that it listed.
    async fn refresh_projects(&self) -> Result<HashSet<ProjectId>, Failure> {
        let relay = self.relay()?;
        let asked = relay.hub.projects().await.map_err(|error| {
            let failure = Failure::from(error);
            Failure { message: format!("{}: {}", relay.hub.base_url(), failure.message), ..failure }
        });
        let projects: Vec<Project> = asked?.projects;
        let (hub, remembered) = (relay.hub.base_url().to_owned(), projects.clone());
        self.runner.store.write(move |tx| sharing::remember_projects(tx, &hub, &remembered)).await?;
        Ok(projects.into_iter().map(|project| project.id).collect())
    }

    /// The project that an id or a name means. The hub is asked only for one that is not known yet: switching
    /// off and unsharing must work without it.
    async fn find_project(&self, hub: &str, asked: &str) -> Result<Project, Failure> {
        if let Some(found) = pick(self.projects(hub).await?, asked)? {
            return Ok(found);
        }
        self.refresh_projects().await?;
        pick(self.projects(hub).await?, asked)?.ok_or_else(|| {
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
