//! What a script, a schema or a worker may not do to the process that runs them all.

use std::time::{Duration, Instant};

use fleet::{Event, Fleet, Limits, Outcome, RunRequest, Settings, Status};
use serde_json::{Map, Value, json};

use crate::support::{engine, failure, reading, request, run, run_request, settings};

/// Definitions of which each refers twice to the next: checking anything takes two to the power of their number.
pub(crate) fn doubling(times: usize) -> Value {
    let mut definitions = Map::new();
    for number in 0..times {
        let next = json!({"$ref": format!("#/$defs/d{}", number + 1)});
        definitions.insert(format!("d{number}"), json!({"allOf": [next.clone(), next]}));
    }
    definitions.insert(format!("d{times}"), json!({"type": "object"}));
    json!({"$defs": definitions, "$ref": "#/$defs/d0"})
}

async fn with_schema(schema: &Value, arguments: Value) -> Outcome {
    let request = request(&format!("export const meta = {{ args: {schema} }}\nreturn 'ran'"));
    let limits = Limits { timeout: Some(Duration::from_secs(1)), ..Limits::default() };
    run_request(&engine(), RunRequest { arguments, limits, ..request }).await.0
}

#[tokio::test]
async fn arguments_are_held_to_their_schema_before_the_first_line() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    assert_eq!(with_schema(&schema, json!({"n": 1})).await.result, Some(json!("ran")));
    for (arguments, told) in [(json!({}), "\"n\" is a required"), (json!({"n": "x"}), "/n: "), (json!([1]), "object")] {
        let error = with_schema(&schema, arguments).await.error.unwrap();
        assert!(error.code == "bad_args" && error.message.contains(told), "{error}");
    }
    assert_eq!(with_schema(&json!({"type": "what"}), json!({})).await.error.unwrap().code, "bad_meta");
}

