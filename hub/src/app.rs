//! The hub as a whole: what its parts share, its router and its server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use protocol::Clock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::admin::Admin;
use crate::settings::Settings;
use crate::store::{Store, StoreError};

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
        Self { inner: Arc::new(Inner { store, clock, settings, closing: CancellationToken::new() }) }
    }

    /// Everything that the hub serves: the relay API, MCP, the metadata for assistants, its health.
    pub fn router(&self) -> Router {
        Router::new()
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
        self.store().settle_overdue(self.clock().now(), lease, queue_ttl).await?;
        self.store().flush().await
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
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
    let server = axum::serve(listener, hub.router()).with_graceful_shutdown(stop);
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
