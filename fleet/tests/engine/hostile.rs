//! Scripts that loop, recurse, nest, allocate or wait without end: each must end by itself or by its limits, in its
//! worker alone.

use std::time::Duration;

use fleet::{Fleet, Limits, Outcome, Settings, Status, WorkerCommand};
use futures::StreamExt;
use serde::Deserialize;

use crate::support;

#[derive(Deserialize)]
struct Case {
    name: String,
    source: Option<String>,
    /// Text, and how often it is repeated.
    #[serde(default)]
    parts: Vec<(String, usize)>,
}

impl Case {
    fn source(&self) -> String {
        let parts = || self.parts.iter().map(|(text, times)| text.repeat(*times)).collect();
        self.source.clone().unwrap_or_else(parts)
    }
}

/// More of the same kinds.
const MORE: &[(&str, &str)] = &[
    ("proxy-trap", "return new Proxy({}, { get() { while (true) {} } }).x"),
    (
        "proxy-own-keys",
        "return Object.keys(new Proxy({}, { ownKeys() { return Array.from({ length: 1e9 }, (_, i) => `${i}`) } }))",
    ),
    ("proxy-has-chain", "const p = new Proxy({}, { has(t, k) { return k in p } }); return 'x' in p"),
    ("generator", "function* g() { while (true) yield 1 } return [...g()]"),
    ("generator-recursion", "function* g() { yield* g() } return [...g()]"),
    ("async-generator", "async function* g() { while (true) yield 1 } for await (const x of g()) {} return 1"),
    ("thenable", "return await { get then() { while (true) {} } }"),
    ("thenable-chain", "const t = { then(f) { f(t) } }; return await t"),
    ("tagged-template", "const t = s => t`${s}`; return t`x`"),
    ("labelled-continue", "outer: for (;;) { for (;;) { continue outer } }"),
    ("to-json", "const o = { toJSON() { return { o } } }; return JSON.stringify(o)"),
    ("to-json-result", "return { toJSON() { while (true) {} } }"),
    ("json-cycle", "const o = {}; o.o = o; return o"),
    ("json-deep-result", "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a"),
    ("json-wide-result", "return Array(3e6).fill('abcdefgh')"),
    ("destructuring", "const o = { get a() { return o } }; for (;;) { const { a: { a: { a: { a } } } } = o }"),
    ("match-all", "return [...'a'.repeat(1e6).matchAll(/a*?b/g)].length"),
    ("regex-lookbehind", "return /(?<=(a+)+)b$/.test('a'.repeat(5e4) + 'c')"),
    ("regex-backreference", r"return /(a*)*\1b/.test('a'.repeat(40))"),
    ("sort-recursion", "const f = () => [3, 2, 1].sort(f); return f()"),
    (
        "array-iterator",
        "const a = [1, 2, 3]; const it = a[Symbol.iterator](); Object.defineProperty(a, 1, { get() { return it.next() } }); return [...it]",
    ),
    (
        "symbol-iterator",
        "const o = { [Symbol.iterator]() { return { next() { return { done: false, value: 1 } } } } }; return Math.max(...o)",
    ),
    ("to-primitive", "const o = { [Symbol.toPrimitive]() { return o + 1 } }; return o + 1"),
    ("has-instance", "class A { static [Symbol.hasInstance](x) { return x instanceof A } } return 1 instanceof A"),
    ("static-block", "class A { static { while (true) {} } } return 1"),
    ("static-block-recursion", "const f = () => { class A { static x = f() } }; return f()"),
    ("getter-on-prototype", "Object.defineProperty(Object.prototype, 'x', { get() { return this.x } }); return {}.x"),
    (
        "promise-all-huge",
        "return Promise.all(new Proxy([], { get(t, k) { return k === 'length' ? 2 ** 53 - 1 : Reflect.get(t, k) } }))",
    ),
    ("async-recursion", "const f = async () => { await null; return f() }; return f()"),
    ("async-sync-recursion", "await null; const f = () => f() + 1; return f()"),
    ("async-dynamic-function", "return (async () => {}).constructor('while (true) {}')()"),
    ("dynamic-function", "return (() => {}).constructor('return 1')()"),
    ("generator-constructor", "return (function* () {}).constructor('yield 1')"),
    ("typed-array-huge", "const a = []; for (;;) a.push(new Uint8Array(2 ** 28).fill(1))"),
    ("typed-array-sort", "return new Float64Array(1e7).map(() => Math.random()).sort(() => { for (;;); })"),
    (
        "array-concat-species",
        "class A extends Array { static get [Symbol.species]() { for (;;); } } return new A(1).concat([2])",
    ),
    ("string-pad", "return 'x'.padEnd(2 ** 30, 'ab').length"),
    ("string-normalize", "return '\\u0041\\u030a'.repeat(2 ** 24).normalize('NFKD').length"),
    ("string-concat-many", "return ''.concat(...Array(1e6).fill('x'.repeat(1000))).length"),
    ("bigint-text", "return (7n ** 3000000n).toString().length"),
    ("bigint-shift", "return 1n << (2n ** 62n)"),
    ("bind-chain", "let f = () => 1; for (let i = 0; i < 2e5; i++) f = f.bind(null); return f()"),
    ("structured-clone-deep", "let a = {}; for (let i = 0; i < 1e5; i++) a = { a }; return structuredClone(a)"),
    ("microtasks", "const f = () => queueMicrotask(f); f(); await new Promise(() => {})"),
    (
        "error-cause-chain",
        "let e = new Error('x'); for (let i = 0; i < 1e5; i++) e = new Error('x', { cause: e }); throw e",
    ),
    ("error-getter", "throw { get message() { while (true) {} } }"),
    ("error-huge", "throw new Error('x'.repeat(5e7))"),
    ("date-loop", "const d = new Date(); while (Date.now() - d < 1e9) {}"),
    ("weak-map", "const m = new WeakMap(); for (;;) m.set({}, new Array(100).fill(0))"),
    ("log-flood", "for (;;) log('x'.repeat(1000), { a: 'y'.repeat(1000) })"),
    ("phase-flood", "for (let i = 0; i < 1e5; i++) phase('x'.repeat(1e4))"),
    ("call-flood", "for (;;) tool('read_text_file', { path: 'x'.repeat(1e5) }).catch(() => 0)"),
    ("sleep-flood", "for (;;) sleep('1h').catch(() => 0)"),
    ("sleep-endless", "await sleep('6d')"),
    ("map-endless", "return map(Array(4096).fill(0), () => sleep('1h'))"),
    (
        "retry-endless",
        "return retry(() => { throw new Error('no') }, { maxAttempts: 10, initialDelay: '1h', maxDelay: '1d' })",
    ),
    ("prelude-poison", "Array.prototype.push = () => { while (true) {} }; return parallel([() => 1])"),
    ("promise-poison", "Promise.prototype.then = () => { while (true) {} }; return await sleep(1)"),
    ("finally-loop", "try { throw 1 } finally { while (true) {} }"),
    ("parse-arrows", "@(a=>){30000}1"),
    ("parse-template", "@(`${){5000}1(}`){5000}"),
    ("parse-array", "@([){50000}"),
    ("parse-object", "@({a:){50000}"),
    ("parse-ternary", "@(1?1:){100000}1"),
    ("parse-comma", "@(1,){150000}1"),
    ("parse-if", "@(if(1)){50000};"),
    ("parse-new", "@(new ){50000}Date"),
    ("parse-optional", "@(a?.b){100000}"),
    ("parse-exponent", "@(2**){100000}2"),
    ("parse-member", "return [@(.x){100000}"),
    ("parse-label", "@(l:){1}@(k:){20000};"),
    ("parse-identifier", "let @(a){400000} = 1"),
    ("parse-long-string", "return '@(x){500000}'.length"),
];

