//! What the verbs mean to a script.

use std::sync::Arc;

use fleet::{Event, Limits, Status};
use serde_json::json;

use crate::support::{self, Saved, engine, failure, request, run, run_request, value};

#[tokio::test]
async fn a_script_returns_json_from_its_arguments() {
    let mut request = request(
        "export const meta = { args: { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } } }\n\
         return { twice: args.n * 2, name: meta.args.type, run: [run.graph, run.depth, run.resumed], nothing: undefined }",
    );
    request.arguments = json!({"n": 21});
    let (outcome, events) = run_request(&engine(), request).await;
    let expected = json!({"twice": 42, "name": "object", "run": ["test", 0, false]});
    assert_eq!(outcome.result, Some(expected));
    assert_eq!(events.len(), 2);
    assert_eq!(value("").await, json!(null));
    assert_eq!(value("log(1)\nexport default [1, new Date(0)]").await, json!([1, "1970-01-01T00:00:00.000Z"]));
}

#[tokio::test]
async fn bad_arguments_are_refused_before_the_first_line() {
    let script = "export const meta = { args: { type: 'object', required: ['n'] } }\nlog('ran')";
    let (outcome, events) = run(script).await;
    assert_eq!(outcome.error.unwrap().code, "bad_args");
    assert!(!events.iter().any(|event| matches!(event, Event::Log { .. })));
}

#[tokio::test]
async fn lone_surrogates_and_odd_text_survive_the_way_out() {
    assert_eq!(
        value(r"return ['\ud83d', 'a\ud83db', '\ud83d\ude00', '\\ud83d', '\u2028\n\0']").await,
        json!(["\u{fffd}", "a\u{fffd}b", "😀", "\\ud83d", "\u{2028}\n\0"])
    );
}

#[tokio::test]
async fn map_keeps_the_order_and_turns_failed_items_into_null_and_events() {
    let script =
        "return map([3, 1, 2], async (n, i) => { await sleep(n); if (n === 1) throw new Error('one'); return [n, i] })";
    let (outcome, events) = run(script).await;
    assert_eq!(outcome.result, Some(json!([[3, 0], null, [2, 2]])));
    let failed: Vec<_> = events.iter().filter(|event| matches!(event, Event::ItemFailed { .. })).collect();
    assert_eq!(failed.len(), 1);
}

#[tokio::test]
async fn on_error_settles_or_throws_on_demand() {
    let settled = value("return (await parallel([() => 1, () => { throw new TypeError('x') }], { onError: 'settle' })).map(r => r.status === 'fulfilled' ? r.value : r.reason.name)").await;
    assert_eq!(settled, json!([1, "TypeError"]));
    let thrown =
        failure("return parallel([() => 1, () => { throw new TypeError('boo') }], { onError: 'throw' })").await;
    assert!(thrown.contains("TypeError: boo"), "{thrown}");
}

#[tokio::test]
async fn at_most_so_many_items_are_under_way() {
    let script = "let now = 0, most = 0
        await map([...Array(20).keys()], async () => { most = Math.max(most, ++now); await sleep(1); now-- }, { concurrency: 3 })
        return most";
    assert_eq!(value(script).await, json!(3));
}

#[tokio::test]
async fn a_control_error_passes_every_combinator_and_stops_new_items() {
    let script = "let begun = 0
        try { await map([...Array(100).keys()], async i => { begun++; await sleep(1); if (i === 1) throw new LimitError('enough', { code: 'x' }) }, { concurrency: 2 }) }
        catch (e) { return [e.name, e.code, begun < 10] }";
    assert_eq!(value(script).await, json!(["LimitError", "x", true]));
}

#[tokio::test]
async fn a_promise_in_place_of_a_function_is_explained() {
    let error = failure("return parallel([sleep(1)])").await;
    assert!(error.contains("write `() => agent(…)`"), "{error}");
    assert!(error.starts_with("test.js:1:"), "{error}");
}

