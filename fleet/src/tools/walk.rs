//! Going through a folder and everything below it, in the order of the names.
//!
//! Symbolic links are told and not followed. Folders that people keep out of listings are told and not entered, unless
//! the caller asks for all: those whose name begins with a dot, `node_modules`, and build output (a folder that holds a
//! `CACHEDIR.TAG`, which is how cargo marks `target`).

use cap_std::fs::{Dir, Metadata};

use super::Wanted;
use super::sandbox::trouble;
use crate::GraphError;

/// Deepest nesting of folders that is entered.
const DEPTH: usize = 64;
/// Most entries that are looked at in one call.
pub(super) const ENTRIES: usize = 50_000;

/// One entry.
pub(super) struct Found<'a> {
    /// The folder that holds it.
    pub(super) dir: &'a Dir,
    pub(super) name: String,
    /// Below the folder where the walk began.
    pub(super) path: String,
    pub(super) metadata: Metadata,
}

/// Whether to go on.
#[derive(PartialEq, Eq)]
pub(super) enum Step {
    On,
    Enough,
}

/// How a walk is done.
pub(super) struct Walk<'a> {
    pub(super) recursive: bool,
    pub(super) all: bool,
    pub(super) wanted: &'a Wanted,
    /// Entries still to be looked at.
    pub(super) left: usize,
}

impl Walk<'_> {
    /// Shows every entry below `dir`. `Enough` when it was stopped before the end.
    pub(super) fn go(
        &mut self,
        dir: &Dir,
        shown: &str,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<Step, GraphError>,
    ) -> Result<Step, GraphError> {
        self.level(dir, shown, "", 0, visit)
    }

    fn level(
        &mut self,
        dir: &Dir,
        shown: &str,
        prefix: &str,
        depth: usize,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<Step, GraphError>,
    ) -> Result<Step, GraphError> {
        for (name, metadata) in self.sorted(dir, shown)? {
            self.wanted.check()?;
            let path = format!("{prefix}{name}");
            let is_dir = metadata.is_dir();
            let found = Found { dir, name, path, metadata };
            if visit(&found)? == Step::Enough {
                return Ok(Step::Enough);
            }
            if self.recursive && is_dir && depth < DEPTH && (self.all || !hidden(&found.name)) {
                // A folder that vanished or may not be read is passed over, as the shell's tools do.
                let Ok(below) = dir.open_dir(&found.name) else { continue };
                if !self.all && below.exists("CACHEDIR.TAG") {
                    continue;
                }
                let prefix = format!("{}/", found.path);
                if self.level(&below, shown, &prefix, depth + 1, visit)? == Step::Enough {
                    return Ok(Step::Enough);
                }
            }
        }
        Ok(if self.left == 0 { Step::Enough } else { Step::On })
    }

    fn sorted(&mut self, dir: &Dir, shown: &str) -> Result<Vec<(String, Metadata)>, GraphError> {
        let mut entries = Vec::new();
        for entry in dir.entries().map_err(|error| trouble(shown, &error))? {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let Ok(entry) = entry else { continue };
            // The entry's own metadata: a link is a link.
            let Ok(metadata) = entry.metadata() else { continue };
            // A name that is no Unicode cannot be written in a path of a script.
            if let Ok(name) = entry.file_name().into_string() {
                entries.push((name, metadata));
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries)
    }
}

fn hidden(name: &str) -> bool {
    name.starts_with('.') || name == "node_modules"
}
