//! Whether the containers of a Pod run what they should.
//!
//! A changed container is done when the daemon reports the hash of its new spec (as a newer or an older kubelet makes it), or when its image ID has
//! changed, or when kubelet reports the new image's name (a new tag of the same image has the same ID). Any of them is enough: which of them comes
//! first depends on the node.
//! Environment from metadata is known to the daemon only, resources to kubelet only; there the word of these two is required.
//!
//! Whether containers are ready does not matter here: the gate opens, and kubelet decides.

use kruise_api::gates::{Gate, Gates};
use kruise_api::pod::{Pod, Resources};
use kruise_api::text::Text;

use super::record::{State, grace_text, state_of};
use crate::shared::container_hash::{Consistency, RuntimeContainers};
use crate::shared::quantity;

/// What an update in place waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// The daemon's report cannot be read.
    UnreadableReport,
    /// The daemon has not reported the environment that the metadata asks for.
    Environment,
    /// Kubelet has not reported the resources that the spec asks for.
    Resources,
    /// This container does not run its new image.
    Image(Text),
    /// Nothing is known about this container.
    Status(String),
}

/// What the containers of a Pod wait for; nothing when all that was changed so far is done.
pub fn pending(pod: &Pod, state: &State, gates: Gates) -> Option<Pending> {
    let Ok(report) = RuntimeContainers::of(pod) else {
        return Some(Pending::UnreadableReport);
    };
    let consistent = |by| report.as_ref().is_some_and(|report| report.is_consistent(pod, by));
    if state.update_env_from_metadata && !consistent(Consistency::Environment) {
        return Some(Pending::Environment);
    }
    if state.update_resources && gates.enabled(Gate::InPlaceWorkloadVerticalScaling) && !resources_are_applied(pod) {
        return Some(Pending::Resources);
    }
    if consistent(Consistency::Plain) {
        return None;
    }
    images_pending(pod, state)
}

fn images_pending(pod: &Pod, state: &State) -> Option<Pending> {
    for (name, last) in state.last_container_statuses.iter().flatten() {
        let status = pod
            .status
            .container_statuses
            .iter()
            .find(|status| status.name == name.as_str());
        let Some(status) = status else {
            return Some(Pending::Status(name.clone()));
        };
        let container = pod
            .spec
            .template
            .containers
            .iter()
            .find(|container| container.name == name.as_str());
        let is_wanted = container.is_some_and(|container| is_same_image(&container.image, &status.image));
        if status.image_id == last.image_id.as_str() && !is_wanted {
            return Some(Pending::Image(status.name.clone()));
        }
    }
    None
}

/// Whether both names lead to the same image. Kubelet names the tag and the registry also when the spec does not.
fn is_same_image(one: &str, other: &str) -> bool {
    fn parts(image: &str) -> (&str, &str) {
        let short = image.strip_prefix("docker.io/").unwrap_or(image);
        let short = short.strip_prefix("library/").unwrap_or(short);
        // A colon before a slash is that of a port.
        match short.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (short, "latest"),
        }
    }
    parts(one) == parts(other)
}

fn resources_are_applied(pod: &Pod) -> bool {
    let (containers, statuses) = (&pod.spec.template.containers, &pod.status.container_statuses);
    containers.len() == statuses.len()
        && statuses.iter().all(|status| {
            let container = containers.iter().find(|container| container.name == status.name);
            let applied = container.zip(status.resources.as_ref());
            applied.is_some_and(|(container, now)| are_same(&container.resources, now))
        })
}

fn are_same(one: &Resources, other: &Resources) -> bool {
    let same = |one: &kruise_api::meta::Labels, other: &kruise_api::meta::Labels| {
        one.iter().count() == other.iter().count()
            && one.iter().all(|(name, amount)| {
                let there = other.get(name);
                there.is_some_and(|there| quantity::is_same(amount, there))
            })
    };
    same(&one.limits, &other.limits) && same(&one.requests, &other.requests)
}

/// Whether no update in place is under way: none waits for the end of a grace period, no batch is left, all containers are done.
/// A record that cannot be read is not complete.
pub fn is_complete(pod: &Pod, gates: Gates) -> bool {
    if grace_text(pod).is_some() {
        return false;
    }
    match state_of(pod) {
        Ok(None) => true,
        Ok(Some(state)) => !state.has_next() && pending(pod, &state, gates).is_none(),
        Err(_) => false,
    }
}
