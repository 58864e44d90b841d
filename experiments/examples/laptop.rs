//! Figures of the real program on this machine: hub and relay as processes, an assistant over MCP.
//!
//! `cargo build --release && cargo run --release -p experiments --example laptop [-- target/release/graph-relay]`
//!
//! Memory and processor time are read from `/proc`, so the rows of the idle processes are for Linux.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use graph_relay::assistant::Assistant;
use jiff::Timestamp;
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PICKUPS: usize = 200;
const RUNS: usize = 500;
const CANCELS: usize = 30;
const KILLS: usize = 5;
const RANDOM_KILLS: usize = 200;
const CUT_OFF: &str = "the desktop stopped while the Graph was running";
const IDLE: Duration = Duration::from_secs(60);
/// A tick of the processor times in `/proc`.
const TICK_MS: u64 = 10;

#[tokio::main]
async fn main() -> Result<()> {
    // Fails only if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let program = std::env::args().nth(1).unwrap_or_else(|| "target/release/graph-relay".to_owned());
    let program = Path::new(&program).canonicalize()?;
    let dir = std::env::temp_dir().join(format!("graph-relay-laptop-{}", std::process::id()));
    let measured = measure(&program, &dir).await;
    fs::remove_dir_all(&dir)?;
    measured
}

async fn measure(program: &Path, dir: &Path) -> Result<()> {
    let mut laptop = Laptop::new(program, &dir.join("wake"), true).await?;
    pickups(&laptop).await?;
    cancels(&laptop).await?;
    kills(&mut laptop).await?;
    random_kills(&mut laptop).await?;
    throughput(&mut laptop).await?;
    drop(laptop);
    // As it is by default: a poll every 20 s, no wake channel.
    idle(&Laptop::new(program, &dir.join("idle"), false).await?).await
}

async fn pickups(laptop: &Laptop) -> Result<()> {
    let mut waits = Vec::new();
    for _ in 0..PICKUPS {
        let run = laptop.end(&laptop.queue("trivial").await?).await?;
        waits.push(at(&run, "started_at")?.duration_since(at(&run, "queued_at")?).unsigned_abs());
    }
    row("queued → started, wake channel", &percentiles(waits));
    Ok(())
}

async fn cancels(laptop: &Laptop) -> Result<()> {
    let mut waits = Vec::new();
    for _ in 0..CANCELS {
        let command = laptop.queue("forever").await?;
        laptop.until(&command, &["running"]).await?;
        let asked = Instant::now();
        laptop.assistant.call("cancel_graph_run", json!({"command_id": command})).await?;
        laptop.end(&command).await?;
        waits.push(asked.elapsed());
    }
    row("cancel → reported, wake channel", &percentiles(waits));
    Ok(())
}

async fn kills(laptop: &mut Laptop) -> Result<()> {
    let mut waits = Vec::new();
    for _ in 0..KILLS {
        let command = laptop.queue("forever").await?;
        laptop.until(&command, &["running"]).await?;
        laptop.stop_relay()?;
        let restarted = Instant::now();
        laptop.start_relay()?;
        laptop.end(&command).await?;
        waits.push(restarted.elapsed());
    }
    row("restart after kill -9 → settled", &percentiles(waits));
    Ok(())
}

/// A relay that is killed again and again, at any moment: every command has its end, and none runs twice.
async fn random_kills(laptop: &mut Laptop) -> Result<()> {
    let mut commands = Vec::new();
    for _ in 0..RANDOM_KILLS {
        commands.push(laptop.queue("nap").await?);
        commands.push(laptop.queue("nap").await?);
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..250))).await;
        laptop.stop_relay()?;
        laptop.start_relay()?;
    }
    let mut completed = 0;
    for command in &commands {
        let run = laptop.end(command).await?;
        match run["message"].as_str() {
            None if run["result"] == "rested" => completed += 1,
            Some(CUT_OFF) => {}
            _ => return Err(format!("an end that no kill explains: {run}").into()),
        }
    }
    let history: Vec<Value> = serde_json::from_str(&laptop.owner(&["history", "--limit", "1000", "--json"])?)?;
    for command in &commands {
        let runs = history.iter().filter(|run| run["channel"] == format!("graph:external:{command}")).count();
        if runs != 1 {
            return Err(format!("command {command} has {runs} runs").into());
        }
    }
    let all = commands.len();
    row(
        &format!("{RANDOM_KILLS} random kill -9, {all} commands"),
        &format!("{completed} completed, {} settled as cut off, none lost, none ran twice", all - completed),
    );
    Ok(())
}

/// The relay comes back to a full queue, so that nothing is measured but itself.
async fn throughput(laptop: &mut Laptop) -> Result<()> {
    laptop.stop_relay()?;
    let mut commands = Vec::new();
    for _ in 0..RUNS {
        commands.push(laptop.queue("trivial").await?);
    }
    laptop.start_relay()?;
    let last = laptop.end(&commands[RUNS - 1]).await?;
    let first = laptop.end(&commands[0]).await?;
    let took = at(&last, "finished_at")?.duration_since(at(&first, "started_at")?).unsigned_abs();
    row("trivial Graphs, queued → reported", &format!("{:.0} per second", RUNS as f64 / took.as_secs_f64()));
    Ok(())
}

