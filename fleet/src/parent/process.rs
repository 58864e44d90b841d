//! One worker process: spawned, spoken with in lines, and gone at the end.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use crate::limits::JSON_VALUES;
use crate::wire::{FromWorker, LINE_BYTES, ToWorker, values};
use crate::{GraphError, WorkerCommand, exit_code};

/// What is kept of a worker's stderr: enough for a panic's message.
const STDERR_BYTES: u64 = 8 * 1024;

/// How long a worker that has said its last word may take to be gone.
const LAST_WORD: Duration = Duration::from_millis(500);

/// Values of a message around what the script gave.
const FRAME_VALUES: usize = 16;

/// How long a worker may leave its pipe unread.
const DEAF: Duration = Duration::from_secs(10);

/// A running worker, in its own process group (a job object on Windows). Dropping it kills the whole group, whatever
/// the worker itself has come to: nothing that it may have started outlives it.
pub(super) struct Worker {
    child: Box<dyn ChildWrapper>,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: JoinHandle<String>,
    /// The part of a line that has been read.
    line: Vec<u8>,
}

/// Why a worker says nothing more.
#[derive(Debug)]
pub(super) enum Silence {
    /// Its end of the pipe closed.
    Gone,
    /// It said what no worker says, or too much of it.
    Garbage(String),
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A group that is empty by now is no error.
        let _ = self.child.start_kill();
    }
}

impl Worker {
    pub(super) fn spawn(command: &WorkerCommand) -> std::io::Result<Self> {
        let mut wrapped = CommandWrap::with_new(&command.program, |child| {
            child.args(&command.args).env_clear();
            child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            #[cfg(windows)]
            if let Some(root) = std::env::var_os("SystemRoot") {
                child.env("SystemRoot", root);
            }
        });
        #[cfg(unix)]
        wrapped.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        wrapped.wrap(process_wrap::tokio::JobObject);
        wrapped.wrap(KillOnDrop);
        let mut child = wrapped.spawn()?;
        let piped = "the command asks for all three pipes";
        let stdin = child.stdin().take().expect(piped);
        let stdout = child.stdout().take().expect(piped);
        let stderr = child.stderr().take().expect(piped);
        Ok(Self {
            child,
            stdin,
            stdout: BufReader::with_capacity(32 * 1024, stdout),
            stderr: tokio::spawn(keep_stderr(stderr)),
            line: Vec::new(),
        })
    }

    /// A worker that no longer listens is found out by its silence, so a failed write is no error here. One whose pipe
    /// stays full is not reading, which none does that is well: it is killed.
    pub(super) async fn send(&mut self, message: &ToWorker) {
        let mut line = serde_json::to_vec(message).expect("a message has string keys only");
        line.push(b'\n');
        if tokio::time::timeout(DEAF, self.stdin.write_all(&line)).await.is_err() {
            let _ = self.child.start_kill();
        }
    }

    /// What the worker says next. Loses nothing when dropped before it is ready.
    pub(super) async fn next(&mut self) -> Result<FromWorker, Silence> {
        loop {
            let chunk = self.stdout.fill_buf().await.map_err(|_| Silence::Gone)?;
            if chunk.is_empty() {
                return Err(Silence::Gone);
            }
            let end = memchr::memchr(b'\n', chunk);
            let taken = end.unwrap_or(chunk.len());
            if self.line.len() + taken > LINE_BYTES {
                return Err(Silence::Garbage(format!("a line of more than {LINE_BYTES} bytes")));
            }
            self.line.extend_from_slice(&chunk[..taken]);
            self.stdout.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                if values(&line) > JSON_VALUES + FRAME_VALUES {
                    return Err(Silence::Garbage(format!("more than {JSON_VALUES} values at once")));
                }
                return serde_json::from_slice(&line).map_err(|error| Silence::Garbage(error.to_string()));
            }
        }
    }

    /// Lets a worker that has said its last word end, and makes sure that it has.
    pub(super) async fn finish(mut self) {
        if tokio::time::timeout(LAST_WORD, self.child.wait()).await.is_err() {
            self.kill().await;
        }
    }

    /// Kills the worker with everything that it may have started, and waits until it is gone.
    pub(super) async fn kill(mut self) {
        let _ = self.child.start_kill();
        let _ = self.child.wait().await;
    }

    /// Why a worker went silent before its last word.
    pub(super) async fn cause_of_death(mut self, silence: Silence, memory_mb: u32) -> GraphError {
        if let Silence::Garbage(what) = silence {
            self.kill().await;
            return GraphError::engine("protocol", format!("the worker process said {what}"));
        }
        let status = match tokio::time::timeout(LAST_WORD, self.child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                let _ = self.child.start_kill();
                self.child.wait().await.ok()
            }
        };
        // A child that it left behind would keep the pipe open.
        let _ = self.child.start_kill();
        let stderr = tokio::time::timeout(LAST_WORD, &mut self.stderr).await;
        let stderr = stderr.ok().and_then(Result::ok).unwrap_or_default();
        status.map_or_else(
            || GraphError::engine("worker", "the worker process is gone, and the system does not say why"),
            |status| explain(status, &stderr, memory_mb),
        )
    }
}

