//! A hub, a laptop and an assistant, each a real process or a real client, in a folder of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use graph_relay::assistant::Assistant;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything here takes, also on a busy machine: whoever waits so long has found a bug.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with the test.
pub(crate) struct Process(Child);

impl Process {
    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until `look` sees something.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_graph-relay"));
    command.stdin(Stdio::null()).env_remove("GRAPH_RELAY_HOME").env_remove("GRAPH_RELAY_HUB_DATA");
    command
}

/// A laptop: one folder with configuration, database and scripts.
pub(crate) struct Laptop {
    pub(crate) dir: TempDir,
}

impl Laptop {
    /// A laptop whose relay polls quickly; `hub` is the URL and the token, if it serves one.
    pub(crate) fn new(hub: Option<(&str, &str)>, more: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("gr").tempdir().unwrap();
        let (url, token) = hub.unwrap_or_default();
        let hub =
            format!("[hub]\nurl = '{url}'\npoll_interval = '1s'\ncheck_interval = '500ms'\nrequest_timeout = '5s'\n");
        fs::write(dir.path().join("config.toml"), format!("{hub}{more}")).unwrap();
        fs::write(dir.path().join("device-token"), token).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a script and gives back its path.
    pub(crate) fn script(&self, name: &str, source: &str) -> String {
        let path = self.path(name);
        fs::write(&path, source).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// A command of the owner, to its end.
    pub(crate) fn command(&self, words: &[&str]) -> Output {
        self.program(words).output().unwrap()
    }

    /// The same, not yet started.
    pub(crate) fn program(&self, words: &[&str]) -> Command {
        let mut command = program();
        command.env("GRAPH_RELAY_HOME", self.dir.path()).args(words);
        command
    }

    /// The same, which must succeed; gives back what it printed.
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let output = self.command(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The same, read as JSON.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.ok(words)).unwrap()
    }

    /// A command that is not waited for.
    pub(crate) fn spawn(&self, words: &[&str]) -> Child {
        self.program(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The daemon, once it answers.
    pub(crate) async fn relay(&self) -> Process {
        let log = fs::File::options().create(true).append(true).open(self.path("relay.log")).unwrap();
        let mut command = program();
        command.current_dir(self.dir.path());
        command.env("GRAPH_RELAY_HOME", self.dir.path()).arg("run").stdout(Stdio::null()).stderr(log);
        let mut relay = Process(command.spawn().unwrap());
        eventually("the relay answers", async || {
            assert!(relay.is_running(), "the relay ended: {}", self.log());
            self.json(&["status", "--json"])["daemon"].as_u64().filter(|&pid| pid == u64::from(relay.id()))
        })
        .await;
        relay
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("relay.log")).unwrap_or_default()
    }

    /// Saves a Graph and shares it.
    pub(crate) fn share(&self, name: &str, source: &str) {
        let script = self.script(&format!("{name}.js"), source);
        self.ok(&["graph", "add", name, &script]);
        self.ok(&["share", name, "--project", "Demo"]);
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A hub on a port that stays the same over restarts.
pub(crate) struct Hub {
    dir: TempDir,
    pub(crate) url: String,
    pub(crate) project: String,
    process: Process,
}

impl Hub {
    pub(crate) fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("gr-hub").tempdir().unwrap();
        let (process, url) = Self::listen(dir.path(), "127.0.0.1:0");
        let mut hub = Self { dir, url, project: String::new(), process };
        hub.project = hub.command(&["project", "add", "Demo"]);
        hub.command(&["member", "add", "you", "--project", &hub.project]);
        hub
    }

    fn listen(dir: &Path, address: &str) -> (Process, String) {
        use std::io::BufRead;
        let mut command = program();
        command.arg("hub").arg("--data").arg(dir.join("hub.db")).args(["--listen", address]);
        let mut process = Process(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut url = String::new();
        std::io::BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://"), "the hub did not start");
        (process, url.trim().to_owned())
    }

    pub(crate) fn command(&self, words: &[&str]) -> String {
        let output =
            program().arg("hub").args(words).arg("--data").arg(self.dir.path().join("hub.db")).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }

    pub(crate) fn device_token(&self) -> String {
        self.command(&["device", "add", "laptop", "--owner", "you"])
    }

    pub(crate) fn assistant(&self) -> Assistant {
        static TLS: Once = Once::new();
        TLS.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let token = self.command(&["connection", "add", "assistant", "--owner", "you"]);
        Assistant::new(&self.url, &token).unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    pub(crate) fn restart(&mut self) {
        self.process.kill();
        let address = self.url.strip_prefix("http://").unwrap().to_owned();
        self.process = Self::listen(self.dir.path(), &address).0;
    }
}

/// All three, with the project on and the relay running.
pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) laptop: Laptop,
    pub(crate) relay: Process,
    pub(crate) assistant: Assistant,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    /// `more` is added to the laptop's configuration.
    pub(crate) async fn with(more: &str) -> Self {
        let hub = Hub::start();
        let laptop = Laptop::new(Some((&hub.url, &hub.device_token())), more);
        let relay = laptop.relay().await;
        laptop.ok(&["project", "on", "Demo"]);
        let assistant = hub.assistant();
        Self { hub, laptop, relay, assistant }
    }

    /// The session id of a shared Graph, once the hub has been told of it.
    pub(crate) async fn session(&self, slug: &str) -> String {
        eventually("the Graph is listed", async || {
            let listed =
                self.assistant.call("list_graph_sessions", json!({"project_id": self.hub.project})).await.unwrap();
            let sessions = listed["sessions"].as_array().unwrap().clone();
            let found = sessions.into_iter().find(|session| session["slug"] == slug)?;
            found["graph_session_id"].as_str().map(str::to_owned)
        })
        .await
    }

    /// Queues a run; gives back the command's id.
    pub(crate) async fn queue(&self, session: &str, arguments: Value) -> String {
        let key = uuid::Uuid::new_v4().to_string();
        let request = json!({"graph_session_id": session, "arguments": arguments, "idempotency_key": key});
        let queued = self.assistant.call("run_graph_session", request).await.unwrap();
        queued["command_id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn look(&self, command: &str) -> Value {
        self.assistant.call("get_graph_run", json!({"command_id": command})).await.unwrap()
    }

    /// Waits until the run is in one of these states.
    pub(crate) async fn until(&self, command: &str, states: &[&str]) -> Value {
        eventually(&format!("the run is {states:?}"), async || {
            let run = self.look(command).await;
            states.contains(&run["status"].as_str().unwrap()).then_some(run)
        })
        .await
    }

    pub(crate) async fn end(&self, command: &str) -> Value {
        self.until(command, &["completed", "failed", "cancelled"]).await
    }
}

/// Worker processes of the relay that was started in `home`.
#[cfg(target_os = "linux")]
pub(crate) fn workers_of(home: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_worker = command.split(|&b| b == 0).any(|word| word == b"graph-worker");
        // A worker's environment is empty, but it inherits its working folder from the daemon.
        let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        if is_worker && cwd == home {
            found.push(pid);
        }
    }
    found
}

/// Resident memory of a process, in KiB.
#[cfg(target_os = "linux")]
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
