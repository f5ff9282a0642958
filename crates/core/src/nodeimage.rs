//! NodeImage: which images a node shall hold.

pub mod convert;
