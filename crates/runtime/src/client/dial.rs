//! How connections to the API server are made.
//!
//! They are kept alive by TCP itself: a peer that is gone without a word (a load balancer that died, a node that lost power) is noticed within a minute
//! also on a connection that waits, such as a watch, and what was sent and is not acknowledged by then counts as lost.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Builder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _, DynBody};
use kube::{Config, Error};
use tower::util::BoxService;
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

/// A connection that has been silent for this long is asked whether it lives, then every [`KEEPALIVE_EVERY`].
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);
/// After so many questions without an answer it is dead.
const KEEPALIVE_TIMES: u32 = 3;
/// What is sent has to be acknowledged within this time.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_mins(1);

/// What stands between kube's client and its connections.
type Connections = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// A client of kube whose connections are kept alive. Layers can be put around it.
pub(crate) fn dial(config: &Config) -> kube::Result<ClientBuilder<Connections>> {
    if let Some(proxy_url) = &config.proxy_url {
        return Err(Error::ProxyProtocolUnsupported {
            proxy_url: Box::new(proxy_url.clone()),
        });
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(config.connect_timeout);
    tcp.set_keepalive(Some(KEEPALIVE_AFTER));
    tcp.set_keepalive_interval(Some(KEEPALIVE_EVERY));
    tcp.set_keepalive_retries(Some(KEEPALIVE_TIMES));
    tcp.set_tcp_user_timeout(Some(ACKNOWLEDGED_WITHIN));
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(Builder::new(TokioExecutor::new()).build(tls))
        .map_response(|answer| answer.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>))
        .boxed();
    Ok(ClientBuilder::new(service, config.default_namespace.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The timer that runs on the socket from `port`, as the kernel shows it; 2 is the one that keeps it alive.
    fn timer(port: u16) -> Option<String> {
        let sockets = std::fs::read_to_string("/proc/self/net/tcp").expect("a list of sockets");
        let from = format!(":{port:04X}");
        let mut found = sockets.lines().skip(1).filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let is_ours = fields.get(1)?.ends_with(&from);
            is_ours.then(|| fields.get(5)?.split(':').next().map(str::to_owned))?
        });
        found.next()
    }

    #[tokio::test]
    async fn given_a_connection_that_waits_for_an_answer_then_it_is_kept_alive() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = listener.local_addr().expect("an address");
        let config = Config::new(format!("http://{server}").parse().expect("an address"));
        let client = dial(&config).expect("a client").build();
        let request = Request::get("/api").body(Vec::new()).expect("a request");
        let asked = tokio::spawn(async move { client.request_text(request).await });
        let (mut socket, peer) = listener.accept().await.expect("a connection");
        // What was sent has to be read before nothing but the one timer is left.
        let mut read = [0; 1];
        tokio::io::AsyncReadExt::read_exact(&mut socket, &mut read)
            .await
            .expect("a request");
        assert_eq!(timer(peer.port()).as_deref(), Some("02"));
        asked.abort();
    }
}
