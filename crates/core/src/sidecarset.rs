//! SidecarSet: containers injected into the pods of others.

pub mod convert;
pub mod expression;
pub mod hash;
pub mod select;
