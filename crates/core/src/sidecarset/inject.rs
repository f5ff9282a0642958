//! What SidecarSets put into a new Pod.
//!
//! 1. Annotations of each set, in the order of the sets ([`metadata`]).
//! 2. Init containers of all sets by name, then containers in the order of the sets; with gate `EnableSortSidecarContainerByName` these by name, too. How one is
//!    made is in [`container`], how its resources are reckoned in [`resources`].
//! 3. One that has the name of a container of the Pod takes its place. Of the others those go in front that say so, the rest to the end. Of two sidecars of
//!    one name the first counts ([`brought`]): two containers of a name would be refused.
//! 4. Volumes that the sidecars mount. A volume of the Pod wins over one of the same name, and what nobody mounts is left out.
//! 5. Pull secrets that the Pod does not have.
//! 6. What was injected by whom, in annotations ([`record`]).
//!
//! Everything is taken from the Pod as it came: one set never sees what another puts in. Doing it twice changes nothing but times, unless a
//! sidecar took the place of a container from which others had something.

pub mod container;
pub mod metadata;
pub mod record;
pub mod resources;

use super::hash::{Hashes, is_native_sidecar};
use crate::shared::tree::{Object, child_or_new};
use jiff::Timestamp;
use kruise_api::names::pattern;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::container::{PodInjectPolicy, SidecarContainer, UpgradeType};
use kruise_api::sidecarset::v1beta1::{SidecarSet, SidecarSetSpec};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Why nothing can be injected; the Pod is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InjectError {
    #[error("SidecarSet {set}: there is no {revision}")]
    NoRevision { set: String, revision: String },
    #[error("SidecarSet {set}: revision {revision} cannot be read: {reason}")]
    Revision {
        set: String,
        revision: String,
        reason: String,
    },
    #[error("SidecarSet {set}: annotation {key}: {reason}")]
    Metadata { set: String, key: String, reason: String },
    #[error("SidecarSet {set}: container {container}: {reason}")]
    Resources {
        set: String,
        container: String,
        reason: String,
    },
    #[error("annotation {key} of the Pod cannot be read: {reason}")]
    Annotation { key: &'static str, reason: String },
}

impl InjectError {
    /// The set that is the reason, where it is one.
    pub fn set(&self) -> Option<&str> {
        match self {
            Self::NoRevision { set, .. }
            | Self::Revision { set, .. }
            | Self::Metadata { set, .. }
            | Self::Resources { set, .. } => Some(set),
            Self::Annotation { .. } => None,
        }
    }
}

/// A set as it is injected: its spec, or that of a revision.
#[derive(Clone, Debug)]
pub struct Injection<'a> {
    pub name: &'a str,
    pub spec: Cow<'a, SidecarSetSpec>,
    pub hashes: Hashes,
    /// Name of the revision; empty when it is not known yet.
    pub revision: Cow<'a, str>,
}

impl<'a> Injection<'a> {
    /// The set as it is now.
    pub fn current(set: &'a SidecarSet) -> Self {
        let revision = set.status.as_ref().map_or("", |status| &status.latest_revision);
        Self {
            name: set.metadata.name.as_deref().unwrap_or_default(),
            hashes: Hashes::of_set(set),
            spec: Cow::Borrowed(&set.spec),
            revision: Cow::Borrowed(revision),
        }
    }

    /// The set as it was in a revision.
    ///
    /// # Errors
    /// When the data of the revision is not that of a SidecarSet.
    pub fn restored(set: &'a SidecarSet, revision: &ControllerRevision) -> Result<Self, InjectError> {
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let data: Value = revision.data.value();
        let recorded = data.get("spec").cloned().unwrap_or_default();
        let spec: SidecarSetSpec = kruise_api::read::from_value(&recorded).map_err(|error| InjectError::Revision {
            set: name.to_owned(),
            revision: revision.name().to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            name,
            hashes: Hashes::stored_or_made(&spec, |key| revision.metadata.annotation(key)),
            spec: Cow::Owned(spec),
            revision: Cow::Owned(revision.name().to_owned()),
        })
    }
}

