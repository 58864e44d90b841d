//! The hub as a whole: what its parts share, its router and its server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use protocol::Clock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::admin::Admin;
use crate::command::Event;
use crate::patience::Patient;
use crate::settings::Settings;
use crate::store::{Actor, Applied, Store, StoreError};
use crate::wake::Wakes;
use crate::web;

/// How often the server looks for overdue commands and writes the times of the last syncs.
const SETTLE_EVERY: Duration = Duration::from_secs(5);
/// How long a stopping server waits for requests in flight.
const GRACE: Duration = Duration::from_secs(5);

/// A hub over a store. Clones share everything.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    wakes: Arc<Wakes>,
    /// Cancelled when the server stops, so that calls that wait answer at once.
    closing: CancellationToken,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

impl Hub {
    /// A hub that keeps its state in `store` and reads the time from `clock`.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, settings: Settings) -> Self {
        let mut settings = settings;
        settings.public_url.truncate(settings.public_url.trim_end_matches('/').len());
        let (wakes, closing) = (Arc::default(), CancellationToken::new());
        Self { inner: Arc::new(Inner { store, clock, settings, wakes, closing }) }
    }

    /// Everything that the hub serves: the relay API, MCP, the metadata for assistants, its health.
    pub fn router(&self) -> Router {
        web::router(self)
    }

    /// What the command line does.
    pub fn admin(&self) -> Admin<'_> {
        Admin { hub: self }
    }

    /// Settles what is overdue and writes what is only in memory; [`serve`] does it every five seconds.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn settle(&self) -> Result<(), StoreError> {
        let Settings { lease, queue_ttl, .. } = self.inner.settings;
        for settled in self.store().settle_overdue(self.now(), lease, queue_ttl).await? {
            tracing::info!(command = %settled.id, status = settled.status.as_str(), "settled an overdue command");
            self.wakes().run_ended(&settled.id);
        }
        self.store().flush().await
    }

    /// Applies an event to a command and tells those who wait for what it changes.
    pub(crate) async fn apply(&self, actor: &Actor, id: &str, event: Event) -> Result<Option<Applied>, StoreError> {
        let is_cancel = matches!(event, Event::Cancel);
        let applied = self.store().apply(actor, id, event, self.now(), self.inner.settings.lease).await?;
        if let Some(applied) = &applied
            && applied.changed
        {
            if applied.state.status.is_settled()
                && let Ok(id) = id.parse()
            {
                self.wakes().run_ended(&id);
            } else if is_cancel {
                self.wakes().wake_desktop(&applied.device_id, &applied.project_id);
            }
        }
        Ok(applied)
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn public_url(&self) -> &str {
        &self.inner.settings.public_url
    }

    pub(crate) fn wakes(&self) -> &Arc<Wakes> {
        &self.inner.wakes
    }

    /// Ready when the server stops.
    pub(crate) async fn closing(&self) {
        self.inner.closing.cancelled().await;
    }

    /// The time of day in whole milliseconds, as the store keeps it: what was answered once is read back the same.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.inner.clock.now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }
}

/// Serves the hub until `shutdown` is ready, then lets requests in flight end.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    hub: Hub,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let closing = hub.inner.closing.clone();
    let stop = {
        let closing = closing.clone();
        async move {
            shutdown.await;
            closing.cancel();
        }
    };
    let server = axum::serve(Patient(listener), hub.router()).with_graceful_shutdown(stop);
    let overtime = async {
        closing.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    let timer = tokio::spawn(keep_settling(hub.clone()));
    let served = tokio::select! {
        served = server.into_future() => served,
        () = overtime => Ok(()),
    };
    timer.abort();
    if let Err(error) = hub.store().flush().await {
        tracing::error!(%error, "could not write the times of the last syncs");
    }
    served
}

async fn keep_settling(hub: Hub) {
    let mut ticks = tokio::time::interval(SETTLE_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = hub.settle().await {
            tracing::error!(%error, "could not settle overdue commands");
        }
    }
}
