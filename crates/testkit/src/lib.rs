//! Real Kubernetes on one machine, for people and for tests.
//!
//! - [`instance`] is a whole local cluster with a name: what `cargo xtask up` makes and `cargo xtask down` ends.
//!   Its parts: [`network`], [`control_plane`], [`node`], [`registry`], and the [`process`] records that tie them together.
//! - [`cluster`] gives a test its control plane, [`kubernetes`] and [`packages`] provide the programs, and
//!   [`features`] tells what an older server lacks.
//! - [`faults`] stands between a program under test and the API server and does what networks and servers do on bad days; [`torture`] says how many
//!   of many bad days a run has.
//! - [`storage`] gives claims their volumes, and [`watch`] tells what happens to objects.
//! - [`browser`] shows pages as people see them; [`prometheus`] scrapes metrics as theirs does.
//! - [`sim`] gives Pods a life on simulated nodes; [`builders`], [`eventually`] and [`namespace`] are for the tests themselves.

mod blocking;
pub mod browser;
mod calls;
pub mod cgroup;
pub mod cluster;
pub mod control_plane;
pub mod eventually;
pub mod faults;
pub mod features;
pub mod image;
pub mod instance;
pub mod kubernetes;
pub mod namespace;
pub mod network;
pub mod node;
pub mod packages;
pub mod paths;
pub mod pki;
pub mod process;
pub mod program;
pub mod progress;
pub mod prometheus;
pub mod recording;
pub mod registry;
pub mod service;
pub mod shell;
pub mod sim;
pub mod storage;
pub mod torture;
pub mod watch;

/// Objects for tests, said in a few words.
pub use kruise_fixtures as builders;
