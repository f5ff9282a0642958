//! WorkloadSpread: the Pods of one workload, spread over subsets of the cluster without changing the workload.
//!
//! 1. A new Pod of the workload gets a subset when it is made: the first that takes Pods and has room ([`ledger`]; of a StatefulSet by its ordinal, [`ordinal`]).
//!    It gets what the subset adds ([`inject`]), and an annotation that says which one it is. Without room anywhere it is made as it is.
//! 2. Pods that were there before get the subset that suits their node ([`assign`]).
//! 3. Pods cost more or less to take away, so that the workload takes those of the last subset first ([`cost`]).
//! 4. The status says what room there is, for each version of the Pods apart ([`version`], [`status`]).
//! 5. With the strategy `Adaptive`, Pods that find no node in their subset are deleted, and made again in another one ([`schedulable`]). That is written to the
//!    status before, or they would come back to the same subset.

mod admit;
pub mod assign;
pub mod convert;
pub mod cost;
pub mod explain;
pub mod inject;
pub mod ledger;
#[cfg(test)]
mod model;
pub mod ordinal;
pub mod related;
pub mod replicas;
pub mod schedulable;
pub mod status;
pub mod subsets;
#[cfg(test)]
mod tests;
pub mod validate;
pub mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kruise_api::meta::Object as _;
use kruise_api::names::{annotation, event};
use kruise_api::node::Node;
use kruise_api::pod::Pod;
use kruise_api::resource::Preconditions;
use kruise_api::workloadspread::v1beta1::{SubsetStatus, WorkloadSpread, WorkloadSpreadStatus};
use serde_json::{Value, json};

pub use validate::Submitted;

use crate::plan::why::{self, PodNames};
use crate::plan::{Action, Chain, Env, Event, Observation, OnFailure, Pace, Phase, Plan, Step, Target, Write};
use crate::shared::availability::is_active;
use crate::shared::status as write_status;
use assign::Assigned;
use status::Counted;
use version::VersionedKinds;

/// A spread and what it is about.
#[derive(Clone, Debug)]
pub struct Observed {
    pub spread: Arc<WorkloadSpread>,
    /// Its workload, or why it is not known.
    pub workload: Result<Workload, String>,
    /// The Pods of its workload that it is for.
    pub pods: Vec<Arc<Pod>>,
    /// Nodes of Pods that were given no subset, by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
    pub versioned: VersionedKinds,
    /// Changes of the workload are heard of. One of which they are not is looked at now and then.
    pub is_watched: bool,
}

/// A workload that is spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Pods that it should have; none of one that is not there.
    pub replicas: i32,
    /// Version of its newest Pods; nothing when that is not known.
    pub newest: Option<String>,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// How soon a workload is looked at again of which something is not known.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How often a workload is looked at whose changes are not heard of.
const POLLED_EVERY: Duration = Duration::from_secs(30);

/// Returns what to do for a spread now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let spread = &*observed.spread;
    let mut plan = Plan::default();
    if spread.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return plan;
    }
    if spread.spec.target_ref.is_none() {
        return plan;
    }
    let known = observed.workload.clone();
    let known = known.and_then(|workload| Ok((subsets::limits(spread, workload.replicas)?, workload)));
    let (limits, workload) = match known {
        Ok(known) => known,
        Err(message) => {
            plan.because(why::General::Invalid { message });
            plan.wake(LOOK_AGAIN);
            return plan;
        }
    };
    if !observed.is_watched {
        plan.wake(POLLED_EVERY);
    }
    let versions = by_version(observed, &limits);
    explain_subsets(spread, &versions, &limits, &mut plan);
    let marked = mark(observed, &workload, &versions, &limits, &mut plan);
    plan.push(marked);
    let (new, failed) = recount(spread, &limits, &versions, env, &mut plan);
    plan.push(move_away(spread, &failed));
    if spread.status.as_ref() != Some(&new) {
        plan.status = write_status::patch(spread, spread.status.as_ref(), &new);
    }
    plan
}

