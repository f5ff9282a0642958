//! The kruise-daemon, one on each node: talks to the API server about this node only, and to the node's container runtime.

pub mod cli;
pub mod run;
pub mod settings;

pub use cli::Flags;
pub use settings::Settings;
