//! One worker and the script in it: the outermost Graph of a run, or a child.
//!
//! | state | event | then |
//! |---|---|---|
//! | starting | `ready` | arguments, tools, folders and limits are checked; the script begins |
//! | starting | `refused` | failed before the first line |
//! | running | `call` | done here, answered when it ends |
//! | running | cancel asked | pending calls end, the worker is told; one that stays silent for 100 ms is stuck: killed |
//! | cancelling | the worker acknowledged | its `finally` blocks get the grace, then it is killed |
//! | any | `done`, `failed` | over, children end first |
//! | any | deadline | killed |
//! | any | silence | the exit code says why |

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::budget::Budget;
use super::calls::{self, Caller};
use super::hold;
use super::prepare::{self, Prepared, prepare};
use super::process::{Silence, Worker};
use super::run::Run;
use super::tells;
use crate::limits::{HOST_CALLS, HOST_CALLS_AT_ONCE};
use crate::wire::{Begin, CallKind, FromWorker, Outcome, ToWorker};
use crate::{CheckError, EffectiveLimits, Event, GraphError, Meta, Problem, WorkerCommand};

/// How long a worker may take to acknowledge a cancel. One that is alive does so between two microtasks.
const ACKNOWLEDGE: Duration = Duration::from_millis(100);
/// Longest that a check may take.
const CHECK: Duration = Duration::from_secs(10);
/// Inputs of calls under way, together. Beyond that the worker's pipe is not read: its writes wait, and this process
/// does not grow.
const INPUT_BYTES_AT_ONCE: usize = 8 * 1024 * 1024;

/// A script to run, and within what.
pub(super) struct Graph {
    pub(super) file: String,
    pub(super) source: Arc<str>,
    pub(super) arguments: Value,
    pub(super) limits: EffectiveLimits,
    pub(super) deadline: Instant,
    /// The names of the Graphs from the outermost to this one.
    pub(super) lineage: Vec<String>,
}

/// Runs a script to its end. Returns when its worker and those of its children are gone.
pub(super) async fn run(
    run: &Arc<Run>,
    graph: Graph,
    parent_budget: Arc<Budget>,
    cancel: CancellationToken,
) -> Result<Value, GraphError> {
    let (worker, meta) = match start(&run.shared.settings.worker, &graph, &cancel).await? {
        Started::Ready(worker, meta) => (worker, meta),
        Started::Refused(problems) => return Err(refusal(&graph.file, &problems)),
    };
    let mut worker = check_arguments(worker, &meta, &graph, &cancel).await?;
    let prepared = match prepare(&meta, &graph.arguments, &run.request.folders, &graph.limits) {
        Ok(prepared) => prepared,
        Err(error) => {
            worker.kill().await;
            return Err(error);
        }
    };
    let budget = own_budget(&prepared, &graph, parent_budget);
    let begin = Begin {
        seed: seed(run, &graph),
        memory_mb: prepared.limits.memory_mb,
        args: graph.arguments,
        run: json!({
            "id": run.request.execution_id,
            "graph": graph.lineage.last(),
            "depth": graph.lineage.len() - 1,
            "resumed": false,
        }),
        total: budget.total(),
        spent: budget.spent(),
    };
    worker.send(&ToWorker::Begin(Box::new(begin))).await;
    let deadline = graph.deadline.min(Instant::now() + prepared.limits.timeout);
    let caller = Caller {
        run: Arc::clone(run),
        budget,
        stop: cancel.child_token(),
        deadline,
        file: graph.file,
        lineage: graph.lineage,
        prepared,
    };
    Driver::new(Arc::new(caller), cancel).drive(worker).await
}

/// Holds the arguments to `meta.args`, in the worker of the script that both belong to.
async fn check_arguments(
    worker: Worker,
    meta: &Meta,
    graph: &Graph,
    cancel: &CancellationToken,
) -> Result<Worker, GraphError> {
    if let Err(error) = prepare::check_arguments(&graph.arguments) {
        worker.kill().await;
        return Err(error);
    }
    let Some(schema) = &meta.args else { return Ok(worker) };
    match hold::in_worker(worker, graph.limits.memory_mb, schema, Some(&graph.arguments), (graph.deadline, cancel))
        .await
    {
        Ok((worker, errors)) if errors.is_empty() => Ok(worker),
        Ok((worker, errors)) => {
            worker.kill().await;
            Err(GraphError::start("bad_args", format!("args: {}", errors.join("; "))))
        }
        Err(_) if cancel.is_cancelled() => Err(GraphError::cancelled()),
        Err(_) if graph.deadline <= Instant::now() => Err(timed_out(&graph.limits)),
        Err(wrong) => Err(GraphError::start("bad_meta", format!("meta.args: {wrong}"))),
    }
}

