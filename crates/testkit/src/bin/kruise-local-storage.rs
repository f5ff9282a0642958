//! Storage of a local cluster in the foreground, for `cargo xtask up`. Ends on SIGTERM or Ctrl-C; volumes stay.

use std::path::PathBuf;

use anyhow::bail;
use clap::Parser;
use kruise_testkit::program;
use kruise_testkit::storage::LocalStorage;

/// Gives claims of a local cluster their volumes on the nodes, until it is told to end.
#[derive(Debug, Parser)]
struct Arguments {
    /// Cluster to serve; KUBECONFIG or the usual places when not given
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Folder of the local cluster, whose nodes lose the folders of volumes that are gone
    #[arg(long)]
    cluster: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    program::log();
    let arguments = Arguments::parse();
    let stop = program::stop_signal()?;
    let client = program::client(arguments.kubeconfig.as_deref()).await?;
    let mut storage = LocalStorage::with_folders(client, arguments.cluster);
    tokio::select! {
        () = storage.ended() => bail!("serving claims has ended by itself; the log says why"),
        () = stop => Ok(()),
    }
}
