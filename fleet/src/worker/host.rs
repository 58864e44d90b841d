//! The script's way out: host calls as promises, and what the script tells.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;
use std::sync::mpsc;

use boa_engine::builtins::promise::ResolvingFunctions;
use boa_engine::object::builtins::{JsFunction, JsPromise};
use boa_engine::{Context, JsArgs, JsError, JsNativeError, JsResult, JsString, JsValue, js_string};

use super::failure::{Site, lossy};
use super::{json, memory};
use crate::limits::{HOST_CALLS, HOST_CALLS_AT_ONCE};
use crate::wire::{INPUT_BYTES, Outcome, ToWorker};
use crate::{GraphError, exit_code};

/// Growth after which a host call collects garbage. The engine's own trigger counts its boxes, not the strings in them,
/// so that replies of 1 MB caught in cycles would reach the cap uncollected.
const COLLECT_AFTER: usize = 32 * 1024 * 1024;

/// What the realm took aside before the script could change it.
#[derive(Clone)]
pub(super) struct Originals {
    /// `JSON.stringify`.
    pub(super) stringify: JsFunction,
    /// The getter of `Error.prototype.stack`.
    pub(super) stack: JsFunction,
    /// The prelude's `(name, code, message, retryable, line, column) → error`.
    pub(super) make_error: JsFunction,
}

/// The one host of the worker's one script.
pub(super) struct Host {
    inbox: mpsc::Receiver<ToWorker>,
    pending: RefCell<HashMap<u64, Pending>>,
    originals: RefCell<Option<Originals>>,
    next_id: Cell<u64>,
    /// Set by a cancel: from then on every call rejects at once.
    cancelled: Cell<bool>,
    spent: Cell<u64>,
    collected_at: Cell<usize>,
}

struct Pending {
    resolvers: ResolvingFunctions,
    site: Site,
}

impl Host {
    pub(super) fn new(inbox: mpsc::Receiver<ToWorker>) -> Rc<Self> {
        Rc::new(Self {
            inbox,
            pending: RefCell::default(),
            originals: RefCell::default(),
            next_id: Cell::new(1),
            cancelled: Cell::default(),
            spent: Cell::default(),
            collected_at: Cell::default(),
        })
    }

    pub(super) fn of(context: &Context) -> Rc<Self> {
        Rc::clone(context.get_data::<Rc<Self>>().expect("the realm is built with its host"))
    }

    pub(super) fn keep(&self, originals: Originals) {
        *self.originals.borrow_mut() = Some(originals);
    }

    fn originals(&self) -> Originals {
        self.originals.borrow().clone().expect("the realm keeps the originals before any script runs")
    }

    pub(super) fn set_spent(&self, spent: u64) {
        self.spent.set(spent);
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent.get()
    }

    pub(super) fn open_calls(&self) -> usize {
        self.pending.borrow().len()
    }

    /// The next message, waiting for it.
    pub(super) fn wait(&self) -> ToWorker {
        // The reader ends the process before it drops its end.
        self.inbox.recv().unwrap_or_else(|_| memory::exit_now(exit_code::ORPHAN))
    }

    /// The next message, if there is one.
    pub(super) fn poll(&self) -> Option<ToWorker> {
        self.inbox.try_recv().ok()
    }

    /// Takes in one message while the script runs.
    pub(super) fn take(&self, message: ToWorker, context: &mut Context) -> JsResult<()> {
        match message {
            ToWorker::Reply { id, spent, outcome } => {
                self.spent.set(spent);
                let pending = self.pending.borrow_mut().remove(&id);
                pending.map_or(Ok(()), |pending| self.settle(pending, outcome, context))
            }
            ToWorker::Cancel => self.cancel(context),
            ToWorker::Start { .. } | ToWorker::Hold { .. } | ToWorker::Begin(_) => {
                memory::exit_now(exit_code::PROTOCOL)
            }
        }
    }

    fn cancel(&self, context: &mut Context) -> JsResult<()> {
        self.cancelled.set(true);
        self.say("{\"say\":\"cancelled\"}");
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        let mut pending: Vec<_> = pending.into_iter().collect();
        pending.sort_by_key(|(id, _)| *id);
        pending.into_iter().try_for_each(|(_, call)| self.settle(call, Outcome::Err(GraphError::cancelled()), context))
    }

    fn settle(&self, pending: Pending, outcome: Outcome, context: &mut Context) -> JsResult<()> {
        let (settle, value) = match outcome {
            Outcome::Ok(value) => (pending.resolvers.resolve, JsValue::from_json(&value, context)?),
            Outcome::Err(error) => (pending.resolvers.reject, self.make_error(&error, pending.site, context)?),
        };
        settle.call(&JsValue::undefined(), &[value], context).map(drop)
    }

    fn make_error(&self, error: &GraphError, site: Site, context: &mut Context) -> JsResult<JsValue> {
        let text = |text: &str| JsValue::from(JsString::from(text));
        let arguments = [
            text(&error.name),
            text(&error.code),
            text(&error.message),
            error.retryable.into(),
            site.line.into(),
            site.column.into(),
        ];
        self.originals().make_error.call(&JsValue::undefined(), &arguments, context)
    }

