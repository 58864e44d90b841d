//! The demo's processes: this program, started as its users start it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::super::error::CliError;
use crate::paths::{HOME_VARIABLE, Paths};

/// A process that has not come up by then has a problem.
const START: Duration = Duration::from_secs(20);

/// A process that was asked to stop and has not by then is ended.
const STOP: Duration = Duration::from_secs(5);

fn this_program() -> Result<Command, CliError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

/// Runs one command to its end and gives back what it printed.
async fn run_once(mut command: Command) -> Result<String, CliError> {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(CliError::internal(format!("a command of the demo failed ({})\n{said}", output.status)))
}

/// The hub's process.
pub(super) struct Hub {
    pub(super) url: String,
    data: PathBuf,
    child: Child,
}

impl Hub {
    pub(super) async fn start(scratch: &Path) -> Result<Self, CliError> {
        let (data, log) = (scratch.join("hub.db"), scratch.join("hub.log"));
        let mut command = this_program()?;
        command.arg("hub").arg("--data").arg(&data).args(["--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(fs::File::create(&log)?).spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| CliError::internal("the hub's output is not piped"))?;
        let first = tokio::time::timeout(START, BufReader::new(stdout).lines().next_line()).await;
        match first {
            Ok(Ok(Some(url))) => Ok(Self { url, data, child }),
            _ => Err(CliError::internal(format!("the hub did not start\n{}", tail(&log)))),
        }
    }

    /// `graph-relay hub …` on the same database.
    pub(super) async fn command(&self, words: &[&str]) -> Result<String, CliError> {
        let mut command = this_program()?;
        command.arg("hub").args(words).arg("--data").arg(&self.data);
        run_once(command).await
    }

    pub(super) async fn stop(self) {
        stop(self.child).await;
    }
}

/// The owner of the demo's laptop, at its command line.
pub(super) struct Owner {
    pub(super) home: PathBuf,
}

impl Owner {
    pub(super) fn new(scratch: &Path, hub: &str, device_token: &str, folder: &Path) -> Result<Self, CliError> {
        let home = scratch.join("laptop");
        let paths = Paths::in_folder(&home)?;
        paths.create()?;
        let config = format!(
            "[hub]\nurl = {}\nwake_channel = true\n\n[device]\nname = \"demo laptop\"\n\n[[folders]]\npath = {}\naccess = \"read\"\n",
            toml::Value::from(hub),
            toml::Value::from(folder.to_string_lossy().as_ref()),
        );
        fs::write(paths.config_file(), config)?;
        write_private(&paths.token_file(), device_token)?;
        Ok(Self { home })
    }

    fn program(&self) -> Result<Command, CliError> {
        let mut command = this_program()?;
        command.env(HOME_VARIABLE, &self.home);
        Ok(command)
    }

    /// `graph-relay …` as the owner types it.
    pub(super) async fn command(&self, words: &[&str]) -> Result<String, CliError> {
        let mut command = self.program()?;
        command.args(words);
        run_once(command).await
    }
}

/// The relay's process.
pub(super) struct Relay {
    child: Child,
}

impl Relay {
    pub(super) async fn start(owner: &Owner) -> Result<Self, CliError> {
        let log = owner.home.join("relay.log");
        let mut command = owner.program()?;
        let child = command.arg("run").stdout(Stdio::null()).stderr(fs::File::create(&log)?).spawn()?;
        let mut relay = Self { child };
        match tokio::time::timeout(START, relay.comes_up(owner)).await {
            Ok(Ok(())) => Ok(relay),
            _ => Err(CliError::internal(format!("the relay did not start\n{}", tail(&log)))),
        }
    }

    async fn comes_up(&mut self, owner: &Owner) -> Result<(), CliError> {
        let socket = Paths::in_folder(&owner.home)?.socket();
        while cfg!(unix) && !socket.exists() {
            if self.child.try_wait()?.is_some() {
                return Err(CliError::internal("the relay ended"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    pub(super) async fn stop(self) {
        stop(self.child).await;
    }
}

/// Ends a process and waits until it is gone, so that its files can be removed.
async fn stop(mut child: Child) {
    // It keeps nothing that a sudden end could harm.
    let _ = child.start_kill();
    let _ = tokio::time::timeout(STOP, child.wait()).await;
}

/// A file that only its owner can read.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)?.write_all(text.as_bytes())
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
