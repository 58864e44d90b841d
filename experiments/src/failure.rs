//! Why an experiment has no table.

/// Hub or relay did not do what the experiment takes for granted.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The runtime could not be built.
    #[error("no runtime: {0}")]
    Runtime(#[from] std::io::Error),
    /// The hub's store failed.
    #[error("the hub's store: {0}")]
    Hub(#[from] hub::StoreError),
    /// The hub did not make what the world consists of.
    #[error("the hub: {0}")]
    Admin(#[from] hub::AdminError),
    /// The desktop's store failed.
    #[error("the desktop's store: {0}")]
    Desktop(#[from] graph_relay::store::StoreError),
    /// The relay's client got no answer from the hub.
    #[error("the desktop cannot reach the hub: {0}")]
    Relay(#[from] graph_relay::relay::HubError),
    /// The hub refused an assistant's call.
    #[error("`{tool}` answered: {said}")]
    Tool {
        /// The tool.
        tool: &'static str,
        /// What came instead of a result.
        said: String,
    },
    /// Something that must hold did not.
    #[error("{0}")]
    Broken(String),
}

impl Failure {
    pub(crate) fn broken(what: impl Into<String>) -> Self {
        Self::Broken(what.into())
    }
}

/// Fails the experiment where something that must hold does not.
pub(crate) fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure::Broken(what())) }
}
