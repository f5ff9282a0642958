//! Building blocks that several kinds share.

pub mod conditions;
pub mod int_or_percent;

pub use int_or_percent::IntOrPercent;
