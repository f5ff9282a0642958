//! UnitedDeployment: one workload per subset of the cluster, with the Pods divided among them.
//!
//! 1. The template gets a revision, and so its name ([`revisions`]). Topology, replicas and patches make none.
//! 2. Each subset has one workload of the template's kind ([`claims`]). What is missing is made, what is too much is deleted with its Pods.
//! 3. With the strategy `Adaptive`, subsets in which Pods find no node take none for a while ([`schedule`]).
//! 4. The replicas are divided among the subsets ([`allocate`]). When that is not possible, people are told, and no workload is touched.
//! 5. A workload is written ([`render`], [`update`]) when it is of another revision or patch, has other replicas or another partition, or when Pods have still to be
//!    updated and it is not as it has to be. Otherwise it is left alone, whatever its API server filled in.
//! 6. A StatefulSet of Kubernetes is stuck when a broken Pod keeps it from going on to a repaired template; that Pod is deleted.
//! 7. The status tells the counts of all subsets together and of each ([`status`]).
//!
//! What subsets take Pods is written down before a workload is changed for it: should the process die in between, the next one goes on from the same picture.

mod admit;
pub mod allocate;
pub mod child;
mod claims;
pub mod convert;
pub mod default;
mod explain;
mod provision;
mod rehearsal;
mod render;
mod revisions;
mod schedule;
mod snapshot;
mod status;
mod template;
#[cfg(test)]
mod tests;
mod update;
pub mod validate;
#[cfg(test)]
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use kruise_api::names::event;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_api::uniteddeployment::UnitedDeploymentSpec;
use kruise_api::uniteddeployment::v1beta1::UnitedDeployment;

use crate::admission;
use crate::plan::why;
use crate::plan::{Chain, Env, Event, Observation, OnFailure, Outcome, Pace, Phase, Plan, PodNames, Step};
use crate::shared::explain::explain_last;
use crate::shared::owner::Owner;
use child::Child;
use snapshot::Snapshot;
pub use template::WorkloadKind;

/// A UnitedDeployment as a user submitted it; both versions have the same spec.
pub type Submitted = admission::Submitted<UnitedDeploymentSpec>;

/// A UnitedDeployment and what it depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The object.
    pub united: Arc<UnitedDeployment>,
    /// Workloads of the four kinds in its namespace: those that it controls, and those of a subset that nobody controls.
    pub children: Vec<Child>,
    /// The Pods of its workloads, by the UID of the workload.
    pub pods: BTreeMap<String, Vec<Arc<Pod>>>,
    /// Revisions that it controls, those that nobody controls and its selector chooses, and those named like its own.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// The API server says that the object is really there: it may adopt.
    pub is_confirmed: bool,
    /// What came of the last plan.
    pub last: Outcome,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// What to do for a UnitedDeployment now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let mut plan = Plan::default();
    if observed.united.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return plan;
    }
    let owner = Owner::of::<UnitedDeployment>(&observed.united.metadata);
    let mut snapshot = match Snapshot::of(observed, &owner, env) {
        Ok(snapshot) => snapshot,
        Err(message) => {
            plan.because(why::General::Invalid { message });
            return plan;
        }
    };
    explain_last(&observed.last, &mut plan);
    revisions::store(&snapshot, &mut plan);
    if !claim(&snapshot, &mut plan) {
        return plan;
    }
    provision::delete_duplicates(&snapshot, &mut plan);
    update::relabel(&snapshot, &mut plan);
    let divided = snapshot.divide();
    if let Some(first) = status::first(&snapshot) {
        let mut step = Step::new(Phase::Claims, Pace::InOrder, OnFailure::Stop);
        step.push(Chain::of(first.into()));
        plan.push(step);
        explain::explain(&snapshot, &mut plan);
        return plan;
    }
    match divided {
        Ok(()) => {
            provision::provision(&snapshot, &mut plan);
            update::update(&snapshot, &mut plan);
            update::delete_stuck(&snapshot, &mut plan);
        }
        Err(message) => {
            let reason = event::FAILED_SPECIFY_SUBSET_REPLICAS;
            plan.events.push(Event::warning(reason, message.clone()));
            plan.because(why::Subsets::Indivisible { message });
        }
    }
    revisions::truncate(&snapshot, &mut plan);
    explain::explain(&snapshot, &mut plan);
    plan.status = status::write(&snapshot);
    plan
}

/// Gives up and takes over workloads. False when nothing else can be done before that.
fn claim(snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
    let claims = &snapshot.claims;
    let mut step = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Stop);
    for child in &claims.released {
        step.push(claims::release(child, &snapshot.uid));
    }
    if snapshot.observed.is_confirmed {
        for child in &claims.adoptable {
            step.push(claims::adopt(child, snapshot.owner));
        }
    }
    plan.push(step);
    if claims.nameless.is_empty() {
        return claims.adoptable.is_empty();
    }
    let workloads: PodNames = claims.nameless.iter().map(|child| child.name()).collect();
    let message = format!("no label says the subset of {workloads}");
    for reason in [event::FAILED_FIND_SUBSETS, event::FAILED_FIND_SUBSETS_SPACED] {
        plan.events.push(Event::warning(reason, message.clone()));
    }
    plan.because(why::Subsets::SubsetUnknown { workloads });
    false
}
