//! Every request to the API server, whoever sends it: it is counted, and it does not wait for ever.
//!
//! The server itself gives up on whatever takes longer than a minute, and a watch is answered at once. So an answer that has not begun by then never will:
//! the connection is dead. Who wants it sooner sets a deadline of its own.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::Body;
use kube::{Client, Config};
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::time::timeout;
use tower::{BoxError, Layer, Service};

use crate::client::dial;

/// When an answer has to begin.
const ANSWERED_WITHIN: Duration = Duration::from_secs(65);

/// The published counter of requests.
#[derive(Clone, Debug)]
pub struct RequestMetrics(IntCounterVec);

impl RequestMetrics {
    /// Registers the counter.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let requests = IntCounterVec::new(
            Opts::new(
                "rest_client_requests_total",
                "Requests to the API server, by status code, method and host.",
            ),
            &["code", "host", "method"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        Ok(Self(requests))
    }

    /// Returns a client whose requests are counted. Each one has connections of its own.
    pub fn client(&self, config: &Config) -> kube::Result<Client> {
        let host = config
            .cluster_url
            .authority()
            .map_or_else(String::new, ToString::to_string);
        let layer = CountRequests {
            requests: self.0.clone(),
            host,
        };
        Ok(dial(config)?.with_layer(&layer).build())
    }
}

#[derive(Clone)]
struct CountRequests {
    requests: IntCounterVec,
    host: String,
}

impl<S> Layer<S> for CountRequests {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting {
            inner,
            count: self.clone(),
        }
    }
}

struct Counting<S> {
    inner: S,
    count: CountRequests,
}

impl<S, B> Service<Request<Body>> for Counting<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let CountRequests { requests, host } = self.count.clone();
        let answer = self.inner.call(request);
        async move {
            let answer = timeout(ANSWERED_WITHIN, answer)
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {ANSWERED_WITHIN:?}").into()));
            // client-go calls it so when there was no answer.
            let code = answer
                .as_ref()
                .map_or("<error>".to_owned(), |answer| answer.status().as_u16().to_string());
            tracing::trace!(%method, %uri, code, "asked the API server");
            requests
                .with_label_values(&[code.as_str(), host.as_str(), method.as_str()])
                .inc();
            answer
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;

    #[tokio::test]
    async fn given_requests_then_each_is_counted_by_its_code_also_without_an_answer() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let routes = Router::new()
            .route("/good", get(|| async { "{}" }))
            .route("/bad", get(|| async { (StatusCode::CONFLICT, "{}") }));
        let server = tokio::spawn(async move { axum::serve(listener, routes).await });
        let registry = Registry::new();
        let metrics = RequestMetrics::new(&registry).expect("metrics");
        let config = Config::new(format!("http://{host}").parse().expect("an address"));
        let client = metrics.client(&config).expect("a client");
        for path in ["/good", "/good", "/bad"] {
            let request = Request::get(path).body(Vec::new()).expect("a request");
            let _ = client.request_text(request).await;
        }
        server.abort();
        let _ = server.await;
        // A client of its own, as the first one's connections may outlive the server's task.
        let unreachable = Config::new("http://127.0.0.1:1".parse().expect("an address"));
        let request = Request::get("/good").body(Vec::new()).expect("a request");
        let lonely = metrics.client(&unreachable).expect("a client");
        lonely.request_text(request).await.expect_err("nobody is there");
        let text = crate::metrics::render(&registry).expect("text");
        for (code, host, count) in [
            ("200", host.as_str(), 2),
            ("409", &host, 1),
            ("<error>", "127.0.0.1:1", 1),
        ] {
            let line =
                format!("rest_client_requests_total{{code=\"{code}\",host=\"{host}\",method=\"GET\"}} {count}\n");
            assert!(text.contains(&line), "{line} is missing in:\n{text}");
        }
    }
}
