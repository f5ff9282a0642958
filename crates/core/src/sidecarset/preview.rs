//! What SidecarSets would do to a Pod, and why the others would do nothing: for people who want to know beforehand.
//!
//! - The sets are judged as admission judges them, in the order in which they are injected.
//! - A Pod that was injected already is taken back to what its owner wrote, as far as that is known: containers that a set put in go, and so does what the Pod says about
//!   them. Volumes, secrets and variables stay; they change nothing.
//! - Where chance decides which revision a Pod gets, that is said, and the Pod shown is the one with the spec of the set.

use super::inject::container::is_injected;
use super::inject::{self, InjectError, Injection, Rules, name_of};
use super::select::{self, NotApplied};
use crate::shared::tree::Object;
use jiff::Timestamp;
use kruise_api::meta::Object as _;
use kruise_api::names::{annotation, label};
use kruise_api::namespace::Namespace;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// What is known of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Name of the Pod's namespace, and the namespace itself where it is there.
    pub namespace: (&'a str, Option<&'a Namespace>),
    /// Namespace of the manager.
    pub system: &'a str,
    /// All sets.
    pub sets: &'a [SidecarSet],
    /// The ControllerRevisions of the manager's namespace.
    pub revisions: &'a [ControllerRevision],
    /// Gate `EnableSortSidecarContainerByName`.
    pub sort_containers: bool,
    /// Now.
    pub now: Timestamp,
}

/// What would come of a Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// What each set brings, in the order of injection.
    pub applied: Vec<Brought>,
    /// Why the others do not, by name.
    pub passed_over: Vec<(String, NotApplied)>,
    /// Why nobody is asked about Pods of this namespace at all.
    pub not_asked: Option<&'static str>,
    /// The Pod as it would be, or why it would be refused.
    pub outcome: Result<Value, InjectError>,
}

/// What one set brings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    pub set: String,
    pub source: Source,
    pub init_containers: Vec<String>,
    pub containers: Vec<String>,
    /// Containers of the Pod that are replaced, as they have the name of a sidecar.
    pub replaced: Vec<String>,
    /// Containers that it does not bring, as a set before it has one of the same name.
    pub left_out: Vec<String>,
    pub volumes: Vec<String>,
    pub pull_secrets: Vec<String>,
    /// Keys of annotations, without those about the injection itself.
    pub annotations: Vec<String>,
}

/// Which spec of a set is injected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// As it is now.
    #[default]
    Current,
    /// As it was in this revision.
    Revision(String),
    /// The one or the other, by chance.
    Either(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current => f.write_str("as it is now"),
            Self::Revision(name) => write!(f, "as it was in revision {name}"),
            Self::Either(name) => write!(f, "as it is now, or by chance as it was in revision {name}"),
        }
    }
}

/// Tells what would come of a Pod if it were created now.
pub fn preview(pod: &Value, known: Known<'_>) -> Preview {
    let mut pod = pod.clone();
    take_back(&mut pod);
    let (mut sets, passed_over) = choose(&pod, known);
    let not_asked = not_asked(known);
    if not_asked.is_some() {
        sets.clear();
    }
    let mut applied = Vec::new();
    let mut injections = Vec::new();
    let mut outcome = Ok(());
    for set in sets {
        match injection(set, &pod, known) {
            Ok((injection, source)) => {
                applied.push((set.name().to_owned(), source));
                injections.push(injection);
            }
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    let rules = Rules {
        now: known.now,
        sort_containers: known.sort_containers,
    };
    let mut made = pod.clone();
    let outcome = outcome.and_then(|()| inject::inject(&mut made, &injections, rules));
    let brought = (applied.into_iter().zip(&injections).zip(inject::brought(&injections)))
        .map(|(((set, source), injection), brings)| {
            let all = brought(&pod, set, source, injection, rules);
            without(all, inject::left_out(injection, &brings))
        })
        .collect();
    Preview {
        applied: brought,
        passed_over,
        not_asked,
        outcome: outcome.map(|()| made),
    }
}

/// The API server does not ask us about some namespaces.
fn not_asked(known: Known<'_>) -> Option<&'static str> {
    let (name, namespace) = known.namespace;
    let is_ours = namespace
        .and_then(|namespace| namespace.metadata.label(label::CONTROL_PLANE))
        .is_some_and(|value| value == label::CONTROL_PLANE_NAMESPACE);
    if name == "kube-system" {
        Some("nothing is injected in kube-system")
    } else if name == known.system || is_ours {
        Some("nothing is injected in the namespace of the manager")
    } else {
        None
    }
}

type Chosen<'a> = (Vec<&'a SidecarSet>, Vec<(String, NotApplied)>);

fn choose<'a>(pod: &Value, known: Known<'a>) -> Chosen<'a> {
    let pod_label = |key: &str| text(pod, "labels", key);
    let (name, namespace) = known.namespace;
    let mut applying = Vec::new();
    let mut passed_over = Vec::new();
    for set in known.sets {
        let label = |key: &str| namespace.and_then(|known| known.metadata.label(key));
        let label: Option<select::LabelOf<'_, '_>> = namespace.is_some().then_some(&label);
        match select::check(set, name, pod_label, label) {
            Ok(()) => applying.push(set),
            Err(reason) => passed_over.push((set.name().to_owned(), reason)),
        }
    }
    let replaced = select::settle(&mut applying);
    passed_over.extend(
        replaced
            .into_iter()
            .map(|(set, reason)| (set.name().to_owned(), reason)),
    );
    passed_over.sort_by(|one, other| one.0.cmp(&other.0));
    (applying, passed_over)
}

