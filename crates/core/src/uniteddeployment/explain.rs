//! Why not more happens now, and when to look again.

use kruise_api::shared::conditions::ConditionStatus;

use super::allocate::Mode;
use super::schedule::condition;
use super::snapshot::{Place, Snapshot};
use crate::plan::why;
use crate::plan::{Plan, PodNames};
use crate::shared::time_to_live::after;

/// Adds what holds back each subset.
pub(super) fn explain(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    if snapshot.places.is_empty() {
        plan.because(why::Subsets::NoSubsets);
    }
    let deleting = snapshot.claims.children.values();
    let deleting = deleting.filter(|existing| existing.child.is_deleting());
    let workloads: PodNames = deleting.map(|existing| existing.child.name()).collect();
    if !workloads.is_empty() {
        plan.because(why::Subsets::WorkloadsDeleting { workloads });
    }
    for place in &snapshot.places {
        room(snapshot, place, plan);
        progress(snapshot, place, plan);
        if let Some(after) = place.outlook.wake {
            plan.wake(after);
        }
    }
    let placed: i32 = snapshot
        .places
        .iter()
        .fold(0, |sum: i32, place| sum.saturating_add(place.replicas));
    let pods = snapshot.total().saturating_sub(placed);
    if snapshot.mode == Mode::Adaptive && pods > 0 {
        plan.because(why::Subsets::Unplaced { pods });
    }
}

fn names(pods: &[&kruise_api::pod::Pod]) -> PodNames {
    pods.iter().map(|pod| &*pod.metadata.name).collect()
}

fn room(snapshot: &Snapshot<'_>, place: &Place<'_>, plan: &mut Plan) {
    let outlook = &place.outlook;
    let subset = place.subset.name.clone();
    if !outlook.reserved.is_empty() {
        let pods = names(&outlook.reserved);
        plan.because(why::Subsets::Reserved { subset, pods });
    } else if outlook.is_unschedulable {
        let known = condition(place.status).filter(|known| known.status == ConditionStatus::False);
        let since = known.and_then(|known| known.last_transition_time.as_ref());
        let since = since.map_or(snapshot.env.now, |since| since.0);
        let until = Some(after(since, snapshot.patience.duration.into()));
        let pods = names(&outlook.waiting);
        plan.because(why::Subsets::NoRoom { subset, until, pods });
    }
}

fn progress(snapshot: &Snapshot<'_>, place: &Place<'_>, plan: &mut Plan) {
    let Some(existing) = &place.existing else { return };
    let (_, ready) = existing.counts();
    let (updated, _) = place.updated(snapshot);
    let subset = place.subset.name.clone();
    let keeps = if snapshot.template.kind.has_partition() {
        place.partition
    } else {
        0
    };
    if ready < place.replicas || updated < place.replicas.saturating_sub(keeps) {
        plan.because(why::Subsets::SubsetUnderWay {
            subset,
            workload: existing.child.name().to_owned(),
            replicas: place.replicas,
            ready,
            updated,
        });
    } else if keeps > 0 && updated < place.replicas {
        plan.because(why::Subsets::SubsetPartition { subset, keeps });
    }
}
