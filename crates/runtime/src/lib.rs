//! How to live in a cluster: cache, queue, writer, lease, events, metrics, admin endpoint, shutdown.

pub mod admin;
pub mod client;
pub mod flags;
pub mod logging;
pub mod metrics;
pub mod shutdown;