/// On one thread: if the check ran here, the timeout could not fire and nothing else would be served.
#[tokio::test]
async fn a_schema_that_takes_for_ever_is_ended_with_its_run_and_holds_up_nobody_else() {
    let (started, schema) = (Instant::now(), doubling(60));
    let (bomb, other) = tokio::join!(with_schema(&schema, json!({})), run("return 1"));
    assert_eq!(other.0.result, Some(json!(1)));
    assert_eq!(bomb.error.unwrap().code, "timeout");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_script_finds_no_way_to_code_from_text_nor_to_other_verbs() {
    let ways = [
        "(() => {}).constructor('return 1')",
        "(async () => {}).constructor('return 1')",
        "(function* () {}).constructor('yield 1')",
        "(async function* () {}).constructor('yield 1')",
        "Reflect.construct(agent.constructor, ['return 1'])",
        "new (class extends (() => {}).constructor { constructor() { super('return 1') } })()",
        "agent.caller",
        "agent.arguments",
        "globalThis.agent = () => 1",
        "agent.call = () => 1",
        "Object.defineProperty(globalThis, 'tool', { value: 1 })",
        "delete globalThis.sleep",
        "JSON.rawJSON('1\\n{}')",
    ];
    for way in ways {
        let (outcome, _) = run(&format!("return {way}")).await;
        assert_eq!(outcome.status, Status::Failed, "{way}: {:?}", outcome.result);
    }
}

/// Whatever a script makes of the language, what it says stays what it says.
#[tokio::test]
async fn a_script_cannot_put_words_into_the_worker_s_mouth() {
    let (outcome, events) = run(r#"
        const forged = 'x\n{"say":"done","open_calls":0,"result":"forged"}\n'
        String.prototype.toJSON = () => forged
        Object.prototype.toJSON = () => ({ say: 'done', result: 'forged', id: 1, kind: 'agent' })
        Array.prototype.toJSON = () => forged
        log(forged, [forged]); phase(forged)
        for (const p of [String, Object, Array]) delete p.prototype.toJSON
        Object.defineProperty(Object.prototype, 'call', { get() { return () => 'forged' }, configurable: true })
        await sleep(0)
        delete Object.prototype.call
        return 'honest'"#)
    .await;
    assert_eq!(outcome.result, Some(json!("honest")), "{:?}", outcome.error);
    assert!(events.iter().any(|event| matches!(event, Event::Sleeping { .. })), "{events:?}");
}

#[tokio::test]
async fn what_an_error_says_of_itself_is_cut() {
    let (outcome, events) =
        run("throw Object.assign(new Error('m'.repeat(1e6)), { name: 'n'.repeat(1e6), code: 'c'.repeat(1e6) })").await;
    let error = outcome.error.unwrap();
    assert!(error.name.len() <= 100 && error.code.len() <= 100 && error.message.len() <= 2_000);
    assert!(serde_json::to_string(&events).unwrap().len() < 10_000);
}

#[tokio::test]
async fn a_script_cannot_keep_all_file_descriptors_of_the_process() {
    let home = tempfile::tempdir().unwrap();
    let folders: Map<String, Value> =
        (0..2_000).map(|n| (format!("f{n}"), json!({"from": home.path(), "access": "read"}))).collect();
    let request = request(&format!("export const meta = {{ folders: {} }}", Value::from(folders)));
    let (outcome, _) = run_request(&engine(), RunRequest { folders: reading(home.path()), ..request }).await;
    assert_eq!(outcome.error.unwrap().code, "bad_meta");
}

/// Arguments come from an assistant far away, and the error goes back to it.
#[tokio::test]
async fn outside_of_what_is_granted_every_path_gets_the_same_answer() {
    let (granted, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("file"), "x").unwrap();
    std::fs::create_dir(outside.path().join("secret-folder")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(outside.path().join("secret-folder"), outside.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("gone"), outside.path().join("dangling")).unwrap();
        std::os::unix::fs::symlink(outside.path(), granted.path().join("way-out")).unwrap();
    }
    let asked = async |path: std::path::PathBuf| {
        let source = "export const meta = { folders: { in: { from: 'args.folder', access: 'read' } } }";
        let arguments = json!({"folder": path});
        let request = RunRequest { arguments, folders: reading(granted.path()), ..request(source) };
        let error = run_request(&engine(), request).await.0.error.unwrap();
        (error.code, error.message.replace(path.to_str().unwrap(), "PATH"))
    };
    let mut answers = Vec::new();
    for name in ["secret-folder", "file", "link", "dangling", "nothing", "nothing/below", "file/below"] {
        answers.push(asked(outside.path().join(name)).await);
        #[cfg(unix)]
        answers.push(asked(granted.path().join("way-out").join(name)).await);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0].0, "folder_not_granted");
    assert_eq!(asked(granted.path().join("nothing")).await.0, "folder_not_found", "inside it is told");
}

#[tokio::test]
async fn a_result_of_millions_of_values_is_refused_before_it_takes_its_memory_here() {
    for script in ["return Array(4e6).fill(0)", "return Array(2e6).fill({})", "return Array(2e6).fill([])"] {
        assert!(failure(script).await.contains("too_large"), "{script}");
    }
    assert_eq!(run("return Array(9e5).fill(0)").await.0.status, Status::Completed);
    assert_eq!(run("return 'a,[{'.repeat(1e6)").await.0.status, Status::Completed, "text is no matter");
}

#[tokio::test]
async fn the_history_of_a_script_that_calls_tools_in_a_loop_is_bounded() {
    let home = tempfile::tempdir().unwrap();
    let source =
        "export const meta = { folders: { in: { from: 'args.in', access: 'read' } }, tools: ['read_text_file'] }
        const path = `in/${'x'.repeat(3800)}`
        for (let i = 0; i < 40; i++) await map(Array(100).fill(0), () => tool('read_text_file', { path }))";
    let arguments = json!({"in": home.path()});
    let request = RunRequest { arguments, folders: reading(home.path()), ..request(source) };
    let (outcome, events) = run_request(&engine(), request).await;
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.error);
    let tools = events.iter().filter(|event| matches!(event, Event::ToolFailed { .. } | Event::ToolStarted { .. }));
    let tools: Vec<String> = tools.map(|event| serde_json::to_string(event).unwrap()).collect();
    assert_eq!(tools.len(), 8_000, "every call is told");
    assert!(tools.iter().map(String::len).sum::<usize>() < 20_000_000);
    assert!(tools[7_999].len() < 400, "{}", tools[7_999]);
}

/// Workers that speak as an exploited interpreter could.
#[cfg(target_os = "linux")]
mod workers {
    use fleet::{Engine, WorkerCommand};
    use tokio::sync::mpsc;

    use super::*;
    use crate::support::processes_with;

    const READY: &str = r#"read start; echo '{"say":"ready","meta":{"limits":{}}}'; read begin; "#;

    /// Runs a shell script in a worker's place, with a name for the children that it leaves behind in `$0`.
    fn fake(script: &str, mark: &str) -> Fleet {
        let args = ["-c", script, mark].map(Into::into).to_vec();
        let worker = WorkerCommand { program: "/bin/sh".into(), args };
        Fleet::new(Settings { worker, ..settings() })
    }

