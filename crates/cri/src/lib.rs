//! CRI v1, the interface of containerd, CRI-O and other container runtimes, over a Unix socket.
//!
//! - [`discover`] finds the sockets of a node and connects to every runtime that speaks version 1.
//! - [`Runtime`] is one of them. Each call has a deadline. When the runtime restarts, the next call dials again.
//! - [`Error`] tells an answer from no answer, in the words that the kubelet uses for the same.
//! - [`wire`] is generated from our excerpt of the interface: what we do not read we do not parse.
//!
//! Tests get a runtime that does as it is told: `fake`, behind the feature of that name.

pub mod discover;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod runtime;
// Generated: its style is that of the generator.
#[allow(clippy::pedantic, missing_debug_implementations, unreachable_pub)]
#[rustfmt::skip]
#[path = "generated/wire.rs"]
pub mod wire;

pub use discover::{DiscoverError, Runtimes};
pub use error::Error;
pub use runtime::{Credentials, Executed, PullRequest, Runtime};

impl std::fmt::Debug for wire::AuthConfig {
    /// Never the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuthConfig({}, …)", self.username)
    }
}
