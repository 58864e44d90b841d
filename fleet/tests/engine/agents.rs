//! Agents against a small server that plays the model: what goes wrong there, what it costs, what bounds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use fleet::{Event, Limits, Outcome, RunRequest, Status};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{engine, engine_with_model, reading, request, run_request};

type Answer = dyn Fn(usize, &Value, &HeaderMap) -> Response + Send + Sync;

/// A chat-completions server that answers the n-th request (from 0) as a test says.
struct Model {
    answer: Box<Answer>,
    requests: AtomicUsize,
    at_work: AtomicUsize,
    most_at_work: AtomicUsize,
    /// Held back until so many requests are at work.
    gather: usize,
    gathered: Notify,
}

/// An engine whose model `local` answers like this.
async fn model(
    answer: impl Fn(usize, &Value, &HeaderMap) -> Response + Send + Sync + 'static,
) -> (fleet::Fleet, Arc<Model>) {
    model_with(json!({"max_concurrency": 16}), 0, answer).await
}

async fn model_with(
    config: Value,
    gather: usize,
    answer: impl Fn(usize, &Value, &HeaderMap) -> Response + Send + Sync + 'static,
) -> (fleet::Fleet, Arc<Model>) {
    let model = Arc::new(Model {
        answer: Box::new(answer),
        requests: AtomicUsize::new(0),
        at_work: AtomicUsize::new(0),
        most_at_work: AtomicUsize::new(0),
        gather,
        gathered: Notify::new(),
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = json!({
        "base_url": format!("http://{}/v1", listener.local_addr().unwrap()),
        "model": "stub", "api_key": "secret-key", "input_price_per_million": 1.0, "output_price_per_million": 2.0,
    });
    settings.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    let router = Router::new().route("/v1/chat/completions", post(complete)).with_state(Arc::clone(&model));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (engine_with_model(settings), model)
}

async fn complete(State(model): State<Arc<Model>>, headers: HeaderMap, body: String) -> Response {
    let number = model.requests.fetch_add(1, SeqCst);
    let now = model.at_work.fetch_add(1, SeqCst) + 1;
    model.most_at_work.fetch_max(now, SeqCst);
    if model.gather > 0 {
        if now >= model.gather {
            model.gathered.notify_waiters();
        } else {
            let _ = tokio::time::timeout(Duration::from_millis(200), model.gathered.notified()).await;
        }
    }
    let answer = (model.answer)(number, &serde_json::from_str(&body).unwrap(), &headers);
    model.at_work.fetch_sub(1, SeqCst);
    answer
}

fn says(text: &str) -> Response {
    let usage = json!({"prompt_tokens": 60, "completion_tokens": 40});
    axum::Json(json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": usage}))
        .into_response()
}

fn calls_tool(name: &str, arguments: &Value) -> Response {
    let call =
        json!({"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
    axum::Json(json!({"choices": [{"message": {"content": null, "tool_calls": [call]}}]})).into_response()
}

async fn run(engine: &fleet::Fleet, script: &str) -> (Outcome, Vec<Event>) {
    run_request(engine, request(script)).await
}

const CATCH: &str = "try { return await agent('Hi') } catch (e) { return [e.name, e.code, e.retryable, e.message] }";

#[tokio::test]
async fn without_a_model_the_error_says_how_to_configure_one() {
    let (outcome, _) = run(&engine(), "await agent('Hi')").await;
    let error = outcome.error.unwrap();
    assert_eq!((error.name.as_str(), error.line), ("AgentError", Some(1)));
    assert!(error.message.contains("[models.local]") && error.message.contains("base_url"), "{error}");
}

#[tokio::test]
async fn an_agent_answers_and_its_tokens_and_cost_are_counted() {
    let (engine, _) = model(|_, request, headers| {
        assert_eq!(headers["authorization"], "Bearer secret-key");
        assert_eq!(request["model"], "stub");
        assert_eq!(request["messages"][0]["role"], "system");
        says("Hello")
    })
    .await;
    let script = "phase('Greet'); const a = await agent('Say hello', { label: 'one', data: { x: 1 } }); return [a, budget.spent(), budget.total]";
    let (outcome, events) = run(&engine, script).await;
    assert_eq!(outcome.result, Some(json!(["Hello", 100, null])));
    assert_eq!((outcome.usage.total_tokens(), outcome.usage.agents, outcome.usage.estimated), (100, 1, false));
    assert!((outcome.usage.cost.unwrap() - 140e-6).abs() < 1e-12);
    let started =
        Event::AgentStarted { agent: 1, label: "one".into(), model: "local".into(), phase: Some("Greet".into()) };
    assert!(events.contains(&started), "{events:?}");
}

#[tokio::test]
async fn passing_failures_are_tried_again_and_lasting_ones_are_not() {
    let (engine, server) = model(|number, _, _| match number {
        0 => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0")], "slow down").into_response(),
        _ => says("at last"),
    })
    .await;
    let (outcome, events) = run(&engine, "return agent('Hi')").await;
    assert_eq!((outcome.result, server.requests.load(SeqCst)), (Some(json!("at last")), 2));
    assert!(
        events.iter().any(
            |event| matches!(event, Event::RetryScheduled { attempt: 1, error, .. } if error.code == "rate_limited")
        )
    );

    let (engine, server) = model(|_, _, _| (StatusCode::UNAUTHORIZED, "wrong key").into_response()).await;
    let (outcome, _) = run(&engine, CATCH).await;
    assert_eq!(outcome.result.unwrap()[1], "auth");
    assert_eq!((server.requests.load(SeqCst), outcome.usage.agent_failures), (1, 1));
}

#[tokio::test]
async fn a_wait_that_is_longer_than_the_time_for_retries_fails_at_once() {
    let (engine, server) =
        model(|_, _, _| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "600")], "tomorrow").into_response()).await;
    let (outcome, _) = run(&engine, CATCH).await;
    let told = outcome.result.unwrap();
    assert_eq!((&told[0], &told[1], &told[2]), (&json!("AgentError"), &json!("rate_limited"), &json!(true)));
    assert_eq!(server.requests.load(SeqCst), 1);
}

#[tokio::test]
async fn answers_that_are_malformed_endless_redirected_or_late_are_clear_failures() {
    let huge = || {
        Response::new(Body::from_stream(futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 1 << 16]))))
    };
    let cases: Vec<(&str, Box<Answer>)> = vec![
        ("no chat completion", Box::new(|_, _, _| "<html>".into_response())),
        ("more than 8388608 bytes", Box::new(move |_, _, _| huge())),
        (
            "redirects are not followed",
            Box::new(|_, _, _| (StatusCode::FOUND, [("location", "http://127.0.0.1:1/")]).into_response()),
        ),
        (
            "did not answer within 300ms",
            Box::new(|_, _, _| {
                Response::new(Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>()))
            }),
        ),
        ("context", Box::new(|_, _, _| (StatusCode::BAD_REQUEST, "maximum context length").into_response())),
    ];
    for (words, answer) in cases {
        let timeout = if words.starts_with("did") { "300ms" } else { "20s" };
        let (engine, _) = model_with(json!({"timeout": timeout}), 0, answer).await;
        let (outcome, _) = run(&engine, CATCH).await;
        let told = outcome.result.unwrap();
        assert_eq!(told[0], "AgentError");
        assert!(told[3].as_str().unwrap().contains(words), "{words}: {told}");
    }
}

