//! How to live in a cluster: cache, queue, writer, lease, events, metrics, admin endpoint, shutdown.

pub mod admin;
pub mod cache;
pub mod client;
pub mod controller;
pub mod error;
pub mod events;
pub mod expectations;
pub mod flags;
pub mod lease;
pub mod logging;
pub mod metrics;
pub mod queue;
pub mod requests;
pub mod resource;
pub mod shutdown;
pub mod writer;
