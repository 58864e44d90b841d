//! The server that `rmcp` drives: it lists the tools and hands calls on.

use std::borrow::Cow;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use super::gate::Gate;
use super::{schema, tools, work};
use crate::Hub;

const INSTRUCTIONS: &str = "This hub queues runs of saved Graphs: programs on the computers of people who share \
    them. list_graph_sessions shows what is shared, run_graph_session queues a run and returns its command_id at \
    once, get_graph_run reads the progress and the result (it can wait up to 45 s), cancel_graph_run calls it off.";

/// The versions spoken: the handshake of two years, and the stateless era.
const VERSIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// Made anew for each request; all it holds is the hub.
#[derive(Clone)]
pub(super) struct Handler {
    hub: Hub,
}

impl Handler {
    pub(super) fn new(hub: Hub) -> Self {
        Self { hub }
    }

    async fn call(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Answer {
        let connection = match gate(&context) {
            Some(Gate::Open(connection)) => connection,
            Some(Gate::Shut(refusal)) => return Ok(refusal.result()),
            // The layer around rmcp puts a gate before every call that it recognises.
            None => return Err(ErrorData::invalid_request("the call could not be read", None)),
        };
        let Some(spec) = tools::find(&request.name) else {
            return Err(ErrorData::invalid_params("unknown tool", None));
        };
        // The gate was decided on the name that it read; a body that names two tools gets neither.
        if !connection.scopes.contains(&spec.scope) {
            return Err(ErrorData::invalid_request("the call could not be read", None));
        }
        if connection.projects_with(spec.action).next().is_none() {
            return Ok(error(format!("the owner has not granted this connection `{}` in any project", spec.action)));
        }
        let arguments = request.arguments.unwrap_or_default();
        let call = work::Call { hub: &self.hub, connection: &connection, context: &context };
        if let Err(text) = call.check_project(&arguments) {
            return Ok(error(text));
        }
        let arguments = Value::Object(arguments);
        if let Err(text) = schema::check(&spec.validator, &arguments) {
            return Ok(error(text));
        }
        let Value::Object(arguments) = arguments else {
            return Err(ErrorData::internal_error("arguments changed their type", None));
        };
        match call.run(&spec.tool.name, arguments).await {
            Ok(answer) => Ok(CallToolResult::structured(answer)),
            Err(work::Failed::Told(text)) => Ok(error(text)),
            Err(work::Failed::Store(cause)) => {
                tracing::error!(error = %cause, tool = %spec.tool.name, "the store failed");
                Ok(error("the hub could not do this; try again later".to_owned()))
            }
        }
    }
}

type Answer = Result<CallToolResult, ErrorData>;

fn error(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn gate(context: &RequestContext<RoleServer>) -> Option<Gate> {
    context.extensions.get::<http::request::Parts>()?.extensions.get::<Gate>().cloned()
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_server_info(
                Implementation::new("graph-relay-hub", env!("CARGO_PKG_VERSION")).with_title("graph-relay hub"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name).map(|spec| spec.tool.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::ALL.iter().map(|spec| spec.tool.clone()).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await.map(CallToolResponse::from)
    }

    /// A `tools/call` whose parameters have the wrong types arrives here, since it is none of the requests that
    /// `rmcp` knows.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != "tools/call" {
            let message = format!("unknown method `{}`", request.method.chars().take(60).collect::<String>());
            return Err(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, message, None));
        }
        if let Some(Gate::Shut(refusal)) = gate(&context) {
            let result = serde_json::to_value(refusal.result());
            return result.map(CustomResult::new).map_err(|e| ErrorData::internal_error(e.to_string(), None));
        }
        Err(ErrorData::invalid_params("`name` must be a string and `arguments` an object", None))
    }
}
