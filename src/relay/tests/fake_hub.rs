//! A hub in memory: it keeps the contract until a test tells it not to, and remembers every request with its time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use protocol::{Clock, CommandId, path};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::harness::VirtualClock;
use crate::relay::transport::{Reply, Request, Transport, TransportError};

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Sync,
    Wait,
    Start,
    Check,
    Complete,
}

/// How the hub behaves towards a request.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// As a hub that works.
    Proper,
    /// As a hub that works, after this time.
    Late(Duration),
    /// This status, with this body.
    Plain(u16, String),
    /// This status, to be left alone for so many seconds.
    RetryAfter(u16, u64),
    /// To another place.
    Redirect(&'static str),
    /// The request never gets there.
    Unreachable,
    /// It is done, and the connection breaks before the answer.
    DoneThenBroken,
    /// It is not done, and no answer ever comes.
    Hang,
    /// It is done, and no answer ever comes.
    DoneThenHang,
    /// More than the relay reads.
    TooLarge,
}

impl Answer {
    pub(super) fn status(status: u16) -> Self {
        Self::Plain(status, format!(r#"{{"error": {{"code": "test", "message": "answered {status}"}}}}"#))
    }
}

/// A request, as it came in.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) at: Duration,
    pub(super) call: Call,
    pub(super) command: Option<CommandId>,
    pub(super) bytes: Vec<u8>,
    pub(super) key: Option<String>,
}

impl Seen {
    pub(super) fn body(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap()
    }
}

struct Rule {
    call: Call,
    command: Option<CommandId>,
    answer: Answer,
    times: Option<u32>,
}

/// A command, as the hub keeps it.
struct Row {
    id: Option<CommandId>,
    entry: Value,
    project: String,
    status: String,
    cancel_requested: bool,
    reports: Vec<Value>,
}

#[derive(Default)]
struct State {
    rows: Vec<Row>,
    rules: Vec<Rule>,
    seen: Vec<Seen>,
    /// Projects with news that no wait has been told of.
    news: HashSet<String>,
    /// Decides by chance how requests are answered.
    weather: Option<StdRng>,
    /// How long each request takes.
    latency: Duration,
    /// Hands out every command with every sync, whatever became of it.
    forgetful: bool,
    /// Answers each wait at once with this.
    eager: Option<bool>,
    /// Never answers the request with this number, from 0, and does what it asks only if this says so.
    cut_at: Option<(usize, bool)>,
}

/// The hub.
pub(super) struct FakeHub {
    clock: Arc<VirtualClock>,
    state: Mutex<State>,
    changed: Notify,
    /// Told when the request of [`FakeHub::cut_at`] came in.
    pub(super) cut: Notify,
}

pub(super) const HUB: &str = "https://hub.example";

impl FakeHub {
    pub(super) fn new(clock: Arc<VirtualClock>) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::default(), changed: Notify::new(), cut: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // What a test tells it.

    /// Puts a command in the queue of a project. What has no UUID is handed out with every sync.
    pub(super) fn queue(&self, project: &str, entry: Value) {
        let id = entry["command_id"].as_str().and_then(|id| id.parse().ok());
        let status = "queued".to_owned();
        let row = Row { id, entry, project: project.to_owned(), status, cancel_requested: false, reports: Vec::new() };
        self.state().rows.push(row);
        self.tell(project);
    }

    /// The assistant asks for a cancel.
    pub(super) fn request_cancel(&self, id: CommandId) {
        let project = self.with_row(id, |row| {
            match row.status.as_str() {
                "queued" => row.status = "cancelled".to_owned(),
                _ => row.cancel_requested = true,
            }
            row.project.clone()
        });
        self.tell(&project);
    }

    /// Settles a command without its desktop.
    pub(super) fn settle(&self, id: CommandId, status: &str) {
        self.with_row(id, |row| row.status = status.to_owned());
    }

    /// Changes what is handed out.
    pub(super) fn change_entry(&self, id: CommandId, change: impl FnOnce(&mut Value)) {
        self.with_row(id, |row| change(&mut row.entry));
    }

