//! What people type wrong, what lies in the wrong place, and readers that go away.

use std::fs;
use std::process::Stdio;

use super::world::{Laptop, text};

/// Each mistake with its exit code, and what the message must say of it.
fn expect(laptop: &Laptop, cases: &[(&[&str], i32, &[&str])]) {
    for (words, code, said) in cases {
        let output = laptop.command(words);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{words:?}: {stderr}");
        for part in *said {
            assert!(stderr.contains(part), "{words:?}: no `{part}` in: {stderr}");
        }
    }
}

#[test]
fn what_is_no_script_is_told_apart() {
    let laptop = Laptop::new(None, "");
    fs::write(laptop.path("binary.js"), [0xff, 0xfe, 0x00]).unwrap();
    fs::write(laptop.path("huge.js"), vec![b' '; 9 << 20]).unwrap();
    fs::create_dir(laptop.path("folder.js")).unwrap();
    let path = |name: &str| laptop.path(name).to_string_lossy().into_owned();
    let (binary, huge, folder, missing) = (path("binary.js"), path("huge.js"), path("folder.js"), path("missing.js"));
    expect(
        &laptop,
        &[
            (&["graph", "add", "x", &binary], 2, &["binary.js", "UTF-8"]),
            (&["graph", "check", &huge], 2, &["huge.js", "too large"]),
            (&["graph", "run", &folder], 2, &["folder.js is a folder"]),
            (&["graph", "run", &missing], 3, &["there is no file", "missing.js"]),
            (&["graph", "run", &missing, "--timeout", "soon"], 2, &["30s"]),
        ],
    );
    let script = laptop.script("one.js", "return 1");
    expect(&laptop, &[(&["graph", "run", &script, "--read", &script], 2, &["one.js", "not a folder"])]);
}

#[test]
fn a_hub_that_cannot_be_set_up_says_what_to_change() {
    let laptop = Laptop::new(None, "");
    let script = laptop.script("one.js", "a text that is no database, and long enough to have a database's header");
    expect(
        &laptop,
        &[
            (&["hub", "--listen", "127.0.0.1:0", "--data", &script], 70, &["one.js", "not a database", "--data"]),
            (&["hub", "--public-url", "hub.example"], 2, &["https://"]),
            (&["hub", "device", "revoke", "dev_nope"], 3, &["dev_nope", "hub device list"]),
            (&["hub", "connection", "revoke", "con_nope"], 3, &["con_nope", "hub connection list"]),
            (&["hub", "member", "add", "you", "--project", "prj_nope"], 3, &["prj_nope", "hub project list"]),
        ],
    );
}

#[test]
fn files_in_the_wrong_place_are_named() {
    let laptop = Laptop::new(None, "");
    fs::write(laptop.path("relay.db"), "a text that is no database, and long enough to have a database's header")
        .unwrap();
    expect(&laptop, &[(&["status"], 70, &["relay.db", "not a database", "move it away"])]);
    let home = laptop.script("home", "");
    let output = laptop.program(&["status"]).env("GRAPH_RELAY_HOME", &home).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains(&home) && said.contains("hint: set GRAPH_RELAY_HOME"), "{said}");
}

#[test]
fn a_hub_that_is_down_is_named() {
    let laptop = Laptop::new(Some(("http://127.0.0.1:9", "token")), "");
    expect(&laptop, &[(&["project", "list"], 4, &["http://127.0.0.1:9", "config.toml"])]);
}

#[test]
fn the_demo_refuses_what_is_no_folder() {
    let laptop = Laptop::new(None, "");
    let script = laptop.script("one.js", "return 1");
    expect(&laptop, &[(&["demo", "--folder", &script], 2, &["one.js", "it is a file"])]);
}

/// `graph-relay history | head -1`: a pipe that is closed early is nobody's mistake.
#[test]
fn a_reader_that_goes_away_breaks_nothing() {
    let laptop = Laptop::new(None, "");
    let script = laptop.script("one.js", "log('one'); return 1");
    let throws = laptop.script("throws.js", "throw new Error('no')");
    laptop.ok(&["graph", "add", "one", &script]);
    laptop.ok(&["graph", "run", "one"]);
    laptop.ok(&["hub", "project", "add", "Demo"]);
    let cases: [(&[&str], i32); 9] = [
        (&["status"], 0),
        (&["status", "--json"], 0),
        (&["graph", "list"], 0),
        (&["graph", "show", "one"], 0),
        (&["graph", "run", "one"], 0),
        (&["graph", "run", &throws], 1),
        (&["graph", "check", &script], 0),
        (&["history"], 0),
        (&["hub", "project", "list"], 0),
    ];
    for (words, code) in cases {
        let mut child = laptop.program(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code), "{words:?}");
    }
}

/// Data that did not reach its file is missed; a token that was lost so cannot be shown again.
#[cfg(target_os = "linux")]
#[test]
fn data_that_cannot_be_written_is_an_error() {
    let laptop = Laptop::new(None, "");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = laptop.program(&["status", "--json"]).stdout(full).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(70), "{said}");
    assert!(said.contains("standard output"), "{said}");
}

/// Who asks how things stand learns which file to change.
#[test]
fn status_names_the_configuration() {
    let laptop = Laptop::new(None, "");
    let config = laptop.path("config.toml");
    assert!(laptop.ok(&["status"]).contains(&*config.to_string_lossy()));
    fs::remove_file(config).unwrap();
    assert!(laptop.ok(&["status"]).contains("config.toml (not there"));
}
