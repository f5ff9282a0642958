//! The kruise API: one module per kind, versions inside it, and every name that is part of the contract.
//!
//! How to find your way:
//!
//! - A kind lives in the module of its name, each served version in a module below it
//!   (`cloneset::v1beta1::CloneSet`). Parts that several kinds share are in [`shared`].
//! - [`registry::KINDS`] is the one list of kinds: names, scope, versions, columns. [`resource`] is how the API server calls a kind, ours or Kubernetes' own.
//! - [`read`] turns JSON into a type. It is lenient about what a newer release may have written, and answers anything it
//!   cannot understand with a field path and a reason. [`merge_patch`] says how two objects differ, so that a write loses nothing that was
//!   not understood.
//! - [`configuration`] is what an administrator may allow beyond the default.
//! - [`pod`] is the slice of a Pod that controllers look at.
//! - With the cargo feature `schema`, [`schema`] turns the types into CRDs.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[macro_use]
mod wire;
#[macro_use]
pub mod kind;
#[macro_use]
pub mod meta;

pub mod configmap;
pub mod configuration;
pub mod content;
pub mod gates;
pub mod merge_patch;
pub mod names;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod raw;
pub mod read;
pub mod registry;
pub mod resource;
pub mod revision;
pub mod scaled;
#[cfg(feature = "schema")]
pub mod schema;
pub mod secret;
pub mod shared;
pub mod storage;
pub mod text;

pub mod advancedcronjob;
pub mod broadcastjob;
pub mod cloneset;
pub mod containerrecreaterequest;
pub mod daemonset;
pub mod ephemeraljob;
pub mod imagelistpulljob;
pub mod imagepulljob;
pub mod job;
pub mod nodeimage;
pub mod nodepodprobe;
pub mod persistentpodstate;
pub mod podprobemarker;
pub mod podunavailablebudget;
pub mod resourcedistribution;
pub mod sidecarset;
pub mod statefulset;
pub mod uniteddeployment;
pub mod workloadspread;

pub use wire::Blank;
