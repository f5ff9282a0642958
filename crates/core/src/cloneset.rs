//! CloneSet: stateless pods, updated in place where possible.

pub mod convert;
