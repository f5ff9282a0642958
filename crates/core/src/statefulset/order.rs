//! Which Pods the update is about, and in which order.
//!
//! - By ordinals: from the highest down, without the lowest ones that the partition keeps.
//! - With `unorderedUpdate`: Pods that are updated or on their way out come first, the others follow by priority (see
//!   [`crate::shared::update_order`]) and from the highest ordinal down; the partition keeps the last ones, whichever they are.
//!
//! Reserved ordinals have no Pod, so they count for nothing.

use kruise_api::gates::Gate;

use super::counts::{is_rolling, is_unordered};
use super::create::missing_old;
use super::snapshot::{OrdinalPod, Snapshot};
use crate::shared::lifecycle::State;
use crate::shared::revision;
use crate::shared::update_order::by_priority;

/// Returns the ordinals of Pods that shall be at the update revision, in the order of the update.
pub(super) fn candidates(snapshot: &Snapshot<'_>) -> Vec<i32> {
    let spec = &snapshot.set.spec;
    if !is_rolling(spec) {
        return Vec::new();
    }
    let descending = snapshot.replicas.values().rev();
    if !is_unordered(spec) {
        let keeps = |pod: &&OrdinalPod<'_>| {
            let rank = snapshot.ordinals.rank(pod.ordinal);
            rank.is_none_or(|rank| rank < snapshot.desired.partition)
        };
        return descending.filter(|pod| !keeps(pod)).map(|pod| pod.ordinal).collect();
    }
    let update = snapshot.revisions.update.name();
    let counts_early = snapshot.env.gates.enabled(Gate::PreparingUpdateAsUpdate);
    let is_done = |pod: &&OrdinalPod<'_>| {
        pod.is_terminating()
            || revision::is_at(pod.pod(), update)
            || counts_early && pod.member.state == State::PreparingUpdate
    };
    let (done, mut rest): (Vec<_>, Vec<_>) = descending.partition(is_done);
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let strategy = rolling.and_then(|rolling| rolling.unordered_update.as_ref()?.priority_strategy.as_ref());
    by_priority(&mut rest, strategy, |pod, key| pod.pod().metadata.label(key));
    let to_be_made = snapshot.missing() - missing_old(snapshot);
    let count = snapshot.ordinals.count() - snapshot.desired.partition - to_be_made;
    let count = usize::try_from(count).unwrap_or(0);
    done.iter().chain(&rest).take(count).map(|pod| pod.ordinal).collect()
}
