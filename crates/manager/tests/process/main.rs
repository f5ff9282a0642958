//! The programs of this crate as processes.

mod helm_hook;
mod manager;
mod support;
