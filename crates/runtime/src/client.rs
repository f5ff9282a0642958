//! The connection to the API server.
//!
//! The configuration is looked for in this order: the file of `--kubeconfig`, the files of `KUBECONFIG`, the Pod's own
//! service account, `~/.kube/config`. The server's version is read once, which is also the proof that the server is there.
//! A server that has some of our kinds in an older version only is spoken to in that one: see [`reach`].

mod dial;
mod older;
mod version;

pub(crate) use dial::dial;
pub use version::ServerVersion;

use crate::error::with_causes;
use kube::{
    Client, Config,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use std::time::Duration;
use tokio::time::timeout;

/// How long the first calls may take.
const FIRST_CALLS: Duration = Duration::from_secs(10);

/// Why there is no connection. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("--kubeconfig={path}: {source}; give the path of a readable kubeconfig file")]
    Flag { path: String, source: KubeconfigError },
    #[error("KUBECONFIG: {0}; set it to a readable kubeconfig file or unset it")]
    Variable(KubeconfigError),
    #[error(
        "no API server is configured: not in a Pod ({pod}) and no kubeconfig file ({file}); \
         run inside a cluster, set KUBECONFIG or give --kubeconfig"
    )]
    Nowhere { pod: InClusterError, file: KubeconfigError },
    #[error("user agent {0:?} cannot be sent in a header")]
    UserAgent(String),
    #[error("the configuration for {server} cannot be used: {source}; check certificates and credentials")]
    Unusable { server: String, source: kube::Error },
    #[error(
        "the API server at {server} cannot be reached: {reason}; \
         check that it runs, that the network lets this process through and that the credentials are valid"
    )]
    Unreachable { server: String, reason: String },
}

/// Finds the configuration and gives it the name under which the server sees our calls.
/// `kubeconfig` is the value of the flag; empty when it was not given.
pub async fn config(kubeconfig: &str, user_agent: &str) -> Result<Config, ConnectError> {
    let mut config = find(kubeconfig).await?;
    let value = user_agent
        .parse()
        .map_err(|_| ConnectError::UserAgent(user_agent.to_owned()))?;
    config.headers.push((http::header::USER_AGENT, value));
    // A refusal with 429 can be a Pod disruption budget's answer; repeating it by itself would hang the call for minutes.
    config.default_retry = false;
    Ok(config)
}

/// Connects and asks the server what it is.
pub async fn connect(config: Config) -> Result<(Client, ServerVersion), ConnectError> {
    let server = config.cluster_url.to_string();
    let builder = dial(&config).map_err(|source| ConnectError::Unusable {
        server: server.clone(),
        source,
    })?;
    reach(builder.build(), server).await
}

/// Asks the server for its version and for the versions of our kinds; `server` is its address, for the message. The client that comes back speaks
/// to it about all of our kinds as v1beta1.
pub async fn reach(client: Client, server: String) -> Result<(Client, ServerVersion), ConnectError> {
    let reason = match timeout(FIRST_CALLS, ask(client)).await {
        Ok(Ok(reached)) => return Ok(reached),
        Ok(Err(error)) => with_causes(&error),
        Err(_) => format!("no answer within {FIRST_CALLS:?}"),
    };
    Err(ConnectError::Unreachable { server, reason })
}

async fn ask(client: Client) -> kube::Result<(Client, ServerVersion)> {
    let version = client.apiserver_version().await?;
    let version = ServerVersion::parse(&version.git_version);
    Ok((older::bridged(client).await?, version))
}

async fn find(kubeconfig: &str) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions::default();
    if !kubeconfig.is_empty() {
        let wrong = |source| ConnectError::Flag {
            path: kubeconfig.to_owned(),
            source,
        };
        let file = Kubeconfig::read_from(kubeconfig).map_err(wrong)?;
        return Config::from_custom_kubeconfig(file, &options).await.map_err(wrong);
    }
    if let Some(file) = Kubeconfig::from_env().map_err(ConnectError::Variable)? {
        return Config::from_custom_kubeconfig(file, &options)
            .await
            .map_err(ConnectError::Variable);
    }
    match Config::incluster() {
        Ok(config) => Ok(config),
        Err(pod) => Config::from_kubeconfig(&options)
            .await
            .map_err(|file| ConnectError::Nowhere { pod, file }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Router, http::HeaderMap, routing::get};
    use serde_json::json;
    use std::{io::Write as _, net::SocketAddr};
    use tokio::net::TcpListener;

    fn kubeconfig(server: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("file");
        write!(
            file,
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        )
        .expect("written");
        file
    }

    fn path(file: &tempfile::NamedTempFile) -> &str {
        file.path().to_str().expect("plain path")
    }

    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let address = listener.local_addr().expect("address");
        // Whoever comes under another name gets no version.
        let version = |headers: HeaderMap| async move {
            if headers.get("user-agent").is_none_or(|agent| agent != "kruise-test") {
                return String::new();
            }
            json!({"major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "",
                        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})
            .to_string()
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/version", get(version))).await });
        address
    }

    #[tokio::test]
    async fn given_a_server_then_its_version_is_read_under_our_name() {
        let file = kubeconfig(&format!("http://{}", server().await));
        let config = config(path(&file), "kruise-test").await.expect("config");
        let (_, version) = connect(config).await.expect("connected");
        assert_eq!(version, ServerVersion::parse("1.34.4"));
    }

    #[tokio::test]
    async fn given_no_server_then_the_message_says_where_why_and_what_to_do() {
        let closed = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("port")
            .local_addr()
            .expect("address");
        let file = kubeconfig(&format!("http://{closed}"));
        let config = config(path(&file), "kruise-test").await.expect("config");
        let message = connect(config).await.err().expect("nobody there").to_string();
        assert!(message.contains(&closed.to_string()), "{message}");
        assert!(message.to_lowercase().contains("refused"), "{message}");
        assert!(message.contains("check that it runs"), "{message}");
    }

    #[tokio::test]
    async fn given_a_missing_file_then_the_message_names_the_flag() {
        let message = config("no-such-directory/kubeconfig", "x")
            .await
            .expect_err("missing")
            .to_string();
        assert!(
            message.starts_with("--kubeconfig=no-such-directory/kubeconfig: "),
            "{message}"
        );
    }

    #[tokio::test]
    async fn given_a_bad_user_agent_then_it_is_refused() {
        let file = kubeconfig("http://127.0.0.1:1");
        assert!(matches!(
            config(path(&file), "a\nb").await,
            Err(ConnectError::UserAgent(_))
        ));
    }
}
