//! Every decision kruise takes, as pure functions: plan, default, validate, convert.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
