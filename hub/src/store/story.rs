//! The story that every store must be able to tell: one test over the trait, run against each implementation.

use std::time::Duration;

use jiff::Timestamp;
use protocol::{
    CheckRequest, CommandId, CommandStatus, Completion, CompletionStatus, Device, GraphSessionId, Project, ProjectId,
    SessionMetadata,
};
use serde_json::{Map, json};

use super::sqlite::SqliteStore;
use super::*;
use crate::model::{Action, Connection, DeviceRecord, Grant, Scope};

const LEASE: Duration = Duration::from_secs(60);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

/// What the chapters share.
struct Story<'a> {
    store: &'a dyn Store,
    project: Project,
    device: DeviceRecord,
    session: SessionMetadata,
}

impl Story<'_> {
    fn projects(&self) -> Vec<ProjectId> {
        vec![self.project.id.clone()]
    }

    fn assistant(&self) -> Actor {
        Actor::Connection { id: "con_1".to_owned(), projects: self.projects() }
    }

    fn desktop(&self) -> Actor {
        Actor::Device(self.device.id.clone())
    }

    async fn sync(&self, seconds: i64, known: &[CommandId]) -> (Vec<CommandId>, Vec<CommandId>) {
        let input = SyncInput {
            project_id: self.project.id.clone(),
            device: Device { id: self.device.id.clone(), name: "laptop".into(), version: "1".into(), busy: false },
            known: known.to_vec(),
            sessions: vec![self.session.clone()],
            accept: true,
        };
        match self.store.sync(&self.device, input, at(seconds), LEASE).await.unwrap() {
            SyncOutcome::Synced { commands, lost } => (commands.iter().map(|c| c.command_id).collect(), lost),
            other => panic!("{other:?}"),
        }
    }

    async fn queue(&self, seconds: i64, key: &str) -> QueueOutcome {
        let command = NewCommand {
            id: CommandId::new(),
            connection_id: "con_1".to_owned(),
            idempotency_key: key.to_owned(),
            graph_session_id: self.session.id.to_string(),
            arguments: Map::from_iter([("n".to_owned(), json!(1))]),
            projects: self.projects(),
            max_queued: 3,
            now: at(seconds),
        };
        self.store.queue(command).await.unwrap()
    }

    async fn queued(&self, seconds: i64, key: &str) -> CommandId {
        match self.queue(seconds, key).await {
            QueueOutcome::Queued { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    async fn desktop_says(&self, seconds: i64, id: CommandId, event: Event) -> Applied {
        self.store.apply(&self.desktop(), &id.to_string(), event, at(seconds), LEASE).await.unwrap().unwrap()
    }

    async fn run(&self, id: CommandId) -> RunView {
        self.store.run("con_1", &id.to_string(), &self.projects()).await.unwrap().unwrap()
    }
}

async fn tell(store: &dyn Store) {
    let story = people_and_permissions(store).await;
    one_run(&story).await;
    the_queue(&story).await;
    what_gets_lost(&story).await;
    what_waits_too_long(&story).await;
    the_end(&story).await;
}

async fn people_and_permissions(store: &dyn Store) -> Story<'_> {
    let project = Project { id: "prj_1".parse().unwrap(), name: "Reports".to_owned() };
    store.add_project(&project, at(0)).await.unwrap();
    assert!(store.add_member(&project.id, "ada", at(0)).await.unwrap());
    assert!(store.add_member(&project.id, "ada", at(0)).await.unwrap(), "twice changes nothing");
    assert!(!store.add_member(&"prj_none".parse().unwrap(), "ada", at(0)).await.unwrap());
    assert_eq!(store.projects_of("ada").await.unwrap(), vec![project.clone()]);
    assert_eq!(store.projects_of("bob").await.unwrap(), vec![]);

    let connection = Connection {
        id: "con_1".to_owned(),
        name: "assistant".to_owned(),
        owner: "ada".to_owned(),
        scopes: vec![Scope::Read, Scope::Run],
        grants: vec![Grant { project: project.clone(), actions: vec![Action::Read, Action::Run] }],
        created_at: at(1),
        revoked_at: None,
    };
    let token = TokenHash::of("grc_x");
    store.add_connection(&connection, &token).await.unwrap();
    assert_eq!(store.connection_by_token(&token).await.unwrap(), Some(connection.clone()));
    assert_eq!(store.connection_by_token(&TokenHash::of("grc_y")).await.unwrap(), None);
    assert_eq!(store.connections().await.unwrap(), vec![connection]);

    let device = DeviceRecord {
        id: "dev_1".parse().unwrap(),
        name: "laptop".to_owned(),
        owner: "ada".to_owned(),
        created_at: at(2),
        last_seen_at: None,
        revoked_at: None,
    };
    store.add_device(&device, &TokenHash::of("grd_x")).await.unwrap();
    assert_eq!(store.device_by_token(&TokenHash::of("grd_x")).await.unwrap(), Some(device.clone()));
    let session = SessionMetadata {
        id: GraphSessionId::generate(),
        name: "digest".to_owned(),
        description: "Reads a folder".to_owned(),
        slug: "digest".to_owned(),
        version: 1,
        status: "ready".to_owned(),
    };
    Story { store, project, device, session }
}

async fn one_run(story: &Story<'_>) {
    assert!(matches!(story.queue(5, "before-sync").await, QueueOutcome::NoSession));
    assert_eq!(story.sync(10, &[]).await, (vec![], vec![]));
    let shared = story.store.shared_sessions(&story.project.id, 50).await.unwrap();
    assert_eq!(shared[0].metadata, story.session);
    assert_eq!(shared[0].last_seen_at, Some(at(10)));

    let id = story.queued(11, "first-key").await;
    assert_eq!(story.queue(12, "first-key").await, QueueOutcome::Repeated(id));
    assert!(story.store.has_work(&story.device.id, &story.projects()).await.unwrap());
    assert_eq!(story.sync(20, &[]).await.0, vec![id]);
    assert_eq!(story.sync(21, &[id]).await.0, vec![id], "handed out again until it is started");
    assert!(story.desktop_says(22, id, Event::Start { attempt: 1 }).await.accepted);
    assert_eq!(story.sync(23, &[id]).await.0, vec![]);

    let progress = CheckRequest { phase: Some("reading".to_owned()), done: Some(1), ..CheckRequest::default() };
    assert!(story.desktop_says(25, id, Event::Check(progress.clone())).await.changed);
    assert!(!story.desktop_says(28, id, Event::Check(progress.clone())).await.changed, "no news, nothing written");
    assert_eq!(story.run(id).await.progress, progress);

    let stranger = Actor::Device("dev_2".parse().unwrap());
    let event = Event::Start { attempt: 9 };
    assert_eq!(story.store.apply(&stranger, &id.to_string(), event, at(29), LEASE).await.unwrap(), None);
    assert_eq!(story.store.run("con_2", &id.to_string(), &story.projects()).await.unwrap(), None);
    assert_eq!(story.store.run("con_1", &id.to_string(), &[]).await.unwrap(), None, "access removed");

    let report = Completion {
        result: Some(json!({"b": 1.0, "a": [null, "ü😀"]})),
        total_tokens: Some(12),
        reported_cost: Some(0.25),
        ..Completion::without_run(CompletionStatus::Completed, "")
    };
    assert!(story.desktop_says(30, id, Event::Complete(report.clone())).await.accepted);
    assert!(story.desktop_says(31, id, Event::Complete(report.clone())).await.accepted, "the answer was lost");
    let other = Completion::without_run(CompletionStatus::Failed, "other");
    let refused = story.desktop_says(32, id, Event::Complete(other)).await;
    assert_eq!((refused.accepted, refused.state.status), (false, CommandStatus::Completed));
    let run = story.run(id).await;
    assert_eq!(run.completion, Some(report));
    assert_eq!((run.queued_at, run.started_at, run.finished_at), (at(11), Some(at(22)), Some(at(30))));
}

async fn the_queue(story: &Story<'_>) {
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(story.queued(40, &format!("queue-key-{n}")).await);
    }
    assert_eq!(story.queue(40, "queue-key-3").await, QueueOutcome::QueueFull);
    assert_eq!(story.run(ids[2]).await.ahead, 2);
    assert_eq!(story.sync(41, &[]).await.0, ids, "oldest first, also within one millisecond");

    let cancel = |id: CommandId| {
        let (actor, id) = (story.assistant(), id.to_string());
        async move { story.store.apply(&actor, &id, Event::Cancel, at(42), LEASE).await.unwrap().unwrap() }
    };
    assert_eq!(cancel(ids[1]).await.state.status, CommandStatus::Cancelled);
    assert_eq!(story.sync(43, &[]).await.0, vec![ids[0], ids[2]]);
    let late = story.desktop_says(43, ids[1], Event::Start { attempt: 1 }).await;
    assert_eq!((late.accepted, late.state.status), (false, CommandStatus::Cancelled));

    story.desktop_says(44, ids[0], Event::Start { attempt: 1 }).await;
    assert_eq!(cancel(ids[0]).await.state.status, CommandStatus::Running);
    assert!(story.desktop_says(45, ids[0], Event::Check(CheckRequest::default())).await.state.cancel_requested);
    let stopped = Completion::without_run(CompletionStatus::Cancelled, "stopped");
    story.desktop_says(46, ids[0], Event::Complete(stopped)).await;

    let no_consent = Completion::without_run(CompletionStatus::Cancelled, "not shared");
    assert!(story.desktop_says(47, ids[2], Event::Complete(no_consent)).await.accepted, "never started");
}

