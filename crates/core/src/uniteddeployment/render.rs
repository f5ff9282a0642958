//! What the workload of a subset has to be.
//!
//! 1. The template, with the labels of the selector, of the subset and of the revision, also on its Pods. Its selector chooses the Pods of this subset only.
//! 2. Its replicas and its partition. A Deployment, and a StatefulSet whose Pods are replaced by hand, have no partition.
//! 3. Nodes and tolerations of the subset, added to those of the template.
//! 4. Last, the patch of the subset: it wins over everything.
//!
//! A workload that was made from another revision or patch is brought to this as a whole; what its API server and webhooks filled in is filled in again. One of
//! the same revision and patch gets only what is missing in it ([`change`]): scaling writes the number of Pods and nothing else.

use kruise_api::merge_patch;
use kruise_api::names::{annotation, label};
use kruise_api::resource::Preconditions;
use kruise_api::uniteddeployment::UnitedDeploymentSpec;
use kruise_api::uniteddeployment::topology::Subset;
use serde_json::{Map, Value, json};

use super::child::Existing;
use super::template::{Template, WorkloadKind};
use crate::plan::Action;
use crate::shared::tree::{Object, child_or_new};
use crate::shared::{quantity, strategic_merge};

/// What a subset is to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) spec: &'a UnitedDeploymentSpec,
    pub(super) template: &'a Template,
    pub(super) subset: &'a Subset,
    /// Name of the revision.
    pub(super) revision: &'a str,
    pub(super) replicas: i32,
    pub(super) partition: i32,
    /// How many Pods may be unavailable, when it is not for the template to say.
    pub(super) max_unavailable: Option<i32>,
}

/// A workload as it is to be.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    pub(super) labels: Object,
    pub(super) annotations: Object,
    pub(super) spec: Value,
}

/// The patch of a subset, as workloads keep it; empty when there is none.
pub(super) fn patch_text(subset: &Subset) -> &str {
    if subset.patch.is_empty() {
        ""
    } else {
        subset.patch.json()
    }
}

/// Says what the workload of a subset has to be.
pub(super) fn render(wanted: &Wanted<'_>) -> Rendered {
    let marks = [
        (label::SUBSET_NAME, &*wanted.subset.name),
        (label::SUBSET_REVISION, wanted.revision),
    ];
    let mut labels = wanted.template.pairs("labels");
    let chosen = wanted.spec.selector.match_labels.iter().flatten();
    labels.extend(chosen.map(|(key, value)| (key.clone(), json!(value))));
    labels.extend(marks.map(|(key, value)| (key.to_owned(), json!(value))));
    let mut annotations = wanted.template.pairs("annotations");
    annotations.insert(annotation::SUBSET_PATCH.to_owned(), json!(patch_text(wanted.subset)));
    let mut spec = wanted.template.spec.clone();
    spec.insert("selector".to_owned(), selector(wanted));
    spec.insert("replicas".to_owned(), json!(wanted.replicas));
    strategy(&mut spec, wanted);
    let mut pod = spec.remove("template").unwrap_or_default();
    pod_template(&mut pod, wanted, &marks);
    spec.insert("template".to_owned(), pod);
    Rendered {
        labels,
        annotations,
        spec: Value::Object(spec),
    }
}

fn selector(wanted: &Wanted<'_>) -> Value {
    let mut selector = serde_json::to_value(&wanted.spec.selector).unwrap_or_default();
    if let Some(labels) = selector
        .as_object_mut()
        .and_then(|selector| child_or_new(selector, "matchLabels"))
    {
        labels.insert(label::SUBSET_NAME.to_owned(), json!(wanted.subset.name));
    }
    selector
}

fn strategy(spec: &mut Object, wanted: &Wanted<'_>) {
    let kind = wanted.template.kind;
    if !kind.has_partition() && wanted.max_unavailable.is_none() {
        return;
    }
    let Some(strategy) = child_or_new(spec, kind.strategy_field()) else {
        return;
    };
    let type_ = strategy.get("type").and_then(Value::as_str).unwrap_or_default();
    let rolls = matches!(type_, "" | "RollingUpdate");
    if !rolls && kind != WorkloadKind::CloneSet {
        return;
    }
    if kind == WorkloadKind::StatefulSet {
        strategy.insert("type".to_owned(), json!("RollingUpdate"));
    }
    let Some(rules) = child_or_new(strategy, "rollingUpdate") else {
        return;
    };
    if kind.has_partition() {
        rules.insert("partition".to_owned(), json!(wanted.partition));
    }
    if let Some(count) = wanted.max_unavailable {
        rules.insert("maxUnavailable".to_owned(), json!(count));
    }
}

