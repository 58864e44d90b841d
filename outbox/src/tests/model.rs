//! Random operations on the outbox and on a plain list, which must agree after each.

use proptest::prelude::*;

use super::*;

const POLICY: Policy = Policy {
    max_rows: 6,
    max_bytes: 100,
    max_age: Duration::from_secs(300),
    base: Duration::from_secs(20),
    max_backoff: Duration::from_secs(60),
};

#[derive(Debug, Clone)]
enum Op {
    Enqueue {
        key: u8,
        hub: u8,
        bytes: usize,
        is_rolled_back: bool,
    },
    Acknowledge(i64),
    Fail {
        id: i64,
        retry_after: Option<Duration>,
        jitter: f64,
    },
    Refuse(i64),
    RetryDead(i64),
    DropDead(i64),
    MakeAllDue {
        hub: u8,
    },
    Expire,
    /// Negative: the clock was set back.
    MoveClock {
        ms: i64,
    },
    Reopen,
}

fn any_op() -> impl Strategy<Value = Op> {
    let id = || 1..15_i64;
    let retry_after = proptest::option::weighted(0.3, (0..100_u64).prop_map(Duration::from_secs));
    prop_oneof![
        6 => (0..8_u8, 0..2_u8, 0..40_usize, prop::bool::weighted(0.2)).prop_map(|(key, hub, bytes, is_rolled_back)| {
            Op::Enqueue { key, hub, bytes, is_rolled_back }
        }),
        2 => id().prop_map(Op::Acknowledge),
        6 => (id(), retry_after, 0.0..=1.0).prop_map(|(id, retry_after, jitter)| Op::Fail { id, retry_after, jitter }),
        1 => id().prop_map(Op::Refuse),
        1 => id().prop_map(Op::RetryDead),
        1 => id().prop_map(Op::DropDead),
        1 => (0..2_u8).prop_map(|hub| Op::MakeAllDue { hub }),
        1 => Just(Op::Expire),
        4 => (-30_000..60_000_i64).prop_map(|ms| Op::MoveClock { ms }),
        1 => Just(Op::Reopen),
    ]
}

fn destination(hub: u8) -> String {
    format!("https://hub{hub}/")
}

#[derive(Debug, Default)]
struct Model {
    now_ms: i64,
    last_id: i64,
    rows: Vec<ModelRow>,
}

#[derive(Debug)]
struct ModelRow {
    entry: Entry,
    live_since_ms: i64,
    decided_at_ms: i64,
    not_before_ms: i64,
}

impl Model {
    fn enqueue(&mut self, key: u8, hub: u8, bytes: usize) -> Option<Enqueued> {
        let key = key.to_string();
        if self.rows.iter().any(|row| row.entry.key == key) {
            return Some(Enqueued::AlreadyThere);
        }
        let stored: u64 = self.rows.iter().map(|row| row.entry.bytes).sum();
        if self.rows.len() >= POLICY.max_rows as usize || stored + bytes as u64 > POLICY.max_bytes {
            return None;
        }
        self.last_id += 1;
        let entry = Entry {
            id: self.last_id,
            key,
            destination: destination(hub),
            bytes: bytes as u64,
            attempts: 0,
            enqueued_at_ms: self.now_ms,
            next_try_ms: self.now_ms,
            last_error: None,
            death: None,
        };
        let now_ms = self.now_ms;
        self.rows.push(ModelRow { entry, live_since_ms: now_ms, decided_at_ms: now_ms, not_before_ms: i64::MIN });
        Some(Enqueued::Stored)
    }

    fn find(&mut self, id: i64, is_dead: bool) -> Option<&mut ModelRow> {
        self.rows.iter_mut().find(|row| row.entry.id == id && row.entry.death.is_some() == is_dead)
    }

    fn remove(&mut self, id: i64, may_wait: bool) -> bool {
        let before = self.rows.len();
        self.rows.retain(|row| row.entry.id != id || (!may_wait && row.entry.death.is_none()));
        self.rows.len() < before
    }

    fn fail(&mut self, id: i64, retry_after: Option<Duration>, jitter: f64) -> Failed {
        let now_ms = self.now_ms;
        let Some(row) = self.find(id, false) else {
            return Failed::Gone;
        };
        row.entry.attempts += 1;
        let next_try_ms = now_ms + as_ms(delay(row.entry.attempts, retry_after, &POLICY, jitter));
        row.entry.next_try_ms = next_try_ms;
        row.entry.last_error = Some("busy".to_owned());
        row.decided_at_ms = now_ms;
        row.not_before_ms = retry_after.map_or(i64::MIN, |wait| now_ms + as_ms(wait));
        Failed::Retry { next_try_ms }
    }

    fn refuse(&mut self, id: i64) -> bool {
        let death = Death { at_ms: self.now_ms, cause: DeathCause::Refused };
        let Some(row) = self.find(id, false) else {
            return false;
        };
        row.entry.death = Some(death);
        row.entry.attempts += 1;
        row.entry.last_error = Some("gone".to_owned());
        true
    }

    fn retry_dead(&mut self, id: i64) -> bool {
        let now_ms = self.now_ms;
        let Some(row) = self.find(id, true) else {
            return false;
        };
        row.entry.death = None;
        row.entry.attempts = 0;
        row.entry.next_try_ms = now_ms;
        (row.live_since_ms, row.decided_at_ms, row.not_before_ms) = (now_ms, now_ms, i64::MIN);
        true
    }

