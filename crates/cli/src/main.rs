//! kubectl-kruise: the kubectl plugin. `kubectl kruise explain cloneset web` says why nothing happens.
//!
//! Exit codes: 0 when everything was told, 1 after an error, 2 when the command line is wrong, 3 when only part could be told because no
//! manager could be reached.

mod args;
mod connect;
mod explain;
mod manager;
mod next;
mod object;
mod text;

use args::{Args, Command};
use clap::Parser as _;
use explain::Told;
use std::process::ExitCode;

/// What the manager knows is missing in the answer.
const INCOMPLETE: u8 = 3;

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let told = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| match &args.command {
            Command::Explain(explain) => runtime.block_on(explain::run(&args.connection, explain)),
        });
    match told {
        Ok(Told::All) => ExitCode::SUCCESS,
        Ok(Told::WithoutManager) => ExitCode::from(INCOMPLETE),
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
