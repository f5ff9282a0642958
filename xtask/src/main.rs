//! Developer commands.

mod manifests;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generates the CRDs under config/crds.
    Manifests(manifests::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Manifests(args) => manifests::run(&args),
    }
}
