//! The kruise API: one module per kind, versions inside it, and every name that is part of the contract.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

pub mod gates;
pub mod names;
