//! Models: how the owner configures one, and one request to it.
//!
//! State, in memory only: for each backend its HTTP client and the places at it, shared by all runs.
//!
//! - `config`: `[models.NAME]`.
//! - `backend`: one request, with its retries, bounded in time and size.
//! - `chat`: the words of the chat-completions API.
//! - `retry`: when to try again; `breaker`: when to stop trying.

mod backend;
mod breaker;
mod chat;
mod config;
mod retry;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use backend::Backend;
pub(crate) use breaker::Breaker;
pub(crate) use chat::{Ended, ToolRequest};
pub use config::{ModelConfig, Secret};

use crate::GraphError;

/// The configured models.
pub(crate) struct Backends {
    by_name: BTreeMap<String, Arc<Backend>>,
    default: Option<String>,
}

impl Backends {
    pub(crate) fn new(models: &BTreeMap<String, ModelConfig>, default: Option<String>) -> Self {
        let backend = |(name, config): (&String, &ModelConfig)| {
            (name.clone(), Arc::new(Backend::new(name.clone(), config.clone())))
        };
        let only = models.keys().next().filter(|_| models.len() == 1).cloned();
        Self { by_name: models.iter().map(backend).collect(), default: default.or(only) }
    }

    /// The model that an agent asks for, or the default one.
    pub(crate) fn pick(&self, name: Option<&str>) -> Result<Arc<Backend>, GraphError> {
        let refuse = |message: String| Err(GraphError::agent("backend_unavailable", message));
        if self.by_name.is_empty() {
            return refuse(
                "no model is configured: add [models.local] with base_url = \"http://127.0.0.1:8080/v1\" and \
                 model = \"NAME\" to config.toml"
                    .to_owned(),
            );
        }
        let known = || self.by_name.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let Some(name) = name.or(self.default.as_deref()) else {
            return refuse(format!("several models are configured ({}): name one, or set default_model", known()));
        };
        match self.by_name.get(name) {
            Some(backend) => Ok(Arc::clone(backend)),
            None => {
                refuse(format!("no model '{name}' is configured, only {}: add [models.{name}] to config.toml", known()))
            }
        }
    }
}
