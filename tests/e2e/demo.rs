//! The demo is the first thing that anyone runs.

use std::fs;

use super::world::{Laptop, text};

#[test]
fn the_demo_tells_the_whole_story_and_leaves_nothing() {
    let laptop = Laptop::new(None, "");
    let folder = laptop.path("notes");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("plan.md"), "# The plan\n\nTODO: write it\n").unwrap();
    let output = laptop.command(&["demo", "--folder", &folder.to_string_lossy()]);
    let (said, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}\n{stderr}");
    for expected in ["hub ", "relay ", "owner ", "assistant ", "completed", "The plan", "--keep"] {
        assert!(said.contains(expected), "no `{expected}` in:\n{said}");
    }
    let left = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let demos: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with("graph-relay-demo-")).collect();
    assert!(demos.is_empty(), "left behind: {demos:?}");
}
