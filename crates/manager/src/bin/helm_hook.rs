//! The `helm_hook` program: run by `helm uninstall` before anything is deleted; exits with 1 to stop it.

use anyhow::Result;
use kruise_api::names::object::HELM_HOOK_SERVICE_ACCOUNT;
use kruise_manager::uninstall;
use kruise_runtime::client;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match ask().await {
        Ok(()) => {
            println!("no workloads of kruise are left: the installation may be removed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("the installation must stay: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn ask() -> Result<()> {
    let config = client::config("", HELM_HOOK_SERVICE_ACCOUNT).await?;
    let (client, _) = client::connect(config).await?;
    Ok(uninstall::check(&client).await?)
}