async fn what_gets_lost(story: &Story<'_>) {
    let settle = |seconds| story.store.settle_overdue(at(seconds), LEASE, None);
    let id = story.queued(100, "lost-key-1").await;
    story.desktop_says(101, id, Event::Start { attempt: 1 }).await;
    assert_eq!(settle(500).await.unwrap(), vec![], "the desktop is off: it keeps its command");
    assert_eq!(story.sync(1_000, &[]).await.1, vec![], "it woke up: it gets a lease to speak for its run");
    assert_eq!(story.sync(1_020, &[id]).await.1, vec![], "it does know it");
    assert_eq!(story.sync(1_040, &[]).await.1, vec![]);
    assert_eq!(story.sync(1_075, &[]).await.1, vec![]);
    assert_eq!(story.sync(1_081, &[]).await.1, vec![id], "a lease after it last spoke for it");
    let run = story.run(id).await;
    assert_eq!(run.status, CommandStatus::Failed);
    assert_eq!(run.completion.unwrap().message.unwrap(), "the desktop no longer knows this run");

    let id = story.queued(2_000, "lost-key-2").await;
    story.sync(2_000, &[]).await;
    story.desktop_says(2_000, id, Event::Start { attempt: 1 }).await;
    for seconds in [2_020, 2_040, 2_059] {
        story.sync(seconds, &[]).await;
        assert_eq!(settle(seconds).await.unwrap(), vec![]);
    }
    let lost = Settled { id, status: CommandStatus::Failed };
    assert_eq!(settle(2_061).await.unwrap(), vec![lost], "the timer settles it when no sync comes for the project");
}

