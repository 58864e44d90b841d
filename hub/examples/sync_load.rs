//! How many syncs a second the hub answers, through real sockets, on a SQLite file.
//!
//! `cargo run --release -p hub --example sync_load -- [--devices 1000] [--connections 16] [--seconds 10]
//! [--changing 0]`
//!
//! Devices take turns over keep-alive connections, each sharing ten sessions with one project. `--changing N` lets
//! every Nth sync bring news, which costs a flush of the disk; 0 is the steady state of a fleet at rest. The driver
//! shares the processors with the hub, so the hub alone can do more than the figure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hub::{Hub, NewDevice, Settings};
use protocol::{ProjectId, SystemClock};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let devices = option("--devices", 1_000)?;
    let connections = option("--connections", 16)?.max(1);
    let seconds = option("--seconds", 10)?;
    let changing = option("--changing", 0)?;

    let folder = std::env::temp_dir().join(format!("sync-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("hub.db");
    let store = hub::open_store(path.to_str().ok_or("the temporary folder is not UTF-8")?).await?;
    let hub = Hub::new(store, Arc::new(SystemClock), Settings::default());
    let project = hub.admin().add_project("Load").await?;
    hub.admin().add_member(&project.id, "owner").await?;
    let mut tokens = Vec::new();
    for _ in 0..devices {
        let new = NewDevice { name: "laptop".to_owned(), owner: "owner".to_owned() };
        tokens.push(hub.admin().add_device(new).await?.1.to_string());
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(hub::serve(listener, hub, std::future::pending()));

    let turn = Arc::new(Turn { tokens, project: project.id, changing, next: AtomicU64::new(0) });
    for n in 0..turn.tokens.len() as u64 {
        let mut first = BufReader::new(TcpStream::connect(address).await?);
        exchange(&mut first, &turn.request(n, 0)).await?;
    }
    let (began, deadline) = (Instant::now(), Instant::now() + Duration::from_secs(seconds));
    let workers: Vec<_> = (0..connections)
        .map(|_| {
            let turn = Arc::clone(&turn);
            tokio::spawn(async move {
                let mut stream = BufReader::new(TcpStream::connect(address).await?);
                let mut times = Vec::new();
                while Instant::now() < deadline {
                    let n = turn.next.fetch_add(1, Ordering::Relaxed);
                    let request = turn.request(n % turn.tokens.len() as u64, turn.version(n));
                    let sent = Instant::now();
                    exchange(&mut stream, &request).await?;
                    times.push(sent.elapsed());
                }
                Ok::<_, Failed>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for worker in workers {
        times.extend(worker.await??);
    }
    let elapsed = began.elapsed();
    times.sort_unstable();
    let rate = times.len() as f64 / elapsed.as_secs_f64();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    println!("{rate:.0} syncs/s over {connections} connections, {devices} devices, every {changing}th with news");
    println!("p50 {:?}  p99 {:?}  max {:?}", at(0.5), at(0.99), times.last().copied().unwrap_or_default());
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

struct Turn {
    tokens: Vec<String>,
    project: ProjectId,
    changing: u64,
    next: AtomicU64,
}

impl Turn {
    /// The version of the sessions in the nth sync: another one means news.
    fn version(&self, n: u64) -> u64 {
        if self.changing > 0 && n.is_multiple_of(self.changing) { n } else { 0 }
    }

    fn request(&self, device: u64, version: u64) -> Vec<u8> {
        let sessions: Vec<_> = (0..10)
            .map(|n| {
                json!({"id": format!("gs_{:032x}", device * 100 + n), "name": "digest", "slug": "digest",
                    "description": "Reads a folder and says what is in it", "version": version, "status": "ready"})
            })
            .collect();
        let body = json!({
            "project_id": self.project, "known": [], "sessions": sessions, "accept": true,
            "device": {"id": "laptop", "name": "laptop", "version": "0.1.0", "busy": false},
        })
        .to_string();
        let token = &self.tokens[device as usize];
        format!(
            "POST /external-assistants/graph-relays/sync HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

/// Sends a request and reads its answer to the end.
async fn exchange(stream: &mut BufReader<TcpStream>, request: &[u8]) -> Result<(), Failed> {
    stream.write_all(request).await?;
    let (mut line, mut length, mut status) = (String::new(), 0, String::new());
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let text = line.trim_end();
        if status.is_empty() {
            status = text.to_owned();
        } else if let Some((_, value)) =
            text.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        {
            length = value.trim().parse()?;
        } else if text.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    if status.contains(" 200 ") { Ok(()) } else { Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into()) }
}

fn option(name: &str, default: u64) -> Result<u64, Failed> {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)) {
        Some(value) => Ok(value.parse()?),
        None => Ok(default),
    }
}
