//! Which nodes a job pulls onto.
//!
//! - With `podSelector`: the nodes of its namespace's Pods that match, have a node and have not ended, in the order in which the Pods would be updated
//!   by the workload that owns the job.
//! - With `selector.names`: those of them that exist. With labels: those that match. Otherwise all.

use kruise_api::imagepulljob::ImagePullJobSpec;
use kruise_api::nodeimage::CachedNodeImage;
use kruise_api::pod::Pod;
use kruise_api::pod::status::PodPhase;

use crate::shared::image_pull::labels;
use crate::shared::selector;

/// Whether a job with this spec pulls onto this node; never for one that goes by Pods.
pub fn chooses(spec: &ImagePullJobSpec, node: &CachedNodeImage) -> bool {
    if spec.pod_selector.is_some() {
        return false;
    }
    let Some(choice) = &spec.selector else { return true };
    if !choice.names.is_empty() {
        return choice.names.iter().any(|name| **name == *node.metadata.name);
    }
    selector::matches(&labels(choice), |key| node.metadata.label(key))
}

/// Whether a job with this spec pulls onto the node of this Pod, once the Pod has one.
pub fn chooses_pod(spec: &ImagePullJobSpec, pod: &Pod) -> bool {
    spec.pod_selector
        .as_ref()
        .is_some_and(|chosen| selector::matches(chosen, |key| pod.metadata.label(key)))
}

/// Whether the Pod has a node and has not ended.
pub fn is_running(pod: &Pod) -> bool {
    let has_ended = matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed);
    !has_ended && !pod.metadata.is_deleting() && !pod.spec.node_name.is_empty()
}
