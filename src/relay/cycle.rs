//! One cycle: flush the outbox, tell what is shared, take what is queued (SPEC 1.2).

use protocol::{Device, SyncRequest};
use serde_json::Value;
use tokio::time::Instant;

use super::hub::HubError;
use super::{LONGEST_PAUSE, Relay, lock};
use crate::store::StoreError;
use crate::store::commands::{self, Origin, Received};
use crate::store::sharing::{self, ProjectShares};

/// Reports are read from the database so many at a time.
const PAGE: u32 = 50;

/// After so many silences in a row the rest of the outbox waits for the next cycle.
const SILENCES: u32 = 3;

/// What a cycle saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CycleReport {
    /// Commands that wait for the worker now.
    pub(super) waiting: u32,
    /// The last thing that went wrong at the hub.
    pub(super) problem: Option<HubError>,
    /// Whether at least one project's sync was answered, or there was none to send.
    pub(super) synced: bool,
}

impl Relay {
    /// One cycle.
    ///
    /// # Errors
    /// [`StoreError`]; trouble with the hub is part of the report.
    pub(super) async fn cycle(&self, accept: bool) -> Result<CycleReport, StoreError> {
        let mut report = CycleReport { synced: true, ..CycleReport::default() };
        let is_reachable = self.flush(&mut report).await?;
        if is_reachable && !self.is_to_be_left_alone(&mut report) {
            self.sync(accept, &mut report).await?;
        } else {
            report.synced = false;
        }
        report.waiting = self.count_waiting().await?;
        Ok(report)
    }

    /// Sends every report that is due, oldest first; one that fails blocks no other. False where it was given up
    /// because nobody answers: a report or two that find no answer may be to blame themselves.
    async fn flush(&self, report: &mut CycleReport) -> Result<bool, StoreError> {
        let store = &self.runner.store;
        let prefix = format!("{}/", self.hub.base_url());
        let (policy, now_ms) = (store.outbox_policy().clone(), self.runner.clock.now_ms());
        store.write(move |tx| commands::expire_reports(tx, &policy, now_ms)).await?;
        let (mut after, mut silences) = (0, 0);
        loop {
            let page = store.read(move |connection| Ok(outbox::due_after(connection, now_ms, after, PAGE)?)).await?;
            let Some(last) = page.last() else { return Ok(true) };
            after = last.id;
            // A report for another hub waits until that hub is configured again.
            for item in page.into_iter().filter(|item| item.destination.starts_with(&prefix)) {
                match self.deliver(item).await? {
                    Ok(()) => silences = 0,
                    Err(error) => {
                        silences = if error.is_silence() { silences + 1 } else { 0 };
                        report.problem = Some(error);
                    }
                }
                if silences == SILENCES {
                    return Ok(false);
                }
            }
        }
    }

    /// Sends one report and writes down what came of it.
    async fn deliver(&self, item: outbox::Item) -> Result<Result<(), HubError>, StoreError> {
        let path = item.destination[self.hub.base_url().len()..].to_owned();
        let sent = self.hub.complete(&path, item.body.clone(), &item.key).await;
        let (now_ms, jitter) = (self.runner.clock.now_ms(), rand::random());
        let policy = self.runner.store.outbox_policy().clone();
        self.runner
            .store
            .write(move |tx| {
                match &sent {
                    Ok(()) => commands::acknowledged(tx, &item, now_ms)?,
                    Err(error) if error.is_final() => {
                        tracing::warn!(report = item.key, %error, "the report is now a dead letter");
                        commands::refused_for_good(tx, &item, &error.to_string(), now_ms)?;
                    }
                    Err(error) => {
                        tracing::debug!(report = item.key, %error, "the report will be sent again");
                        let wait = error.retry_after();
                        outbox::fail(tx, item.id, &error.to_string(), wait, &policy, jitter, now_ms)?;
                    }
                }
                Ok(sent)
            })
            .await
    }

    /// Tells each project that is on what is shared with it, and stores what is queued for it.
    async fn sync(&self, accept: bool, report: &mut CycleReport) -> Result<(), StoreError> {
        let hub = self.hub.base_url().to_owned();
        let shares = self.runner.store.read(move |connection| sharing::to_sync(connection, &hub)).await?;
        for share in shares {
            match self.sync_project(share, accept).await? {
                Ok(received) => {
                    if received.new > 0 {
                        self.fetched.notify_one();
                    }
                    self.tell(&received);
                }
                Err(error) => {
                    let is_over = error.is_silence() || self.leave_alone(&error);
                    report.problem = Some(error);
                    report.synced = false;
                    if is_over {
                        return Ok(());
                    }
                }
            }
        }
        let prefix = format!("{}/", self.hub.base_url());
        let now_ms = self.runner.clock.now_ms();
        if report.synced && report.problem.is_none() {
            self.runner.store.write(move |tx| Ok(outbox::make_all_due(tx, &prefix, now_ms)?)).await?;
        }
        Ok(())
    }

    /// Notes a `Retry-After`. False where the error has none.
    fn leave_alone(&self, error: &HubError) -> bool {
        let Some(wait) = error.retry_after() else { return false };
        *lock(&self.left_alone) = Some((Instant::now() + wait.min(LONGEST_PAUSE), error.clone()));
        true
    }

    /// Whether the hub asked for a pause that is not over; what it said is still the problem then.
    fn is_to_be_left_alone(&self, report: &mut CycleReport) -> bool {
        let mut left_alone = lock(&self.left_alone);
        left_alone.take_if(|(until, _)| *until <= Instant::now());
        if let Some((_, error)) = &*left_alone {
            report.problem.get_or_insert_with(|| error.clone());
        }
        left_alone.is_some()
    }

    async fn sync_project(&self, share: ProjectShares, accept: bool) -> Result<Result<Received, HubError>, StoreError> {
        if share.left_out > 0 {
            tracing::warn!(project = %share.project, left_out = share.left_out, "more Graphs are shared than a sync tells");
        }
        let origin = Origin { hub: self.hub.base_url().to_owned(), project: share.project.clone() };
        let policy = self.runner.store.outbox_policy().clone();
        let asked = origin.clone();
        let (known, has_room) = self
            .runner
            .store
            .read(move |connection| {
                Ok((commands::known(connection, &asked)?, commands::may_take(connection, &policy)?))
            })
            .await?;
        let device = &self.settings.device;
        let request = SyncRequest {
            project_id: share.project,
            device: Device {
                id: device.id.clone(),
                name: device.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                busy: self.is_busy(),
            },
            known,
            sessions: share.sessions,
            accept: accept && has_room,
        };
        match self.hub.sync(&request).await {
            Ok(answer) => Ok(Ok(self.store_commands(origin, answer.commands).await?)),
            Err(error) => Ok(Err(error)),
        }
    }

    async fn store_commands(&self, origin: Origin, entries: Vec<Value>) -> Result<Received, StoreError> {
        if entries.is_empty() {
            return Ok(Received::default());
        }
        let (policy, now_ms) = (self.runner.store.outbox_policy().clone(), self.runner.clock.now_ms());
        self.runner.store.write(move |tx| commands::receive(tx, &origin, &entries, &policy, now_ms)).await
    }

    fn tell(&self, received: &Received) {
        if received.new > 0 {
            tracing::info!(commands = received.new, "received");
        }
        for reason in &received.refused {
            tracing::warn!(reason, "the hub sent a command that cannot be named; it was refused");
        }
        if received.left > 0 {
            tracing::warn!(commands = received.left, "left at the hub: there is no room for more");
        }
    }
}
