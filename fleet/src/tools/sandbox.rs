//! The folders of one script, by their aliases, and the only way to open anything in them.
//!
//! Paths are `alias/relative`. Resolution is cap-std's: relative to an open folder, so that `..`, absolute paths and
//! symbolic links cannot lead out, whatever changes on disk in between. On top, only plain files with one name are
//! opened: a second hard link may belong to a file outside, and devices and pipes are no text.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::{MetadataExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use crate::GraphError;

/// The open folders.
pub(crate) struct Sandbox {
    folders: BTreeMap<String, Dir>,
}

/// A place in a folder: the folder, and the path below it, empty for the folder itself.
pub(super) struct Place<'a> {
    pub(super) folder: &'a Dir,
    pub(super) below: PathBuf,
    /// As it was written, without a slash at the end.
    pub(super) shown: String,
}

impl Sandbox {
    /// Opens the folders, whose paths are known to be granted.
    pub(crate) fn open(folders: BTreeMap<String, PathBuf>) -> Result<Self, GraphError> {
        let open = |(alias, path): (String, PathBuf)| match Dir::open_ambient_dir(&path, ambient_authority()) {
            Ok(dir) => Ok((alias, dir)),
            Err(error) => {
                let message = format!("the folder '{alias}' at {} cannot be opened: {error}", path.display());
                Err(GraphError::start("folder_not_found", message))
            }
        };
        Ok(Self { folders: folders.into_iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Where a path of a script leads.
    pub(super) fn place(&self, path: &str) -> Result<Place<'_>, GraphError> {
        let shown = path.trim_end_matches('/').to_owned();
        let (alias, below) = shown.split_once('/').unwrap_or((&shown, ""));
        let Some(folder) = self.folders.get(alias) else {
            let known = self.folders.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "meta.folders has none".to_owned() } else { format!("it has {known}") };
            let message = format!("'{path}' does not begin with an alias of meta.folders: {known}");
            return Err(GraphError::tool("outside_folder", message));
        };
        let below = PathBuf::from(below);
        let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || path.contains('\0') || (cfg!(windows) && path.contains(['\\', ':'])) {
            return Err(GraphError::tool("outside_folder", format!("'{path}' does not stay in its folder")));
        }
        Ok(Place { folder, below, shown })
    }
}

impl Place<'_> {
    pub(super) fn metadata(&self) -> Result<Metadata, GraphError> {
        let metadata =
            if self.is_folder_itself() { self.folder.dir_metadata() } else { self.folder.metadata(&self.below) };
        metadata.map_err(|error| trouble(&self.shown, &error))
    }

    pub(super) fn open_dir(&self) -> Result<Dir, GraphError> {
        if !self.metadata()?.is_dir() {
            return Err(GraphError::tool("bad_input", format!("'{}' is no folder", self.shown)));
        }
        let dir = if self.is_folder_itself() { self.folder.try_clone() } else { self.folder.open_dir(&self.below) };
        dir.map_err(|error| trouble(&self.shown, &error))
    }

    /// Opens a plain file for reading.
    pub(super) fn open_file(&self) -> Result<(File, Metadata), GraphError> {
        open_plain_file(self.folder, &self.below, &self.shown)
    }

    fn is_folder_itself(&self) -> bool {
        self.below.as_os_str().is_empty()
    }
}

/// Opens a file if it is a plain one with a single name.
pub(super) fn open_plain_file(dir: &Dir, path: &Path, shown: &str) -> Result<(File, Metadata), GraphError> {
    // Looked at before it is opened: opening alone has effects on some devices. What is opened is looked at again,
    // since it may be another file by then; not blocking, so that a pipe in its place cannot hold the thread.
    let metadata = dir.metadata(path).map_err(|error| trouble(shown, &error))?;
    check_plain(&metadata, shown)?;
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    let file = dir.open_with(path, &options).map_err(|error| trouble(shown, &error))?;
    let metadata = file.metadata().map_err(|error| trouble(shown, &error))?;
    check_plain(&metadata, shown)?;
    Ok((file, metadata))
}

fn check_plain(metadata: &Metadata, shown: &str) -> Result<(), GraphError> {
    if metadata.is_dir() {
        return Err(GraphError::tool("bad_input", format!("'{shown}' is a folder")));
    }
    if !metadata.is_file() {
        return Err(GraphError::tool("bad_input", format!("'{shown}' is a device, a pipe or a socket")));
    }
    if metadata.nlink() > 1 {
        let message = format!("'{shown}' has a second hard link, which may stand outside of the folder");
        return Err(GraphError::tool("outside_folder", message));
    }
    Ok(())
}

/// The system's error, in the words of the tools.
pub(super) fn trouble(shown: &str, error: &io::Error) -> GraphError {
    match error.kind() {
        io::ErrorKind::NotFound => GraphError::tool("not_found", format!("'{shown}' does not exist")),
        // cap-std says so of a path that leads out.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            GraphError::tool("outside_folder", format!("'{shown}' leads out of its folder"))
        }
        _ => GraphError::tool("bad_input", format!("'{shown}' cannot be read: {error}")),
    }
}
