//! What to write in place of something that a Graph doesn't have.

/// For a statement that cannot stand in a Graph, by how it begins.
pub(super) fn for_statement(text: &str) -> Option<&'static str> {
    if text.starts_with("import") {
        return Some("a Graph cannot import: it reaches the world by its verbs only (agent, tool, graph, …)");
    }
    if text.starts_with("export const meta") {
        return Some("`export const meta = {…}` must be the first statement, and can stand only once");
    }
    if text.starts_with("export") {
        return Some("a Graph exports only `export const meta = {…}` (first) and `export default …`");
    }
    None
}

/// For a name that other JavaScript hosts have.
pub(super) fn for_global(name: &str) -> Option<&'static str> {
    Some(match name {
        "fetch" | "XMLHttpRequest" | "WebSocket" | "EventSource" => "a Graph has no network of its own",
        "setTimeout" | "setInterval" | "setImmediate" => "write `await sleep('5s')`",
        "clearTimeout" | "clearInterval" => "there are no timers; `await sleep('5s')` waits",
        "require" | "module" | "exports" => "a Graph cannot load modules",
        "process" | "Deno" | "Bun" => "what the run may know is in `args` and `run`",
        "fs" | "path" | "Buffer" | "__dirname" | "__filename" => {
            "files are read with `await tool('read_text_file', { path: 'alias/name' })`"
        }
        "window" | "document" | "navigator" | "localStorage" => "a Graph runs in no browser",
        "eval" | "Function" | "ShadowRealm" => "code from text cannot be run in a Graph",
        "Atomics" | "SharedArrayBuffer" | "Worker" => "a Graph has one thread; `parallel` runs agents side by side",
        "WeakRef" | "FinalizationRegistry" => "when garbage is collected must not change what a Graph does",
        "Intl" => "dates: `toISOString()`; numbers: `toFixed()`",
        "race" | "store" | "signal" | "waitForApproval" => "this verb is not available yet",
        "alert" | "print" => "write `log('…')`",
        _ => return None,
    })
}

/// The known name that the unknown one was probably meant to be.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = if name.chars().count() < 4 { 1 } else { 2 };
    known
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= most)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
