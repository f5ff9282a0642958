//! The runtime against a real control plane: cache, writer, lease, events and the controller's loop, on good and on bad days.

mod cache;
mod controller;
mod events;
mod lease;
mod refusals;
mod support;
mod writer;
