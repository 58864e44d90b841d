//! Between a script's `meta` and its first line: everything that must be right before it may run.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::limits::{ARGUMENT_BYTES, FOLDERS};
use crate::tools::{Sandbox, Tool};
use crate::{Access, EffectiveLimits, FolderGrant, FolderRequest, GraphError, Meta};

/// What a script may do, once it is clear.
pub(super) struct Prepared {
    pub(super) tools: Vec<Tool>,
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) graphs: Vec<String>,
    pub(super) limits: EffectiveLimits,
}

/// Checks tools, folders and limits against what the owner allows. The arguments have been checked.
pub(super) fn prepare(
    meta: &Meta,
    arguments: &Value,
    grants: &[FolderGrant],
    limits: &EffectiveLimits,
) -> Result<Prepared, GraphError> {
    let tools = meta.tools.iter().map(|name| tool(name)).collect::<Result<_, _>>()?;
    if meta.folders.len() > FOLDERS {
        let message = format!("meta.folders has {} entries; at most {FOLDERS} are opened", meta.folders.len());
        return Err(GraphError::start("bad_meta", message));
    }
    let mut folders = BTreeMap::new();
    for (alias, request) in &meta.folders {
        folders.insert(alias.clone(), folder(alias, request, arguments, grants)?);
    }
    let sandbox = Sandbox::open(folders)?;
    let limits = limits.narrowed_by(&meta.limits);
    Ok(Prepared { tools, sandbox: Arc::new(sandbox), graphs: meta.graphs.clone(), limits })
}

/// What can be said of arguments without their schema.
pub(super) fn check_arguments(arguments: &Value) -> Result<(), GraphError> {
    if !arguments.is_object() {
        return Err(GraphError::start("bad_args", "the arguments must be a JSON object"));
    }
    let bytes = arguments.to_string().len();
    if bytes > ARGUMENT_BYTES {
        let message = format!("the arguments have {bytes} bytes as JSON; at most {ARGUMENT_BYTES} are allowed");
        return Err(GraphError::start("bad_args", message));
    }
    Ok(())
}

fn tool(name: &str) -> Result<Tool, GraphError> {
    Tool::by_name(name).ok_or_else(|| {
        let known = Tool::ALL.map(Tool::name).join(", ");
        GraphError::start("unknown_tool", format!("meta.tools: there is no tool '{name}' here, only {known}"))
    })
}

/// The folder that an alias stands for, if the owner granted it.
fn folder(
    alias: &str,
    request: &FolderRequest,
    arguments: &Value,
    grants: &[FolderGrant],
) -> Result<PathBuf, GraphError> {
    let plain = !alias.is_empty() && alias.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !plain {
        let message = format!("meta.folders: the alias '{alias}' must be of letters, digits, '_' and '-'");
        return Err(GraphError::start("bad_meta", message));
    }
    let wanted = Meta::folder_path(request, arguments)?;
    if !Path::new(wanted).is_absolute() {
        // Relative to what? The daemon's working folder is nobody's business.
        let message = format!("the folder '{alias}' is '{wanted}', which must be an absolute path");
        return Err(GraphError::start("bad_args", message));
    }
    let not_found = |path: &Path, error: std::io::Error| {
        if !may_be_told(path, grants) {
            return not_granted(alias, path, request.access);
        }
        let message = format!("the folder '{alias}' is {}, which cannot be opened: {error}", path.display());
        GraphError::start("folder_not_found", message)
    };
    let mut path = PathBuf::from(wanted).canonicalize().map_err(|error| not_found(Path::new(wanted), error))?;
    if let Some(sub) = &request.sub {
        if !Path::new(sub).components().all(|part| matches!(part, Component::Normal(_))) {
            let message = format!("meta.folders.{alias}.sub must be a path below the folder, without '..'");
            return Err(GraphError::start("bad_meta", message));
        }
        path = path.join(sub).canonicalize().map_err(|error| not_found(&path.join(sub), error))?;
    }
    let granted = grants
        .iter()
        .filter(|grant| grant.path.canonicalize().is_ok_and(|granted| path.starts_with(granted)))
        .map(|grant| grant.access)
        .max();
    if granted < Some(request.access) {
        return Err(not_granted(alias, Path::new(wanted), request.access));
    }
    if !path.is_dir() {
        let message = format!("the folder '{alias}' is {}, which is no folder", path.display());
        return Err(GraphError::start("folder_not_found", message));
    }
    Ok(path)
}

