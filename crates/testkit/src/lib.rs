//! Local clusters, simulated kubelets, faults, builders and eventually() for tests.

mod blocking;
pub mod builders;
pub mod eventually;
pub mod namespace;
pub mod sim;
