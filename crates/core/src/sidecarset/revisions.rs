//! The revisions of a SidecarSet: what new Pods got at some time, and can get again.
//!
//! - They are in the manager's namespace and go with their set. Their data are the five fields that are injected, byte for byte as the original writes them;
//!   the name comes from the hash of these bytes.
//! - What was there before gets its old revision back, with the highest number. Equal is what has equal bytes, or says the same.
//! - The custom version of the set is a label of its newest revision.
//! - Beyond the history limit, at least 1, the oldest go; never the newest, one that a managed Pod is at, or one that injection names.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::kind::Kind as _;
use kruise_api::meta::Uid;
use kruise_api::names::label;
use kruise_api::resource::Preconditions;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::v1beta1::{SidecarSet, SidecarSetSpec};
use serde_json::{Value, json};

use super::hash::values;
use super::observed::Observed;
use super::select::{find_revision, named_revision};
use crate::plan::{Action, Chain, OnFailure, Pace, Phase, Plan, Step, Target};
use crate::shared::go_json;
use crate::shared::owner::Owner;
use crate::shared::revision::{self, DIRECTIVE, belonging, types};

const DEFAULT_HISTORY_LIMIT: i32 = 10;

/// The revisions of a set.
pub(super) struct Revisions<'a> {
    /// The set's own, the oldest first.
    known: Vec<&'a ControllerRevision>,
    /// Name of the one that the spec asks for.
    pub(super) latest: String,
    /// Times a name was already taken.
    pub(super) collisions: i32,
    write: Option<(Action, OnFailure)>,
    label: Option<Action>,
}

/// Returns the data of a revision with this spec.
pub fn data(spec: &SidecarSetSpec) -> String {
    let containers = |containers| {
        list(
            values(containers)
                .iter()
                .map(|one| types::normal("SidecarContainer", one)),
        )
    };
    let volumes = spec.volumes.value();
    let volumes = volumes.as_array().into_iter().flatten();
    let secrets = serde_json::to_value(&spec.image_pull_secrets).unwrap_or_default();
    let secrets = secrets.as_array().into_iter().flatten();
    let patches = serde_json::to_value(&spec.patch_pod_metadata).unwrap_or_default();
    let patches = patches.as_array().into_iter().flatten();
    go_json::to_string(&json!({"spec": {
        (DIRECTIVE): "replace",
        "containers": containers(&spec.containers),
        "imagePullSecrets": list(secrets.map(|one| types::normal("LocalObjectReference", one))),
        "initContainers": containers(&spec.init_containers),
        "patchPodMetadata": list(patches.cloned()),
        "volumes": list(volumes.map(|one| types::normal("Volume", one))),
    }}))
}

/// An empty list is none.
fn list(items: impl Iterator<Item = Value>) -> Value {
    let items: Vec<Value> = items.collect();
    if items.is_empty() {
        Value::Null
    } else {
        Value::Array(items)
    }
}

/// Whether a revision has this data: byte for byte, or in what it says.
fn has_data(revision: &ControllerRevision, data: &str) -> bool {
    let stored = revision.data.json();
    stored == data || serde_json::from_str::<SpecOnly>(stored).is_ok_and(|stored| self::data(&stored.spec) == data)
}

#[derive(serde::Deserialize)]
struct SpecOnly {
    spec: SidecarSetSpec,
}

impl<'a> Revisions<'a> {
    /// Finds the revisions of a set, or makes what is missing.
    pub(super) fn of(observed: &'a Observed) -> Self {
        let set = &*observed.set;
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let uid = Uid::from(set.metadata.uid.as_deref().unwrap_or_default());
        let of_set = LabelSelector {
            match_labels: Some([(label::SIDECAR_SET_NAME.to_owned(), name.to_owned())].into()),
            ..LabelSelector::default()
        };
        let all = || observed.revisions.iter().map(|revision| &**revision);
        let known = belonging(all(), &of_set, &uid);
        let data = data(&set.spec);
        let status = set.status.as_ref();
        let mut collisions = status.and_then(|status| status.collision_count).unwrap_or_default();
        let next = known.last().map_or(0, |newest| newest.revision).saturating_add(1);
        let mut write = None;
        let found = known.iter().rev().copied().find(|revision| has_data(revision, &data));
        let latest = if let Some(found) = found {
            if known.last().is_none_or(|newest| newest.name() != found.name()) {
                let preconditions = Preconditions::unchanged(found);
                let action = Action::merge(Target::of(found), None, json!({ "revision": next }), preconditions);
                write = Some((action, OnFailure::Skip));
            }
            found.name().to_owned()
        } else {
            let mut named = revision::name(name, &revision::hash(&data, collisions));
            let mut is_there = false;
            // Each of them takes one name at most.
            for _ in all() {
                let Some(namesake) = all().find(|revision| revision.name() == named) else {
                    break;
                };
                if has_data(namesake, &data) {
                    is_there = true;
                    break;
                }
                collisions = collisions.saturating_add(1);
                named = revision::name(name, &revision::hash(&data, collisions));
            }
            if !is_there {
                let object = object(set, &observed.system, &named, &data, next);
                let target = Target::new(ControllerRevision::RESOURCE, &observed.system, &named);
                write = Some((Action::create(target, object), OnFailure::Stop));
            }
            named
        };
        Self {
            label: found.and_then(|found| custom_version(set, found)),
            known,
            latest,
            collisions,
            write,
        }
    }

