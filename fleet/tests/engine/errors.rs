//! Errors as the owner reads them: with the file, the line and the column of his own text.

use fleet::{CheckError, Engine, Fleet, Settings, WorkerCommand};

use crate::support::{engine, failure, request, run, run_request, settings, value};

#[tokio::test]
async fn an_uncaught_error_says_where_it_was_thrown() {
    assert_eq!(failure("const a = 1\n\n  throw new RangeError('boo')").await, "test.js:3:9: RangeError: boo");
    assert!(failure("await null\nconst f = () => {\n  null.x }\nf()").await.starts_with("test.js:3:8: TypeError"));
    assert!(failure("throw 'text'").await.ends_with("Error: text"));
    assert!(failure("throw { code: 'c', message: 'm' }").await.ends_with("Error c: m"));
    assert!(failure("return 1n").await.contains("TypeError"));
}

#[tokio::test]
async fn a_failed_call_says_where_it_was_made() {
    let script = "export const meta = { tools: ['read_text_file'] }\nasync function read(path) {\n  return tool('read_text_file', { path })\n}\nawait read('in/x')";
    let error = failure(script).await;
    assert!(error.starts_with("test.js:3:"), "{error}");
    assert!(error.contains("ToolError outside_folder"), "{error}");
}

#[tokio::test]
async fn a_caught_error_has_a_class_and_a_code() {
    let script = "export const meta = { tools: ['read_text_file'] }
        try { await tool('read_text_file', { path: 'in/x' }) }
        catch (e) { return [e instanceof ToolError, e instanceof GraphError, e instanceof Error, e.name, e.code, e.retryable, e.line] }";
    assert_eq!(value(script).await, serde_json::json!([true, true, true, "ToolError", "outside_folder", false, 2]));
}

#[tokio::test]
async fn a_promise_that_can_never_settle_is_an_error_at_once() {
    assert!(failure("await new Promise(() => {})").await.contains("never_settles"));
    assert!(failure("await Promise.race([])").await.contains("never_settles"));
}

#[tokio::test]
async fn a_script_that_does_not_wait_for_its_calls_is_warned() {
    let (outcome, events) = run("sleep('1h')\nreturn 1").await;
    assert_eq!(outcome.result, Some(serde_json::json!(1)));
    assert!(events.iter().any(|event| matches!(event, fleet::Event::Warning { message } if message.contains("await"))));
}

#[tokio::test]
async fn check_tells_everything_that_is_wrong_without_running() {
    let engine = engine();
    let meta =
        engine.check("a.js", "export const meta = { name: 'A', phases: ['One'] }\nawait sleep('1h')").await.unwrap();
    assert_eq!((meta.name.as_deref(), meta.phases.len()), (Some("A"), 1));

    let wrong = engine.check("a.js", "const x = 1\nfetch('x')\nlet x = agnt('y')").await.unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "a.js:2:1: fetch is not defined: a Graph has no network of its own\n\
         a.js:3:5: x is declared twice in the same block\n\
         a.js:3:9: agnt is not defined: did you mean agent?"
    );
    let syntax = engine.check("a.js", "const = 1").await.unwrap_err();
    assert_eq!((syntax.problems()[0].line, syntax.problems()[0].column), (1, 7));
    let deep = engine.check("a.js", &"(".repeat(100_000)).await.unwrap_err();
    assert!(matches!(deep, CheckError::Engine(_)), "{deep}");
}

#[tokio::test]
async fn a_wrong_script_fails_before_its_first_line() {
    let (outcome, events) = run("log('ran')\nreturn undefinedName").await;
    let error = outcome.error.unwrap();
    assert_eq!((error.code.as_str(), error.line), ("bad_script", Some(2)));
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn a_worker_that_cannot_start_is_told() {
    let worker = WorkerCommand { program: "/nowhere/worker".into(), args: Vec::new() };
    let engine = Fleet::new(Settings { worker, ..settings() });
    let (outcome, _) = run_request(&engine, request("return 1")).await;
    assert!(outcome.error.unwrap().message.contains("/nowhere/worker"));
    assert!(!engine.cancel(uuid::Uuid::new_v4()));
}
