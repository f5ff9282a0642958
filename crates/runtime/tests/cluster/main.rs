//! The runtime against a real control plane: cache, writer, lease, events and the controller's loop, on good and on bad days.

mod cache;
mod controller;
mod events;
mod lease;
mod memory;
mod refusals;
mod silence;
mod support;
mod writer;
