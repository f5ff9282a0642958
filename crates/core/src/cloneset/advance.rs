//! How the Pods of a CloneSet go on by themselves (see [`crate::shared::advance`]).
//!
//! - A new Pod is normal once it has a node, unless it has a `preNormal` hook to wait for.
//! - A Pod of an older release gets the label with the short hash of its revision.
//! - A Pod that waits for an update is let go when it is where others are going, or when nobody goes anywhere.

use kruise_api::names::label;
use kruise_api::pod::Pod;
use kruise_api::shared::lifecycle::Lifecycle;

use super::counts::is_on_delete;
use super::snapshot::Snapshot;
use crate::plan::Plan;
use crate::shared::advance::{self, AdvancedPods};
use crate::shared::inplace::PodRules;
use crate::shared::lifecycle::State;
use crate::shared::revision;

impl PodRules for Snapshot<'_> {
    fn lifecycle(&self) -> Option<&Lifecycle> {
        self.set.spec.lifecycle.as_ref()
    }

    fn updating_state(&self, _pod: &Pod) -> Option<State> {
        Some(State::Updating)
    }

    fn waits_for_node(&self, pod: &Pod) -> bool {
        pod.spec.node_name.is_empty()
    }

    fn missing_label<'p>(&self, pod: &'p Pod) -> Option<(&'static str, &'p str)> {
        let at = revision::of_pod(pod);
        let is_missing = pod.metadata.label(label::POD_TEMPLATE_HASH).is_none() && !at.is_empty();
        is_missing.then(|| (label::POD_TEMPLATE_HASH, revision::short(at)))
    }
}

/// Plans what these Pods need. `updates` is how many Pods are to be updated; negative when Pods go back.
pub(super) fn advance<'r>(
    snapshot: &'r Snapshot<'_>,
    updates: i64,
    these: impl Fn(&str) -> bool,
    plan: &mut Plan,
) -> AdvancedPods<'r> {
    let updates = if is_on_delete(&snapshot.set.spec) { 0 } else { updates };
    let has_arrived = |is_updated: bool| match updates.signum() {
        0 => true,
        1 => is_updated,
        _ => !is_updated,
    };
    let members = snapshot.members.iter().filter(|member| these(member.name()));
    let pods = members.map(|member| (member.pod, has_arrived(member.is_updated)));
    advance::advance(pods, snapshot, snapshot.env, plan)
}