/// The outermost script narrows the run's own budget; a child has one inside its parent's.
fn own_budget(prepared: &Prepared, graph: &Graph, parent: Arc<Budget>) -> Arc<Budget> {
    let narrower = prepared.limits != graph.limits;
    if narrower || graph.lineage.len() > 1 { Budget::new(&prepared.limits, Some(parent)) } else { parent }
}

/// Children of one run differ in their randomness, and a run can be told again from its execution id.
fn seed(run: &Run, graph: &Graph) -> u64 {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    hash.update(run.request.execution_id.as_bytes());
    hash.update(graph.lineage.join("/").as_bytes());
    let bytes = hash.finalize();
    u64::from_le_bytes(std::array::from_fn(|index| bytes[index]))
}

enum Started {
    Ready(Worker, Box<Meta>),
    Refused(Vec<Problem>),
}

/// Spawns a worker and has it parse the script.
async fn start(command: &WorkerCommand, graph: &Graph, cancel: &CancellationToken) -> Result<Started, GraphError> {
    let mut worker = Worker::spawn(command).map_err(|error| {
        let program = command.program.display();
        GraphError::engine("worker", format!("the worker process {program} cannot be started: {error}"))
    })?;
    let memory_mb = graph.limits.memory_mb;
    worker.send(&ToWorker::Start { source: graph.source.to_string(), memory_mb }).await;
    let said = tokio::select! {
        said = worker.next() => said,
        () = cancel.cancelled() => {
            worker.kill().await;
            return Err(GraphError::cancelled());
        }
        () = tokio::time::sleep_until(graph.deadline) => {
            worker.kill().await;
            return Err(timed_out(&graph.limits));
        }
    };
    match said {
        Ok(FromWorker::Ready { meta }) => Ok(Started::Ready(worker, meta)),
        Ok(FromWorker::Refused { problems }) => {
            worker.finish().await;
            Ok(Started::Refused(problems))
        }
        Ok(_) => Err(worker.cause_of_death(Silence::Garbage("something out of turn".to_owned()), memory_mb).await),
        Err(silence) => Err(worker.cause_of_death(silence, memory_mb).await),
    }
}

fn refusal(file: &str, problems: &[Problem]) -> GraphError {
    let Some(first) = problems.first() else { return GraphError::start("bad_script", "the script is wrong") };
    let more = match problems.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    GraphError::start("bad_script", format!("{}{more}", first.message)).at(file, first.line, first.column)
}

fn timed_out(limits: &EffectiveLimits) -> GraphError {
    let message = format!("the run took longer than {}", humantime::format_duration(limits.timeout));
    GraphError::limit("timeout", message)
}

/// See [`crate::Fleet::check`].
pub(super) async fn check(
    command: &WorkerCommand,
    limits: &EffectiveLimits,
    file: &str,
    source: &str,
) -> Result<Meta, CheckError> {
    let graph = Graph {
        file: file.to_owned(),
        source: source.into(),
        arguments: Value::Null,
        limits: *limits,
        deadline: Instant::now() + CHECK,
        lineage: Vec::new(),
    };
    match start(command, &graph, &CancellationToken::new()).await {
        Ok(Started::Ready(worker, meta)) => {
            worker.kill().await;
            Ok(*meta)
        }
        Ok(Started::Refused(problems)) => Err(CheckError::Problems { file: file.to_owned(), problems }),
        Err(error) => Err(CheckError::Engine(error.to_string())),
    }
}

/// A call that has ended.
type Answer = (u64, usize, Result<Value, GraphError>);

struct Driver {
    caller: Arc<Caller>,
    cancel: CancellationToken,
    /// Agents, tools and sleeps: dropped by a cancel.
    calls: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// Child Graphs: they hear the same cancel, and are waited for.
    children: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// Of the inputs of all calls under way.
    input_bytes: usize,
    cancelling: bool,
    kill_at: Instant,
}

impl Driver {
    fn new(caller: Arc<Caller>, cancel: CancellationToken) -> Self {
        let kill_at = caller.deadline;
        Self {
            caller,
            cancel,
            calls: FuturesUnordered::new(),
            children: FuturesUnordered::new(),
            input_bytes: 0,
            cancelling: false,
            kill_at,
        }
    }

