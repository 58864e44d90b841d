//! What the desktop and the hub say to each other.
//!
//! Both halves of the system use these types, so that a field cannot mean one thing on the laptop and
//! another on the server. The crate holds no IO and keeps no state: ids that can only be made by parsing,
//! the bodies of the relay API, the size-capped completion, and the clock that both halves read.

mod clock;
mod completion;
mod ids;
mod js_length;
mod relay;
#[cfg(test)]
mod testing;

pub use clock::{Clock, SystemClock};
pub use completion::{Completion, CompletionStatus, MAX_MESSAGE_UNITS, MAX_REPORT_UNITS, cap_message};
pub use ids::{CommandId, DeviceId, ExecutionId, GraphSessionId, IdError, ProjectId};
pub use js_length::{exceeds, js_length};
pub use relay::{
    BadCommand, CheckRequest, CheckResponse, CommandStatus, CompleteResponse, Device, ErrorBody, ErrorDetail,
    MAX_PROGRESS_TEXT, MAX_SESSION_DESCRIPTION, MAX_SESSION_NAME, MAX_SESSIONS_PER_SYNC, Project, ProjectsResponse,
    QueuedCommand, SessionMetadata, StartRequest, StartResponse, SyncRequest, SyncResponse, WaitRequest, WaitResponse,
    path,
};