/// Pods of each version with their subsets, by name.
type Versions<'a> = BTreeMap<String, Vec<Assigned<'a>>>;

fn by_version<'a>(observed: &'a Observed, limits: &[Option<i32>]) -> Versions<'a> {
    let mut pods: Vec<&Pod> = observed.pods.iter().map(|pod| &**pod).collect();
    pods.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    pods.dedup_by(|one, other| one.name() == other.name());
    let mut versions: BTreeMap<String, Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        let owner = pod.metadata.controller().map(|owner| &*owner.kind);
        let version = observed.versioned.version_of(owner, |key| pod.metadata.label(key));
        versions.entry(version).or_default().push(pod);
    }
    let assign = |pods: Vec<&'a Pod>| assign::assign(&observed.spread, &pods, &observed.nodes, limits);
    versions
        .into_iter()
        .map(|(version, pods)| (version, assign(pods)))
        .collect()
}

fn explain_subsets(spread: &WorkloadSpread, versions: &Versions<'_>, limits: &[Option<i32>], plan: &mut Plan) {
    let pods = || versions.values().flatten().filter(|one| is_active(one.pod));
    let in_none: PodNames = pods()
        .filter(|one| one.subset.is_none())
        .map(|one| one.pod.name())
        .collect();
    if !in_none.is_empty() {
        plan.because(why::Spreads::InNoSubset { pods: in_none });
    }
    for (index, (subset, most)) in spread.spec.subsets.iter().zip(limits).enumerate() {
        for assigned in versions.values() {
            let of_subset = assigned
                .iter()
                .filter(|one| one.subset == Some(index) && is_active(one.pod));
            let active = i32::try_from(of_subset.count()).unwrap_or(i32::MAX);
            if let Some(most) = most.filter(|most| active > *most) {
                let subset = subset.name.clone();
                plan.because(why::Spreads::TooMany { subset, active, most });
            }
        }
    }
}

/// Tells Pods their subset that were there before, and what they cost to take away.
fn mark(
    observed: &Observed,
    workload: &Workload,
    versions: &Versions<'_>,
    limits: &[Option<i32>],
    plan: &mut Plan,
) -> Step {
    let spread = &*observed.spread;
    let kind = spread.spec.target_ref.as_ref().map(|target| target.kind.as_str());
    let has_costs = kind.is_some_and(cost::counts_for);
    let mut step = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Skip);
    if has_costs && workload.newest.is_none() && !versions.is_empty() {
        plan.because(why::Spreads::NoRevision);
        plan.wake(LOOK_AGAIN);
    }
    for (version, assigned) in versions {
        let costs = match &workload.newest {
            Some(newest) if has_costs => cost::changed(assigned, limits, newest == version),
            _ => Vec::new(),
        };
        let costs: BTreeMap<&str, i64> = costs.iter().map(|(one, cost)| (one.pod.name(), *cost)).collect();
        for one in assigned {
            let cost = costs.get(one.pod.name());
            let subset = one.subset.and_then(|index| spread.spec.subsets.get(index));
            let mut metadata = match subset {
                Some(subset) if one.is_new && is_active(one.pod) => assign::metadata(spread, subset),
                _ => json!({}),
            };
            if let Some(cost) = cost {
                let cost = Value::from(cost.to_string());
                assign::set(&mut metadata, "annotations", annotation::POD_DELETION_COST, cost);
            }
            if metadata.as_object().is_some_and(|parts| !parts.is_empty()) {
                step.push(Chain::of(patch(one.pod, &metadata)));
            }
        }
    }
    step
}

fn patch(pod: &Pod, metadata: &Value) -> Write {
    let body = json!({"metadata": metadata});
    let action = Action::patch(Target::of(pod), None, body, Preconditions::same(pod));
    let message = format!("Deletion cost and subset of Pod {} could not be written", pod.name());
    Write::from(action).or_else(Event::warning(event::PATCH_POD_DELETION_COST_FAILED, message))
}