async fn idle(laptop: &Laptop) -> Result<()> {
    // What belongs to the start is over by then.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let processes = [("idle relay", laptop.relay.id()), ("idle hub", laptop.hub.id())];
    let before = processes.map(|(_, pid)| processor_ms(pid));
    tokio::time::sleep(IDLE).await;
    for ((name, pid), before) in processes.into_iter().zip(before) {
        let spent = processor_ms(pid)? - before?;
        let mib = resident_kib(pid)? as f64 / 1024.0;
        row(name, &format!("{mib:.1} MiB resident, {spent} ms of processor time in {} s", IDLE.as_secs()));
    }
    Ok(())
}

fn row(what: &str, figure: &str) {
    println!("{what:<36} {figure}");
}

fn percentiles(mut waits: Vec<Duration>) -> String {
    waits.sort();
    let nth = |percent: usize| waits[(waits.len() - 1) * percent / 100].as_secs_f64() * 1_000.0;
    format!("p50 {:.0} ms, p99 {:.0} ms, max {:.0} ms (n = {})", nth(50), nth(99), nth(100), waits.len())
}

fn at(run: &Value, field: &str) -> Result<Timestamp> {
    Ok(run[field].as_str().ok_or_else(|| format!("no {field} in {run}"))?.parse()?)
}

/// User and system time so far.
fn processor_ms(pid: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split(' ').collect();
    Ok((fields[11].parse::<u64>()? + fields[12].parse::<u64>()?) * TICK_MS)
}

fn resident_kib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no figure")?.parse()?)
}

/// A hub, a relay and an assistant, with two Graphs shared.
struct Laptop {
    program: PathBuf,
    dir: PathBuf,
    hub: Child,
    relay: Child,
    assistant: Assistant,
    project: String,
}

impl Laptop {
    async fn new(program: &Path, dir: &Path, wake_channel: bool) -> Result<Self> {
        let home = dir.join("home");
        fs::create_dir_all(&home)?;
        let data = dir.join("hub.db");
        let mut command = Command::new(program);
        command.arg("hub").arg("--data").arg(&data).args(["--listen", "127.0.0.1:0"]);
        let mut hub = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut url = String::new();
        BufReader::new(hub.stdout.take().ok_or("no output")?).read_line(&mut url)?;
        let ask = |words: &[&str]| run(Command::new(program).arg("hub").args(words).arg("--data").arg(&data));
        let project = ask(&["project", "add", "Bench"])?;
        ask(&["member", "add", "you", "--project", &project])?;
        let assistant = Assistant::new(url.trim(), &ask(&["connection", "add", "bench", "--owner", "you"])?)?;
        fs::write(home.join("device-token"), ask(&["device", "add", "bench", "--owner", "you"])?)?;
        let config = format!("[hub]\nurl = '{}'\nwake_channel = {wake_channel}\n", url.trim());
        fs::write(home.join("config.toml"), config)?;
        let (program, dir) = (program.to_owned(), dir.to_owned());
        let relay = relay(&program, &dir)?;
        let laptop = Self { program, dir, hub, relay, assistant, project };
        laptop.share("trivial", "return 1")?;
        laptop.share("forever", "await sleep('1h')")?;
        laptop.share("nap", "await sleep(Math.random() * 60); return 'rested'")?;
        Ok(laptop)
    }

    fn owner(&self, words: &[&str]) -> Result<String> {
        run(Command::new(&self.program).env("GRAPH_RELAY_HOME", self.dir.join("home")).args(words))
    }

    fn share(&self, name: &str, source: &str) -> Result<()> {
        let script = self.dir.join(format!("{name}.js"));
        fs::write(&script, source)?;
        self.owner(&["graph", "add", name, &script.to_string_lossy()])?;
        self.owner(&["project", "on", "Bench"])?;
        self.owner(&["share", name, "--project", "Bench"])?;
        Ok(())
    }

    fn start_relay(&mut self) -> Result<()> {
        self.relay = relay(&self.program, &self.dir)?;
        Ok(())
    }

    fn stop_relay(&mut self) -> Result<()> {
        self.relay.kill()?;
        self.relay.wait()?;
        Ok(())
    }

    async fn queue(&self, slug: &str) -> Result<String> {
        let session = loop {
            let listed = self.assistant.call("list_graph_sessions", json!({"project_id": self.project})).await?;
            let found = listed["sessions"].as_array().into_iter().flatten().find(|session| session["slug"] == slug);
            match found {
                Some(session) => break session["graph_session_id"].clone(),
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let key = uuid::Uuid::now_v7().to_string();
        let request = json!({"graph_session_id": session, "idempotency_key": key});
        let queued = self.assistant.call("run_graph_session", request).await?;
        Ok(queued["command_id"].as_str().ok_or("no command id")?.to_owned())
    }

    async fn until(&self, command: &str, states: &[&str]) -> Result<Value> {
        loop {
            let run = self.assistant.call("get_graph_run", json!({"command_id": command})).await?;
            if states.iter().any(|state| run["status"] == *state) {
                return Ok(run);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn end(&self, command: &str) -> Result<Value> {
        self.until(command, &["completed", "failed", "cancelled"]).await
    }
}

impl Drop for Laptop {
    fn drop(&mut self) {
        for child in [&mut self.relay, &mut self.hub] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn relay(program: &Path, dir: &Path) -> Result<Child> {
    let mut command = Command::new(program);
    command.env("GRAPH_RELAY_HOME", dir.join("home")).arg("run").stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.spawn()?)
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
