//! Every name that users, other tools and the original agree on. The spelling is the contract.
//!
//! A name is looked up by what it is and what it means: `label::POD_INSTANCE_ID`, `annotation::IN_PLACE_STATE`,
//! `event::SUCCESSFUL_CREATE`. No other file spells one of these strings out; a test of the workspace sees to it.
//!
//! | module | holds |
//! |---|---|
//! | [`group`] | API groups and their versions |
//! | [`label`], [`annotation`] | metadata keys, and the fixed values some of them take |
//! | [`finalizer`] | what blocks a deletion, and until when |
//! | [`env`] | variables of containers, and of our own processes |
//! | [`condition`] | condition types and reasons, by kind |
//! | [`event`] | event reasons |
//! | [`component`] | who sends: controllers, event sources, user agents |
//! | [`object`] | objects with a fixed name, and the keys inside them |
//! | [`pattern`] | names made from other names |
//! | [`node`] | taints and kubelet's own keys that we read |
//!
//! Feature gates are a typed table of their own: [`crate::gates`]. Phases and other enumerations belong to the kind
//! whose field they are.

pub mod annotation;
pub mod component;
pub mod condition;
pub mod env;
pub mod event;
pub mod finalizer;
pub mod group;
pub mod label;
pub mod node;
pub mod object;
pub mod pattern;