#[tokio::test]
async fn a_pipeline_hands_each_item_on_without_waiting_for_the_others() {
    let script = "const seen = []
        const out = await pipeline([20, 1], async n => { await sleep(n); seen.push(`a${n}`); return n + 1 }, (m, n, i) => { seen.push(`b${n}`); return [m, n, i] })
        return { out, seen }";
    assert_eq!(value(script).await, json!({"out": [[21, 20, 0], [2, 1, 1]], "seen": ["a1", "b1", "a20", "b20"]}));
}

#[tokio::test]
async fn retry_tries_again_as_often_as_it_says() {
    let script = "let n = 0
        const ok = await retry(({ attempt }) => { n++; if (attempt < 3) throw new Error('no'); return attempt }, { initialDelay: 1 })
        try { await retry(() => { n++; throw new TypeError('never') }, { maxAttempts: 4, initialDelay: 1, retryOn: ['other'] }) } catch (e) { return [ok, n, e.message] }";
    let (outcome, events) = run(script).await;
    assert_eq!(outcome.result, Some(json!([3, 4, "never"])));
    assert_eq!(events.iter().filter(|event| matches!(event, Event::RetryScheduled { .. })).count(), 2);
}

#[tokio::test]
async fn what_a_script_says_becomes_events_within_bounds() {
    let script = "phase('One'); log('hello', { a: 1 }); console.log('x', { b: 2 }); progress(1, 2, 'half'); for (let i = 0; i < 5000; i++) log('x'.repeat(9000)); return 1";
    let (_, events) = run(script).await;
    assert!(matches!(&events[1], Event::PhaseStarted { title } if title == "One"));
    assert!(matches!(&events[2], Event::Log { message, data } if message == "hello" && *data == Some(json!({"a": 1}))));
    assert!(matches!(&events[3], Event::Log { message, .. } if message == "x {\"b\":2}"));
    assert!(matches!(&events[4], Event::Progress { done: 1.0, total: 2.0, .. }));
    assert!(matches!(&events[5], Event::Log { message, .. } if message.len() == 4096));
    assert_eq!(events.len(), 2 + 2000 + 1);
}