fn injection<'a>(set: &'a SidecarSet, pod: &Value, known: Known<'a>) -> Result<(Injection<'a>, Source), InjectError> {
    let Some(named) = select::named_revision(set) else {
        return Ok((Injection::current(set), Source::Current));
    };
    let found = select::find_revision(set.name(), named, known.revisions);
    let revision = found.ok_or_else(|| InjectError::NoRevision {
        set: set.name().to_owned(),
        revision: named.to_string(),
    })?;
    // The chance is a share: if both ends of it say the same, everybody gets the same.
    let gets = |chance| select::gets_named_revision(set, |key| text(pod, "labels", key), chance);
    match (gets(0), gets(select::CHANCES - 1)) {
        (true, true) => {
            let name = revision.name().to_owned();
            Ok((Injection::restored(set, revision)?, Source::Revision(name)))
        }
        (false, false) => Ok((Injection::current(set), Source::Current)),
        _ => {
            let name = revision.name().to_owned();
            Ok((Injection::current(set), Source::Either(name)))
        }
    }
}

/// What a set brings by itself; others may bring the same.
fn brought(pod: &Value, set: String, source: Source, injection: &Injection<'_>, rules: Rules) -> Brought {
    let mut alone = pod.clone();
    if inject::inject(&mut alone, std::slice::from_ref(injection), rules).is_err() {
        return Brought {
            set,
            source,
            ..Brought::default()
        };
    }
    let names = |pod: &Value, list: &str, is_ours: fn(&Value) -> bool| -> Vec<String> {
        let items = pod.get("spec").and_then(|spec| spec.get(list)?.as_array());
        let items = items.into_iter().flatten().filter(|item| is_ours(item));
        items.map(|item| name_of(item).to_owned()).collect()
    };
    let new = |list: &str| {
        let before: BTreeSet<String> = names(pod, list, |_| true).into_iter().collect();
        let mut after = names(&alone, list, |_| true);
        after.retain(|name| !before.contains(name));
        after
    };
    let own: BTreeSet<String> = ["initContainers", "containers"]
        .into_iter()
        .flat_map(|list| names(pod, list, |_| true))
        .collect();
    let (init_containers, containers) = (
        names(&alone, "initContainers", is_injected),
        names(&alone, "containers", is_injected),
    );
    let both = init_containers.iter().chain(&containers);
    let annotations = alone
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations")?.as_object());
    let annotations = annotations.into_iter().flatten();
    let changed = annotations.filter(|(key, value)| !is_record(key) && text(pod, "annotations", key) != value.as_str());
    Brought {
        replaced: both.filter(|name| own.contains(*name)).cloned().collect(),
        left_out: Vec::new(),
        volumes: new("volumes"),
        pull_secrets: new("imagePullSecrets"),
        annotations: changed.map(|(key, _)| key.clone()).collect(),
        set,
        source,
        init_containers,
        containers,
    }
}

/// What a set would bring by itself, without what others bring before it.
fn without(mut brought: Brought, left_out: Vec<String>) -> Brought {
    for names in [
        &mut brought.init_containers,
        &mut brought.containers,
        &mut brought.replaced,
    ] {
        names.retain(|name| !left_out.contains(name));
    }
    Brought { left_out, ..brought }
}

/// Takes out what sets put into a Pod, and what makes it one that runs.
fn take_back(pod: &mut Value) {
    let Some(fields) = pod.as_object_mut() else { return };
    fields.remove("status");
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        for list in ["containers", "initContainers"] {
            if let Some(list) = spec.get_mut(list).and_then(Value::as_array_mut) {
                list.retain(|container| !is_injected(container));
            }
        }
    }
    let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else { return };
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "managedFields",
        "resourceVersion",
        "uid",
    ] {
        metadata.remove(field);
    }
    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.retain(|key, _| !is_record(key));
    }
    if metadata
        .get("annotations")
        .and_then(Value::as_object)
        .is_some_and(Object::is_empty)
    {
        metadata.remove("annotations");
    }
}

/// Whether an annotation is about the injection itself.
fn is_record(key: &str) -> bool {
    let ours = [
        annotation::SIDECAR_SET_HASH,
        annotation::SIDECAR_SET_HASH_WITHOUT_IMAGE,
        annotation::SIDECAR_SET_INJECTED,
        annotation::SIDECAR_SET_IN_PLACE_STATE,
        annotation::SIDECAR_SET_WORKING_CONTAINER,
    ];
    let prefixes = [
        annotation::SIDECAR_VERSION_PREFIX,
        annotation::SIDECAR_VERSION_ALT_PREFIX,
    ];
    ours.contains(&key) || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

fn text<'a>(pod: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    pod.get("metadata")?.get(map)?.get(key)?.as_str()
}

#[cfg(test)]
mod tests;
