//! How the Pods of a DaemonSet go on by themselves (see [`crate::shared::advance`]).
//!
//! They have no lifecycle states but `PreparingDelete`, which they do not leave: once a Pod waits for its `preDelete` hook it is deleted as soon as the hook lets
//! go. New Pods get their conditions when they have a node.

use kruise_api::pod::Pod;
use kruise_api::shared::lifecycle::Lifecycle;

use super::snapshot::Snapshot;
use crate::plan::Plan;
use crate::shared::advance::{self, AdvancedPods};
use crate::shared::availability::is_active;
use crate::shared::inplace::PodRules;
use crate::shared::lifecycle::{Progress, State};

impl PodRules for Snapshot<'_> {
    /// The hooks around updates are not for DaemonSets.
    fn lifecycle(&self) -> Option<&Lifecycle> {
        None
    }

    fn next_state(&self, _pod: &Pod, _progress: Progress) -> Option<State> {
        None
    }

    fn updating_state(&self, _pod: &Pod) -> Option<State> {
        None
    }

    fn waits_for_node(&self, pod: &Pod) -> bool {
        pod.spec.node_name.is_empty()
    }
}

/// Plans what the set's Pods need, as far as they are `meant`.
pub(super) fn advance<'a>(snapshot: &Snapshot<'a>, meant: impl Fn(&str) -> bool, plan: &mut Plan) -> AdvancedPods<'a> {
    let members = snapshot
        .members()
        .filter(|member| is_active(member.pod) && meant(member.name()));
    let pods = members.map(|member| (member.pod, member.is_updated));
    advance::advance(pods, snapshot, snapshot.env, plan)
}
