//! What can be typed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Runs the Graphs you share, on your laptop, for the assistants you let ask.
#[derive(Debug, Parser)]
#[command(version, about, after_help = super::error::EXIT_CODES_HELP, disable_help_subcommand = true)]
pub(super) struct Options {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the relay: ask the hub for commands and run them, until stopped
    Run,
    /// Show how things stand
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Save, check, list and run Graphs
    #[command(subcommand)]
    Graph(GraphCommand),
    /// List your projects at the hub and switch them on or off
    #[command(subcommand)]
    Project(ProjectCommand),
    /// Let assistants in a project run a Graph
    Share {
        /// The Graph's name
        graph: String,
        /// The project's id or name
        #[arg(long)]
        project: String,
    },
    /// Let the assistants in a project no longer run a Graph, also not what is queued already
    Unshare {
        /// The Graph's name
        graph: String,
        /// The project's id or name
        #[arg(long)]
        project: String,
    },
    /// Show past runs
    History(HistoryArgs),
    /// Cancel a run
    Cancel {
        /// Its id, its command's id, or the end of either
        id: String,
    },
    /// Show reports that the hub has not got yet
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Be the hub: the server that relays poll and assistants reach
    Hub(HubArgs),
    /// Show the whole system at work on this machine, in a scratch folder
    Demo(DemoArgs),
}

