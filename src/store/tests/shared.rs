//! Sharing: nothing, until the owner ticks it.

use super::*;
use crate::store::sharing::{
    ProjectShares, consent, projects, remember_projects, share, shared_with, switch, to_sync, unshare,
};
use protocol::MAX_SESSIONS_PER_SYNC;

#[tokio::test]
async fn nothing_is_shared_by_default() {
    let store = memory();
    store
        .write(|tx| {
            let graph = save(tx, "digest", "return 1")?;
            know(tx, "project-1")?;
            assert_eq!(to_sync(tx, HUB)?, [], "a project that the hub named is off");
            assert!(!projects(tx, HUB)?[0].is_on);

            switch(tx, HUB, &project("project-1"), true)?;
            let empty = ProjectShares { project: project("project-1"), sessions: Vec::new(), left_out: 0 };
            assert_eq!(to_sync(tx, HUB)?, [empty], "a project that is on gets what is ticked for it, and nothing is");
            assert!(!consent(tx, HUB, &project("project-1"), &graph.session_id, "digest")?);
            assert_eq!(shared_with(tx, HUB, &graph.session_id)?, []);
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_tick_holds_for_one_project_of_one_hub() {
    let store = memory();
    store
        .write(|tx| {
            let graph = save(tx, "digest", "return 1")?;
            for id in ["project-1", "project-2"] {
                know(tx, id)?;
                switch(tx, HUB, &project(id), true)?;
            }
            let other = "https://other.example";
            remember_projects(tx, other, &[Project { id: project("project-1"), name: "Theirs".to_owned() }])?;
            switch(tx, other, &project("project-1"), true)?;
            assert!(share(tx, HUB, &project("project-1"), &graph.session_id, 5)?);
            assert!(!share(tx, HUB, &project("project-1"), &graph.session_id, 6)?, "ticked twice");

            assert!(consent(tx, HUB, &project("project-1"), &graph.session_id, "digest")?);
            assert!(!consent(tx, HUB, &project("project-2"), &graph.session_id, "digest")?);
            assert!(!consent(tx, other, &project("project-1"), &graph.session_id, "digest")?);
            assert!(to_sync(tx, other)?[0].sessions.is_empty());

            assert!(unshare(tx, HUB, &project("project-1"), &graph.session_id)?);
            assert!(!unshare(tx, HUB, &project("project-1"), &graph.session_id)?);
            assert!(!consent(tx, HUB, &project("project-1"), &graph.session_id, "digest")?);
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn what_the_hub_calls_its_projects_switches_none() {
    let store = memory();
    store
        .write(|tx| {
            know(tx, "project-1")?;
            switch(tx, HUB, &project("project-1"), true)?;
            remember_projects(tx, HUB, &[Project { id: project("project-1"), name: "Renamed".to_owned() }])?;
            let known = projects(tx, HUB)?.remove(0);
            assert_eq!((known.project.name.as_str(), known.is_on), ("Renamed", true));
            assert!(!switch(tx, HUB, &project("unknown"), true)?);
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_sync_tells_of_the_first_100_ticked_and_says_how_many_it_leaves_out() {
    let store = memory();
    store
        .write(|tx| {
            know(tx, "project-1")?;
            switch(tx, HUB, &project("project-1"), true)?;
            for nth in 0..=MAX_SESSIONS_PER_SYNC {
                let graph = save(tx, &format!("graph-{nth:03}"), "return 1")?;
                // Ticked in the other order: what counts is when, not the name.
                share(tx, HUB, &project("project-1"), &graph.session_id, 1_000 - nth as i64)?;
            }
            let told = to_sync(tx, HUB)?.remove(0);
            assert_eq!((told.sessions.len(), told.left_out), (MAX_SESSIONS_PER_SYNC, 1));
            assert_eq!((told.sessions[0].slug.as_str(), told.sessions[99].slug.as_str()), ("graph-100", "graph-001"));
            assert_eq!(projects(tx, HUB)?[0].shared, 101);
            Ok(())
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_sync_tells_the_name_and_the_description_that_the_script_gives_itself() {
    let store = memory();
    store
        .write(|tx| {
            know(tx, "project-1")?;
            switch(tx, HUB, &project("project-1"), true)?;
            let meta = Meta {
                name: Some("Daily digest".to_owned()),
                description: Some("Sums up the day".to_owned()),
                ..Meta::default()
            };
            let graph = graphs::add(tx, "digest", &NewGraph { meta, ..script("return 1") }, 1)?.unwrap();
            share(tx, HUB, &project("project-1"), &graph.session_id, 1)?;
            let told = to_sync(tx, HUB)?.remove(0).sessions.remove(0);
            assert_eq!((told.name.as_str(), told.description.as_str()), ("Daily digest", "Sums up the day"));
            assert_eq!((told.id, told.version, told.status.as_str()), (graph.session_id, 1, "ready"));
            Ok(())
        })
        .await
        .unwrap();
}

/// A hub refuses a body that is too large: one wordy Graph must not take all others off with it.
#[tokio::test]
async fn a_hundred_wordy_graphs_fit_into_one_sync() {
    let store = memory();
    let shares = store
        .write(|tx| {
            know(tx, "project-1")?;
            switch(tx, HUB, &project("project-1"), true)?;
            for number in 0..MAX_SESSIONS_PER_SYNC {
                let mut graph = script("return 1");
                graph.meta.name = Some("\u{1}".repeat(10_000));
                graph.meta.description = Some("\u{1}".repeat(200_000));
                let graph = graphs::add(tx, &format!("graph-{number}"), &graph, 1_000)?.unwrap();
                share(tx, HUB, &project("project-1"), &graph.session_id, 5)?;
            }
            to_sync(tx, HUB)
        })
        .await
        .unwrap();
    assert_eq!(shares[0].sessions.len(), MAX_SESSIONS_PER_SYNC);
    assert!(serde_json::to_string(&shares[0].sessions).unwrap().len() < 2_000_000);
}
