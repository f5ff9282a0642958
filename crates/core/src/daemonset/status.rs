//! What a DaemonSet's status says.
//!
//! - `desiredNumberScheduled` are the nodes that should run a Pod, `currentNumberScheduled` those of them that have one, also if it terminates;
//!   `numberMisscheduled` are nodes that should not and do.
//! - Ready, available and updated is said of the first Pod of a node, which is the old one while there are two.
//! - `observedGeneration` follows the spec after a round that had nothing to create or delete but for an update.
//! - The status is written only when it says something new, and then as a patch of what changed.

use kruise_api::daemonset::v1beta1::DaemonSetStatus;

use super::snapshot::Snapshot;
use crate::plan::Action;
use crate::shared::membership::Member;
use crate::shared::status;

/// The write that brings the stored status up to date; none when it says nothing new. `is_complete` tells that the round had nothing to create or delete.
pub(super) fn write(snapshot: &Snapshot<'_>, is_complete: bool) -> Option<Action> {
    let set = snapshot.set;
    status::patch(set, set.status.as_ref(), &new_status(snapshot, is_complete))
}

fn new_status(snapshot: &Snapshot<'_>, is_complete: bool) -> DaemonSetStatus {
    let set = snapshot.set;
    let before = set.status.clone().unwrap_or_default();
    let count = |runs: bool, of: &dyn Fn(&Member<'_>) -> bool| {
        let nodes = snapshot.nodes.values().filter(|node| node.node.is_some());
        let firsts = nodes
            .filter(|node| node.runs() == runs)
            .filter_map(|node| node.pods.first());
        firsts.filter(|first| of(first)).count() as i32
    };
    let available = count(true, &|first| first.is_available());
    let collisions = snapshot.revisions.collisions;
    let generation = set.metadata.generation.unwrap_or_default();
    DaemonSetStatus {
        observed_generation: if is_complete {
            before.observed_generation.max(generation)
        } else {
            before.observed_generation
        },
        desired_number_scheduled: snapshot.desired.nodes,
        current_number_scheduled: count(true, &|_| true),
        number_misscheduled: count(false, &|_| true),
        number_ready: count(true, &|first| first.is_ready),
        updated_number_scheduled: count(true, &|first| first.is_updated),
        number_available: available,
        number_unavailable: snapshot.desired.nodes - available,
        collision_count: before
            .collision_count
            .or((collisions > 0).then_some(collisions))
            .map(|_| collisions),
        conditions: before.conditions,
        update_revision: snapshot.hash.clone(),
    }
}