/// Names of the containers that live as long as the Pod, as they are declared; sorted.
pub fn lasting(spec: &SidecarSetSpec) -> Vec<String> {
    lasting_of(&declared(spec))
}

fn lasting_of(containers: &[Declared<'_>]) -> Vec<String> {
    let lasting = containers.iter().filter(|each| each.lasts());
    let mut names: Vec<String> = lasting.map(|each| each.container.name().to_owned()).collect();
    names.sort();
    names
}

/// A container as a set declares it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared<'a> {
    container: &'a SidecarContainer,
    is_init: bool,
}

impl<'a> Declared<'a> {
    /// It runs as long as the Pod.
    fn lasts(self) -> bool {
        !self.is_init || is_native(self.container)
    }

    /// There are two of it in Pods, which take turns.
    fn is_twice(self) -> bool {
        is_hot(self.container) && self.lasts()
    }

    /// The names that it has in Pods.
    fn names(self) -> Vec<Cow<'a, str>> {
        let name = self.container.name();
        if self.is_twice() {
            pattern::hot_upgrade_containers(name).map(Cow::Owned).to_vec()
        } else {
            vec![Cow::Borrowed(name)]
        }
    }
}

fn declared(spec: &SidecarSetSpec) -> Vec<Declared<'_>> {
    let init = spec.init_containers.iter();
    let init = init.map(|container| Declared {
        container,
        is_init: true,
    });
    let others = spec.containers.iter().map(|container| Declared {
        container,
        is_init: false,
    });
    init.chain(others).collect()
}

/// The containers that each set brings: all that it declares, but for those whose name one has that comes before. Sets with the same names are not allowed beside each
/// other, but can come to meet when labels of Pods or namespaces change.
pub(super) fn brought<'a>(sets: &'a [Injection<'_>]) -> Vec<Vec<Declared<'a>>> {
    let mut taken: BTreeSet<Cow<'_, str>> = BTreeSet::new();
    let mut is_new = |each: &Declared<'a>| {
        let names = each.names();
        let is_new = names.iter().all(|name| !taken.contains(name));
        if is_new {
            taken.extend(names);
        }
        is_new
    };
    let of_sets = sets.iter().map(|set| declared(&set.spec));
    of_sets
        .map(|mut declared| {
            declared.retain(&mut is_new);
            declared
        })
        .collect()
}

/// Whether an init container runs beside the others until the Pod ends.
pub fn is_native(init_container: &SidecarContainer) -> bool {
    let policy = init_container.container.get("restartPolicy");
    policy.and_then(Value::as_str) == Some("Always")
}

/// Whether two containers take turns for this one.
pub fn is_hot(declared: &SidecarContainer) -> bool {
    declared.policy.upgrade_strategy.upgrade_type == UpgradeType::HotUpgrade
}

/// The names that containers would have which a set declares and does not bring.
pub(super) fn left_out(set: &Injection<'_>, brought: &[Declared<'_>]) -> Vec<String> {
    let is_brought =
        |each: &Declared<'_>| (brought.iter()).any(|brought| std::ptr::eq(brought.container, each.container));
    let left_out = declared(&set.spec).into_iter().filter(|each| !is_brought(each));
    left_out.flat_map(Declared::names).map(Cow::into_owned).collect()
}

/// How Pods are injected.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub now: Timestamp,
    /// Gate `EnableSortSidecarContainerByName`.
    pub sort_containers: bool,
}