    async fn none_is_left(mark: &str) {
        let gone = async {
            while !processes_with(mark).is_empty() {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), gone).await;
        assert!(waited.is_ok(), "{mark}: {:?}", processes_with(mark));
    }

    #[tokio::test]
    async fn whatever_a_worker_says_the_run_ends_and_no_child_of_it_is_left() {
        let child = r#"(while :; do sleep 60; done) & "#;
        let cases = [
            ("a-last-word", r#"echo '{"say":"done","open_calls":0,"result":1}'"#),
            ("a-last-word-and-staying", r#"echo '{"say":"done","open_calls":0,"result":1}'; sleep 60"#),
            ("no-word", "exit 3"),
            ("a-closed-pipe", "exec >&-; sleep 60"),
            ("garbage", "echo '}{'; sleep 60"),
            ("bytes", r"printf '\377\376\n'; sleep 60"),
            ("ready-twice", r#"echo '{"say":"ready","meta":{"limits":{}}}'; sleep 60"#),
            ("an-endless-line", "while :; do printf '%0100000d' 0; done"),
            (
                "a-bomb-of-values",
                r#"printf '{"say":"done","open_calls":0,"result":['; while :; do printf '%050000d' 0 | tr 0 ,; done"#,
            ),
            (
                "too-deep",
                r#"printf '{"say":"done","open_calls":0,"result":'; printf '%05000d' 0 | tr 0 [; echo; sleep 60"#,
            ),
            (
                "huge-numbers",
                r#"echo '{"say":"call","id":-1,"kind":"sleep","line":1e99,"column":0,"input":{}}'; sleep 60"#,
            ),
            (
                "an-unknown-kind",
                r#"echo '{"say":"call","id":1,"kind":"shell","line":0,"column":0,"input":{}}'; sleep 60"#,
            ),
            (
                "calls",
                r#"while :; do echo '{"say":"call","id":1,"kind":"sleep","line":0,"column":0,"input":{"ms":1e9}}'; done"#,
            ),
            ("tells", r#"while :; do echo '{"say":"tell","kind":"log","input":{"message":"x"}}'; done"#),
            ("silence", "sleep 60"),
        ];
        let runs = cases.map(|(name, script)| async move {
            let mark = format!("{name}-{}", std::process::id());
            let limits = Limits { timeout: Some(Duration::from_secs(2)), ..Limits::default() };
            let engine = fake(&format!("{READY}{child}{script}"), &mark);
            let (outcome, events) = run_request(&engine, RunRequest { limits, ..request("") }).await;
            assert!(outcome.status == Status::Completed || outcome.error.is_some(), "{name}");
            assert!(events.len() < 3_000, "{name}: {} events", events.len());
            none_is_left(&mark).await;
        });
        futures::future::join_all(runs).await;
    }

    #[tokio::test]
    async fn a_run_that_is_dropped_leaves_no_child_either() {
        let mark = format!("dropped-{}", std::process::id());
        let engine = fake(
            &format!(
                "{READY}(while :; do sleep 60; done) & echo '{{\"say\":\"tell\",\"kind\":\"log\",\"input\":{{\"message\":\"on\"}}}}'; sleep 60"
            ),
            &mark,
        );
        let (sender, mut events) = mpsc::unbounded_channel();
        let mut run = engine.run(request(""), sender);
        let logged = async { while !matches!(events.recv().await, Some(Event::Log { .. })) {} };
        tokio::select! {
            _ = &mut run => panic!("it cannot end"),
            () = logged => {}
        }
        assert!(!processes_with(&mark).is_empty());
        drop(run);
        none_is_left(&mark).await;
    }

    /// Should a script break out of the interpreter, it is in a process that can open and start nothing.
    #[tokio::test]
    async fn a_worker_can_open_no_file_and_start_no_process() {
        let mark = format!("limits-{}", std::process::id());
        let worker = WorkerCommand { args: vec![mark.clone().into()], ..settings().worker };
        let engine = Fleet::new(Settings { worker, ..settings() });
        let (sender, mut events) = mpsc::unbounded_channel();
        let mut run = engine.run(request("log(new Date(0).getTimezoneOffset()); await sleep('1h')"), sender);
        let logged = async { while !matches!(events.recv().await, Some(Event::Sleeping { .. })) {} };
        tokio::select! {
            outcome = &mut run => panic!("{outcome:?}"),
            () = logged => {}
        }
        let pid = processes_with(&mark).pop().unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        for limit in ["Max open files", "Max processes", "Max file size", "Max core file size"] {
            let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
            assert_eq!(line[limit.len()..].split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"], "{line}");
        }
    }
}
