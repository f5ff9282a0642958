//! Pods on virtual nodes: conditions that others write become labels and annotations.
//!
//! A probe counts that has a condition and policies, once the Pod has the condition: true is `Succeeded`, false is `Failed`. Labels and annotations of that
//! outcome are set; those of the other one stay.

use kruise_api::pod::Pod;
use kruise_api::pod::status::Holds;
use kruise_api::podprobemarker::PodContainerProbe;
use kruise_api::podprobemarker::v1alpha1::PodProbeMarker;
use kruise_api::resource::Preconditions;
use kruise_api::shared::probing::ProbeState;
use serde_json::json;

use super::Observed;
use crate::plan::{Action, Chain, OnFailure, Pace, Phase, Step, Target};
use crate::shared::probe_marks::Marks;

/// Marks Pods by their conditions.
pub(super) fn step(observed: &Observed, pods: &[&Pod]) -> Step {
    let mut step = Step::new(Phase::Update, Pace::Bounded, OnFailure::GoOn);
    for pod in pods {
        let mut marks = Marks::default();
        for probe in marking(&observed.marker) {
            let Some(condition) = pod.status.condition(&probe.pod_condition_type) else {
                continue;
            };
            let state = match condition.status {
                Holds::True => ProbeState::Succeeded,
                Holds::False => ProbeState::Failed,
                Holds::Unknown => ProbeState::Unknown,
            };
            for policy in probe.marker_policy.iter().filter(|policy| policy.state == state) {
                marks.set(policy);
            }
        }
        marks.only_changes(pod, &observed.written);
        if let Some(metadata) = marks.metadata() {
            let patch = json!({ "metadata": metadata });
            let action = Action::patch(Target::of(*pod), None, patch, Preconditions::same(*pod));
            step.push(Chain::of(action.into()));
        }
    }
    step
}

/// Whether a condition that marks by this marker has changed.
pub(super) fn has_changed(marker: &PodProbeMarker, old: &Pod, new: &Pod) -> bool {
    let status = |pod: &Pod, type_: &str| pod.status.condition(type_).map(|condition| condition.status);
    marking(marker).any(|probe| {
        let type_ = &probe.pod_condition_type;
        status(old, type_) != status(new, type_)
    })
}

/// Probes that have a condition and policies.
fn marking(marker: &PodProbeMarker) -> impl Iterator<Item = &PodContainerProbe> {
    let probes = marker.spec.probes.iter();
    probes.filter(|probe| !probe.pod_condition_type.is_empty() && !probe.marker_policy.is_empty())
}
