use std::collections::HashSet;

use super::{Problem, inspect};
use crate::Meta;

fn globals() -> HashSet<String> {
    ["log", "agent", "parallel", "Math", "undefined", "JSON", "args"].map(str::to_owned).into()
}

fn problems(source: &str) -> Vec<String> {
    let show = |Problem { line, column, message }| format!("{line}:{column} {message}");
    inspect(source, &globals()).unwrap_err().into_iter().map(show).collect()
}

fn meta(source: &str) -> Meta {
    inspect(source, &globals()).unwrap().meta
}

#[test]
fn positions_are_the_authors_own_on_the_first_line_and_below() {
    assert_eq!(problems("return fooo"), ["1:8 fooo is not defined"]);
    assert_eq!(problems("const a = 1\nreturn a +\n  fooo"), ["3:3 fooo is not defined"]);
    assert!(problems("const x = = 2")[0].starts_with("1:11 "), "{:?}", problems("const x = = 2"));
}

#[test]
fn an_unknown_name_says_what_to_write_instead() {
    assert_eq!(problems("await fetch('x')"), ["1:7 fetch is not defined: a Graph has no network of its own"]);
    assert_eq!(problems("setTimeout(() => 1)"), ["1:1 setTimeout is not defined: write `await sleep('5s')`"]);
    assert_eq!(problems("const result = 1; return reslt"), ["1:26 reslt is not defined: did you mean result?"]);
    assert_eq!(
        problems("if (args) { const rows = 1 }\nreturn rows"),
        ["2:8 rows is not defined here: it is declared in another block or function"]
    );
    assert_eq!(problems("eval('1'); import('x')").len(), 2);
    assert!(problems("import fs from 'fs'")[0].contains("cannot import"));
}

#[test]
fn every_way_to_declare_a_name_is_seen() {
    let source = "
        const { a, b: [c, ...d], ...e } = args
        function f({ g, h = g }, ...i) { var j = arguments; return [g, h, i, j, k] }
        var k; let l = async m => { for (const n of m) log(n); for (let o = 0; o < 1; o++) log(o); for (p in m) log(p) }
        let p; class Q extends f { static r = Q; s(t) { return t } static { let u = 1; log(u) } get [a]() { return v } }
        const v = function w() { return w }, x = class Y { z() { return Y } }
        try { log(1) } catch ({ message }) { log(message) } finally { log(2) }
        switch (a) { case 1: let aa = 1; log(aa) }
        label: for (;;) { break label }
        const o2 = { log, m2(n2) { return n2 }, [a]: 1, b2: 2 }
        return [a, c, d, e, f, k, l, p, Q, v, x, o2.b2, typeof nothing, `${a}`, ...d]";
    let checked = inspect(source, &globals());
    assert!(checked.is_ok(), "{checked:?}");
}

#[test]
fn a_name_declared_twice_is_found_before_the_run() {
    assert!(problems("let a = 1\nlet a = 2")[0].starts_with("2:"), "{:?}", problems("let a = 1\nlet a = 2"));
    assert!(!problems("{ const { b } = args; const b = 1 }").is_empty());
    assert!(inspect("let a = 1; { let a = 2; log(a) } log(a)", &globals()).is_ok());
}

#[test]
fn meta_is_read_without_running_anything() {
    let meta = meta(
        "// a comment\n/* another */ export const meta = { name: 'a', description: `b`, phases: ['One'],\n\
         args: { type: 'object', properties: { n: { minimum: -1.5 } } },\n\
         folders: { in: { from: 'args.folder', access: 'read' } }, limits: { max_agents: 3, timeout: '5m' } }\nreturn meta.name",
    );
    assert_eq!((meta.name.as_deref(), meta.description.as_deref()), (Some("a"), Some("b")));
    assert_eq!(meta.limits.max_agents, Some(3));
    assert_eq!(meta.args.unwrap()["properties"]["n"]["minimum"], -1.5);
}

#[test]
fn meta_that_is_no_pure_literal_or_not_first_is_refused() {
    assert!(problems("export const meta = { name: 'a' + 'b' }")[0].contains("pure literal"));
    assert!(problems("export const meta = { name: args.name }")[0].contains("pure literal"));
    assert!(problems("export const meta = { nam: 'a' }")[0].contains("unknown field `nam`"));
    assert!(problems("log(1)\nexport const meta = { name: 'a' }")[0].contains("first statement"));
}

#[test]
fn a_default_export_is_the_result_and_other_exports_are_refused() {
    assert!(inspect("log(1)\nexport default { a: 1 }", &globals()).is_ok());
    assert!(problems("export function f() {}")[0].contains("exports only"));
}

#[test]
fn a_script_cannot_break_out_of_its_function() {
    assert!(!problems("}); log(1); (async () => {").is_empty());
    assert!(!problems("}), (async () => {").is_empty());
    assert!(problems("const a = {")[0].contains("ends too early"));
}