    /// From now on each request takes so long.
    pub(super) fn be_slow(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// From now on chance decides how each request is answered.
    pub(super) fn be_moody(&self, seed: u64) {
        self.state().weather = Some(StdRng::seed_from_u64(seed));
    }

    pub(super) fn be_forgetful(&self) {
        self.state().forgetful = true;
    }

    pub(super) fn answer_every_wait_at_once(&self, wake: bool) {
        self.state().eager = Some(wake);
    }

    pub(super) fn once(&self, call: Call, answer: Answer) {
        self.state().rules.push(Rule { call, command: None, answer, times: Some(1) });
    }

    pub(super) fn always(&self, call: Call, answer: Answer) {
        self.state().rules.push(Rule { call, command: None, answer, times: None });
    }

    pub(super) fn always_for(&self, command: CommandId, call: Call, answer: Answer) {
        self.state().rules.push(Rule { call, command: Some(command), answer, times: None });
    }

    /// From now on it works.
    pub(super) fn heal(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.weather = None;
    }

    /// Never answers the request with this number, does it only if `done`, and tells [`FakeHub::cut`] of it.
    pub(super) fn cut_at(&self, request: usize, done: bool) {
        self.state().cut_at = Some((request, done));
    }

    // What a test asks it.

    pub(super) fn seen(&self, call: Call) -> Vec<Seen> {
        self.state().seen.iter().filter(|seen| seen.call == call).cloned().collect()
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.state().seen.iter().map(|seen| seen.call).collect()
    }

    /// When such requests came in, in whole seconds.
    pub(super) fn times(&self, call: Call) -> Vec<u64> {
        self.seen(call).iter().map(|seen| seen.at.as_secs()).collect()
    }

    pub(super) fn status(&self, id: CommandId) -> String {
        self.with_row(id, |row| row.status.clone())
    }

    /// The report that settled the command.
    pub(super) fn report(&self, id: CommandId) -> Value {
        self.with_row(id, |row| row.reports.first().cloned().unwrap_or(Value::Null))
    }

    fn with_row<T>(&self, id: CommandId, work: impl FnOnce(&mut Row) -> T) -> T {
        work(self.state().rows.iter_mut().find(|row| row.id == Some(id)).unwrap())
    }

    // What it does.

    /// Remembers the request, and says how it is to be answered.
    fn take_down(&self, request: &Request) -> (Seen, Answer) {
        let (call, command) = read_path(&request.path);
        let bytes = request.body.clone().unwrap_or_default();
        let seen = Seen { at: self.clock.elapsed(), call, command, bytes, key: request.idempotency_key.clone() };
        let mut state = self.state();
        let number = state.seen.len();
        state.seen.push(seen.clone());
        if let Some((at, done)) = state.cut_at
            && at == number
        {
            self.cut.notify_one();
            return (seen, if done { Answer::DoneThenHang } else { Answer::Hang });
        }
        let rule = state.rules.iter_mut().find(|rule| {
            rule.call == call && rule.times != Some(0) && (rule.command.is_none() || rule.command == command)
        });
        let answer = rule.map(|rule| {
            rule.times = rule.times.map(|times| times - 1);
            rule.answer.clone()
        });
        let by_chance = state.weather.as_mut().map(mood);
        (seen, answer.or(by_chance).unwrap_or(Answer::Proper))
    }

    async fn properly(&self, seen: &Seen) -> Reply {
        match seen.call {
            Call::Wait => self.wait(&seen.body()).await,
            Call::Sync => self.sync(&seen.body()),
            step => self.step(step, seen.command.unwrap(), &seen.bytes),
        }
    }

    fn sync(&self, body: &Value) -> Reply {
        let state = self.state();
        let known = body["known"].as_array().unwrap();
        let is_due = |row: &&Row| {
            let is_new = row.status == "queued" && !known.contains(&row.entry["command_id"]);
            row.project == body["project_id"] && (state.forgetful || is_new && body["accept"] == true)
        };
        let commands: Vec<_> = state.rows.iter().filter(is_due).map(|row| row.entry.clone()).collect();
        self.ok(json!({"commands": commands}))
    }

    fn step(&self, call: Call, id: CommandId, bytes: &[u8]) -> Reply {
        let mut state = self.state();
        let Some(row) = state.rows.iter_mut().find(|row| row.id == Some(id)) else {
            return Reply { status: 404, ..Reply::default() };
        };
        let is_settled = !matches!(row.status.as_str(), "queued" | "running");
        let mut status = 200;
        match call {
            Call::Start if is_settled => status = 409,
            Call::Start => row.status = "running".to_owned(),
            Call::Complete => {
                let report: Value = serde_json::from_slice(bytes).unwrap();
                if is_settled && row.reports.first() != Some(&report) {
                    status = 409;
                } else {
                    row.status = report["status"].as_str().unwrap().to_owned();
                    row.reports.push(report);
                }
            }
            _ => {}
        }
        let answer = self.ok(json!({"status": row.status, "cancel_requested": row.cancel_requested}));
        Reply { status, ..answer }
    }

    async fn wait(&self, body: &Value) -> Reply {
        let until = Instant::now() + Duration::from_secs(body["timeout_s"].as_u64().unwrap());
        loop {
            let changed = self.changed.notified();
            let eager = self.state().eager;
            if let Some(wake) = eager.or_else(|| self.takes_news(body).then_some(true)) {
                return self.ok(json!({"wake": wake}));
            }
            tokio::select! {
                () = changed => {}
                () = sleep_until(until) => return self.ok(json!({"wake": false})),
            }
        }
    }

    /// Takes the news of these projects: a desktop that is busy is not told again and again.
    fn takes_news(&self, body: &Value) -> bool {
        let mut state = self.state();
        let asked = body["projects"].as_array().unwrap().iter();
        asked.filter(|project| state.news.remove(project.as_str().unwrap())).count() > 0
    }

    fn tell(&self, project: &str) {
        self.state().news.insert(project.to_owned());
        self.changed.notify_waiters();
    }

    fn ok(&self, mut body: Value) -> Reply {
        body["server_time"] = json!(self.clock.now());
        Reply { status: 200, body: serde_json::to_vec(&body).unwrap(), ..Reply::default() }
    }
}

#[async_trait]
impl Transport for FakeHub {
    fn base_url(&self) -> &str {
        HUB
    }

