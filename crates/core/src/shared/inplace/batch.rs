//! Which containers of a Pod are changed next, and how.

use std::collections::{BTreeMap, BTreeSet};

use kruise_api::names::env::CONTAINER_BARRIER;
use kruise_api::names::pattern::barrier_priority;
use kruise_api::pod::{Container, Pod};

use super::change_set::ChangeSet;
use super::record::{Batch, LastStatus, PreCheck, State};
use crate::shared::pod_change::{PodChange, ResourceChange};
use crate::shared::quantity;
use crate::shared::seconds::to_the_second;

/// The launch priority of a container, when it has one. A key that cannot be read is priority 0.
pub(crate) fn priority(container: &Container) -> Option<i64> {
    // Of several the last counts: kubelet takes that, and it is the one that admission put there.
    let mut variables = container.env.iter().rev();
    let barrier = variables.find(|variable| variable.name == CONTAINER_BARRIER)?;
    Some(barrier_priority(&barrier.config_map_key).unwrap_or_default())
}

/// Applies the next batch of a change to a Pod: the change of the Pod, with the record of the update in it. What is left is in the record.
pub(super) fn apply(pod: &Pod, change: &ChangeSet, mut state: State, now: jiff::Timestamp) -> PodChange {
    let now = to_the_second(now);
    let chosen = choose(pod, change);
    let mut write = PodChange {
        metadata: change.metadata.clone(),
        ..PodChange::default()
    };
    let mut left = State::default();
    for container in &pod.spec.template.containers {
        let name = &*container.name;
        let (image, resources, referenced) = (
            change.images.get(name),
            change.resources.get(name),
            change.referenced.get(name),
        );
        if !chosen.contains(name) {
            keep(&mut left.next_container_images, name, image);
            keep(&mut left.next_container_resources, name, resources);
            keep(&mut left.next_container_ref_metadata, name, referenced);
            continue;
        }
        if let Some(image) = image {
            write.images.insert(name.to_owned(), image.clone());
            if let Some(status) = pod.status.container_statuses.iter().find(|status| status.name == name) {
                let image_id = status.image_id.to_string();
                let last = state.last_container_statuses.get_or_insert_default();
                last.insert(name.to_owned(), LastStatus { image_id });
            }
        }
        if let Some(resources) = resources.map(|wanted| differing(container, wanted))
            && !resources.is_empty()
        {
            write.resources.insert(name.to_owned(), resources);
        }
        for (key, value) in referenced.iter().flat_map(|referenced| &referenced.labels) {
            write.set_label(key, value);
        }
        for (key, value) in referenced.iter().flat_map(|referenced| &referenced.annotations) {
            write.set_annotation(key, value);
        }
    }
    let containers: Vec<String> = chosen.into_iter().map(str::to_owned).collect();
    state.next_container_images = left.next_container_images.take();
    state.next_container_resources = left.next_container_resources.take();
    state.next_container_ref_metadata = left.next_container_ref_metadata.take();
    state.pre_check_before_next = state.has_next().then(|| PreCheck {
        containers_required_ready: containers.clone(),
    });
    let batch = Batch {
        timestamp: Some(now),
        containers,
    };
    state.container_batches_record.get_or_insert_default().push(batch);
    state.write_to(pod, &mut write);
    write
}

fn keep<V: Clone>(map: &mut Option<BTreeMap<String, V>>, name: &str, value: Option<&V>) {
    if let Some(value) = value {
        map.get_or_insert_default().insert(name.to_owned(), value.clone());
    }
}

/// Names of the containers to change now, sorted.
fn choose<'a>(pod: &'a Pod, change: &ChangeSet) -> BTreeSet<&'a str> {
    let changes = |name: &str| {
        change.images.contains_key(name) || change.referenced.contains_key(name) || change.resources.contains_key(name)
    };
    let changing = pod
        .spec
        .template
        .containers
        .iter()
        .filter(|container| changes(&container.name));
    let changing: Vec<(&str, Option<i64>)> = changing
        .map(|container| (&*container.name, priority(container)))
        .collect();
    let highest = changing.iter().filter_map(|(_, priority)| *priority).max();
    let now = changing
        .iter()
        .filter(|(_, priority)| priority.is_none() || *priority == highest);
    let mut chosen: BTreeSet<&str> = now.map(|(name, _)| *name).collect();

    // Whoever reads a value that changes now has to change now too, and so on.
    loop {
        let shares = |name: &str| {
            let own = change.referenced.get(name);
            let of_chosen = chosen.iter().filter_map(|other| change.referenced.get(*other));
            own.is_some_and(|own| of_chosen.into_iter().any(|other| own.shares_a_key_with(other)))
        };
        let joining: Vec<&str> = changing
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| !chosen.contains(name) && shares(name))
            .collect();
        if joining.is_empty() {
            return chosen;
        }
        chosen.extend(joining);
    }
}

/// The amounts that are not yet as wanted.
fn differing(container: &Container, wanted: &ResourceChange) -> ResourceChange {
    let rest = |wanted: &BTreeMap<String, String>, now: &kruise_api::meta::Labels| {
        let differs = |name: &str, amount: &str| now.get(name).is_none_or(|now| !quantity::is_same(now, amount));
        let rest = wanted.iter().filter(|(name, amount)| differs(name, amount));
        rest.map(|(name, amount)| (name.clone(), amount.clone())).collect()
    };
    ResourceChange {
        limits: rest(&wanted.limits, &container.resources.limits),
        requests: rest(&wanted.requests, &container.resources.requests),
    }
}