#[tokio::test]
async fn an_answer_that_misses_its_schema_is_mended_twice_at_most() {
    let script = "return agent('Count', { schema: { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } } })";
    let (engine, server) = model(|number, request, _| {
        assert_eq!(request["response_format"]["json_schema"]["schema"]["required"][0], "n");
        match number {
            0 => says("three"),
            1 => says("{\"n\": \"three\"}"),
            _ => says("```json\n{\"n\": 3}\n```"),
        }
    })
    .await;
    let (outcome, _) = run(&engine, script).await;
    assert_eq!((outcome.result, server.requests.load(SeqCst)), (Some(json!({"n": 3})), 3));

    let (engine, server) = model(|_, _, _| says("never")).await;
    let (outcome, _) = run(&engine, script).await;
    assert_eq!((outcome.error.unwrap().code.as_str(), server.requests.load(SeqCst)), ("schema_mismatch", 3));
}

#[tokio::test]
async fn an_agent_uses_the_tools_of_the_script_and_no_others() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("a.txt"), "needle").unwrap();
    let (engine, _) = model(|number, request, _| match number {
        0 => {
            assert_eq!(request["tools"].as_array().unwrap().len(), 1);
            calls_tool("read_text_file", &json!({"path": "in/a.txt"}))
        }
        1 => {
            assert!(request["messages"].to_string().contains("needle"));
            calls_tool("list_directory", &json!({"path": "in"}))
        }
        2 => {
            assert!(request["messages"].to_string().contains("error unknown_tool"));
            calls_tool("read_text_file", &json!({"path": "in/../../etc/passwd"}))
        }
        _ => {
            assert!(request["messages"].to_string().contains("error outside_folder"));
            says("done")
        }
    })
    .await;
    let script = "export const meta = { folders: { in: { from: 'args.folder', access: 'read' } }, tools: ['read_text_file', 'list_directory'] }
        return agent('Read', { tools: ['read_text_file'] })";
    let request =
        RunRequest { arguments: json!({"folder": home.path()}), folders: reading(home.path()), ..request(script) };
    let (outcome, events) = run_request(&engine, request).await;
    assert_eq!(outcome.result, Some(json!("done")), "{:?}", outcome.error);
    assert!(outcome.usage.estimated);
    assert_eq!(events.iter().filter(|event| matches!(event, Event::ToolStarted { .. })).count(), 2);
}