/// Counts the Pods of all versions, and of each. Returns the status, and the Pods that are to be made again in another subset.
fn recount<'a>(
    spread: &WorkloadSpread,
    limits: &[Option<i32>],
    versions: &Versions<'a>,
    env: &Env,
    plan: &mut Plan,
) -> (WorkloadSpreadStatus, Vec<&'a Pod>) {
    let none = WorkloadSpreadStatus::default();
    let old = spread.status.as_ref().unwrap_or(&none);
    let all: Vec<Assigned<'_>> = versions.values().flatten().copied().collect();
    let before = old.subset_statuses.as_slice();
    let together = status::count(spread, limits, before, before, &all, env.now);
    for status in together.list.iter().filter(|status| schedulable::refuses(status)) {
        let of_subset = together.failed.iter().filter(|(_, subset)| *subset == status.name);
        plan.because(why::Spreads::SubsetUnschedulable {
            subset: status.name.clone(),
            waiting: of_subset.map(|(pod, _)| pod.name()).collect(),
        });
    }
    let mut new = WorkloadSpreadStatus {
        observed_generation: spread.metadata.generation.unwrap_or_default(),
        ..WorkloadSpreadStatus::default()
    };
    let names: BTreeSet<&String> = versions.keys().chain(old.versioned_subset_statuses.keys()).collect();
    let mut failed = Vec::new();
    let nobody = Vec::new();
    for version in names {
        let stored = old.versioned_subset_statuses.get(version);
        let stored = stored.map(Vec::as_slice).unwrap_or_default();
        let pods = versions.get(version).unwrap_or(&nobody);
        let counted = status::count(spread, limits, stored, before, pods, env.now);
        failed.extend(refused_in_store(&counted, stored, before));
        let is_kept = !pods.is_empty() || !counted.is_settled();
        plan.events.extend(
            counted
                .events
                .into_iter()
                .filter(|event| event.reason != event::RECOVER_SCHEDULABLE),
        );
        counted.look_again.into_iter().for_each(|after| plan.wake(after));
        if is_kept {
            new.versioned_subset_statuses.insert(version.clone(), counted.list);
        }
    }
    let recovered = together
        .events
        .into_iter()
        .filter(|event| event.reason == event::RECOVER_SCHEDULABLE);
    plan.events.extend(recovered);
    together.look_again.into_iter().for_each(|after| plan.wake(after));
    new.subset_statuses = together.list;
    (new, failed)
}

/// Pods that wait for too long in subsets of which the stored status says that they take no Pods: those that are made in their place will go elsewhere.
fn refused_in_store<'a>(counted: &Counted<'a>, stored: &[SubsetStatus], all: &[SubsetStatus]) -> Vec<&'a Pod> {
    let is_written = |subset: &str| schedulable::is_refused(stored, subset) && schedulable::is_refused(all, subset);
    let failed = counted.failed.iter().filter(|(_, subset)| is_written(subset));
    failed.map(|(pod, _)| *pod).collect()
}

/// Deletes Pods that find no node in their subset, for their workload to make others.
fn move_away(spread: &WorkloadSpread, failed: &[&Pod]) -> Step {
    let mut step = Step::new(Phase::Scale, Pace::Bounded, OnFailure::Skip);
    for pod in failed {
        // One that got a node meanwhile stays.
        let action = Action::delete(Target::of(*pod), Preconditions::unchanged(*pod));
        let spread = spread.metadata.name.as_deref().unwrap_or_default();
        let message = format!("Pod {} could not be moved to another subset of {spread}", pod.name());
        step.push(Chain::of(
            Write::from(action).or_else(Event::warning(event::DELETE_POD_FAILED, message)),
        ));
    }
    step
}
