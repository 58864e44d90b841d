//! Tools as scripts use them, and the Graph that needs no model.

use fleet::{Access, Event, FolderGrant, RunRequest, Status};
use serde_json::json;

use crate::support::{engine, reading, request, run_request};

const READS: &str =
    "export const meta = { folders: { in: { from: 'args.folder', access: 'read' } }, tools: ['read_text_file'] }\n";

#[tokio::test]
async fn a_script_reads_only_where_the_owner_let_it() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("in")).unwrap();
    std::fs::write(home.path().join("in/a.txt"), "hello").unwrap();
    std::fs::write(home.path().join("secret.txt"), "secret").unwrap();
    let script = format!(
        "{READS}const codes = []
        for (const path of ['in/a.txt', 'in/../secret.txt', 'in/none', 'other/a.txt'])
          codes.push(await tool('read_text_file', {{ path }}).then(r => r.text, e => e.code))
        return codes"
    );
    let with = |folders: Vec<FolderGrant>| RunRequest {
        arguments: json!({"folder": home.path().join("in")}),
        folders,
        ..request(&script)
    };
    let (outcome, events) = run_request(&engine(), with(reading(&home.path().join("in")))).await;
    assert_eq!(outcome.result, Some(json!(["hello", "outside_folder", "not_found", "outside_folder"])));
    assert_eq!(events.iter().filter(|event| matches!(event, Event::ToolFailed { .. })).count(), 3);

    let elsewhere = tempfile::tempdir().unwrap();
    let (outcome, events) = run_request(&engine(), with(reading(elsewhere.path()))).await;
    let error = outcome.error.unwrap();
    assert_eq!(error.code, "folder_not_granted");
    assert!(error.message.contains("[[folders]]") && error.message.contains("--read"), "{error}");
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn a_folder_to_write_in_needs_a_grant_to_write() {
    let home = tempfile::tempdir().unwrap();
    let script = "export const meta = { folders: { out: { from: 'args.folder', access: 'write' } } }\nreturn 'ran'";
    for (access, status) in [(Access::Read, Status::Failed), (Access::Write, Status::Completed)] {
        let request = RunRequest {
            arguments: json!({"folder": home.path()}),
            folders: vec![FolderGrant { path: home.path().to_owned(), access }],
            ..request(script)
        };
        assert_eq!(run_request(&engine(), request).await.0.status, status);
    }
}

#[tokio::test]
async fn the_digest_graph_sums_up_a_folder_without_a_model() {
    let home = tempfile::tempdir().unwrap();
    let file = |path: &str, text: &str| {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    file("README.md", "# The project\n\nSome words here\n");
    file("src/main.rs", "fn main() {}\n// TODO: more\n");
    file("target/CACHEDIR.TAG", "");
    file("target/big.bin", &"x".repeat(100_000));
    file(".git/config", "TODO");
    file("image.bin", "\0\0");
    let source = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../graphs/digest.js")).unwrap();
    let request =
        RunRequest { arguments: json!({"folder": home.path()}), folders: reading(home.path()), ..request(&source) };
    let (outcome, events) = run_request(&engine(), request).await;
    let digest = outcome.result.unwrap_or_else(|| panic!("{:?}", outcome.error));
    assert_eq!((&digest["files"], &digest["types"]["rs"]["lines"]), (&json!(3), &json!(3)));
    assert_eq!(digest["todo"], json!({"count": 1, "first": ["src/main.rs:2: // TODO: more"]}));
    assert_eq!(digest["documents"], json!([{"file": "README.md", "title": "The project"}]));
    assert_eq!(digest["biggest"][0]["file"], "README.md");
    assert_eq!(events.iter().filter(|event| matches!(event, Event::PhaseStarted { .. })).count(), 3);
}
