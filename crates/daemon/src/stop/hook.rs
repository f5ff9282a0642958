//! What a container wants done before it is stopped.
//!
//! - A command runs in the container, as long as it takes. Of what it prints the beginning is told when it fails; one that prints very much
//!   has ended, and how is not known.
//! - A request is made over HTTP: to the given host or to the Pod, on a port by number or by one of the container's names for it. Any
//!   answer is good.
//! - A pause is just that.
//! - An empty hook is none. A hook of another kind is an error.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerPort, HTTPGetAction, LifecycleHandler};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kruise_cri::{Error, Runtime};

use crate::http;

/// The longest answer to a command, in bytes. Many may end at the same moment.
const LONGEST_OUTPUT: usize = 64 << 10;

/// A hook that can be run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Hook {
    /// A command.
    Exec(Vec<String>),
    /// A request.
    Http(http::Request),
    /// A pause.
    Sleep(Duration),
    /// One that cannot be run, and why.
    Invalid(String),
}

/// The hook of a handler, if there is any in it.
pub(crate) fn hook(handler: &LifecycleHandler, ports: &[ContainerPort]) -> Option<Hook> {
    if let Some(exec) = &handler.exec {
        return Some(Hook::Exec(exec.command.clone().unwrap_or_default()));
    }
    if let Some(get) = &handler.http_get {
        return Some(match request(get, ports) {
            Ok(request) => Hook::Http(request),
            Err(why) => Hook::Invalid(why),
        });
    }
    if let Some(sleep) = &handler.sleep {
        return Some(Hook::Sleep(Duration::from_secs(
            u64::try_from(sleep.seconds).unwrap_or(0),
        )));
    }
    let tcp = handler.tcp_socket.as_ref();
    tcp.map(|_| Hook::Invalid("invalid handler: tcpSocket is no preStop hook".to_owned()))
}

fn request(get: &HTTPGetAction, ports: &[ContainerPort]) -> Result<http::Request, String> {
    let headers = get.http_headers.iter().flatten();
    Ok(http::Request {
        tls: get
            .scheme
            .as_deref()
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
        host: get.host.clone().unwrap_or_default(),
        port: port(&get.port, ports)?,
        path: get.path.clone().unwrap_or_default(),
        headers: headers
            .map(|header| (header.name.clone(), header.value.clone()))
            .collect(),
    })
}

fn port(port: &IntOrString, ports: &[ContainerPort]) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(text) => text.parse().ok().or_else(|| {
            let named = ports.iter().find(|port| port.name.as_deref() == Some(text));
            named.map(|port| port.container_port)
        }),
    };
    let number = number.ok_or_else(|| format!("the container has no port {port:?}"))?;
    u16::try_from(number)
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("{number} is no port"))
}

impl Hook {
    /// Runs the hook of a container. `address` is the Pod's, as far as it is known.
    pub(super) async fn run(self, runtime: &Runtime, id: &str, address: String, grace: Duration) -> Result<(), String> {
        match self {
            Self::Exec(command) => {
                let ended = match runtime.exec(id, &command, None, LONGEST_OUTPUT).await {
                    Ok(ended) => ended,
                    // The runtime answers at the end of a command, so it has ended.
                    Err(error @ Error::TooLong { .. }) => {
                        tracing::warn!(container = id, "how the preStop hook ended is not known: {error}");
                        return Ok(());
                    }
                    Err(error) => return Err(error.to_string()),
                };
                if ended.exit_code == 0 {
                    return Ok(());
                }
                let output = if ended.stderr.is_empty() {
                    ended.stdout
                } else {
                    ended.stderr
                };
                let output: String = String::from_utf8_lossy(&output).trim().chars().take(500).collect();
                Err(format!(
                    "command '{}' exited with {}: {output}",
                    command.join(" "),
                    ended.exit_code
                ))
            }
            Self::Http(mut request) => {
                if request.host.is_empty() {
                    request.host = address;
                }
                if request.host.is_empty() {
                    request.host = runtime.pod_address(id).await.map_err(|error| error.to_string())?;
                }
                if request.host.is_empty() {
                    return Err("the Pod has no address".to_owned());
                }
                let made = tokio::time::timeout(grace, http::send(&request)).await;
                made.map_err(|_| format!("no answer within {grace:?}"))?
            }
            Self::Sleep(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            Self::Invalid(why) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(handler: Value) -> Option<Hook> {
        let ports: Vec<ContainerPort> =
            serde_json::from_value(json!([{"name": "web", "containerPort": 8080}])).expect("ports");
        hook(&serde_json::from_value(handler).expect("a handler"), &ports)
    }

    #[test]
    fn given_handlers_then_they_become_hooks_and_empty_ones_are_none() {
        assert_eq!(read(json!({})), None);
        assert_eq!(
            read(json!({"exec": {"command": ["a", "b"]}})),
            Some(Hook::Exec(vec!["a".to_owned(), "b".to_owned()]))
        );
        assert_eq!(
            read(json!({"sleep": {"seconds": 3}})),
            Some(Hook::Sleep(Duration::from_secs(3)))
        );
        assert_eq!(
            read(json!({"sleep": {"seconds": -3}})),
            Some(Hook::Sleep(Duration::ZERO))
        );
        assert!(matches!(
            read(json!({"tcpSocket": {"port": 1}})),
            Some(Hook::Invalid(_))
        ));
    }

    #[test]
    fn given_ports_by_number_text_or_name_then_they_are_found() {
        for (port, expected) in [
            (json!(80), Some(80)),
            (json!("81"), Some(81)),
            (json!("web"), Some(8080)),
            (json!("other"), None),
            (json!(0), None),
            (json!(70_000), None),
            (json!(-1), None),
        ] {
            let hook = read(json!({"httpGet": {"port": port, "path": "/x", "scheme": "HTTPS"}}));
            match (hook, expected) {
                (Some(Hook::Http(request)), Some(expected)) => assert!(request.port == expected && request.tls),
                (Some(Hook::Invalid(_)), None) => {}
                (other, _) => panic!("{port}: {other:?}"),
            }
        }
    }
}
