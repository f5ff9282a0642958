//! The way to the API server, found as kubectl finds it.

use crate::args::{Connection, Overrides};
use anyhow::{Context as _, Result, anyhow};
use http::Uri;
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
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
        None => match (Config::infer().await, &connection.overrides.server) {
            (Ok(config), _) => config,
            (Err(_), Some(server)) => Config::new(address(server)?),
            (Err(error), None) => {
                return Err(error).context("there is no usable kubeconfig; name one with --kubeconfig or KUBECONFIG");
            }
        },
    };
    apply(&connection.overrides, &mut config)?;
    config.connect_timeout = Some(connection.request_timeout);
    let namespace = connection.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).context("cannot set up the connection to the API server")?;
    Ok((client, namespace))
}

/// What the API server says of a request that it refused, or that it cannot be asked.
pub(crate) fn describe_error(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        error => anyhow::Error::new(error).context("the API server cannot be asked"),
    }
}

fn address(server: &str) -> Result<Uri> {
    server.parse().with_context(|| format!("{server:?} is not a URL"))
}

/// Puts what the user said in the place of what the kubeconfig says.
fn apply(overrides: &Overrides, config: &mut Config) -> Result<()> {
    if let Some(server) = &overrides.server {
        config.cluster_url = address(server)?;
    }
    let auth = &mut config.auth_info;
    if let Some(token) = &overrides.token {
        // Who logs in with a token does not log in with a certificate.
        *auth = AuthInfo {
            token: Some(token.clone().into()),
            ..AuthInfo::default()
        };
    }
    if overrides.client_certificate.is_some() || overrides.client_key.is_some() {
        auth.client_certificate.clone_from(&overrides.client_certificate);
        auth.client_certificate_data = None;
        auth.client_key.clone_from(&overrides.client_key);
        auth.client_key_data = None;
    }
    if overrides.as_user.is_some() {
        auth.impersonate.clone_from(&overrides.as_user);
    }
    if !overrides.as_group.is_empty() {
        auth.impersonate_groups = Some(overrides.as_group.clone());
    }
    if overrides.as_uid.is_some() {
        auth.impersonate_uid.clone_from(&overrides.as_uid);
    }
    if let Some(file) = &overrides.certificate_authority {
        (config.root_cert, config.root_cert_file) = (None, Some(file.clone()));
    }
    config.accept_invalid_certs |= overrides.insecure_skip_tls_verify;
    if overrides.tls_server_name.is_some() {
        config.tls_server_name.clone_from(&overrides.tls_server_name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_flags_then_they_go_before_the_kubeconfig() {
        let mut config = Config::new("https://one:1".parse().unwrap());
        config.auth_info.client_certificate = Some("cert".into());
        let overrides = Overrides {
            server: Some("https://two:2".into()),
            token: Some("t".into()),
            as_user: Some("ann".into()),
            as_group: vec!["dev".into()],
            insecure_skip_tls_verify: true,
            ..Overrides::default()
        };
        apply(&overrides, &mut config).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://two:2/");
        let auth = &config.auth_info;
        assert_eq!((auth.client_certificate.is_none(), auth.token.is_some()), (true, true));
        assert_eq!(auth.impersonate.as_deref(), Some("ann"));
        assert_eq!(auth.impersonate_groups, Some(vec!["dev".to_owned()]));
        assert!(config.accept_invalid_certs);
        let odd = Overrides {
            server: Some("\u{7}".into()),
            ..Overrides::default()
        };
        assert!(apply(&odd, &mut config).is_err());
    }
}