async fn keep_stderr(stderr: ChildStderr) -> String {
    let mut stderr = stderr;
    let mut kept = Vec::new();
    let _ = (&mut stderr).take(STDERR_BYTES).read_to_end(&mut kept).await;
    // Read on, so that the worker never blocks on a full pipe.
    let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

/// What the end of a process means.
fn explain(status: ExitStatus, stderr: &str, memory_mb: u32) -> GraphError {
    let memory = || {
        let message = format!("the script wanted more than its {memory_mb} MB of memory (limits.memory_mb)");
        GraphError::limit("memory", message)
    };
    let stack = || {
        let message = "the script nests or recurses too deeply: the stack of its process overflowed";
        GraphError::limit("stack", message)
    };
    match status.code().map(u8::try_from) {
        Some(Ok(exit_code::MEMORY)) => return memory(),
        Some(Ok(exit_code::STACK)) => return stack(),
        Some(Ok(exit_code::PANIC)) => {
            let first = stderr.lines().nth(1).or_else(|| stderr.lines().next()).unwrap_or("no message");
            return GraphError::engine(
                "panic",
                format!("the script ran into a defect of the JavaScript engine: {first}"),
            );
        }
        Some(Ok(exit_code::PROTOCOL)) => {
            return GraphError::engine("protocol", "the worker process is of another version: restart the program");
        }
        _ => {}
    }
    if stderr.contains("overflowed its stack") || overflowed(status) {
        return stack();
    }
    if stderr.contains("memory allocation of") || killed(status) {
        return memory();
    }
    let last = stderr.lines().next_back().unwrap_or("no message");
    GraphError::engine("worker", format!("the worker process ended by itself ({status}): {last}"))
}

#[cfg(unix)]
fn killed(status: ExitStatus) -> bool {
    // Nobody but the system kills a worker that is still wanted: it was short of memory.
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL)
}

#[cfg(not(unix))]
fn killed(_status: ExitStatus) -> bool {
    false
}

#[cfg(unix)]
fn overflowed(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGSEGV)
}

#[cfg(not(unix))]
fn overflowed(status: ExitStatus) -> bool {
    // STATUS_STACK_OVERFLOW
    status.code() == Some(0xC000_00FD_u32 as i32)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn each_way_to_die_has_its_own_words() {
        let code = |code: u8| ExitStatus::from_raw(i32::from(code) << 8);
        assert_eq!(explain(code(exit_code::MEMORY), "", 256).code, "memory");
        assert!(explain(code(exit_code::MEMORY), "", 256).message.contains("256 MB"));
        assert_eq!(explain(code(exit_code::PANIC), "thread panicked:\nindex out", 1).code, "panic");
        assert_eq!(explain(ExitStatus::from_raw(6), "thread 'script' has overflowed its stack", 1).code, "stack");
        assert_eq!(explain(ExitStatus::from_raw(11), "", 1).code, "stack");
        assert_eq!(explain(ExitStatus::from_raw(9), "", 1).code, "memory");
        assert_eq!(explain(code(1), "boo", 1).code, "worker");
    }
}
