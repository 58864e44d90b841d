//! Where the relay keeps its files.
//!
//! `GRAPH_RELAY_HOME` puts everything below one folder; without it the platform's own places are used. The
//! folders are made for their owner alone: they hold scripts, results and a credential.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use directories::ProjectDirs;

/// Names one folder for all state, configuration and logs.
pub const HOME_VARIABLE: &str = "GRAPH_RELAY_HOME";

/// The longest path that every Unix accepts for a socket, less its closing zero byte.
const MAX_SOCKET_PATH: usize = 103;

/// The relay's folders and files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// `config.toml` and the device token.
    pub config_dir: PathBuf,
    /// The database, its lock and the control socket.
    pub state_dir: PathBuf,
    /// The daemon's log.
    pub log_dir: PathBuf,
}

/// Why the folders cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// The platform names no home folder.
    #[error("this account has no home folder; set {HOME_VARIABLE} to the folder that should hold the relay's files")]
    NoHome,
    /// A relative `GRAPH_RELAY_HOME` would mean another folder for each command.
    #[error("{HOME_VARIABLE} must be an absolute path, got `{0}`")]
    Relative(PathBuf),
    /// A Unix socket has a short name or none.
    #[error(
        "the path `{0}` is too long for a control socket ({MAX_SOCKET_PATH} bytes at most); set {HOME_VARIABLE} to a \
         shorter one"
    )]
    SocketPath(PathBuf),
    /// A folder could not be made.
    #[error("cannot use the folder `{path}`: {source}")]
    Create {
        /// Which folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Paths {
    /// The folders that the environment asks for.
    ///
    /// # Errors
    /// [`PathsError`], when there is no usable place.
    pub fn from_environment() -> Result<Self, PathsError> {
        match env::var_os(HOME_VARIABLE).filter(|home| !home.is_empty()) {
            Some(home) => Self::in_folder(Path::new(&home)),
            None => Self::of_the_platform(),
        }
    }

    /// Everything below one folder.
    ///
    /// # Errors
    /// [`PathsError`], when the path is relative or too long.
    pub fn in_folder(home: &Path) -> Result<Self, PathsError> {
        if !home.is_absolute() {
            return Err(PathsError::Relative(home.to_owned()));
        }
        Self { config_dir: home.to_owned(), state_dir: home.to_owned(), log_dir: home.join("logs") }.checked()
    }

    fn of_the_platform() -> Result<Self, PathsError> {
        let dirs = ProjectDirs::from("", "", "graph-relay").ok_or(PathsError::NoHome)?;
        let state_dir = dirs.data_local_dir().to_owned();
        Self { config_dir: dirs.config_dir().to_owned(), log_dir: state_dir.join("logs"), state_dir }.checked()
    }

    fn checked(self) -> Result<Self, PathsError> {
        let socket = self.socket();
        if cfg!(unix) && socket.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(PathsError::SocketPath(socket));
        }
        Ok(self)
    }

    /// Makes the folders where they are missing.
    ///
    /// # Errors
    /// [`PathsError::Create`].
    pub fn create(&self) -> Result<(), PathsError> {
        for path in [&self.config_dir, &self.state_dir, &self.log_dir] {
            create_private_dir(path).map_err(|source| PathsError::Create { path: path.clone(), source })?;
        }
        Ok(())
    }

    /// The owner's configuration.
    pub fn config_file(&self) -> PathBuf {
        self.config_dir.join("config.toml")
    }

    /// The credential with which this desktop asks its hub.
    pub fn token_file(&self) -> PathBuf {
        self.config_dir.join("device-token")
    }

    /// The desktop's database.
    pub fn database(&self) -> PathBuf {
        self.state_dir.join("relay.db")
    }

    /// Where the command line reaches the daemon (on Windows only the name of a pipe is derived from it).
    pub fn socket(&self) -> PathBuf {
        self.state_dir.join("control.sock")
    }
}

fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)?;
    #[cfg(unix)]
    keep_others_out(path)?;
    Ok(())
}

/// Whoever can write into a folder that was there before can put a link or a configuration of his own into it. Fails
/// where the folder is somebody else's, and for one that is meant for everybody, such as `/tmp`.
#[cfg(unix)]
fn keep_others_out(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    if mode & STICKY != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "everybody may write there"));
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS_WRITE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_folder_holds_everything() {
        let home = env::temp_dir().join("relay");
        let paths = Paths::in_folder(&home).unwrap();
        for path in [paths.config_file(), paths.token_file(), paths.database(), paths.socket(), paths.log_dir] {
            assert!(path.starts_with(&home), "{}", path.display());
        }
    }

    #[test]
    fn a_relative_home_is_refused() {
        let error = Paths::in_folder(Path::new("here")).unwrap_err();
        assert!(matches!(error, PathsError::Relative(_)), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_home_too_deep_for_a_socket_is_refused_with_the_reason() {
        let error = Paths::in_folder(&PathBuf::from(format!("/{}", "d".repeat(120)))).unwrap_err();
        assert!(error.to_string().contains("too long for a control socket"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_can_write_to_is_closed_to_them_or_refused() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let set = |mode| fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).unwrap();
        let paths = Paths::in_folder(home.path()).unwrap();
        for (before, after) in [(0o777, 0o755), (0o770, 0o750), (0o755, 0o755), (0o700, 0o700)] {
            set(before);
            paths.create().unwrap();
            assert_eq!(fs::metadata(home.path()).unwrap().permissions().mode() & 0o777, after);
        }
        set(0o1777);
        assert!(paths.create().unwrap_err().to_string().contains("everybody may write there"));
    }
}
