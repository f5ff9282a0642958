//! How the API server reaches us.

use serde_json::{Map, Value, json};
use std::net::Ipv6Addr;

/// The way to the webhook server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Through a Service.
    Service { namespace: String, name: String },
    /// Straight to a host.
    Host { host: String, port: u16 },
}

impl Endpoint {
    /// The name that the certificate has to be for.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Service { namespace, name } => format!("{name}.{namespace}.svc"),
            Self::Host { host, .. } => host.clone(),
        }
    }

    /// The `clientConfig` for a path. A port that the manifest asks for is kept.
    pub(crate) fn client_config(&self, path: &str, port: Option<&Value>, ca_bundle: &str) -> Value {
        let mut config = Map::new();
        config.insert("caBundle".into(), ca_bundle.into());
        match self {
            Self::Service { namespace, name } => {
                let port = port.cloned().unwrap_or_else(|| 443.into());
                let service = json!({"namespace": namespace, "name": name, "path": path, "port": port});
                config.insert("service".into(), service);
            }
            Self::Host { host, port } => {
                let host = match host.parse::<Ipv6Addr>() {
                    Ok(address) => format!("[{address}]"),
                    Err(_) => host.clone(),
                };
                config.insert("url".into(), format!("https://{host}:{port}{path}").into());
            }
        }
        Value::Object(config)
    }
}

/// The path that a `clientConfig` leads to.
pub(crate) fn path_of(client_config: &Value) -> Option<&str> {
    if let Some(service) = client_config.get("service").filter(|service| !service.is_null()) {
        return service.get("path").and_then(Value::as_str);
    }
    let url = client_config.get("url")?.as_str()?;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').and_then(|slash| rest.get(slash..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_an_endpoint_then_host_and_client_config_fit() {
        let service = Endpoint::Service {
            namespace: "ns".into(),
            name: "svc".into(),
        };
        assert_eq!(service.host(), "svc.ns.svc");
        assert_eq!(
            service.client_config("/a", None, "Q0E="),
            json!({"caBundle": "Q0E=", "service": {"namespace": "ns", "name": "svc", "path": "/a", "port": 443}})
        );
        assert_eq!(
            service.client_config("/a", Some(&json!(8443)), "")["service"]["port"],
            8443
        );
        for (host, url) in [
            ("10.0.0.5", "https://10.0.0.5:9876/a"),
            ("dev.local", "https://dev.local:9876/a"),
            ("::1", "https://[::1]:9876/a"),
        ] {
            let direct = Endpoint::Host {
                host: host.into(),
                port: 9876,
            };
            assert_eq!(direct.host(), host);
            assert_eq!(
                direct.client_config("/a", Some(&json!(1)), "Q0E="),
                json!({"caBundle": "Q0E=", "url": url})
            );
        }
    }

    #[test]
    fn given_a_client_config_then_its_path_is_found() {
        assert_eq!(path_of(&json!({"service": {"path": "/a"}})), Some("/a"));
        assert_eq!(
            path_of(&json!({"service": null, "url": "https://h:1/a/b"})),
            Some("/a/b")
        );
        for none in [
            json!({}),
            json!(null),
            json!({"service": {}}),
            json!({"url": "https://h"}),
            json!({"url": 1}),
        ] {
            assert_eq!(path_of(&none), None, "{none}");
        }
    }
}