    async fn drive(mut self, mut worker: Worker) -> Result<Value, GraphError> {
        let end = loop {
            let may_read = self.input_bytes < INPUT_BYTES_AT_ONCE;
            tokio::select! {
                biased;
                () = self.cancel.cancelled(), if !self.cancelling => self.begin_cancel(&mut worker).await,
                () = tokio::time::sleep_until(self.kill_at) => break End::Kill,
                Some(answer) = self.calls.next() => self.answer(answer, &mut worker).await,
                Some(answer) = self.children.next() => self.answer(answer, &mut worker).await,
                said = worker.next(), if may_read => match said {
                    Ok(said) => if let Some(end) = self.hear(said) { break end },
                    Err(silence) => break End::Silent(silence),
                },
            }
        };
        self.calls.clear();
        self.caller.stop.cancel();
        let result = end.settle(worker, &self.caller.prepared.limits, self.cancelling).await;
        while self.children.next().await.is_some() {}
        result
    }

    async fn begin_cancel(&mut self, worker: &mut Worker) {
        self.cancelling = true;
        self.calls.clear();
        self.input_bytes = 0;
        self.kill_at = self.kill_at.min(Instant::now() + ACKNOWLEDGE);
        worker.send(&ToWorker::Cancel).await;
    }

    async fn answer(&mut self, (id, bytes, result): Answer, worker: &mut Worker) {
        self.input_bytes = self.input_bytes.saturating_sub(bytes);
        let outcome = Outcome::from(result);
        worker.send(&ToWorker::Reply { id, spent: self.caller.budget.spent(), outcome }).await;
    }

    /// Takes in what the worker said. `Some` when that was its last word.
    fn hear(&mut self, said: FromWorker) -> Option<End> {
        match said {
            FromWorker::Call { id, kind, input, line, column } => return self.call(id, kind, input, (line, column)),
            FromWorker::Tell { kind, input } => tells::tell(&self.caller, kind, input),
            FromWorker::Cancelled => {
                if self.cancelling {
                    let grace = self.caller.run.shared.settings.cancel_grace;
                    self.kill_at = self.caller.deadline.min(Instant::now() + grace);
                }
            }
            FromWorker::Done { result, open_calls } => {
                if open_calls > 0 && !self.cancelling {
                    let message = format!("the script ended while {open_calls} calls were under way: await them");
                    self.caller.run.tell(Event::Warning { message });
                }
                return Some(End::Said(Ok(result)));
            }
            FromWorker::Failed { error } => return Some(End::Said(Err(tells::own(&self.caller, error)))),
            FromWorker::Ready { .. } | FromWorker::Refused { .. } | FromWorker::Held { .. } => {
                return Some(End::Silent(Silence::Garbage("something out of turn".to_owned())));
            }
        }
        None
    }

    fn call(&mut self, id: u64, kind: CallKind, input: Value, at: (u32, u32)) -> Option<End> {
        if self.caller.run.host_calls.fetch_add(1, SeqCst) >= HOST_CALLS {
            let message = format!("a run may make {HOST_CALLS} host calls at most");
            return Some(End::Said(Err(GraphError::limit("host_calls", message).at(&self.caller.file, at.0, at.1))));
        }
        if self.calls.len() + self.children.len() > HOST_CALLS_AT_ONCE as usize {
            // The worker refuses such a call itself.
            return Some(End::Silent(Silence::Garbage("more calls than it may".to_owned())));
        }
        if self.cancelling {
            // The worker has rejected the call already.
            return None;
        }
        let bytes = input.to_string().len();
        self.input_bytes += bytes;
        let caller = Arc::clone(&self.caller);
        let call = Box::pin(async move { (id, bytes, calls::call(caller, kind, input, at).await) });
        if kind == CallKind::Graph {
            self.children.push(call)
        } else {
            self.calls.push(call)
        }
        None
    }
}

/// How the conversation with a worker ended.
enum End {
    Said(Result<Value, GraphError>),
    Silent(Silence),
    Kill,
}

impl End {
    /// Sees the worker off, and says what came of its script.
    async fn settle(self, worker: Worker, limits: &EffectiveLimits, cancelling: bool) -> Result<Value, GraphError> {
        match self {
            Self::Said(result) => {
                worker.finish().await;
                result
            }
            Self::Silent(silence) => Err(worker.cause_of_death(silence, limits.memory_mb).await),
            Self::Kill => {
                worker.kill().await;
                Err(if cancelling { GraphError::cancelled() } else { timed_out(limits) })
            }
        }
    }
}
