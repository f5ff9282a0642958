//! PodUnavailableBudget: how many pods may be unavailable at a time, whoever asks.

pub mod convert;
