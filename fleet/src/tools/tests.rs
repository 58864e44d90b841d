use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Sandbox, Tool, run};

/// A granted folder beside one that is not.
struct Home {
    home: TempDir,
    sandbox: Arc<Sandbox>,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("in")).unwrap();
        fs::write(home.path().join("secret.txt"), "secret").unwrap();
        for (path, text) in files {
            let path = home.path().join("in").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let folders = BTreeMap::from([("in".to_owned(), home.path().join("in"))]);
        Self { sandbox: Arc::new(Sandbox::open(folders).unwrap()), home }
    }

    async fn run(&self, tool: &str, input: Value) -> Result<Value, String> {
        let tool = Tool::by_name(tool).unwrap();
        run(tool, input, Arc::clone(&self.sandbox)).await.map_err(|error| error.code)
    }

    async fn read(&self, path: &str) -> Result<Value, String> {
        self.run("read_text_file", json!({"path": path})).await
    }
}

#[tokio::test]
async fn a_path_never_leads_out_of_its_folder() {
    let home = Home::new(&[("a.txt", "hello"), ("sub/b.txt", "b")]);
    assert_eq!(home.read("in/a.txt").await, Ok(json!({"text": "hello"})));
    for path in [
        "in/../secret.txt",
        "in//etc/passwd",
        "/etc/passwd",
        "secret.txt",
        "in/sub/../../secret.txt",
        "../in/a.txt",
        "in/a\0b",
    ] {
        assert_eq!(home.read(path).await, Err("outside_folder".to_owned()), "{path}");
    }
    assert_eq!(home.read("in/none.txt").await, Err("not_found".to_owned()));
    assert_eq!(home.read("in/sub").await, Err("bad_input".to_owned()));
    assert_eq!(home.run("list_directory", json!({"path": "in/a.txt"})).await, Err("bad_input".to_owned()));
    assert_eq!(
        home.run("list_directory", json!({"path": "in/..", "recursive": true})).await,
        Err("outside_folder".to_owned())
    );
}

#[cfg(unix)]
#[tokio::test]
async fn links_pipes_and_devices_are_refused() {
    use std::os::unix::fs::symlink;
    let home = Home::new(&[("a.txt", "hello"), ("sub/b.txt", "needle")]);
    let inside = home.home.path().join("in");
    symlink("../secret.txt", inside.join("out.txt")).unwrap();
    symlink("/etc", inside.join("etc")).unwrap();
    symlink("..", inside.join("up")).unwrap();
    symlink("a.txt", inside.join("near.txt")).unwrap();
    fs::hard_link(home.home.path().join("secret.txt"), inside.join("hard.txt")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(inside.join("pipe")).status().unwrap();
    assert!(made.success());

    for path in ["in/out.txt", "in/etc/passwd", "in/up/secret.txt", "in/hard.txt"] {
        assert_eq!(home.read(path).await, Err("outside_folder".to_owned()), "{path}");
    }
    assert_eq!(home.read("in/pipe").await, Err("bad_input".to_owned()));
    assert_eq!(home.read("in/near.txt").await, Ok(json!({"text": "hello"})));
    assert_eq!(home.run("list_directory", json!({"path": "in/etc"})).await, Err("outside_folder".to_owned()));

    let listed = home.run("list_directory", json!({"path": "in", "recursive": true})).await.unwrap();
    assert!(!listed.to_string().contains("passwd"), "{listed}");
    let found = home.run("search_files", json!({"path": "in", "text": "secret"})).await.unwrap();
    assert_eq!(found, json!({"matches": []}));
}

#[tokio::test]
async fn a_listing_names_what_it_does_not_enter() {
    let files = [
        (".git/config", "x"),
        ("node_modules/m/i.js", "x"),
        ("out/CACHEDIR.TAG", "x"),
        ("out/big", "x"),
        ("src/a.rs", "fn"),
    ];
    let home = Home::new(&files);
    let listed = home.run("list_directory", json!({"path": "in", "recursive": true})).await.unwrap();
    assert_eq!(listed, json!({"entries": [".git", "node_modules", "out", "src", "src/a.rs"]}));
    let all = home.run("list_directory", json!({"path": "in", "recursive": true, "all": true})).await.unwrap();
    assert_eq!(all["entries"].as_array().unwrap().len(), 10);
    let details = home.run("list_directory", json!({"path": "in/src", "details": true})).await.unwrap();
    let entry = &details["entries"][0];
    assert_eq!((&entry["path"], &entry["kind"], &entry["size"]), (&json!("in/src/a.rs"), &json!("file"), &json!(2)));
    assert!(entry["modified_ms"].as_u64().unwrap() > 1_600_000_000_000);
}

#[tokio::test]
async fn text_is_cut_between_characters_and_too_much_is_refused() {
    let big = "ä".repeat(200_000);
    let home = Home::new(&[("big.txt", &big), ("emoji.txt", "ab😀cd"), ("bin", "a\0b")]);
    assert_eq!(home.read("in/big.txt").await, Err("too_large".to_owned()));
    let cut = home.run("read_text_file", json!({"path": "in/big.txt", "max_chars": 10})).await.unwrap();
    assert_eq!(cut, json!({"text": "ä".repeat(10), "truncated": true}));
    let cut = home.run("read_text_file", json!({"path": "in/emoji.txt", "max_chars": 3})).await.unwrap();
    assert_eq!(cut, json!({"text": "ab", "truncated": true}));
    assert_eq!(home.read("in/bin").await, Err("bad_input".to_owned()));
    assert_eq!(home.run("read_text_file", json!({"path": "in/bin", "chars": 1})).await, Err("bad_input".to_owned()));
}

#[tokio::test]
async fn a_search_finds_lines_by_glob_and_text() {
    let home = Home::new(&[("a.md", "# One\nTODO: x\n"), ("src/b.rs", "// TODO y"), ("src/c.md", "none")]);
    let found = home.run("search_files", json!({"path": "in", "pattern": "*.md", "text": "TODO"})).await.unwrap();
    assert_eq!(found, json!({"matches": [{"path": "in/a.md", "line": 2, "text": "TODO: x"}]}));
    let named = home.run("search_files", json!({"path": "in", "pattern": "src/*.md"})).await.unwrap();
    assert_eq!(named, json!({"matches": [{"path": "in/src/c.md"}]}));
    let first = home.run("search_files", json!({"path": "in", "text": "TODO", "max_results": 1})).await.unwrap();
    assert_eq!(first["truncated"], true);
    assert_eq!(home.run("search_files", json!({"path": "in"})).await, Err("bad_input".to_owned()));
    assert_eq!(
        home.run("search_files", json!({"path": "in", "pattern": "a[", "text": "x"})).await,
        Err("bad_input".to_owned())
    );
}

#[tokio::test]
async fn no_glob_breaks_the_tool() {
    let home = Home::new(&[("a.md", "x")]);
    for part in ["*", "?", "**/", "{a,b}", "[!a-z]", "{a,", "}", "[", "\\", "{a,{b,{c,d}}}"] {
        for times in [300, 333, 100_000] {
            let pattern = part.repeat(times);
            match home.run("search_files", json!({"path": "in", "pattern": pattern})).await {
                Err(error) => assert_eq!(error, "bad_input", "{part} {times} times"),
                Ok(_) => assert!(pattern.len() <= 1_000),
            }
        }
    }
}
