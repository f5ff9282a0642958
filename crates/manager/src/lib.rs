//! The kruise-manager: per kind what to watch, observe and apply, and the process around it.
//!
//! The process reads its flags and environment once into [`Settings`], shows health and metrics, and ends cleanly when asked.

pub mod audit;
pub mod cli;
pub mod controllers;
pub mod run;
pub mod settings;
pub mod uninstall;

pub use cli::Flags;
pub use settings::Settings;