#[tokio::test]
async fn never_more_agents_at_work_than_the_limit_children_included() {
    let child = crate::support::Saved(vec![("child", "return map([1, 2, 3, 4, 5, 6], i => agent(`c${i}`))")]);
    let (engine, server) = model_with(json!({"max_concurrency": 16}), 3, |_, _, _| says("x")).await;
    let script = "export const meta = { graphs: ['child'] }
        await parallel([() => graph('child'), () => map([1, 2, 3, 4, 5, 6], i => agent(`p${i}`))])";
    let limits = Limits { max_concurrency: Some(3), ..Limits::default() };
    let request = RunRequest { limits, graphs: Arc::new(child), ..request(script) };
    let (outcome, _) = run_request(&engine, request).await;
    assert_eq!((outcome.status, outcome.usage.agents), (Status::Completed, 12));
    assert_eq!(server.most_at_work.load(SeqCst), 3);
}

#[tokio::test]
async fn a_backend_has_its_own_limit() {
    let (engine, server) = model_with(json!({"max_concurrency": 1}), 0, |_, _, _| says("x")).await;
    run(&engine, "await map([1, 2, 3, 4, 5], i => agent(`${i}`))").await;
    assert_eq!(server.most_at_work.load(SeqCst), 1);
}

#[tokio::test]
async fn at_the_token_ceiling_the_next_agents_are_refused_and_running_ones_finish() {
    let (engine, server) = model_with(json!({"max_concurrency": 16}), 2, |_, _, _| says("x")).await;
    let script = "let done = 0
        try { await map([...Array(50).keys()], async i => { await agent(`${i}`); done++ }) }
        catch (e) { return [e.name, done, budget.spent(), budget.remaining()] }";
    let limits = Limits { max_concurrency: Some(2), max_tokens: Some(350), ..Limits::default() };
    let (outcome, _) = run_request(&engine, RunRequest { limits, ..request(script) }).await;
    let told = outcome.result.unwrap();
    assert_eq!(told[0], "BudgetExceededError");
    // 350 are passed with the fourth agent; with two places a fifth may be at work by then.
    let agents = server.requests.load(SeqCst);
    assert!((4..=5).contains(&agents), "{agents}");
    assert_eq!((told[1].as_u64(), told[2].as_u64()), (Some(agents as u64), Some(100 * agents as u64)));
}

#[tokio::test]
async fn a_hundred_identical_failures_are_cut_off_after_five() {
    let (engine, server) = model(|_, _, _| (StatusCode::FORBIDDEN, "no").into_response()).await;
    let script = "return map([...Array(100).keys()], i => agent(`${i}`), { concurrency: 1 })";
    let (outcome, _) = run(&engine, script).await;
    assert_eq!(outcome.error.unwrap().name, "CircuitOpenError");
    assert_eq!((server.requests.load(SeqCst), outcome.usage.agent_failures), (5, 5));
}

