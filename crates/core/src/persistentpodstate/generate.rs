//! PersistentPodStates that workloads ask for by annotations.
//!
//! - `kruise.io/auto-generate-persistent-pod-state: "true"` and at least one list of topology keys: it is made with the workload's name, belongs to the workload, and
//!   is kept as the annotations say.
//! - Anything else than `"true"`: one that belongs to the workload is deleted. One that somebody made by hand is left alone.
//! - One of the name that is about another workload is in the way, and is left alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::kind::Kind as _;
use kruise_api::merge_patch;
use kruise_api::meta::Meta;
use kruise_api::names::annotation;
use kruise_api::persistentpodstate::PersistentPodAnnotation;
use kruise_api::persistentpodstate::v1beta1::{
    NodeTopologyTerm, PersistentPodState, PersistentPodStateSpec, PreferredTopologyTerm,
};
use kruise_api::resource::Preconditions;
use kruise_api::shared::target::TargetReference;
use serde_json::json;

use super::{Observed, Workload, workload_of};
use crate::plan::why;
use crate::plan::{Action, Chain, OnFailure, Pace, Phase, Plan, Step, Target};

/// The weight of preferred keys.
const WEIGHT: i32 = 100;

/// What a workload says about a PersistentPodState.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// It wants one.
    pub is_wanted: bool,
    /// Keys of node labels that have to be the same.
    pub required: Vec<String>,
    /// Keys of node labels that should be the same.
    pub preferred: Vec<String>,
    /// Annotations to remember.
    pub annotations: Vec<String>,
}

impl Wish {
    /// Reads the annotations of a workload.
    pub fn of(workload: &Meta) -> Self {
        let listed = |key: &str| {
            let keys = workload.annotation(key).unwrap_or_default().split(',').map(str::trim);
            keys.filter(|key| !key.is_empty()).map(str::to_owned).collect()
        };
        Self {
            is_wanted: workload.annotation(annotation::AUTO_PERSISTENT_POD_STATE) == Some("true"),
            required: listed(annotation::REQUIRED_TOPOLOGY),
            preferred: listed(annotation::PREFERRED_TOPOLOGY),
            annotations: listed(annotation::PERSISTENT_POD_ANNOTATIONS),
        }
    }

    fn has_keys(&self) -> bool {
        !self.required.is_empty() || !self.preferred.is_empty()
    }

    fn spec(&self, target_ref: TargetReference) -> PersistentPodStateSpec {
        let term = |keys: &[String]| NodeTopologyTerm { keys: keys.to_vec() };
        let preferred = (!self.preferred.is_empty()).then(|| PreferredTopologyTerm {
            weight: WEIGHT,
            preference: term(&self.preferred),
        });
        PersistentPodStateSpec {
            target_ref,
            persistent_pod_annotations: self
                .annotations
                .iter()
                .map(|key| PersistentPodAnnotation { key: key.clone() })
                .collect(),
            required_persistent_topology: (!self.required.is_empty()).then(|| term(&self.required)),
            preferred_persistent_topology: preferred.into_iter().collect(),
            ..PersistentPodStateSpec::default()
        }
    }
}

/// Whether anything was written, so that the rest has to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generated {
    Nothing,
    Written,
}

/// Makes, changes or deletes what a workload asks for.
pub(super) fn follow(observed: &Observed, plan: &mut Plan) -> Generated {
    let living = || observed.namesakes.iter().filter(|workload| !workload.is_deleting);
    let asking = living().find(|workload| workload.wish.is_wanted && workload.wish.has_keys());
    let action = match (observed.state.as_deref(), asking) {
        (None, Some(workload)) => create(observed, workload),
        (Some(state), _) if state.metadata.deletion_timestamp.is_some() => return Generated::Nothing,
        (Some(state), Some(workload)) if workload_of(&state.spec.target_ref).is_same(&workload.reference) => {
            let wanted = workload.wish.spec(state.spec.target_ref.clone());
            let Ok(Some(changes)) = merge_patch::changes(&state.spec, &wanted) else {
                return Generated::Nothing;
            };
            Action::merge(
                Target::of(state),
                None,
                json!({"spec": changes}),
                Preconditions::unchanged(state),
            )
        }
        (Some(_), Some(_)) => {
            plan.because(why::Topology::NameTaken);
            return Generated::Nothing;
        }
        (Some(state), None) if living().any(|workload| !workload.wish.is_wanted && owns(workload, &state.metadata)) => {
            Action::delete(Target::of(state), Preconditions::same(state))
        }
        _ => return Generated::Nothing,
    };
    let mut step = Step::new(Phase::Scale, Pace::InOrder, OnFailure::Stop);
    step.push(Chain::of(action.into()));
    plan.push(step);
    plan.why.extend(observed.last.first(Phase::Scale).map(|failure| {
        why::Why::General(why::General::Failed {
            phase: Phase::Scale,
            object: failure.object.to_string(),
            message: failure.message.clone(),
        })
    }));
    if observed.last.has_failed(Phase::Scale) {
        // What is refused time and again does not keep the rest from being done.
        return Generated::Nothing;
    }
    Generated::Written
}

fn owns(workload: &Workload, state: &ObjectMeta) -> bool {
    let owners = state.owner_references.iter().flatten();
    owners
        .into_iter()
        .any(|owner| owner.controller == Some(true) && owner.uid == workload.uid)
}

fn create(observed: &Observed, workload: &Workload) -> Action {
    let reference = &workload.reference;
    let spec = workload.wish.spec(TargetReference {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
    });
    let owner = json!({
        "apiVersion": reference.api_version, "kind": reference.kind, "name": reference.name, "uid": workload.uid, "controller": true,
    });
    let body = json!({
        "apiVersion": PersistentPodState::API_VERSION, "kind": PersistentPodState::KIND,
        "metadata": {"name": observed.name, "namespace": observed.namespace, "ownerReferences": [owner]},
        "spec": spec,
    });
    Action::create(
        Target::new(PersistentPodState::RESOURCE, &observed.namespace, &observed.name),
        body,
    )
}
