//! The kruise-daemon, one on each node: talks to the API server about this node only, and to the node's container runtime.

pub mod cli;
mod containers;
mod http;
mod images;
mod meta;
mod platform;
mod prober;
mod recreate;
pub mod run;
pub mod settings;
mod stop;

pub use cli::Flags;
pub use settings::Settings;