    async fn send(&self, request: Request) -> Result<Reply, TransportError> {
        let latency = self.state().latency;
        if !latency.is_zero() {
            sleep(latency).await;
        }
        let (seen, answer) = self.take_down(&request);
        let broken = || TransportError::Unreachable("connection reset".to_owned());
        match answer {
            Answer::Hang => std::future::pending().await,
            Answer::Proper => Ok(self.properly(&seen).await),
            Answer::Late(by) => {
                sleep(by).await;
                Ok(self.properly(&seen).await)
            }
            Answer::Plain(status, body) => Ok(Reply { status, body: body.into_bytes(), ..Reply::default() }),
            Answer::RetryAfter(status, seconds) => {
                Ok(Reply { status, retry_after: Some(Duration::from_secs(seconds)), ..Reply::default() })
            }
            Answer::Redirect(to) => Ok(Reply { status: 307, location: Some(to.to_owned()), ..Reply::default() }),
            Answer::Unreachable => Err(broken()),
            Answer::DoneThenBroken => {
                self.properly(&seen).await;
                Err(broken())
            }
            Answer::DoneThenHang => {
                self.properly(&seen).await;
                std::future::pending().await
            }
            Answer::TooLarge => Err(TransportError::TooLarge),
        }
    }
}

/// An answer of a hub on a bad day. None of them settles anything wrongly.
fn mood(chance: &mut StdRng) -> Answer {
    match chance.random_range(0..20) {
        0 => Answer::Unreachable,
        1 => Answer::DoneThenBroken,
        2 => Answer::Hang,
        3 => Answer::DoneThenHang,
        4 => Answer::status([400, 401, 403, 500, 502, 503][chance.random_range(0..6)]),
        5 => Answer::RetryAfter(429, chance.random_range(1..100)),
        6 => Answer::Plain(200, "<html>".to_owned()),
        7 => Answer::TooLarge,
        8..12 => Answer::Late(Duration::from_millis(chance.random_range(1..29_000))),
        _ => Answer::Proper,
    }
}

fn read_path(text: &str) -> (Call, Option<CommandId>) {
    match text {
        path::SYNC => return (Call::Sync, None),
        path::WAIT => return (Call::Wait, None),
        _ => {}
    }
    let (rest, step) = text.rsplit_once('/').unwrap();
    let call = match step {
        "start" => Call::Start,
        "check" => Call::Check,
        "complete" => Call::Complete,
        other => panic!("no such call: {other}"),
    };
    (call, Some(rest.rsplit_once('/').unwrap().1.parse().unwrap()))
}
