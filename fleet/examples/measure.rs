//! Figures of the engine on this machine: worker start, memory, Graphs per second, a round trip, a cancel.
//!
//! `cargo run --release -p fleet --example measure [FOLDER]`; with a folder the digest Graph is run on it too.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet::{
    Access, CappedAllocator, Engine, Event, Fleet, FolderGrant, Limits, NoGraphs, Outcome, RunRequest, Settings,
    WorkerCommand,
};
use futures::StreamExt;
use serde_json::json;
use tokio::sync::mpsc;

/// The program is its own worker, as the product is.
#[global_allocator]
static ALLOCATOR: CappedAllocator = CappedAllocator;

const WORKER: &str = "worker";
const STARTS: usize = 200;
const RUNS: usize = 500;
const ROUND_TRIPS: usize = 5_000;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(WORKER) {
        return fleet::worker_main();
    }
    match tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| runtime.block_on(measure())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Result<(), Box<dyn Error>> {
    let worker = WorkerCommand { program: std::env::current_exe()?, args: vec![WORKER.into()] };
    let engine = Fleet::new(Settings {
        worker,
        models: BTreeMap::new(),
        default_model: None,
        ceiling: Limits::default(),
        cancel_grace: Duration::from_secs(5),
    });
    starts(&engine).await;
    runs(&engine, 1).await;
    runs(&engine, 4).await;
    round_trips(&engine).await;
    cancel(&engine, "waiting", "log('on'); await sleep('1h')").await;
    cancel(&engine, "stuck in a loop", "log('on'); while (true) {}").await;
    if let Some(folder) = std::env::args().nth(1) {
        digest(&engine, &std::fs::canonicalize(folder)?).await?;
    }
    Ok(())
}

fn request(source: &str) -> RunRequest {
    RunRequest {
        execution_id: uuid::Uuid::new_v4(),
        graph: "measured".to_owned(),
        file: "measured.js".to_owned(),
        source: source.into(),
        arguments: json!({}),
        folders: Vec::new(),
        limits: Limits::default(),
        graphs: Arc::new(NoGraphs),
    }
}

/// Runs a script, and calls `on_log` at each of its log lines.
async fn run(engine: &Fleet, request: RunRequest, mut on_log: impl FnMut()) -> Outcome {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let run = engine.run(request, sender);
    let listen = async {
        while let Some(event) = receiver.recv().await {
            if matches!(event, Event::Log { .. }) {
                on_log();
            }
        }
    };
    futures::join!(run, listen).0
}

/// From the spawn to the script's first host call, and what the worker then holds.
async fn starts(engine: &Fleet) {
    let mut times = Vec::new();
    let mut memory = None;
    for _ in 0..STARTS {
        let begun = Instant::now();
        run(engine, request("log('ready'); await sleep(5)"), || {
            times.push(begun.elapsed());
            memory = memory.take().or_else(memory_of_children);
        })
        .await;
    }
    times.sort();
    println!("worker ready: min {:?}, median {:?}, p90 {:?}", times[0], times[STARTS / 2], times[STARTS * 9 / 10]);
    println!("worker memory: {}", memory.as_deref().unwrap_or("not known on this system"));
}

/// Resident and proportional memory of a child process.
fn memory_of_children() -> Option<String> {
    let parent = format!("PPid:\t{}\n", std::process::id());
    let processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let child = processes
        .into_iter()
        .find(|path| std::fs::read_to_string(path.join("status")).is_ok_and(|status| status.contains(&parent)))?;
    let rollup = std::fs::read_to_string(child.join("smaps_rollup")).ok()?;
    let line = |name: &str| rollup.lines().find(|line| line.starts_with(name)).map(|line| line.replace(' ', ""));
    Some(format!("{}, {}", line("Rss:")?, line("Pss:")?))
}

async fn runs(engine: &Fleet, at_once: usize) {
    let begun = Instant::now();
    let runs = (0..RUNS).map(|_| run(engine, request("return 1"), || ()));
    futures::stream::iter(runs).buffer_unordered(at_once).for_each(|_| std::future::ready(())).await;
    println!("trivial Graphs, {at_once} at once: {:.0} a second", RUNS as f64 / begun.elapsed().as_secs_f64());
}

async fn round_trips(engine: &Fleet) {
    let script = format!("for (let i = 0; i < {ROUND_TRIPS}; i++) await tool('none').catch(() => 0)");
    let begun = Instant::now();
    run(engine, request(&script), || ()).await;
    println!("round trip of a host call: {:?}", begun.elapsed() / ROUND_TRIPS as u32);
}

/// From the cancel until the run is over and its process gone.
async fn cancel(engine: &Fleet, what: &str, script: &str) {
    let request = request(script);
    let execution_id = request.execution_id;
    let mut asked = Instant::now();
    run(engine, request, || {
        asked = Instant::now();
        engine.cancel(execution_id);
    })
    .await;
    println!("cancel to dead, {what}: {:?}", asked.elapsed());
}

async fn digest(engine: &Fleet, folder: &Path) -> Result<(), Box<dyn Error>> {
    let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../graphs/digest.js"))?;
    let request = RunRequest {
        arguments: json!({"folder": folder}),
        folders: vec![FolderGrant { path: folder.to_owned(), access: Access::Read }],
        ..request(&source)
    };
    let begun = Instant::now();
    let outcome = run(engine, request, || ()).await;
    let result = outcome.result.ok_or_else(|| format!("the digest failed: {:?}", outcome.error))?;
    println!("digest of {}: {:?}, {} files", folder.display(), begun.elapsed(), result["files"]);
    Ok(())
}
