//! Deletion costs: which Pods their workload takes away first.
//!
//! - Of the newest version the Pods of the last subset go first; of older versions those of the first, as their places are the ones that new Pods need.
//! - Pods beyond the limit of a subset go before all that are within. Those in no subset go first of all.
//!
//! With n subsets, those within their limit cost 100·(n−i), those beyond −100·(i+1), those in none −100·(n+1).

use kruise_api::meta::Object as _;
use kruise_api::names::annotation;
use kruise_api::pod::Pod;

use super::assign::Assigned;
use crate::shared::availability::is_active;
use crate::shared::pod_rank::cmp_for_update;

/// Kinds whose Pods go by their costs.
pub fn counts_for(kind: &str) -> bool {
    ["CloneSet", "Deployment", "ReplicaSet"].contains(&kind)
}

/// Returns the Pods of a version whose cost is another one than it should be, each with the cost that it should have.
pub fn changed<'a>(assigned: &[Assigned<'a>], limits: &[Option<i32>], is_latest: bool) -> Vec<(Assigned<'a>, i64)> {
    let count = i64::try_from(limits.len()).unwrap_or_default();
    let mut costs = Vec::new();
    for (index, limit) in limits.iter().enumerate() {
        let place = i64::try_from(index).unwrap_or_default();
        let place = if is_latest { place } else { count - 1 - place };
        let of_subset = assigned
            .iter()
            .filter(|one| one.subset == Some(index) && is_active(one.pod));
        let mut of_subset: Vec<_> = of_subset.copied().collect();
        of_subset.sort_by(|one, other| cmp_for_update(one.pod, other.pod));
        let most = limit.map_or(of_subset.len(), |most| usize::try_from(most).unwrap_or_default());
        let beyond = of_subset.len().saturating_sub(most);
        for (position, one) in of_subset.into_iter().enumerate() {
            let cost = if position < beyond {
                -100 * (place + 1)
            } else {
                100 * (count - place)
            };
            costs.push((one, cost));
        }
    }
    let in_none = assigned.iter().filter(|one| one.subset.is_none() && is_active(one.pod));
    costs.extend(in_none.map(|one| (*one, -100 * (count + 1))));
    costs.retain(|(one, cost)| one.is_new || written(one.pod) != Some(cost.to_string().as_str()));
    costs.sort_by(|(one, _), (other, _)| one.pod.name().cmp(other.pod.name()));
    costs
}

fn written(pod: &Pod) -> Option<&str> {
    pod.metadata.annotation(annotation::POD_DELETION_COST)
}
