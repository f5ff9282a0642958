//! The developer's commands: `cargo xtask up` brings the product up on a real cluster on this machine, `cargo xtask test` runs
//! every test.

mod bench;
mod clusters;
mod install;
mod loopback;
#[cfg(feature = "manifests")]
mod manifests;
mod product;
mod test;
mod up;

use std::path::PathBuf;

use clap::Parser;

/// Commands for people who work on kruise-rs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Xtask {
    /// Bring up a local Kubernetes with kruise installed; run again to repair or to install what you changed.
    Up(up::Args),
    /// End what `up` started, and nothing else.
    Down(clusters::DownArgs),
    /// Show the local clusters and which of their parts run.
    Status,
    /// Print the log of one part, or the names of the parts.
    Logs(clusters::LogsArgs),
    /// Print the path of a cluster's kubeconfig: export KUBECONFIG=$(cargo xtask kubeconfig)
    Kubeconfig(clusters::Named),
    /// Print what a shell needs to use a cluster: eval "$(cargo xtask env)"
    Env(clusters::Named),
    /// Build the container image of manager and daemon as an OCI archive.
    Image(product::Args),
    /// Generate the CRDs from the API types, or print their fields.
    #[cfg(feature = "manifests")]
    Manifests(manifests::Args),
    /// Run all tests and checks.
    Test(test::Args),
    /// Measure what the product costs.
    Bench(bench::Args),
    /// Clear up a test cluster when the run that made it is gone.
    #[command(hide = true)]
    Guard(clusters::Named),
}

fn main() {
    let result = match Xtask::parse() {
        Xtask::Up(args) => up::run(&args),
        Xtask::Down(args) => clusters::down(&args),
        Xtask::Status => clusters::status(),
        Xtask::Logs(args) => clusters::logs(&args),
        Xtask::Kubeconfig(named) => clusters::kubeconfig(&named),
        Xtask::Env(named) => clusters::env(&named),
        Xtask::Image(args) => product::run(&args),
        #[cfg(feature = "manifests")]
        Xtask::Manifests(args) => manifests::run(&args),
        Xtask::Test(args) => test::run(&args),
        Xtask::Bench(args) => bench::run(&args),
        Xtask::Guard(named) => clusters::guard(&named),
    };
    if let Err(error) = result {
        eprintln!("error: {error:#}");
        std::process::exit(1);
    }
}

/// The workspace's root, wherever the command is called from; `XTASK_ROOT` names another copy of it.
fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let built_in = own.parent().map_or_else(|| own.clone(), PathBuf::from);
    std::env::var_os("XTASK_ROOT").map_or(built_in, PathBuf::from)
}
