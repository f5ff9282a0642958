//! Building blocks that several kinds share.

pub mod completion;
pub mod conditions;
pub mod image_pull;
pub mod in_place;
pub mod int_or_percent;
pub mod lifecycle;
pub mod probing;
pub mod scatter;
pub mod standard_condition;
pub mod target;
pub mod update_priority;

pub use int_or_percent::IntOrPercent;
