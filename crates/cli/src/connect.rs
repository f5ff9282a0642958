//! The way to the API server, found as kubectl finds it.

use crate::args::Connection;
use anyhow::{Context as _, Result};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// A client, and the namespace that is meant when none is given.
pub(crate) async fn connect(connection: &Connection) -> Result<(Client, String)> {
    let options = KubeConfigOptions {
        context: connection.context.clone(),
        cluster: connection.cluster.clone(),
        user: connection.user.clone(),
    };
    let asked_for = options.context.is_some() || options.cluster.is_some() || options.user.is_some();
    let mut config = match &connection.kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file).with_context(|| format!("cannot read {}", file.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .with_context(|| format!("cannot use {}", file.display()))?
        }
        None if asked_for => Config::from_kubeconfig(&options)
            .await
            .context("cannot use the kubeconfig")?,
        None => Config::infer()
            .await
            .context("there is no usable kubeconfig; name one with --kubeconfig or KUBECONFIG")?,
    };
    config.connect_timeout = Some(connection.request_timeout);
    let namespace = connection.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).context("cannot set up the connection to the API server")?;
    Ok((client, namespace))
}
