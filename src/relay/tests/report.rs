//! Reports: whole or not at all, until the hub has them (SPEC 1.7, 1.8).

use super::harness::*;
use crate::command::State;
use fleet::{Outcome, Usage};
use protocol::{CommandId, Completion, MAX_REPORT_UNITS, js_length, path};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_report_tells_result_tokens_and_cost_as_soon_as_the_run_is_over() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    let usage =
        Usage { input_tokens: 900, output_tokens: 100, cost: Some(0.25), agent_failures: 2, ..Usage::default() };
    let plan = Plan::takes(4).returns(json!({"sum": 3}));
    desktop.engine.plan(Plan { outcome: Outcome { usage, ..plan.outcome.clone() }, ..plan });
    desktop.start();
    desktop.until(6).await;
    assert_eq!(desktop.hub.times(Call::Complete), [4]);
    let expected = json!({
        "execution_id": desktop.execution(id).await.id, "status": "completed", "result": {"sum": 3},
        "total_tokens": 1_000, "reported_cost": 0.25, "agent_failures": 2,
    });
    assert_eq!(desktop.hub.report(id), expected);
    assert_eq!(desktop.execution(id).await.usage, usage);
}

/// However the first report was lost, the very same one arrives with a later cycle.
async fn arrives_all_the_same(what: &str, answer: Answer, times: [u64; 2]) {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.hub.once(Call::Complete, answer);
    desktop.start();
    desktop.wait(100).await;
    let sent = desktop.hub.seen(Call::Complete);
    assert_eq!(desktop.hub.times(Call::Complete), times, "{what}");
    assert_eq!(sent[0].bytes, sent[1].bytes, "{what}: the two reports differ");
    assert_eq!((sent[0].key.clone(), &sent[0].key), (Some(format!("complete:{id}")), &sent[1].key), "{what}");
    assert_eq!(
        (desktop.hub.status(id).as_str(), desktop.state(id).await),
        ("completed", Some(State::Reported)),
        "{what}"
    );
    assert_eq!(desktop.outbox().await, outbox::Stats::default(), "{what}");
    assert_eq!(desktop.engine.runs().len(), 1, "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_report_arrives_at_most_40_seconds_after_the_start() {
    arrives_all_the_same("the answer is lost", Answer::DoneThenBroken, [5, 20]).await;
    arrives_all_the_same("the report is lost", Answer::Unreachable, [5, 20]).await;
    arrives_all_the_same("no answer", Answer::Hang, [5, 40]).await;
    arrives_all_the_same("done and no answer", Answer::DoneThenHang, [5, 40]).await;
    arrives_all_the_same("too large an answer", Answer::TooLarge, [5, 20]).await;
    arrives_all_the_same("a Wi-Fi's sign-in page", Answer::Plain(200, "<html>".to_owned()), [5, 20]).await;
    for status in [301, 400, 401, 403, 408, 413, 429, 500, 502, 503] {
        arrives_all_the_same(&status.to_string(), Answer::status(status), [5, 20]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_is_not_sent_again_before_the_hub_wants_it() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.hub.once(Call::Complete, Answer::RetryAfter(429, 100));
    let relay = desktop.start();
    desktop.until(50).await;
    relay.sharing_changed();
    desktop.until(125).await;
    assert_eq!(desktop.hub.times(Call::Complete), [5, 120]);
    assert!(desktop.hub.times(Call::Sync).len() >= 6, "only the report was to wait");
    assert_eq!(desktop.hub.status(id), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_the_hub_has_settled_by_itself_needs_no_report_any_more() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.start();
    desktop.until(2).await;
    desktop.hub.settle(id, "failed");
    desktop.until(60).await;
    assert_eq!(desktop.hub.seen(Call::Complete).len(), 1);
    assert_eq!((desktop.state(id).await, desktop.outbox().await), (Some(State::Reported), outbox::Stats::default()));
}

#[tokio::test(start_paused = true)]
async fn a_report_refused_for_good_is_kept_for_the_owner_and_can_be_sent_again() {
    for status in [404, 410, 422] {
        let mut desktop = Desktop::new().await;
        let id = desktop.ask();
        desktop.hub.once(Call::Complete, Answer::status(status));
        let relay = desktop.start();
        desktop.wait(60).await;
        assert_eq!(desktop.hub.seen(Call::Complete).len(), 1, "{status}");
        assert_eq!(desktop.state(id).await, Some(State::Reported), "{status}");
        let letters = desktop.store.read(|connection| Ok(outbox::dead_letters(connection)?)).await.unwrap();
        assert!(letters[0].last_error.as_ref().unwrap().contains(&status.to_string()), "{letters:?}");

        let (letter, now_ms) = (letters[0].id, protocol::Clock::now_ms(&*desktop.clock));
        desktop.store.write(move |tx| Ok(outbox::retry_dead(tx, letter, now_ms)?)).await.unwrap();
        relay.sharing_changed();
        desktop.wait(1).await;
        assert_eq!((desktop.hub.status(id).as_str(), desktop.outbox().await.dead), ("completed", 0), "{status}");
    }
}

/// A compatible server may answer with less than ours. A page that something in between sent is no acknowledgement.
#[tokio::test(start_paused = true)]
async fn any_2xx_of_a_hub_acknowledges_and_a_foreign_page_does_not() {
    for (answer, sent) in [
        (Answer::Plain(204, String::new()), 1),
        (Answer::Plain(200, "{}".to_owned()), 1),
        (Answer::Plain(202, r#"{"status": "later"}"#.to_owned()), 1),
        (Answer::Plain(200, "<html>Please sign in to the Wi-Fi</html>".to_owned()), 2),
    ] {
        let what = format!("{answer:?}");
        let mut desktop = Desktop::new().await;
        let id = desktop.ask();
        desktop.hub.once(Call::Complete, answer);
        desktop.start();
        desktop.wait(60).await;
        assert_eq!(desktop.hub.seen(Call::Complete).len(), sent, "{what}");
        assert_eq!((desktop.state(id).await, desktop.outbox().await.waiting), (Some(State::Reported), 0), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_that_keeps_failing_blocks_no_other_and_no_sync() {
    for answer in [Answer::status(500), Answer::Hang] {
        let what = format!("{answer:?}");
        let mut desktop = Desktop::new().await;
        let poison = desktop.ask();
        desktop.hub.always_for(poison, Call::Complete, answer);
        desktop.start();
        desktop.wait(10).await;
        let others: Vec<_> = (0..3).map(|_| desktop.ask()).collect();
        desktop.wait(110).await;
        for id in others {
            assert_eq!(desktop.hub.status(id), "completed", "{what}");
        }
        desktop.wait(1_800).await;
        let syncs = desktop.hub.times(Call::Sync);
        let longest = syncs.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(60), "{what}: the desktop was taken for off line, {syncs:?}");
        assert_eq!(desktop.outbox().await.waiting, 1, "{what}");
        desktop.hub.heal();
        desktop.wait(120).await;
        assert_eq!(desktop.hub.status(poison), "completed", "{what}: given up");
    }
}

#[tokio::test(start_paused = true)]
async fn many_reports_that_wait_for_the_network_all_arrive_in_order() {
    let mut desktop = Desktop::new().await;
    let asked: Vec<_> = (0..120).map(|_| desktop.ask()).collect();
    desktop.hub.always(Call::Complete, Answer::Unreachable);
    desktop.start();
    desktop.until(120 * 5 + 1).await;
    assert_eq!(desktop.outbox().await.waiting, 120);
    let before = desktop.hub.seen(Call::Complete).len();
    desktop.hub.heal();
    desktop.until(120 * 5 + 1_000).await;
    assert_eq!(desktop.outbox().await.waiting, 0);
    let mut arrived: Vec<_> =
        desktop.hub.seen(Call::Complete)[before..].iter().map(|seen| seen.command.unwrap()).collect();
    arrived.sort_unstable();
    assert_eq!(arrived, asked, "one was lost, or sent twice");
}

#[tokio::test(start_paused = true)]
async fn a_result_at_the_cap_goes_whole_and_one_unit_more_stays_here() {
    let mut desktop = Desktop::new().await;
    let (fits, over) = (desktop.ask(), desktop.ask());
    let empty = Completion {
        execution_id: Some(protocol::ExecutionId::new()),
        status: protocol::CompletionStatus::Completed,
        result: Some(json!("")),
        total_tokens: Some(0),
        ..Completion::without_run(protocol::CompletionStatus::Completed, "")
    };
    let room = MAX_REPORT_UNITS - js_length(&Completion { message: None, ..empty });
    let texts = ["語".repeat(room), "語".repeat(room + 1)];
    texts.iter().for_each(|text| desktop.engine.plan(Plan::takes(1).returns(json!(text))));
    desktop.start();
    desktop.until(5).await;
    assert_eq!(desktop.hub.report(fits)["result"], texts[0]);
    let execution = desktop.execution(over).await;
    let expected = json!({"execution_id": execution.id, "status": "completed", "result_truncated": true});
    assert_eq!(desktop.hub.report(over), expected);
    assert_eq!(execution.result, Some(json!(texts[1])), "the whole result is not in the history");
}

#[tokio::test(start_paused = true)]
async fn a_report_for_another_hub_never_goes_to_this_one() {
    let mut desktop = Desktop::new().await;
    for hub in ["https://other.example", "https://hub.example.evil", "https://hub.exampl", "https://hub.example:8443"] {
        let (id, now_ms) = (CommandId::new(), protocol::Clock::now_ms(&*desktop.clock));
        desktop
            .change(move |tx| {
                let destination = format!("{hub}{}", path::command(&id, "complete"));
                let item = outbox::NewItem { key: &id.to_string(), destination: &destination, body: b"{\"secret\":1}" };
                Ok(outbox::enqueue(tx, &item, &outbox::Policy::default(), now_ms)?)
            })
            .await;
    }
    desktop.start();
    desktop.until(100).await;
    assert_eq!(desktop.hub.seen(Call::Complete).len(), 0);
    assert_eq!(desktop.outbox().await.waiting, 4, "they wait until that hub is configured again");
}

#[tokio::test(start_paused = true)]
async fn a_report_that_is_too_old_becomes_a_dead_letter_and_its_command_is_over() {
    let policy = outbox::Policy { max_age: Duration::from_secs(600), ..outbox::Policy::default() };
    let mut desktop = Desktop::with_outbox(policy).await;
    let id = desktop.ask();
    desktop.hub.always(Call::Complete, Answer::status(500));
    desktop.start();
    desktop.until(700).await;
    assert_eq!((desktop.state(id).await, desktop.outbox().await.dead), (Some(State::Reported), 1));
    assert!(!desktop.hub.seen(Call::Sync).last().unwrap().body()["known"].as_array().unwrap().contains(&json!(id)));
}

#[tokio::test(start_paused = true)]
async fn a_full_outbox_refuses_new_work_and_not_the_report_of_work_done() {
    let policy = outbox::Policy { max_rows: 1, ..outbox::Policy::default() };
    let mut desktop = Desktop::with_outbox(policy).await;
    desktop.hub.always(Call::Complete, Answer::status(500));
    let (first, second) = (desktop.ask(), CommandId::new());
    desktop.start();
    desktop.until(2).await;
    desktop.hub.queue(PROJECT, desktop.entry(second));
    desktop.until(70).await;
    assert_eq!((desktop.state(first).await, desktop.state(second).await), (Some(State::Finished), None));
    assert_eq!(desktop.hub.seen(Call::Sync).last().unwrap().body()["accept"], false);
    desktop.hub.heal();
    desktop.until(200).await;
    assert_eq!((desktop.hub.status(first), desktop.hub.status(second)), ("completed".into(), "completed".into()));
}

#[tokio::test(start_paused = true)]
async fn a_script_that_returns_nothing_has_the_result_null() {
    let mut desktop = Desktop::new().await;
    let id = desktop.ask();
    desktop.engine.plan(Plan::takes(1).returns(Value::Null));
    desktop.start();
    desktop.until(3).await;
    assert_eq!(desktop.hub.report(id).get("result"), Some(&Value::Null));
}