    /// `JSON.stringify` as it was before the script ran. `None` for what has no JSON, and for what throws.
    pub(super) fn stringify(&self, value: &JsValue, context: &mut Context) -> Option<String> {
        let text = self.try_stringify(value, context).ok()?;
        text.map(|text| lossy(&text))
    }

    pub(super) fn try_stringify(&self, value: &JsValue, context: &mut Context) -> JsResult<Option<JsString>> {
        let text = self.originals().stringify.call(&JsValue::undefined(), std::slice::from_ref(value), context)?;
        Ok(text.as_string())
    }

    /// The stack text of an error object.
    pub(super) fn stack_of(&self, error: &JsValue, context: &mut Context) -> Option<String> {
        let stack = self.originals().stack.call(error, &[], context).ok()?;
        stack.as_string().map(|stack| lossy(&stack))
    }

    /// Writes one line to the parent. A parent that no longer reads is gone.
    pub(super) fn say(&self, line: &str) {
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(line.as_bytes()).and_then(|()| stdout.write_all(b"\n"));
        if written.and_then(|()| stdout.flush()).is_err() {
            memory::exit_now(exit_code::ORPHAN);
        }
    }

    fn collect_garbage(&self) {
        let used = memory::used();
        if used < self.collected_at.get() {
            self.collected_at.set(used);
        } else if used - self.collected_at.get() > COLLECT_AFTER {
            boa_engine::gc::force_collect();
            self.collected_at.set(memory::used());
        }
    }

    /// Why this call cannot be sent, if it can't.
    fn refusal(&self, kind: &str, input: &Result<String, json::Unfit>) -> Option<GraphError> {
        if self.cancelled.get() {
            return Some(GraphError::cancelled());
        }
        if self.next_id.get() > u64::from(HOST_CALLS) {
            return Some(GraphError::limit("host_calls", format!("a run may make {HOST_CALLS} host calls at most")));
        }
        if self.open_calls() >= HOST_CALLS_AT_ONCE as usize {
            let message = format!("at most {HOST_CALLS_AT_ONCE} host calls may be under way at once: use map()");
            return Some(GraphError::limit("host_calls_at_once", message));
        }
        match input {
            Err(unfit) => Some(unfit.error(&format!("what {kind}() gets"))),
            Ok(input) if input.len() > INPUT_BYTES => {
                let message = format!("what {kind}() gets has {} bytes as JSON; at most {INPUT_BYTES}", input.len());
                Some(GraphError::new("GraphError", "too_large", message))
            }
            Ok(_) => None,
        }
    }
}

/// `call(kind, json)`: a promise of the parent's answer.
pub(super) fn call(_this: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let host = Host::of(context);
    let (kind, input) = kind_and_input(arguments)?;
    let site = Site::current(&host, context);
    let (promise, resolvers) = JsPromise::new_pending(context);
    let pending = Pending { resolvers, site };
    if let Some(error) = host.refusal(&kind, &input) {
        host.settle(pending, Outcome::Err(error), context)?;
        return Ok(promise.into());
    }
    let id = host.next_id.get();
    host.next_id.set(id + 1);
    if let Ok(input) = input {
        let Site { line, column } = site;
        host.say(&format!(
            "{{\"say\":\"call\",\"id\":{id},\"kind\":\"{kind}\",\"line\":{line},\"column\":{column},\"input\":{input}}}"
        ));
    }
    host.pending.borrow_mut().insert(id, pending);
    host.collect_garbage();
    Ok(promise.into())
}

/// `tell(kind, json)`: an event without an answer.
pub(super) fn tell(_this: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let host = Host::of(context);
    if let (kind, Ok(input)) = kind_and_input(arguments)?
        && input.len() <= INPUT_BYTES
    {
        host.say(&format!("{{\"say\":\"tell\",\"kind\":\"{kind}\",\"input\":{input}}}"));
    }
    Ok(JsValue::undefined())
}

/// `spent()`: tokens, as of the last reply.
pub(super) fn spent(_this: &JsValue, _arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    Ok(JsValue::from(Host::of(context).spent() as f64))
}

fn kind_and_input(arguments: &[JsValue]) -> JsResult<(String, Result<String, json::Unfit>)> {
    let text = |index: usize| arguments.get_or_undefined(index).as_string();
    // Only the prelude calls the host, with a kind of its own and with JSON.
    let (Some(kind), Some(input)) = (text(0), text(1)) else {
        return Err(JsError::from(JsNativeError::typ().with_message("this value has no JSON")));
    };
    Ok((lossy(&kind), json::clean(lossy(&input))))
}

/// What a finished script returned, as JSON text.
pub(super) fn result_text(host: &Host, value: &JsValue, context: &mut Context) -> Result<String, ResultError> {
    let text = host.try_stringify(value, context).map_err(ResultError::Threw)?;
    let text = text.unwrap_or(js_string!("null"));
    json::clean(lossy(&text)).map_err(ResultError::Unfit)
}

/// Why a result has no JSON.
pub(super) enum ResultError {
    Threw(JsError),
    Unfit(json::Unfit),
}
