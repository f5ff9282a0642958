//! A page of metrics that is written when it is asked for, on an address of its own.

use std::sync::Arc;

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{Html, IntoResponse, Response},
    routing::get,
};

use crate::metrics;

const INDEX: &str = "<html><head><title>State metrics</title></head><body><h1>State metrics</h1>\
<ul><li><a href=\"/metrics\">metrics</a></li><li><a href=\"/healthz\">healthz</a></li></ul></body></html>\n";

/// Returns the router of `/metrics`, which `page` writes, with `/healthz` and an index beside it. While there is nothing to show, `page` says why.
pub fn router(page: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Router {
    let page = Arc::new(page);
    let metrics = move || {
        let page = page.clone();
        // Many objects take milliseconds, which others should not have to wait for.
        async move { answer(tokio::task::spawn_blocking(move || page()).await) }
    };
    Router::new()
        .route("/", get(|| async { Html(INDEX) }))
        .route("/healthz", get(|| async { "OK" }))
        .route("/metrics", get(metrics))
}

fn answer(page: Result<Result<String, String>, tokio::task::JoinError>) -> Response {
    match page {
        Ok(Ok(text)) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Ok(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, reason).into_response(),
        Err(panic) => (StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()).into_response(),
    }
}
