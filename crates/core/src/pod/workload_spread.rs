//! Pods of a workload that is spread get a subset: [`crate::workloadspread`] says which one, and what it adds.
//!
//! - A Pod belongs to the first WorkloadSpread, by name, that names its controller, or a workload that manages its controller.
//! - Where places are counted, the spread has to note the Pod before it may pass: the step asks for that, and is run again with the answer.
//! - A Pod whose controller cannot be found is refused, for its controller to try again: it must not slip through before what made it is known here.
//! - Nothing happens in a dry run, and to Pods that have ended or have no controller.

use super::{Draft, Env, Missing, PodError};
use crate::shared::workload::WorkloadRef;
use crate::workloadspread::{inject, ledger::Ask, ordinal, related, subsets, version::VersionedKinds};
use kruise_api::configuration::CustomWorkload;
use kruise_api::gates::Gate;
use kruise_api::meta::Object as _;
use kruise_api::workloadspread::v1beta1::{WorkloadSpread, WorkloadSpreadSubset};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What this step has to know. Where nothing is said there are no spreads.
pub trait WorkloadSpreads {
    /// Returns the spreads of a namespace.
    fn spreads(&self, _namespace: &str) -> Result<Vec<Arc<WorkloadSpread>>, Missing> {
        Ok(Vec::new())
    }

    /// Returns the kinds that can be spread because an administrator says so.
    fn custom_workloads(&self) -> Result<Arc<[CustomWorkload]>, Missing> {
        Ok(Arc::default())
    }

    /// Returns what manages a workload.
    fn above(&self, _namespace: &str, _workload: &WorkloadRef) -> Result<Above, Missing> {
        Ok(Above::Gone)
    }

    /// Returns the kinds whose Pods are counted by version.
    fn versioned_kinds(&self) -> VersionedKinds {
        VersionedKinds::default()
    }

    /// Returns where this Pod goes, if that has been asked.
    fn placed(&self) -> Option<&Placement> {
        None
    }
}

/// What manages a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Above {
    /// There is no such workload.
    Gone,
    /// Nothing does.
    Nothing,
    Workload(WorkloadRef),
}

/// Where a Pod goes.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The spread as it was when that was decided.
    pub spread: Arc<WorkloadSpread>,
    /// Name of the subset; nothing when there is none for it.
    pub subset: Option<String>,
    /// The id of its entry, which it has to carry; may be empty.
    pub uid: String,
}

/// A Deployment's ReplicaSet, and a few kinds of the white list, are as deep as it gets.
const MOST_ABOVE: usize = 5;

pub(super) fn add(pod: &mut Draft<'_>, env: &Env<'_>) -> Result<(), PodError> {
    if env.dry_run || !env.gates.enabled(Gate::WorkloadSpread) || pod.head().is_over() {
        return Ok(());
    }
    let Some(owner) = pod.head().controller() else {
        return Ok(());
    };
    let namespace = pod.head().namespace().unwrap_or(env.namespace);
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    let mut spreads = env.view.spreads(namespace)?;
    spreads.retain(|spread| spread.metadata.deletion_timestamp.is_none() && spread.spec.target_ref.is_some());
    if spreads.is_empty() {
        return Ok(());
    }
    spreads.sort_by(|one, other| one.name().cmp(other.name()));
    let labels = pod.labels();
    let Some(spread) = find(&spreads, &owner, namespace, &labels, env)? else {
        return Ok(());
    };
    let name = pod.head().name().unwrap_or_default().to_owned();
    let placed: Placement;
    let (spread, subset, uid) = if let Some(only) = subsets::only_one(spread) {
        (&**spread, Some(only), "")
    } else if related::has_ordinals(spread) {
        (&**spread, ordinal::subset_of(spread, &name), "")
    } else {
        let version = env.view.versioned_kinds();
        let version = version.version_of(Some(&owner.kind), |key| labels.get(key).copied());
        let Some(known) = env.view.placed() else {
            return Err(PodError::Unplaced(Box::new(Ask {
                namespace: namespace.to_owned(),
                spread: spread.name().to_owned(),
                version,
                pod: name,
            })));
        };
        placed = known.clone();
        (&*placed.spread, subset_of(&placed), placed.uid.as_str())
    };
    let Some(subset) = subset else { return Ok(()) };
    inject::inject(pod.whole()?, spread.name(), subset, uid).map_err(PodError::Spread)
}

fn subset_of(placed: &Placement) -> Option<&WorkloadSpreadSubset> {
    let name = placed.subset.as_ref()?;
    placed.spread.spec.subsets.iter().find(|subset| subset.name == *name)
}

/// The first spread that is for the Pod.
fn find<'s>(
    spreads: &'s [Arc<WorkloadSpread>],
    owner: &WorkloadRef,
    namespace: &str,
    labels: &BTreeMap<&str, &str>,
    env: &Env<'_>,
) -> Result<Option<&'s Arc<WorkloadSpread>>, PodError> {
    let mut workload = owner.clone();
    for _ in 0..MOST_ABOVE {
        let named = spreads.iter().find(|spread| {
            related::target(spread).is_some_and(|target| target.is_same(&workload))
                && related::selects(spread, |key| labels.get(key).copied())
        });
        if named.is_some() {
            return Ok(named);
        }
        if !may_be_below(&workload, spreads, env)? {
            return Ok(None);
        }
        workload = match env.view.above(namespace, &workload)? {
            Above::Workload(above) => above,
            Above::Nothing => return Ok(None),
            Above::Gone => {
                let WorkloadRef { kind, name, .. } = &workload;
                return Err(PodError::Spread(format!(
                    "{kind} {name}, which it belongs to, is not found"
                )));
            }
        };
    }
    Ok(None)
}

/// Whether a workload that is spread can manage this one. Looking costs a request for every kind but ReplicaSets.
fn may_be_below(workload: &WorkloadRef, spreads: &[Arc<WorkloadSpread>], env: &Env<'_>) -> Result<bool, PodError> {
    let targets = || spreads.iter().filter_map(|spread| related::target(spread));
    if workload.is_of("apps", "ReplicaSet") && targets().any(|target| target.is_of("apps", "Deployment")) {
        return Ok(true);
    }
    if targets().all(|target| related::is_known(&target)) {
        return Ok(false);
    }
    let list = env.view.custom_workloads()?;
    Ok(related::is_watched(workload, &list))
}

#[cfg(test)]
mod tests;
