//! CloneSet: stateless pods, updated in place where possible.

pub mod convert;
pub mod default;
pub mod validate;
pub mod version;
