//! kubectl-kruise: the kubectl plugin. `kubectl kruise explain cloneset web` says why nothing happens; `get broadcastjob clean-up` shows its nodes; `restart` and `pull` make a
//! ContainerRecreateRequest or an ImagePullJob and follow it; `sidecar plan` tells what would be injected into a Pod; `ui` opens the manager's live page.
//!
//! Exit codes: 0 when everything was told or done, 1 after an error or when not all of it could be done, 2 when the command line is wrong, 3 when only part could be told because no
//! manager could be reached.

mod args;
mod broadcastjob_nodes;
mod connect;
mod exec;
mod explain;
mod expose;
mod follow;
mod manager;
mod migrate;
mod object;
mod plan;
mod protection;
mod pull;
mod restart;
mod sidecar;
mod text;
mod ui;

use args::{Args, Command, SidecarCommand};
use clap::Parser as _;
use explain::Completeness;
use std::process::ExitCode;

/// What the manager knows is missing in the answer.
const INCOMPLETE: u8 = 3;

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| match &args.command {
            Command::Explain(explain) => runtime.block_on(explain::run(&args.connection, explain)),
            Command::Get(get) => runtime.block_on(broadcastjob_nodes::run(&args.connection, get)),
            Command::Restart(restart) => runtime.block_on(restart::run(&args.connection, restart)),
            Command::Pull(pull) => runtime.block_on(pull::run(&args.connection, pull)),
            Command::Exec(exec) => runtime.block_on(exec::run(&args.connection, exec)),
            Command::Expose(expose) => runtime.block_on(expose::run(&args.connection, expose)),
            Command::Migrate(migrate) => runtime.block_on(migrate::run(&args.connection, migrate)),
            Command::Plan(plan) => runtime.block_on(plan::run(&args.connection, plan)),
            Command::Sidecar(SidecarCommand::Plan(plan)) => runtime.block_on(sidecar::plan(&args.connection, plan)),
            Command::Ui(page) => runtime.block_on(ui::run(&args.connection, page)),
        });
    match done {
        Ok(Completeness::All) => ExitCode::SUCCESS,
        Ok(Completeness::Failed) => ExitCode::FAILURE,
        Ok(Completeness::Exit(code)) => ExitCode::from(code),
        Ok(Completeness::WithoutManager) => ExitCode::from(INCOMPLETE),
        Err(error) => {
            eprintln!("Error: {}", text::visible_lines(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
