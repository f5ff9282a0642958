//! How the Pods of a StatefulSet go on by themselves (see [`crate::shared::advance`]).
//!
//! - A new Pod is normal from the beginning, unless it has a `preNormal` hook to wait for; it need not have a node.
//! - A Pod without a lifecycle state, of an older release, gets none.
//! - A Pod that waits for its update is let go when it is not going to be updated after all: the template was rolled back, the partition raised, or the type is
//!   `OnDelete`.

use std::collections::BTreeSet;

use kruise_api::shared::lifecycle::Lifecycle;

use super::snapshot::Snapshot;
use crate::plan::Plan;
use crate::shared::advance::{self, AdvancedPods};
use crate::shared::inplace::PodRules;

impl PodRules for Snapshot<'_> {
    fn lifecycle(&self) -> Option<&Lifecycle> {
        self.set.spec.lifecycle.as_ref()
    }
}

/// Plans what Pods need, but for those that are written anyway. `candidates` are the ordinals that the update is about.
pub(super) fn advance<'r>(
    snapshot: &'r Snapshot<'_>,
    candidates: &BTreeSet<i32>,
    touched: &BTreeSet<&str>,
    plan: &mut Plan,
) -> AdvancedPods<'r> {
    let pods = snapshot
        .all_pods()
        .filter(|pod| !pod.is_terminating() && !pod.has_ended());
    let pods = pods.filter(|pod| !touched.contains(pod.name()));
    let pods = pods.map(|pod| {
        let has_arrived = pod.member.is_updated || !candidates.contains(&pod.ordinal);
        (pod.pod(), has_arrived)
    });
    advance::advance(pods, snapshot, snapshot.env, plan)
}
