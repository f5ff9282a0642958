//! Update in place: a running Pod is changed instead of replaced.
//!
//! 1. [`decide`] compares two revisions and tells what would change, or why it cannot be done in place. Ask once per pair of revisions, not per Pod.
//! 2. [`start`] turns that into the requests for one Pod: first it is made not ready, then one write brings the new revision label, the lifecycle
//!    state, the record of the update and the first batch of containers.
//! 3. [`advance`] is asked on every reconcile for every Pod, also for new ones and for Pods of paused workloads: it tells what to write next, if
//!    anything. Everything that can go together is one request.
//!
//! A Pod that is updated in place takes three requests: not ready; the change; ready together with the lifecycle state. A new Pod takes two:
//! its creation, and one for all conditions together with the lifecycle state. Where the workload has hooks the state is a request of its own each time
//! (see [`super::lifecycle`]).
//!
//! # Batches
//!
//! Containers with a launch priority are changed in that order, the highest first; the next batch waits until the one before is done and ready.
//! Containers without priority are all in the first batch. A container that reads a label or annotation of which another container in the batch
//! gets a new value joins it: the value changes for both at once.
//!
//! # Grace period
//!
//! With a grace period the first write brings everything but the change itself, which waits in an annotation until the time is over.
//! A template that changes once more meanwhile does not shorten it: the first change is made first.

mod advance;
mod batch;
mod change_set;
mod decide;
mod diff;
mod env_refs;
mod progress;
mod qos;
mod record;
mod rules;
mod start;

pub(crate) use advance::needs_nothing;
pub use advance::{Advanced, Waits, advance};
pub(crate) use batch::priority;
pub use change_set::{ChangeSet, RefMetadata};
pub use decide::{Options, Reason, WhyNot, decide};
pub(crate) use env_refs::{Reference, is_counted, reference};
pub use progress::{Pending, is_complete, pending};
pub use qos::has_same_qos;
pub use record::{Batch, Grace, LastStatus, PreCheck, State, Unreadable, grace_of, is_in_grace, state_of};
pub use rules::PodRules;
pub use start::{Start, Started, start};

use jiff::Timestamp;
use kruise_api::gates::Gates;

/// Under which circumstances a Pod is updated.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    /// Now.
    pub now: Timestamp,
    /// The feature gates.
    pub gates: Gates,
    /// The API server changes resources only through the `resize` endpoint (Kubernetes 1.32 and later).
    pub has_resize: bool,
}

impl From<&crate::plan::Env> for Env {
    fn from(env: &crate::plan::Env) -> Self {
        Self {
            now: env.now,
            gates: env.gates,
            has_resize: env.server.pod_resize,
        }
    }
}

/// Whether an API server of this version, `v1.34.4`, has the `resize` endpoint. A version that cannot be read has not.
pub fn has_resize(git_version: &str) -> bool {
    let number = |part: &str| {
        let digits = part.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(part.len());
        part.get(..digits).and_then(|digits| digits.parse::<u32>().ok())
    };
    let mut parts = git_version.trim_start_matches('v').splitn(3, '.').map(number);
    let version = (parts.next().flatten(), parts.next().flatten(), parts.next().flatten());
    matches!(version, (Some(major), Some(minor), Some(_)) if (major, minor) >= (1, 32))
}

#[cfg(test)]
mod tests;
