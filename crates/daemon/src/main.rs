//! The `kruise-daemon` program.

use kruise_daemon::{Flags, Settings, run::run};
use kruise_runtime::{
    flags,
    logging::{self, Format},
    shutdown,
};
use std::process::ExitCode;

fn main() -> ExitCode {
    let (flags, notices): (Flags, _) =
        flags::parse_with_notices(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let verbosity = flags.klog.verbosity;
    let mut settings = match Settings::read(flags, |name| std::env::var(name).ok()) {
        Ok(settings) => settings,
        Err(error) => return refuse(&error),
    };
    settings.notices.extend(notices);
    if let Err(error) = logging::start(verbosity, Format::Text) {
        return refuse(&error);
    }
    // One thread: the daemon shares its node with the workloads and mostly waits.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(async { run(settings, shutdown::on_signals()?).await }));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Before logging is set up there is only the plain stream.
fn refuse(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
