//! The kruise-manager: per kind what to watch, observe and apply, and the process around it.
//!
//! The process reads its flags and environment once into [`Settings`]. Every replica answers admission requests and keeps a warm cache; the one that leads runs the
//! [`controllers`], which are built from what [`platform`] gives them. [`run`] is its life from start to end.

mod apply;
pub mod cli;
pub mod configuration;
pub mod controllers;
mod leader;
mod live_page;
pub mod platform;
mod reconcile;
pub mod run;
pub mod settings;
mod state_metrics;
pub mod uninstall;

pub use cli::Flags;
pub use settings::Settings;
