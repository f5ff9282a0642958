//! What a process shows to the kubelet, to Prometheus and to a curious administrator, over plain HTTP.
//!
//! - Health and readiness are lists of named checks ([`Checks`]).
//! - `/metrics` is Prometheus text, of a registry or of a page that is written when it is asked for.
//! - `/debug/pprof/` says that there is no Go profiler here.
//! - `/debug/plan/` says what controllers would do with an object ([`Plans`]), to who is on the same machine.
//! - Nobody can keep others from being answered: connections are short unless a handler lets one stay, and there are never too many.
//! - Each address comes from a flag. One that cannot be used is an error that names the flag and the port.

mod checks;
mod exposition;
mod listener;
mod plans;
mod pprof;

pub use checks::{Checks, Latch};
pub use exposition::router as exposition_router;
pub use listener::{BindError, Listener, Peer, Stay};
pub use plans::{Explain, NoPlan, Plans, Rehearse, outline, router as plan_router};
pub use pprof::router as pprof_router;

use crate::metrics;
use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use prometheus::Registry;

/// Returns the router of `/metrics`.
pub fn metrics_router(registry: Registry) -> Router {
    Router::new().route(
        "/metrics",
        get(move || async move {
            match metrics::render(&registry) {
                Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
            }
        }),
    )
}