#[derive(Debug, Subcommand)]
pub(super) enum GraphCommand {
    /// Save a Graph
    Add {
        /// The name by which it is called: lowercase letters, digits, hyphens
        name: String,
        /// The script
        file: PathBuf,
    },
    /// Save a new version of a Graph
    Update {
        /// Its name
        name: String,
        /// The script
        file: PathBuf,
    },
    /// Give a Graph another name
    Rename {
        /// Its name now
        name: String,
        /// Its name from now on: lowercase letters, digits, hyphens
        new_name: String,
    },
    /// List the saved Graphs
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a saved Graph and its source
    Show {
        /// Its name
        name: String,
        /// A version other than the latest
        #[arg(long)]
        version: Option<u32>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what is wrong with a script, without running it
    Check {
        /// The script
        file: PathBuf,
    },
    /// Run a saved Graph, or a file without saving it; asks nothing of a hub
    Run(RunArgs),
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// A saved Graph's name, or a script (what has a dot or a slash in it)
    pub(super) target: String,
    /// The script's arguments, a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(super) args: String,
    /// Stop it after this long, for example 30s or 5m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// Refuse further agents when this many tokens are spent
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<u64>,
    /// Let this run read a folder that config.toml does not grant; may be given more than once
    #[arg(long, value_name = "FOLDER")]
    pub(super) read: Vec<PathBuf>,
    /// Print the whole run as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ProjectCommand {
    /// List the projects that the hub knows you in
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let a project's assistants see and run what you share with it
    On {
        /// Its id or name
        project: String,
    },
    /// Let a project's assistants see and run nothing any more; what is shared with it stays ticked
    Off {
        /// Its id or name
        project: String,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct HistoryArgs {
    #[command(subcommand)]
    pub(super) command: Option<HistoryCommand>,
    /// How many runs
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) limit: u32,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum HistoryCommand {
    /// Show one run: its events, and its whole result or error
    Show {
        /// Its id, its command's id, or the end of either
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum OutboxCommand {
    /// List reports that wait, and dead letters
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send a dead letter again
    Retry {
        /// Its number in the list
        id: i64,
    },
    /// Delete a dead letter; the run stays in the history
    Drop {
        /// Its number in the list
        id: i64,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct HubArgs {
    #[command(subcommand)]
    pub(super) command: Option<HubCommand>,
    #[command(flatten)]
    pub(super) data: HubData,
    /// Where to listen: an IP address and a port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8787")]
    pub(super) listen: SocketAddr,
    /// The URL under which assistants and relays reach it, if not that address
    #[arg(long, value_name = "URL", value_parser = http_url)]
    pub(super) public_url: Option<String>,
    /// How long a command may wait for its desktop; 0s for ever
    #[arg(long, value_name = "DURATION", default_value = "7days", value_parser = humantime::parse_duration)]
    pub(super) queue_ttl: Duration,
}

#[derive(Debug, Clone, Args)]
pub(super) struct HubData {
    /// The database: sqlite:PATH, or a plain path [default: hub.db in the relay's folder]
    #[arg(long, value_name = "DATABASE", env = "GRAPH_RELAY_HUB_DATA")]
    pub(super) data: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum HubCommand {
    /// Make and list projects
    #[command(subcommand)]
    Project(HubProjectCommand),
    /// Make people members of projects
    #[command(subcommand)]
    Member(HubMemberCommand),
    /// Let assistants in, list them, shut them out
    #[command(subcommand)]
    Connection(HubConnectionCommand),
    /// Let desktops in, list them, shut them out
    #[command(subcommand)]
    Device(HubDeviceCommand),
}

#[derive(Debug, Subcommand)]
pub(super) enum HubProjectCommand {
    /// Make a project; prints its id
    Add {
        /// What people call it
        name: String,
        #[command(flatten)]
        data: HubData,
    },
    /// List the projects
    List {
        #[command(flatten)]
        data: HubData,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum HubMemberCommand {
    /// Make a person a member of a project
    Add {
        /// Any name for the person: the --owner of his assistants and desktops
        user: String,
        /// The project's id
        #[arg(long)]
        project: protocol::ProjectId,
        #[command(flatten)]
        data: HubData,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum HubConnectionCommand {
    /// Let an assistant in; prints its token, which is shown only this once
    Add {
        /// What the assistant is called
        name: String,
        /// Whose assistant it is
        #[arg(long)]
        owner: String,
        /// A project's id, may be given more than once [default: all of the owner's]
        #[arg(long)]
        project: Vec<protocol::ProjectId>,
        /// What its token may be used for, with commas between: osfoundry:read, osfoundry:write, osfoundry:run,
        /// osfoundry:models
        #[arg(long, value_delimiter = ',', default_value = "osfoundry:read,osfoundry:run")]
        scopes: Vec<hub::Scope>,
        /// What the owner lets it do in these projects, with commas between: read, write, run
        #[arg(long, value_delimiter = ',', default_value = "read,run")]
        actions: Vec<hub::Action>,
        #[command(flatten)]
        data: HubData,
    },
    /// List the assistants
    List {
        #[command(flatten)]
        data: HubData,
    },
    /// Shut an assistant out
    Revoke {
        /// Its id, as the list shows it
        id: String,
        #[command(flatten)]
        data: HubData,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum HubDeviceCommand {
    /// Let a desktop in; prints its token, which is shown only this once
    Add {
        /// What the desktop is called
        name: String,
        /// Whose desktop it is
        #[arg(long)]
        owner: String,
        #[command(flatten)]
        data: HubData,
    },
    /// List the desktops
    List {
        #[command(flatten)]
        data: HubData,
    },
    /// Shut a desktop out
    Revoke {
        /// Its id, as the list shows it
        id: String,
        #[command(flatten)]
        data: HubData,
    },
}

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// The folder that the Graph reads
    #[arg(long, default_value = ".")]
    pub(super) folder: PathBuf,
    /// Leave hub and relay running until Ctrl-C
    #[arg(long)]
    pub(super) keep: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "give a number and a unit, such as 30s, 5m or 1h 30m".to_owned())
}

fn http_url(text: &str) -> Result<String, String> {
    match reqwest::Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(text.to_owned()),
        _ => Err("give a URL that begins with https:// or http://".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Options::command().debug_assert();
    }

    /// A token, a key or a goal in an argument would be in the process list for everyone to read.
    #[test]
    fn no_option_takes_a_secret() {
        fn walk(command: &clap::Command) {
            for argument in command.get_arguments() {
                let name = argument.get_id().as_str();
                let secret = ["token", "key", "secret", "password"].iter().any(|word| name.contains(word));
                assert!(!secret || name == "max_tokens", "{name}");
            }
            command.get_subcommands().for_each(walk);
        }
        walk(&Options::command());
    }
}