/// `@(text){n}` stands for the text n times.
fn expand(source: &str) -> String {
    let mut out = String::new();
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("@(") {
        let Some((text, (times, tail))) =
            after.split_once("){").and_then(|(text, tail)| Some((text, tail.split_once('}')?)))
        else {
            break;
        };
        out.push_str(before);
        out.push_str(&text.repeat(times.parse().unwrap()));
        rest = tail;
    }
    out + rest
}

fn cases() -> Vec<(String, String)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/cases/hostile-scripts.json");
    let given: Vec<Case> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let given = given.into_iter().map(|case| (case.name.clone(), case.source()));
    given.chain(MORE.iter().map(|(name, source)| ((*name).to_owned(), expand(source)))).collect()
}

#[cfg(target_os = "linux")]
fn own_megabytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096 / 1024 / 1024
}

/// Every script runs under the same limits, several at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hostile_script_ends_in_its_worker_alone() {
    let mark = format!("hostile-{}", std::process::id());
    let worker = WorkerCommand { args: vec![mark.clone().into()], ..support::settings().worker };
    let engine = Fleet::new(Settings { worker, ..support::settings() });
    let limits = Limits { timeout: Some(Duration::from_secs(1)), memory_mb: Some(128), ..Limits::default() };
    #[cfg(target_os = "linux")]
    let before = own_megabytes();
    let runs = cases().into_iter().map(|(name, source)| {
        let request = fleet::RunRequest { limits: limits.clone(), ..support::request(&source) };
        let engine = &engine;
        async move { (name, support::run_request(engine, request).await.0) }
    });
    let outcomes: Vec<(String, Outcome)> = futures::stream::iter(runs).buffer_unordered(4).collect().await;
    for (name, outcome) in &outcomes {
        let told = outcome.error.as_ref().map(ToString::to_string);
        assert!(outcome.status == Status::Completed || told.as_ref().is_some_and(|told| told.len() > 20), "{name}");
        if let Some(error) = &outcome.error {
            assert_ne!(error.code, "worker", "{name} ended without a clear reason: {error}");
            assert_ne!(error.code, "protocol", "{name}: {error}");
        }
        if std::env::var_os("SHOW_HOSTILE").is_some() {
            eprintln!("{name}: {:?} {}", outcome.status, told.unwrap_or_else(|| format!("{:?}", outcome.result)));
        }
    }
    #[cfg(target_os = "linux")]
    {
        let grown = own_megabytes().saturating_sub(before);
        assert!(grown < 64, "this process grew by {grown} MB");
        assert_eq!(support::processes_with(&mark), Vec::<String>::new());
    }
}