    fn make_all_due(&mut self, hub: u8) -> usize {
        let (now_ms, destination) = (self.now_ms, destination(hub));
        let mut cut_short = 0;
        for row in self.rows.iter_mut().filter(|row| row.entry.death.is_none() && row.decided_at_ms <= now_ms) {
            let earliest = now_ms.max(row.not_before_ms);
            if row.entry.destination == destination && row.entry.next_try_ms > earliest {
                row.entry.next_try_ms = earliest;
                row.decided_at_ms = now_ms;
                cut_short += 1;
            }
        }
        cut_short
    }

    fn expire(&mut self) -> u32 {
        let (now_ms, max_age) = (self.now_ms, as_ms(POLICY.max_age));
        let mut expired = 0;
        for row in self.rows.iter_mut().filter(|row| row.entry.death.is_none()) {
            if now_ms - row.live_since_ms > max_age {
                row.entry.death = Some(Death { at_ms: now_ms, cause: DeathCause::Expired });
                expired += 1;
            }
        }
        expired
    }

    fn entries(&self, is_dead: bool) -> Vec<Entry> {
        self.rows.iter().map(|row| &row.entry).filter(|entry| entry.death.is_some() == is_dead).cloned().collect()
    }

    fn due_ids(&self) -> Vec<i64> {
        let is_due = |row: &&ModelRow| {
            let reached = row.entry.next_try_ms <= self.now_ms || row.decided_at_ms > self.now_ms;
            row.entry.death.is_none() && reached
        };
        self.rows.iter().filter(is_due).map(|row| row.entry.id).collect()
    }
}

fn apply(file: &mut File, model: &mut Model, op: &Op) -> std::result::Result<(), TestCaseError> {
    let now_ms = model.now_ms;
    match *op {
        Op::Enqueue { key, hub, bytes, is_rolled_back } => {
            let (key_text, destination, body) = (key.to_string(), destination(hub), vec![key; bytes]);
            let tx = file.conn.transaction().unwrap();
            let item = NewItem { key: &key_text, destination: &destination, body: &body };
            let enqueued = enqueue(&tx, &item, &POLICY, now_ms);
            if is_rolled_back {
                return Ok(());
            }
            tx.commit().unwrap();
            prop_assert_eq!(enqueued.ok(), model.enqueue(key, hub, bytes));
        }
        Op::Acknowledge(id) => prop_assert_eq!(acknowledge(&file.conn, id).unwrap(), model.remove(id, true)),
        Op::Fail { id, retry_after, jitter } => {
            let failed = fail(&file.conn, id, "busy", retry_after, &POLICY, jitter, now_ms).unwrap();
            prop_assert_eq!(failed, model.fail(id, retry_after, jitter));
        }
        Op::Refuse(id) => prop_assert_eq!(refuse(&file.conn, id, "gone", now_ms).unwrap(), model.refuse(id)),
        Op::RetryDead(id) => prop_assert_eq!(retry_dead(&file.conn, id, now_ms).unwrap(), model.retry_dead(id)),
        Op::DropDead(id) => prop_assert_eq!(drop_dead(&file.conn, id).unwrap(), model.remove(id, false)),
        Op::MakeAllDue { hub } => {
            let cut_short = make_all_due(&file.conn, &destination(hub), now_ms).unwrap();
            prop_assert_eq!(cut_short, model.make_all_due(hub));
        }
        Op::Expire => prop_assert_eq!(expire(&file.conn, &POLICY, now_ms).unwrap(), model.expire()),
        Op::MoveClock { ms } => model.now_ms += ms,
        Op::Reopen => file.reopen(),
    }
    Ok(())
}

fn agree(file: &File, model: &Model) -> std::result::Result<(), TestCaseError> {
    prop_assert_eq!(list(&file.conn).unwrap(), model.entries(false));
    prop_assert_eq!(dead_letters(&file.conn).unwrap(), model.entries(true));
    let items = due(&file.conn, model.now_ms, 100).unwrap();
    prop_assert_eq!(items.iter().map(|item| item.id).collect::<Vec<_>>(), model.due_ids());
    let is_frozen = |item: &Item| item.body.iter().all(|byte| byte.to_string() == item.key);
    prop_assert!(items.iter().all(is_frozen));
    let expected = Stats {
        waiting: model.entries(false).len() as u32,
        dead: model.entries(true).len() as u32,
        bytes: model.rows.iter().map(|row| row.entry.bytes).sum(),
        oldest_waiting_ms: model.entries(false).iter().map(|entry| entry.enqueued_at_ms).min(),
    };
    prop_assert_eq!(stats(&file.conn).unwrap(), expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_outbox_does_what_a_plain_list_would(ops in prop::collection::vec(any_op(), 1..60)) {
        let mut file = File::new();
        file.conn.execute_batch("PRAGMA synchronous = OFF").unwrap();
        let mut model = Model { now_ms: 1_000_000, ..Model::default() };
        for op in &ops {
            apply(&mut file, &mut model, op)?;
            agree(&file, &model)?;
        }
    }
}