fn pod_template(pod: &mut Value, wanted: &Wanted<'_>, marks: &[(&str, &str)]) {
    if !pod.is_object() {
        *pod = Value::Object(Map::new());
    }
    if let Some(labels) = pod
        .as_object_mut()
        .and_then(|pod| child_or_new(pod, "metadata"))
        .and_then(|metadata| child_or_new(metadata, "labels"))
    {
        labels.extend(marks.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
    }
    if let Some(spec) = pod.as_object_mut().and_then(|pod| child_or_new(pod, "spec")) {
        nodes(spec, wanted.subset);
        tolerations(spec, wanted.subset);
    }
    strategic_merge::merge(pod, &wanted.subset.patch.value());
}

/// Of the term only `matchExpressions` count. They are asked of each alternative.
fn nodes(spec: &mut Object, subset: &Subset) {
    let term = subset.node_selector_term.as_ref();
    let asked = term.and_then(|term| term.match_expressions.as_ref());
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else {
        return;
    };
    let asked: Vec<Value> = asked
        .iter()
        .filter_map(|requirement| serde_json::to_value(requirement).ok())
        .collect();
    let required = child_or_new(spec, "affinity")
        .and_then(|affinity| child_or_new(affinity, "nodeAffinity"))
        .and_then(|nodes| child_or_new(nodes, "requiredDuringSchedulingIgnoredDuringExecution"));
    let Some(required) = required else { return };
    let terms = required.entry("nodeSelectorTerms").or_insert(Value::Null);
    if terms.as_array().is_none_or(Vec::is_empty) {
        *terms = json!([{}]);
    }
    for term in terms.as_array_mut().into_iter().flatten() {
        let expressions = term
            .as_object_mut()
            .map(|term| term.entry("matchExpressions").or_insert(json!([])));
        if let Some(Value::Array(expressions)) = expressions {
            expressions.extend(asked.iter().cloned());
        }
    }
}

fn tolerations(spec: &mut Object, subset: &Subset) {
    if subset.tolerations.is_empty() {
        return;
    }
    let list = spec.entry("tolerations").or_insert(json!([]));
    if let Value::Array(list) = list {
        let more = subset.tolerations.iter();
        list.extend(more.filter_map(|toleration| serde_json::to_value(toleration).ok()));
    }
}

/// The write that brings a workload to what it has to be; none when there is nothing to change. `is_whole`: also what it has beyond that is taken away.
pub(super) fn change(existing: &Existing<'_>, rendered: &Rendered, is_whole: bool) -> Option<Action> {
    let meta = existing.child.meta();
    let differs = |known: Option<&str>, wanted: &Value| known != wanted.as_str();
    let labels = rendered
        .labels
        .iter()
        .filter(|(key, value)| differs(meta.label(key), value));
    let labels: Object = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    let annotations = rendered.annotations.iter();
    let annotations = annotations.filter(|(key, value)| differs(meta.annotation(key), value));
    let annotations: Object = annotations.map(|(key, value)| (key.clone(), value.clone())).collect();
    let spec = if is_whole {
        whole_change(&existing.spec, &rendered.spec)
    } else {
        missing(&existing.spec, &rendered.spec, false)
    };
    let mut patch = Map::new();
    let mut metadata = Map::new();
    for (name, pairs) in [("labels", labels), ("annotations", annotations)] {
        if !pairs.is_empty() {
            metadata.insert(name.to_owned(), Value::Object(pairs));
        }
    }
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    patch.extend(spec.map(|spec| ("spec".to_owned(), spec)));
    if patch.is_empty() {
        return None;
    }
    let preconditions = Preconditions::unchanged(&*existing.child.object);
    Some(Action::merge(
        existing.child.target(),
        None,
        Value::Object(patch),
        preconditions,
    ))
}

/// Claims of a StatefulSet cannot be changed, and are left alone as long as nothing in them is missing.
const CLAIMS: &str = "volumeClaimTemplates";

fn whole_change(have: &Value, want: &Value) -> Option<Value> {
    let mut want = want.clone();
    if let (Some(Value::Array(known)), Some(fields)) = (have.get(CLAIMS), want.as_object_mut()) {
        let known = Value::Array(known.clone());
        let is_same = fields
            .get(CLAIMS)
            .is_some_and(|claims| missing(&known, claims, false).is_none());
        if is_same {
            fields.insert(CLAIMS.to_owned(), known);
        }
    }
    merge_patch::diff(have, &want)
}

/// What of `want` is not in `have`, as a merge patch. Lists are the same when each item has what is wanted of it.
fn missing(have: &Value, want: &Value, is_amount: bool) -> Option<Value> {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => {
            let lacks = want.iter().filter_map(|(key, value)| {
                let is_amount = is_amount || AMOUNTS.contains(&key.as_str());
                match have.get(key) {
                    Some(known) => Some((key.clone(), missing(known, value, is_amount)?)),
                    // What says nothing is filled in by nobody.
                    None if is_nothing(value) => None,
                    None => Some((key.clone(), value.clone())),
                }
            });
            let lacks: Object = lacks.collect();
            (!lacks.is_empty()).then_some(Value::Object(lacks))
        }
        (Value::Array(have), Value::Array(wanted)) => {
            let is_same = have.len() == wanted.len()
                && have
                    .iter()
                    .zip(wanted)
                    .all(|(have, want)| missing(have, want, is_amount).is_none());
            (!is_same).then(|| want.clone())
        }
        (have, want) if have == want => None,
        (have, want) if is_amount && is_same_amount(have, want) => None,
        _ => Some(want.clone()),
    }
}

/// Maps of amounts, and amounts: these come back in their canonical form.
const AMOUNTS: [&str; 7] = [
    "limits",
    "requests",
    "capacity",
    "overhead",
    "sizeLimit",
    "divisor",
    "storage",
];

fn is_same_amount(one: &Value, other: &Value) -> bool {
    let texts = quantity::text_of_value(one).zip(quantity::text_of_value(other));
    texts.is_some_and(|(one, other)| quantity::is_same(&one, &other))
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
