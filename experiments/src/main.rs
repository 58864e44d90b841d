//! `cargo run --release -p experiments [-- NAME…] [--seed N]`: prints a table per experiment.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use experiments::{EXPERIMENTS, Experiment, Plan};

/// Reruns the published experiments in virtual time, with the real relay and the real hub.
#[derive(Debug, Parser)]
struct Args {
    /// Which ones; all, if none is named.
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(EXPERIMENTS.map(|experiment| experiment.name)))]
    names: Vec<String>,
    /// The same seed gives the same tables.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Samples of each variant, instead of the published number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let began = Instant::now();
    let chosen =
        EXPERIMENTS.iter().filter(|one| args.names.is_empty() || args.names.iter().any(|name| name == one.name));
    let outcome = std::thread::scope(|scope| {
        let running: Vec<_> = chosen.map(|one| (one.name, scope.spawn(|| one.run(plan(one, &args))))).collect();
        running.into_iter().try_for_each(|(name, thread)| match thread.join() {
            Ok(Ok(table)) => writeln!(std::io::stdout(), "{table}").map_err(|error| format!("{name}: {error}")),
            Ok(Err(failure)) => Err(format!("{name}: {failure}")),
            Err(_) => Err(format!("{name}: it panicked")),
        })
    });
    // Tables go to standard output; how long they took, which differs each time, does not.
    eprintln!("{:.1} s of real time", began.elapsed().as_secs_f64());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn plan(experiment: &Experiment, args: &Args) -> Plan {
    Plan { seed: args.seed, samples: args.samples.map_or(experiment.samples, |samples| samples as usize) }
}