    /// Adds the write of the revision to a plan.
    pub(super) fn store(&self, plan: &mut Plan) {
        let mut writes: Vec<(Action, OnFailure)> = self.write.iter().cloned().collect();
        // One write to a revision at a time: the second would be refused, because the first changed it.
        if writes.is_empty() {
            writes.extend(self.label.clone().map(|label| (label, OnFailure::Skip)));
        }
        for (action, on_failure) in writes {
            let mut step = Step::new(Phase::Revisions, Pace::InOrder, on_failure);
            step.push(Chain::of(action.into()));
            plan.push(step);
        }
    }

    /// Removes what is beyond the history limit. `in_use` are the revisions that managed Pods are at.
    pub(super) fn truncate<'s>(&'s self, set: &SidecarSet, mut in_use: BTreeSet<&'s str>, plan: &mut Plan) {
        let limit = set.spec.revision_history_limit.unwrap_or(DEFAULT_HISTORY_LIMIT).max(1);
        let limit = usize::try_from(limit).unwrap_or_default();
        let stays = self.known.len() + usize::from(matches!(self.write, Some((Action::Create { .. }, _))));
        let excess = stays.saturating_sub(limit);
        if excess == 0 {
            return;
        }
        in_use.insert(&self.latest);
        in_use.extend(self.known.last().map(|newest| newest.name()));
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let named = named_revision(set).and_then(|named| find_revision(name, named, &self.known));
        in_use.extend(named.map(|named| named.name()));
        let mut step = Step::new(Phase::Housekeeping, Pace::Bounded, OnFailure::GoOn);
        let idle = self.known.iter().filter(|revision| !in_use.contains(revision.name()));
        for revision in idle.take(excess) {
            let preconditions = Preconditions::same(*revision);
            step.push(Chain::of(Action::delete(Target::of(*revision), preconditions).into()));
        }
        plan.push(step);
    }
}

/// The label that a revision lacks.
fn custom_version(set: &SidecarSet, found: &ControllerRevision) -> Option<Action> {
    let version = &set.spec.custom_version;
    let has = found.metadata.label(label::SIDECAR_SET_CUSTOM_VERSION);
    if version.is_empty() || has == Some(version) {
        return None;
    }
    let patch = json!({"metadata": {"labels": {(label::SIDECAR_SET_CUSTOM_VERSION): version}}});
    let preconditions = Preconditions::unchanged(found);
    Some(Action::merge(Target::of(found), None, patch, preconditions))
}

fn object(set: &SidecarSet, namespace: &str, name: &str, data: &str, number: i64) -> Value {
    let mut labels = set.metadata.labels.clone().unwrap_or_default();
    labels.insert(label::REVISION_DATA_HASH.to_owned(), revision::short(name).to_owned());
    let of = set.metadata.name.clone().unwrap_or_default();
    labels.insert(label::SIDECAR_SET_NAME.to_owned(), of);
    let version = &set.spec.custom_version;
    if !version.is_empty() {
        labels.insert(label::SIDECAR_SET_CUSTOM_VERSION.to_owned(), version.clone());
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": set.metadata.annotations.clone().unwrap_or_default(),
            "ownerReferences": [Owner::of::<SidecarSet>(&set.metadata).reference()],
        },
        "data": serde_json::from_str::<Value>(data).unwrap_or_default(),
        "revision": number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Revisions of the original: the name of each, and its data.
    const RECORDED: &str = include_str!("../../fixtures/sidecarset/revisions.jsonl");

    #[test]
    fn data_and_names_are_those_of_the_original() {
        let mut seen = 0;
        for line in RECORDED.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let recorded = line["data"].as_str().unwrap();
            let stored: SpecOnly = serde_json::from_str(recorded).unwrap();
            let data = data(&stored.spec);
            assert_eq!(data, recorded);
            let (set, hash) = line["name"].as_str().unwrap().rsplit_once('-').unwrap();
            assert_eq!(revision::hash(&data, 0), hash, "{set}");
            seen += 1;
        }
        assert_eq!(seen, 12);
    }

    #[test]
    fn the_smallest_set_has_the_name_that_users_know() {
        let spec = json!({"containers": [{"name": "log", "image": "busybox:1.36", "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent", "podInjectPolicy": "BeforeAppContainer",
            "upgradeStrategy": {"upgradeType": "ColdUpgrade"}, "shareVolumePolicy": {"type": "disabled"}}]});
        let spec: SidecarSetSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(
            revision::name("log", &revision::hash(&data(&spec), 0)),
            "log-78d6bc76b8"
        );
    }
}
