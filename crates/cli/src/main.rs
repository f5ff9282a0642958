//! kubectl-kruise: the kubectl plugin. `kubectl kruise explain cloneset web` says why nothing happens; `get broadcastjob clean-up` shows its nodes; `restart` and `pull` make a
//! ContainerRecreateRequest or an ImagePullJob and follow it; `sidecar plan` tells what would be injected into a Pod; `ui` opens the manager's live page.
//!
//! Exit codes: 0 when everything was told or done, 1 after an error or when not all of it could be done, 2 when the command line is wrong, 3 when only part could be told because no
//! manager could be reached.

mod args;
mod broadcastjob_nodes;
mod change;
mod completion;
mod connect;
mod create;
mod describe;
mod exec;
mod explain;
mod expose;
mod follow;
mod get;
mod kinds;
mod manager;
mod migrate;
mod object;
mod plan;
mod print;
mod protection;
mod pull;
mod restart;
mod rollout;
mod scale;
mod select;
mod server;
mod set;
mod sidecar;
mod table;
mod template;
mod text;
mod ui;

use args::{Args, Command, SidecarCommand};
use clap::Parser as _;
use explain::Completeness;
use std::process::ExitCode;

/// What the manager knows is missing in the answer.
const INCOMPLETE: u8 = 3;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // A shell may ask about any words, also about such as would not be read.
    let mut words = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned());
    if words.next().as_deref() == Some(completion::ASK) {
        let words: Vec<String> = words.collect();
        let answered = runtime
            .map_err(anyhow::Error::from)
            .and_then(|runtime| explain::print(&runtime.block_on(completion::answer(&words))));
        return answered.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let args = Args::parse();
    let done = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| match &args.command {
            Command::Explain(explain) => runtime.block_on(explain::run(&args.connection, explain)),
            Command::Get(get) => runtime.block_on(get::run(&args.connection, get)),
            Command::Rollout(command) => runtime.block_on(rollout::run(&args.connection, command)),
            Command::Promote(promote) => runtime.block_on(rollout::promote(&args.connection, promote)),
            Command::Set(set) => runtime.block_on(set::run(&args.connection, set)),
            Command::Scale(scale) => runtime.block_on(scale::scale(&args.connection, scale)),
            Command::Scaledown(scale) => runtime.block_on(scale::scale_down(&args.connection, scale)),
            Command::Create(create) => runtime.block_on(create::run(&args.connection, create)),
            Command::Describe(describe) => runtime.block_on(describe::run(&args.connection, describe)),
            Command::Restart(restart) => runtime.block_on(restart::run(&args.connection, restart)),
            Command::Pull(pull) => runtime.block_on(pull::run(&args.connection, pull)),
            Command::Exec(exec) => runtime.block_on(exec::run(&args.connection, exec)),
            Command::Expose(expose) => runtime.block_on(expose::run(&args.connection, expose)),
            Command::Migrate(migrate) => runtime.block_on(migrate::run(&args.connection, migrate)),
            Command::Plan(plan) => runtime.block_on(plan::run(&args.connection, plan)),
            Command::Sidecar(SidecarCommand::Plan(plan)) => runtime.block_on(sidecar::plan(&args.connection, plan)),
            Command::Ui(page) => runtime.block_on(ui::run(&args.connection, page)),
            Command::Completion(wanted) => explain::print(completion::script(wanted.shell)).map(|()| Completeness::All),
        });
    match done {
        Ok(Completeness::All) => ExitCode::SUCCESS,
        Ok(Completeness::Failed) => ExitCode::FAILURE,
        Ok(Completeness::Exit(code)) => ExitCode::from(code),
        Ok(Completeness::WithoutManager) => ExitCode::from(INCOMPLETE),
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Tells an error, as kubectl does.
fn complain(error: &anyhow::Error) {
    eprintln!("error: {}", text::visible_lines(&format!("{error:#}")));
}
