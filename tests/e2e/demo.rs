//! The demo is the first thing that anyone runs.

use std::fs;

use super::world::{Laptop, text};

#[test]
fn the_demo_tells_the_whole_story_and_leaves_nothing() {
    let laptop = Laptop::new(None, "");
    let folder = laptop.path("notes");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("plan.md"), "# The plan\n\nTODO: write it\n").unwrap();
    let temporary = laptop.path("t");
    fs::create_dir(&temporary).unwrap();
    let mut demo = laptop.program(&["demo", "--folder", &folder.to_string_lossy()]);
    let output = demo.env("TMPDIR", &temporary).env("TMP", &temporary).output().unwrap();
    let (said, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}\n{stderr}");
    for expected in ["hub ", "relay ", "owner ", "assistant ", "completed", "The plan", "--keep"] {
        assert!(said.contains(expected), "no `{expected}` in:\n{said}");
    }
    let left: Vec<_> = fs::read_dir(&temporary).unwrap().flatten().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
