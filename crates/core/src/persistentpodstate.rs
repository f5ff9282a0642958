//! PersistentPodState: brings the Pods of a StatefulSet, or of a workload like it, back to the topology that they ran in before.
//!
//! 1. A workload may ask for one by annotations: it is made with the workload's name, follows the annotations, and goes when they do ([`generate`]).
//! 2. Of each Pod that is ready it is remembered on which node it is, that node's labels for the keys that are wanted, and annotations of the Pod that others want
//!    to read ([`record`]). Pods that are not ready keep their record: that is what a new Pod of the same name goes by.
//! 3. Records of Pods that were scaled away are forgotten, unless the retention policy keeps them. When the workload is gone, all are.
//! 4. A new Pod gets what is remembered of its name on its way into the cluster ([`inject`]): keys that are required as node selector, preferred ones as
//!    preferred node affinity.
//!
//! Workloads are StatefulSets of both groups, and the kinds of the white list in the ConfigMap `kruise-configuration` ([`kinds`]).

mod admit;
pub mod convert;
pub mod generate;
pub mod inject;
pub mod kinds;
pub mod record;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kruise_api::node::Node;
use kruise_api::persistentpodstate::PersistentPodStateStatus;
use kruise_api::persistentpodstate::v1beta1::PersistentPodState;
use kruise_api::pod::Pod;
use kruise_api::shared::target::TargetReference;

use crate::plan::why;
use crate::plan::{Env, Outcome, Plan};
use crate::shared::ordinals::Ordinals;
use crate::shared::status;
use crate::shared::workload::WorkloadRef;
pub use admit::Submitted;
use generate::{Generated, Wish};
use record::Recorded;

/// When Pods are looked at again whose nodes, or annotations, are not known yet.
const AGAIN: Duration = Duration::from_secs(10);

/// A PersistentPodState, which need not be there yet, and what it depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What there is.
    pub state: Option<Arc<PersistentPodState>>,
    /// Workloads of the same name, our StatefulSets first: they may ask for one.
    pub namesakes: Vec<Workload>,
    /// The workload that it is about; nothing when there is none, or why it is not known.
    pub target: Result<Option<Workload>, String>,
    /// The Pods of that workload.
    pub pods: Vec<Arc<Pod>>,
    /// Their nodes, by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// Annotations of Pods, by the Pod's name, as far as they were read.
    pub annotations: BTreeMap<String, BTreeMap<String, String>>,
    /// What came of the last plan.
    pub last: Outcome,
}

/// A workload whose Pods have ordinals.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Which.
    pub reference: WorkloadRef,
    /// UID.
    pub uid: String,
    /// It is on its way out.
    pub is_deleting: bool,
    /// The ordinals that it wants; not known of every kind.
    pub ordinals: Option<Ordinals>,
    /// What it says about a PersistentPodState.
    pub wish: Wish,
}

/// A target as a reference to a workload.
pub fn workload_of(target: &TargetReference) -> WorkloadRef {
    WorkloadRef::new(&target.api_version, &target.kind, &target.name)
}

/// A workload of a namespace as one text, the same for all versions of its group. It is what PersistentPodStates are found by.
pub fn target_key(namespace: &str, workload: &WorkloadRef) -> String {
    format!("{namespace}/{}/{}/{}", workload.group(), workload.kind, workload.name)
}

impl crate::plan::Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// What to do for a PersistentPodState now.
pub fn plan(observed: &Observed, _: &Env) -> Plan {
    let mut plan = Plan::default();
    if generate::follow(observed, &mut plan) == Generated::Written {
        return plan;
    }
    let Some(state) = observed.state.as_deref() else {
        return plan;
    };
    if state.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return plan;
    }
    let old = state.status.as_ref();
    let pod_states = match &observed.target {
        Err(message) => {
            let message = message.clone();
            plan.because(why::Topology::TargetUnknown { message });
            return plan;
        }
        Ok(Some(workload)) if !workload.is_deleting => {
            let Recorded {
                pod_states,
                not_ready,
                unknown,
            } = record::record(observed, state, workload);
            if !not_ready.is_empty() {
                plan.because(why::Topology::NotReady { pods: not_ready });
            }
            if !unknown.is_empty() {
                plan.because(why::Topology::NodesUnknown { pods: unknown });
                plan.wake(AGAIN);
            }
            pod_states
        }
        Ok(_) => {
            plan.because(why::Topology::TargetMissing);
            BTreeMap::new()
        }
    };
    let new = PersistentPodStateStatus {
        observed_generation: state.metadata.generation.unwrap_or_default(),
        pod_states,
    };
    plan.status = status::patch(state, old, &new);
    plan
}