#[tokio::test]
async fn an_agent_ends_at_its_own_limits() {
    let (engine, server) = model(|_, _, _| calls_tool("read_text_file", &json!({"path": "in/x"}))).await;
    let (outcome, _) = run(&engine, "try { await agent('Go', { maxTurns: 3 }) } catch (e) { return e.code }").await;
    assert_eq!((outcome.result, server.requests.load(SeqCst)), (Some(json!("max_turns")), 3));

    let (engine, _) = model(|_, _, _| {
        Response::new(Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>()))
    })
    .await;
    let (outcome, _) = run(&engine, "try { await agent('Go', { timeout: 100 }) } catch (e) { return e.code }").await;
    assert_eq!(outcome.result, Some(json!("timeout")));

    let (engine, _) = model(|_, _, _| says("x")).await;
    let script = "const codes = []
        for (const make of [() => agent('x'.repeat(1.1e6)), () => agent('a', { model: 'gone' }), () => agent('a', { tools: ['none'] }), () => agent('a', { schema: { type: 'what' } })])
          try { await make() } catch (e) { codes.push(`${e.name} ${e.code}`) }
        return codes";
    let (outcome, events) = run(&engine, script).await;
    let expected = json!([
        "AgentError context_overflow",
        "AgentError backend_unavailable",
        "ToolError unknown_tool",
        "TypeError undefined"
    ]);
    assert_eq!(outcome.result, Some(expected));
    assert!(!events.iter().any(|event| matches!(event, Event::AgentStarted { .. })));
}

#[tokio::test]
async fn what_the_history_keeps_of_an_agent_does_not_grow_with_the_names_that_the_script_gives() {
    let (engine, _) = model(|_, _, _| says("done")).await;
    let script = "phase('p'.repeat(1e6)); return agent('a'.repeat(1e4), { label: 'l'.repeat(1e6) })";
    let (outcome, events) = run(&engine, script).await;
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
    assert!(serde_json::to_string(&events).unwrap().len() < 4_000);
}

#[tokio::test]
async fn an_answer_that_takes_for_ever_to_check_fails_its_agent() {
    let (engine, _) = model(|_, _, _| says("{}")).await;
    let schema = crate::untrusted::doubling(60);
    let (outcome, _) = run(&engine, &format!("return agent('a', {{ schema: {schema} }})")).await;
    let error = outcome.error.unwrap();
    assert!(error.code == "schema_mismatch" && error.message.contains("make it simpler"), "{error}");
}

#[tokio::test]
async fn a_model_that_wants_a_thousand_files_at_once_does_not_fill_the_memory() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("a.txt"), "x".repeat(200_000)).unwrap();
    let (engine, server) = model(|_, _, _| {
        let call = json!({"id": "1", "function": {"name": "read_text_file", "arguments": "{\"path\": \"in/a.txt\"}"}});
        axum::Json(json!({"choices": [{"message": {"tool_calls": vec![call; 1_000]}}]})).into_response()
    })
    .await;
    let source =
        "export const meta = { folders: { in: { from: 'args.in', access: 'read' } }, tools: ['read_text_file'] }
        return agent('Read')";
    let arguments = json!({"in": home.path()});
    let request = RunRequest { arguments, folders: reading(home.path()), ..request(source) };
    let (outcome, events) = run_request(&engine, request).await;
    assert_eq!((outcome.error.unwrap().code.as_str(), server.requests.load(SeqCst)), ("context_overflow", 1));
    assert!(events.iter().filter(|event| matches!(event, Event::ToolFinished { .. })).count() < 50);
}

/// Each check of a schema is a process: a script that starts thousands of agents must not start thousands of those.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_are_checked_no_more_at_once_than_agents_work() {
    let mark = format!("schemas-{}", std::process::id());
    let worker = fleet::WorkerCommand { args: vec![mark.clone().into()], ..crate::support::settings().worker };
    let config = serde_json::from_value(json!({"base_url": "http://127.0.0.1:9", "model": "none"})).unwrap();
    let models = std::collections::BTreeMap::from([("local".to_owned(), config)]);
    let engine = fleet::Fleet::new(fleet::Settings { worker, models, ..crate::support::settings() });
    let script = "await map(Array(400).fill(0), () => agent('a', { schema: { type: 'what' } }), { concurrency: 400 })";
    let done = tokio::spawn(async move { run(&engine, script).await.0 });
    let mut most = 0;
    while !done.is_finished() {
        most = most.max(crate::support::processes_with(&mark).len());
        tokio::task::yield_now().await;
    }
    assert_eq!(done.await.unwrap().status, Status::Completed);
    assert!((2..=1 + 4 + 4).contains(&most), "{most} processes, of which one is the script's and some are ending");
}