async fn what_waits_too_long(story: &Story<'_>) {
    let ttl = Some(Duration::from_secs(100));
    let id = story.queued(3_000, "waits-key").await;
    assert_eq!(story.store.settle_overdue(at(3_099), LEASE, ttl).await.unwrap(), vec![]);
    let expired = Settled { id, status: CommandStatus::Cancelled };
    assert_eq!(story.store.settle_overdue(at(3_100), LEASE, ttl).await.unwrap(), vec![expired]);
    assert_eq!(story.store.settle_overdue(at(3_200), LEASE, ttl).await.unwrap(), vec![]);
}

async fn the_end(story: &Story<'_>) {
    story.store.flush().await.unwrap();
    assert_eq!(story.store.devices().await.unwrap()[0].last_seen_at, Some(at(2_059)));
    let (waiting, running) = (story.queued(4_000, "end-key-1").await, story.queued(4_000, "end-key-2").await);
    story.desktop_says(4_001, running, Event::Start { attempt: 1 }).await;
    assert!(story.store.revoke_connection("con_1", at(4_002)).await.unwrap());
    assert_eq!(story.store.connection_by_token(&TokenHash::of("grc_x")).await.unwrap(), None);
    assert_eq!(story.run(waiting).await.status, CommandStatus::Cancelled);
    assert!(story.run(running).await.cancel_requested);

    assert!(story.store.revoke_device("dev_1", at(4_003)).await.unwrap());
    assert!(!story.store.revoke_device("dev_9", at(4_003)).await.unwrap());
    assert_eq!(story.store.device_by_token(&TokenHash::of("grd_x")).await.unwrap(), None);
    assert_eq!(story.store.shared_sessions(&story.project.id, 50).await.unwrap(), vec![]);
    assert_eq!(story.run(running).await.status, CommandStatus::Failed);
}

#[tokio::test]
async fn sqlite_in_memory_tells_the_story() {
    tell(&SqliteStore::open(":memory:").await.unwrap()).await;
}

#[tokio::test]
async fn sqlite_in_a_file_tells_the_story_and_remembers_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db").to_str().unwrap().to_owned();
    tell(&SqliteStore::open(&path).await.unwrap()).await;
    let again = SqliteStore::open(&path).await.unwrap();
    assert_eq!(again.devices().await.unwrap()[0].last_seen_at, Some(at(2_059)));
    assert_eq!(again.projects().await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_command_line_may_write_beside_a_hub_that_serves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hub.db").to_str().unwrap().to_owned();
    let hub = SqliteStore::open(&path).await.unwrap();
    let story = people_and_permissions(&hub).await;
    let command_line = SqliteStore::open(&path).await.unwrap();
    let writes = (0..50).map(|n| {
        let (project, command_line) = (&story.project.id, &command_line);
        async move { command_line.add_member(project, &format!("user-{n}"), at(3)).await }
    });
    let syncs = (0..50).map(|n| story.sync(10 + n, &[]));
    let (written, _) = tokio::join!(futures::future::join_all(writes), futures::future::join_all(syncs));
    assert!(written.into_iter().all(|added| added.unwrap()));
    assert!(command_line.revoke_device("dev_1", at(99)).await.unwrap());
    assert_eq!(hub.device_by_token(&TokenHash::of("grd_x")).await.unwrap(), None, "refused from the next request on");
}

#[tokio::test]
async fn a_store_that_is_not_spoken_here_is_named() {
    let says = |url: &'static str| async move { open_store(url).await.err().unwrap().to_string() };
    assert!(says("postgres://localhost/hub").await.contains("not in this version"));
    assert!(says("mysql://localhost/hub").await.contains("mysql"));
}

#[tokio::test]
async fn a_panic_inside_a_call_costs_neither_the_connection_nor_its_transaction() {
    let store = SqliteStore::open(":memory:").await.unwrap();
    let project = Project { id: "prj_1".parse().unwrap(), name: "Reports".to_owned() };
    store.fail_while_writing().await;
    store.add_project(&project, at(0)).await.unwrap();
    assert_eq!(store.projects().await.unwrap(), vec![project]);
}
