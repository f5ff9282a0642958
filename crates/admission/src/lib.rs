//! TLS server, certificate life cycle and the registry of admission handlers.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