#[tokio::test]
async fn a_child_graph_runs_within_its_parents_limits() {
    let graphs = vec![
        (
            "double",
            "export const meta = { args: { type: 'object', required: ['n'] } }\nlog(`depth ${run.depth}`)\nreturn args.n * 2",
        ),
        ("broken", "const x = null\nreturn x.y"),
        ("circle", "export const meta = { graphs: ['test'] }\nreturn graph('test')"),
        ("deep", "export const meta = { graphs: ['deep2'] }\nreturn graph('deep2')"),
        ("deep2", "export const meta = { graphs: ['deep3'] }\nreturn graph('deep3')"),
        ("deep3", "export const meta = { graphs: ['double'] }\nreturn graph('double', { n: 1 })"),
    ];
    let script = "export const meta = { graphs: ['double', 'broken', 'circle', 'deep', 'gone'] }
        const told = []
        for (const name of ['broken', 'circle', 'deep', 'gone', 'other', 'double'])
          try { await graph(name) } catch (e) { told.push([e.name, e.code, e.message]) }
        return { doubled: await graph('double', { n: 4 }), told }";
    let request = fleet::RunRequest { graphs: Arc::new(Saved(graphs)), ..request(script) };
    let (outcome, events) = run_request(&engine(), request).await;
    let result = outcome.result.unwrap();
    assert_eq!(result["doubled"], 8);
    let told = result["told"].to_string();
    for words in [
        "broken.js:2:10: TypeError",
        "goes in a circle",
        "nest 3 deep",
        "no saved Graph 'gone'",
        "'other' is not in meta.graphs",
        "bad_args",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(events.contains(&Event::ChildStarted { graph: "double".to_owned(), version: 3, depth: 1 }));
    assert!(events.contains(&Event::ChildFinished { graph: "broken".to_owned(), ok: false }));
}

#[tokio::test]
async fn chance_is_the_same_for_the_same_execution() {
    let script = "return [Math.random(), Math.random()]";
    let first = request(script);
    let again = first.clone();
    let engine = engine();
    let (one, two) = (run_request(&engine, first).await.0, run_request(&engine, again).await.0);
    assert_eq!(one.result, two.result);
    assert_ne!(one.result, Some(value(script).await));
}

#[tokio::test]
async fn plain_strings_are_as_fast_and_right_as_the_language_says() {
    let script = r"const text = 'line of text\n'.repeat(80000) + 'é€😀'
        return [text.split('\n').length, text.replaceAll('\n', '\r\n').length, text.indexOf('€', 5), text.indexOf('zzz'), 'abc'.split(''),
          'a-b-c'.split('-', 2), 'aaa'.replaceAll('aa', 'b'), 'x.y'.split('.'), 'é-€-😀'.split('-'), 'abcabc'.indexOf('c', 3), 'abc'.indexOf('', 9),
          'abc'.replace('b', '$&$&'), 'abc'.replace('z', ''), 'aXbX'.replaceAll('X', ''), 'a1b2'.split(/\d/), 'abc'.includes('bc', 2), ''.split(','), ''.split('')]";
    let found = value(script).await;
    assert_eq!(
        found,
        json!([
            80001,
            1120004,
            1040001,
            -1,
            ["a", "b", "c"],
            ["a", "b"],
            "ba",
            ["x", "y"],
            ["é", "€", "😀"],
            5,
            3,
            "abbc",
            "abc",
            "ab",
            ["a", "b", ""],
            false,
            [""],
            []
        ])
    );
}

#[tokio::test]
async fn the_world_of_a_script_is_the_language_and_the_verbs() {
    let script = "return Object.getOwnPropertyNames(globalThis).filter(n => /^[a-z]/.test(n)).sort().join(' ')";
    assert_eq!(
        value(script).await,
        "agent args budget console decodeURI decodeURIComponent encodeURI encodeURIComponent globalThis graph isFinite isNaN \
         log map parallel parseFloat parseInt phase pipeline progress queueMicrotask retry run sleep structuredClone tool undefined"
    );
    let frozen = value("try { globalThis.agent = 1 } catch (e) { return [e.name, typeof agent, structuredClone({ a: [new Date(0)] }), budget.total, budget.remaining() === Infinity] }").await;
    assert_eq!(frozen, json!(["TypeError", "function", {"a": ["1970-01-01T00:00:00.000Z"]}, null, true]));
}

#[tokio::test]
async fn limits_of_a_call_are_told_by_name() {
    for (script, words) in [
        ("return map(Array(4097).fill(0), x => x)", "4097 items"),
        ("return sleep('8d')", "seven days"),
        ("return tool('read_text_file', { path: 'x'.repeat(3e6) })", "at most 2097152"),
        ("return map([1], x => x, { concurency: 2 })", "unknown option 'concurency'"),
        ("return retry(() => 1, { maxAttempts: 11 })", "from 1 to 10"),
        ("return tool('read_text_file', { path: 'x' })", "not in meta.tools: add it"),
        ("return agent(1)", "the prompt must be a string"),
    ] {
        let error = failure(script).await;
        assert!(error.contains(words), "{script}: {error}");
        assert!(error.starts_with("test.js:1:"), "{script}: {error}");
    }
    let long = support::failure(&format!("return 1 //{}", "x".repeat(600 * 1024))).await;
    assert!(long.contains("at most 524288"), "{long}");
}

#[tokio::test]
async fn meta_narrows_the_limits_and_never_widens_them() {
    let script =
        "export const meta = { limits: { timeout: '50ms', max_tokens: 7 } }\nlog(`${budget.total}`)\nawait sleep('1m')";
    let request = fleet::RunRequest { limits: Limits { max_tokens: Some(5), ..Limits::default() }, ..request(script) };
    let (outcome, events) = run_request(&engine(), request).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Failed, "timeout".to_owned()));
    assert!(events.contains(&Event::Log { message: "5".to_owned(), data: None }));
}