/// Puts all that these sets bring into a Pod. The sets are in the order of [`super::select::settle`].
///
/// # Errors
/// When the Pod has to be refused. It may then be half changed.
pub fn inject(pod: &mut Value, sets: &[Injection<'_>], rules: Rules) -> Result<(), InjectError> {
    for set in sets {
        metadata::patch(pod, set.name, &set.spec.patch_pod_metadata)?;
    }
    let brought = brought(sets);
    let made = Made::of(pod, sets, &brought, rules)?;
    if made.init_containers.is_empty() && made.containers.is_empty() {
        return Ok(());
    }
    record::write(pod, sets, &brought, rules.now)?;
    let Some(spec) = pod.as_object_mut().and_then(|pod| child_or_new(pod, "spec")) else {
        return Ok(());
    };
    merge(spec, "initContainers", made.init_containers);
    merge(spec, "containers", made.containers);
    append_named(spec, "volumes", made.volumes, false);
    let secrets = sets.iter().flat_map(|set| &set.spec.image_pull_secrets);
    let secrets = secrets.map(|secret| json!({"name": secret.name})).collect();
    append_named(spec, "imagePullSecrets", secrets, true);
    Ok(())
}

/// A container that was made, and where it goes.
struct Sidecar {
    goes_in_front: bool,
    container: Object,
}

#[derive(Default)]
struct Made {
    init_containers: Vec<Sidecar>,
    containers: Vec<Sidecar>,
    volumes: Vec<Value>,
}

impl Made {
    fn of(
        pod: &Value,
        sets: &[Injection<'_>],
        brought: &[Vec<Declared<'_>>],
        rules: Rules,
    ) -> Result<Self, InjectError> {
        let sources = container::Sources::of(pod, sets);
        let mut made = Self::default();
        for (set, brought) in sets.iter().zip(brought) {
            let mut mounted = BTreeSet::new();
            for declared in brought {
                mounted.extend(container::own_volumes(&declared.container.container));
                let goes_in_front = declared.container.policy.pod_inject_policy == PodInjectPolicy::BeforeAppContainer;
                let list = if declared.is_init {
                    &mut made.init_containers
                } else {
                    &mut made.containers
                };
                let containers = container::make(set.name, *declared, &sources)?;
                list.extend(containers.into_iter().map(|container| Sidecar {
                    goes_in_front,
                    container,
                }));
            }
            if !mounted.is_empty() && !set.spec.volumes.is_empty() {
                let Value::Array(volumes) = set.spec.volumes.value() else {
                    continue;
                };
                made.volumes
                    .extend(volumes.into_iter().filter(|volume| mounted.contains(name_of(volume))));
            }
        }
        made.init_containers.sort_by(by_name);
        if rules.sort_containers {
            made.containers.sort_by(by_name);
        }
        Ok(made)
    }
}

fn by_name(one: &Sidecar, other: &Sidecar) -> std::cmp::Ordering {
    container_name(&one.container).cmp(container_name(&other.container))
}

fn container_name(container: &Object) -> &str {
    container.get("name").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn name_of(value: &Value) -> &str {
    value.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The list in a field, made when there is none. Nothing when something else stands there.
fn list<'a>(spec: &'a mut Object, field: &str) -> Option<&'a mut Vec<Value>> {
    let value = spec.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut()
}

fn merge(spec: &mut Object, field: &str, sidecars: Vec<Sidecar>) {
    if sidecars.is_empty() {
        return;
    }
    let Some(list) = list(spec, field) else { return };
    let positions: BTreeMap<String, usize> = list
        .iter()
        .enumerate()
        .map(|(position, container)| (name_of(container).to_owned(), position))
        .collect();
    let (mut front, mut back) = (Vec::new(), Vec::new());
    for Sidecar {
        goes_in_front,
        container,
    } in sidecars
    {
        let place = positions.get(container_name(&container)).copied();
        let container = Value::Object(container);
        if let Some(place) = place.and_then(|place| list.get_mut(place)) {
            *place = container;
        } else if goes_in_front {
            front.push(container);
        } else {
            back.push(container);
        }
    }
    list.splice(0..0, front);
    list.append(&mut back);
}

/// Appends items whose names are not in the list. `once` also takes out what the list itself has twice.
fn append_named(spec: &mut Object, field: &str, items: Vec<Value>, once: bool) {
    if items.is_empty() {
        return;
    }
    let Some(list) = list(spec, field) else { return };
    let mut seen = BTreeSet::new();
    if once {
        list.retain(|item| seen.insert(name_of(item).to_owned()));
    } else {
        seen.extend(list.iter().map(|item| name_of(item).to_owned()));
    }
    list.extend(items.into_iter().filter(|item| seen.insert(name_of(item).to_owned())));
}

#[cfg(test)]
mod tests;