/// Whether it may be said that a path does not exist: only of what lies in a granted folder, as far as the path does
/// exist. Of all else a remote caller must not learn what there is, nor where a link leads, even one that leads nowhere.
fn may_be_told(path: &Path, grants: &[FolderGrant]) -> bool {
    let mut existing = None;
    for part in path.ancestors() {
        match part.canonicalize() {
            Ok(part) => {
                existing = Some(part);
                break;
            }
            Err(_) if part.symlink_metadata().is_ok() => return false,
            Err(_) => {}
        }
    }
    grants.iter().any(|grant| match grant.path.canonicalize() {
        Ok(granted) => existing.as_ref().is_some_and(|existing| existing.starts_with(granted)),
        Err(_) => path == grant.path,
    })
}

fn not_granted(alias: &str, path: &Path, access: Access) -> GraphError {
    let (access, flag) = match access {
        Access::Read => ("read", "--read"),
        Access::Write => ("write", "--write"),
    };
    let path = path.display();
    let message = format!(
        "this Graph wants to {access} the folder {path} (alias '{alias}'), which is not granted: add [[folders]] with \
         path = \"{path}\" and access = \"{access}\" to config.toml, or {flag} {path} to a local run"
    );
    GraphError::start("folder_not_granted", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Limits;

    fn prepared(meta: Value, arguments: Value, grants: &[FolderGrant]) -> Result<Prepared, GraphError> {
        let meta: Meta = serde_json::from_value(meta).unwrap();
        prepare(&meta, &arguments, grants, &Limits::default().as_ceiling())
    }

    fn refusal(meta: Value, arguments: Value, grants: &[FolderGrant]) -> GraphError {
        prepared(meta, arguments, grants).err().unwrap()
    }

    #[test]
    fn arguments_are_an_object_of_bounded_size() {
        assert!(check_arguments(&json!({"n": 1})).is_ok());
        for wrong in [json!([1]), json!("x"), json!({"n": "x".repeat(ARGUMENT_BYTES)})] {
            assert_eq!(check_arguments(&wrong).unwrap_err().code, "bad_args");
        }
    }

    #[test]
    fn a_folder_must_lie_inside_a_grant() {
        let home = tempfile::tempdir().unwrap();
        let (inside, outside) = (home.path().join("a/b"), home.path().join("c"));
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        let grant = [FolderGrant { path: home.path().join("a"), access: Access::Read }];
        let meta = |access: &str| json!({"folders": {"in": {"from": "args.folder", "access": access}}});
        assert!(prepared(meta("read"), json!({"folder": inside}), &grant).is_ok());
        for (access, folder) in [("read", &outside), ("write", &inside), ("read", &inside.join("../../c"))] {
            let error = refusal(meta(access), json!({"folder": folder}), &grant);
            assert_eq!(error.code, "folder_not_granted", "{error}");
            assert!(error.message.contains("[[folders]]"), "{error}");
        }
        assert_eq!(refusal(meta("read"), json!({}), &grant).code, "bad_args");
        let sub = json!({"folders": {"in": {"from": "args.folder", "access": "read", "sub": "../../c"}}});
        assert_eq!(refusal(sub, json!({"folder": inside}), &grant).code, "bad_meta");
    }

    /// The caller may be anyone: what is outside of the granted folders is not even denied.
    #[test]
    fn nothing_is_told_of_what_lies_outside_the_grants() {
        let home = tempfile::tempdir().unwrap();
        for folder in ["granted", "private/taxes"] {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        std::fs::write(home.path().join("private/file"), "").unwrap();
        let grant = [FolderGrant { path: home.path().join("granted"), access: Access::Read }];
        let refused = |folder: &Path| {
            let meta = json!({"folders": {"in": {"from": "args.folder", "access": "read"}}});
            let error = refusal(meta, json!({"folder": folder}), &grant);
            (error.code, error.message.replace(&*folder.to_string_lossy(), "PATH"))
        };
        let outside = refused(&home.path().join("private/taxes"));
        assert_eq!(outside.0, "folder_not_granted");
        for other in ["private/none", "private/file", "private/file/below", "granted/../private/none"] {
            assert_eq!(refused(&home.path().join(other)), outside, "{other}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(home.path().join("private"), home.path().join("granted/link")).unwrap();
            let linked = refused(&home.path().join("granted/link"));
            assert_eq!(linked, outside, "it tells where the link leads");
        }
        assert_eq!(refused(&home.path().join("granted/none")).0, "folder_not_found");
        assert_eq!(refused(Path::new("granted")).0, "bad_args");
    }

    #[test]
    fn a_tool_that_does_not_exist_is_told_before_the_start() {
        assert!(refusal(json!({"tools": ["run_command(git *)"]}), json!({}), &[]).message.contains("read_text_file"));
    }
}
