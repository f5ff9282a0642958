//! Which Pods a budget counts as available.
//!
//! - *Ready*: running, its `Ready` condition holds, it is not on its way out, and no label says that it is unavailable.
//! - *Consistent*: the containers run what the spec says. An image that is named by its digest has to be the one that runs. Otherwise no update in place is
//!   under way, neither of the workload nor of a SidecarSet.

use std::collections::BTreeMap;

use kruise_api::gates::Gates;
use kruise_api::names::{annotation, env, pattern};
use kruise_api::pod::Pod;
use kruise_api::pod::status::PodPhase;
use serde::Deserialize;

use crate::shared::availability::READY;
use crate::shared::image_name::Image;
use crate::shared::inplace;

/// Whether a Pod is ready and runs what its spec says.
pub fn is_available(pod: &Pod, gates: Gates) -> bool {
    is_ready(pod) && is_consistent(pod, gates)
}

/// Running, ready, staying, and not taken out of service by a label.
pub fn is_ready(pod: &Pod) -> bool {
    pod.status.phase == PodPhase::Running
        && pod.status.is_true(READY)
        && !pod.metadata.is_deleting()
        && !is_marked_unavailable(pod)
}

/// Whether a label takes a Pod out of service.
pub fn is_marked_unavailable(pod: &Pod) -> bool {
    pod.metadata
        .labels
        .iter()
        .any(|(key, _)| pattern::is_unavailable_label(key))
}

/// Whether the containers of a Pod run what its spec says.
pub fn is_consistent(pod: &Pod, gates: Gates) -> bool {
    let containers = &pod.spec.template.containers;
    let mut all_by_digest = true;
    for container in containers {
        let Some(wanted) = digest(&container.image) else {
            all_by_digest = false;
            continue;
        };
        let status = pod
            .status
            .container_statuses
            .iter()
            .find(|status| status.name == container.name);
        let runs = status.and_then(|status| {
            let id = status
                .image_id
                .split_once("://")
                .map_or(&*status.image_id, |(_, id)| id);
            digest(id)
        });
        if runs.as_ref() != Some(&wanted) {
            return false;
        }
    }
    if all_by_digest && !containers.is_empty() {
        return true;
    }
    sidecars_are_consistent(pod) && inplace::is_complete(pod, gates)
}

/// An image that is named by its digest.
fn digest(image: &str) -> Option<Image> {
    let image = image.contains('@').then(|| Image::parse(image).ok())??;
    image.tag.contains(':').then_some(image)
}

/// What an update in place of a SidecarSet changes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SidecarUpdate {
    #[serde(default)]
    last_container_statuses: Option<BTreeMap<String, LastStatus>>,
}

#[derive(Deserialize)]
struct LastStatus {
    #[serde(default, rename = "imageID")]
    image_id: String,
}

/// Whether the sidecars that SidecarSets updated in place run their new images. A record that cannot be read holds the Pod back.
fn sidecars_are_consistent(pod: &Pod) -> bool {
    let injected = |container: &&kruise_api::pod::Container| {
        container
            .env(env::IS_INJECTED)
            .is_some_and(|variable| &*variable.value == "true")
    };
    let mut sidecars = pod.spec.template.containers.iter().filter(injected).peekable();
    let listed = pod
        .metadata
        .annotation(annotation::SIDECAR_SET_INJECTED)
        .unwrap_or_default();
    let record = pod
        .metadata
        .annotation(annotation::SIDECAR_SET_IN_PLACE_STATE)
        .unwrap_or_default();
    if sidecars.peek().is_none() || listed.is_empty() || record.is_empty() {
        return true;
    }
    let Ok(sets) = serde_json::from_str::<BTreeMap<String, SidecarUpdate>>(record) else {
        return false;
    };
    sidecars.all(|sidecar| {
        let status = pod
            .status
            .container_statuses
            .iter()
            .find(|status| status.name == sidecar.name);
        let last = sets
            .values()
            .filter_map(|set| set.last_container_statuses.as_ref()?.get(&*sidecar.name));
        let mut last = last.peekable();
        last.peek().is_none() || status.is_some_and(|status| last.all(|last| *status.image_id != *last.image_id))
    })
}
