//! What probes found is written to their Pods.
//!
//! - A condition is true when the probe succeeded, and false when it failed or nothing is known. It is written when that or its message has changed. Of two
//!   probes with the same condition the first one counts.
//! - Labels and annotations follow the marker policies, see [`crate::shared::probe_marks`].
//! - Both go into one write of the Pod's status, so that nobody sees one without the other.
//! - What is said of a Pod that is gone, by a probe that no marker has any more, or of a marker that is being deleted, is passed over. What an earlier result
//!   left on a Pod stays there.

use std::collections::BTreeMap;

use kruise_api::names::pattern;
use kruise_api::nodepodprobe::CachedNodePodProbe;
use kruise_api::nodepodprobe::{ContainerProbeState, PodProbeStatus};
use kruise_api::pod::Pod;
use kruise_api::pod::status::Holds;
use kruise_api::podprobemarker::PodContainerProbe;
use kruise_api::resource::{Preconditions, Subresource};
use kruise_api::shared::probing::ProbeState;
use serde_json::{Map, Value, json};

use super::{Observed, statuses};
use crate::plan::{Action, Chain, OnFailure, Pace, Phase, Step, Target};
use crate::shared::availability::is_active;
use crate::shared::probe_marks::Marks;

pub(super) fn step(observed: &Observed, list: &CachedNodePodProbe) -> Step {
    let mut step = Step::new(Phase::Update, Pace::Bounded, OnFailure::GoOn);
    for status in statuses(list) {
        let Some(pod) = observed.pods.get(&(status.namespace.clone(), status.name.clone())) else {
            continue;
        };
        if !is_active(pod) || pod.metadata.uid.to_string() != status.uid {
            continue;
        }
        if let Some(patch) = patch(observed, pod, status) {
            let part = Some(Subresource::Status);
            let action = Action::patch(Target::of(&**pod), part, patch, Preconditions::same(&**pod));
            step.push(Chain::of(action.into()));
        }
    }
    step
}

/// What a Pod lacks of what was found; nothing when it has all of it.
fn patch(observed: &Observed, pod: &Pod, status: &PodProbeStatus) -> Option<Value> {
    let mut marks = Marks::default();
    let mut conditions: BTreeMap<&str, &ContainerProbeState> = BTreeMap::new();
    for state in status.probe_states.iter().filter(|state| !state.state.is_unset()) {
        let Some(probe) = probe(observed, &status.namespace, &state.name) else {
            continue;
        };
        if !probe.pod_condition_type.is_empty() {
            conditions.entry(&probe.pod_condition_type).or_insert(state);
        }
        marks.follow(&probe.marker_policy, &state.state);
    }
    let changed = conditions.into_iter().filter(|(type_, state)| {
        let known = pod.status.condition(type_);
        known.is_none_or(|known| known.status != holds(state) || *known.message != *state.message)
    });
    let changed: Vec<Value> = changed.map(|(type_, state)| condition(type_, state)).collect();
    marks.only_changes(pod, &observed.written);
    let mut patch = Map::new();
    if let Some(metadata) = marks.metadata() {
        patch.insert("metadata".to_owned(), metadata);
    }
    if !changed.is_empty() {
        patch.insert("status".to_owned(), json!({ "conditions": changed }));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The probe of this name, as its marker has it.
fn probe<'a>(observed: &'a Observed, namespace: &str, name: &str) -> Option<&'a PodContainerProbe> {
    let (marker, probe) = pattern::parse_node_probe(name)?;
    let marker = observed.markers.get(&(namespace.to_owned(), marker.to_owned()))?;
    let is_deleting = marker.metadata.deletion_timestamp.is_some();
    let mut probes = marker.spec.probes.iter();
    probes.find(|known| known.name == probe && !is_deleting)
}

fn holds(state: &ContainerProbeState) -> Holds {
    if state.state == ProbeState::Succeeded {
        Holds::True
    } else {
        Holds::False
    }
}

/// A patch of a condition. What is not said is removed: an earlier message must not stay.
fn condition(type_: &str, state: &ContainerProbeState) -> Value {
    let message = (!state.message.is_empty()).then_some(&state.message);
    json!({
        "type": type_,
        "status": if holds(state) == Holds::True { "True" } else { "False" },
        "lastProbeTime": state.last_probe_time,
        "lastTransitionTime": state.last_transition_time,
        "reason": null,
        "message": message,
    })
}
