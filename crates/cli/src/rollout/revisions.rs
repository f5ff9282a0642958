//! The history of a workload: what its Pods looked like, and how to bring that back.
//!
//! - A Deployment has it in its ReplicaSets, every other workload in ControllerRevisions that its selector chooses and that it controls.
//! - `history` lists numbers with their cause, the oldest first. `--revision N` tells one template and what changed since the revision before; values of environment
//!   variables and the like are not in that comparison.
//! - Going back replaces the whole template: what the old one does not have is gone. The highest revision but one is meant when none is named.

use crate::{
    change::{Decision, set},
    kinds::{DEPLOYMENT, Kind, REPLICA_SET, REVISION},
    server::{Object, Server, read_as},
    template,
    text::visible,
};
use anyhow::{Result, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::{
    cloneset, daemonset,
    names::{annotation, label},
    revision::ControllerRevision,
    statefulset, uniteddeployment,
};
use kruise_core::{
    shared::{revision, selector},
    view::{self, Change, RevisionView},
};
use serde_json::{Map, Value, json};

/// Why somebody made a change; kubectl writes it.
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// Annotations of a Deployment that are not the ReplicaSet's to say.
const KEPT_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    annotation::DEPLOYMENT_REVISION,
    "deployment.kubernetes.io/revision-history",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deprecated.deployment.rollback.to",
];
/// Part of the names of annotations with which somebody else steers a Deployment.
const STEERED_BY_OTHERS: &str = "rollouts.";

/// One state of a workload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revision {
    pub(crate) number: i64,
    name: String,
    cause: String,
    created: Value,
    annotations: Value,
    /// The template, without what only says which revision it is.
    pub(crate) template: Value,
}

/// Whether objects of a kind have a history.
fn has_history(kind: Kind) -> bool {
    match kind.ours {
        Some(_) => {
            kind.is(&cloneset::KIND)
                || kind.is(&statefulset::KIND)
                || kind.is(&daemonset::KIND)
                || kind.is(&uniteddeployment::KIND)
        }
        None => true,
    }
}

/// Reads the history of a workload, the oldest first.
pub(crate) async fn read(server: &Server, object: &Object) -> Result<Vec<Revision>> {
    if !has_history(object.kind) {
        bail!("no history viewer has been implemented for {:?}", object.kind.full());
    }
    let labels: LabelSelector = read_as(&object.value["spec"]["selector"]).unwrap_or_default();
    let labels = selector::text(&labels);
    let labels = (!labels.is_empty()).then_some(labels.as_str());
    let kind = if object.kind == DEPLOYMENT {
        REPLICA_SET
    } else {
        REVISION
    };
    let all = server.list(kind, None, Some(object.namespace()), labels).await?;
    let all = all.unwrap_or_default();
    Ok(of_owner(&all, object.uid()))
}

/// The revisions that an object controls, the oldest first.
fn of_owner(all: &[Object], uid: &str) -> Vec<Revision> {
    let is_owned = |object: &&Object| {
        let owners = object
            .value
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        let mut owners = owners.into_iter().flatten();
        owners.any(|owner| owner["uid"] == uid && owner["controller"] == true)
    };
    let mut revisions: Vec<Revision> = all.iter().filter(is_owned).filter_map(Revision::of).collect();
    revisions.sort_by(|one, other| (one.number, &one.name).cmp(&(other.number, &other.name)));
    revisions
}

impl Revision {
    fn of(object: &Object) -> Option<Self> {
        let value = &object.value;
        let annotations = &value["metadata"]["annotations"];
        let (number, template) = if object.kind == REPLICA_SET {
            let number = annotations[annotation::DEPLOYMENT_REVISION].as_str()?.parse().ok()?;
            let mut template = value.pointer("/spec/template")?.clone();
            if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
                labels.remove(label::POD_TEMPLATE_HASH);
            }
            (number, template)
        } else {
            (value["revision"].as_i64()?, revision::template(&value["data"])?)
        };
        Some(Self {
            number,
            name: object.name().to_owned(),
            cause: annotations[CHANGE_CAUSE].as_str().unwrap_or_default().to_owned(),
            created: value["metadata"]["creationTimestamp"].clone(),
            annotations: annotations.clone(),
            template: without_null(template),
        })
    }

    /// As a ControllerRevision, whatever it is.
    fn stored(&self) -> Option<ControllerRevision> {
        read_as(&json!({
            "apiVersion": "apps/v1", "kind": REVISION.kind, "revision": self.number,
            "metadata": {"name": self.name, "creationTimestamp": self.created},
            "data": {"spec": {"template": self.template}},
        }))
        .ok()
    }
}

/// What is null says nothing.
fn without_null(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_null(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(without_null).collect(),
        other => other,
    }
}

/// Numbers and causes, the oldest first.
pub(crate) fn list(object: &Object, revisions: &[Revision]) -> String {
    if revisions.is_empty() {
        return "No rollout history found.\n".to_owned();
    }
    // Two blanks between columns, as scripts know it from kubectl.
    let mut text = format!("{}\n{:8}  CHANGE-CAUSE\n", object.printed(), "REVISION");
    for revision in revisions {
        let cause = if revision.cause.is_empty() {
            "<none>"
        } else {
            &revision.cause
        };
        text.push_str(&format!("{:<8}  {}\n", revision.number, visible(cause)));
    }
    text.push('\n');
    text
}

/// One revision: its template, and what changed since the one before.
///
/// # Errors
/// When there is none of this number.
pub(crate) fn one(object: &Object, revisions: &[Revision], number: i64) -> Result<String> {
    if number < 0 {
        bail!("revision must be a positive integer: {number}");
    }
    let Some(revision) = revisions.iter().find(|revision| revision.number == number) else {
        bail!("unable to find the specified revision");
    };
    let mut text = format!("{} with revision #{number}\n", object.printed());
    text.push_str(&template::describe(pod_template(object, &revision.template)));
    let views = views(object, revisions);
    if let Some(view) = views
        .iter()
        .find(|view| view.number == number && view.name == revision.name)
    {
        text.push_str(&changes(view, &views));
    }
    Ok(text)
}

/// What changed from each revision to the next, the oldest first.
pub(crate) fn differences(object: &Object, revisions: &[Revision]) -> String {
    let views = views(object, revisions);
    let mut text = format!("{}\n", object.printed());
    for view in views.iter().rev() {
        let marks = [(view.is_update, "wanted"), (view.is_current, "reached")];
        let marks: Vec<&str> = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        let mark = if marks.is_empty() {
            String::new()
        } else {
            format!(" ({})", marks.join(", "))
        };
        text.push_str(&format!("revision {}{mark}\n{}", view.number, changes(view, &views)));
    }
    text
}

fn views(object: &Object, revisions: &[Revision]) -> Vec<RevisionView> {
    let stored: Vec<ControllerRevision> = revisions.iter().filter_map(Revision::stored).collect();
    let value = object.newest();
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let update = match text("/status/updateRevision") {
        "" => text("/status/updatedRevision"),
        update => update,
    };
    view::history(&stored, update, text("/status/currentRevision"))
}

fn changes(view: &RevisionView, views: &[RevisionView]) -> String {
    // The newest comes first.
    let Some(before) = views.iter().find(|other| other.number < view.number) else {
        return String::new();
    };
    let mut text = format!("Changes since revision {}:\n", before.number);
    if view.changes.is_empty() {
        text.push_str("  none that can be told\n");
    }
    for change in &view.changes {
        text.push_str(&format!("  {}\n", visible(&sentence(change))));
    }
    if view.more > 0 {
        text.push_str(&format!("  and {} more\n", view.more));
    }
    text
}

fn sentence(change: &Change) -> String {
    let Change {
        path, from, to, what, ..
    } = change;
    match (from, to) {
        (Some(from), Some(to)) => format!("{path}: {from} -> {to}"),
        (None, Some(to)) => format!("{path}: {what}, {to}"),
        (Some(from), None) => format!("{path}: {what}, was {from}"),
        (None, None) => format!("{path}: {what}"),
    }
}

/// The Pod template in the template of a workload.
fn pod_template<'a>(object: &Object, template: &'a Value) -> &'a Value {
    if !object.kind.is(&uniteddeployment::KIND) {
        return template;
    }
    let of_workload = template.as_object().into_iter().flat_map(Map::values);
    let mut found = of_workload.filter_map(|workload| workload.pointer("/spec/template"));
    found.next().unwrap_or(template)
}

/// The history as data.
pub(crate) fn machine_readable(object: &Object, revisions: &[Revision]) -> Value {
    let views = views(object, revisions);
    let one = |revision: &Revision| {
        let view = views.iter().find(|view| view.name == revision.name);
        json!({
            "revision": revision.number, "name": revision.name, "changeCause": revision.cause,
            "created": revision.created, "template": revision.template,
            "wanted": view.is_some_and(|view| view.is_update), "reached": view.is_some_and(|view| view.is_current),
            "changes": view.map(|view| &view.changes),
        })
    };
    let all: Vec<Value> = revisions.iter().map(one).collect();
    json!({"kind": object.kind.kind, "namespace": object.namespace(), "name": object.name(), "revisions": all})
}

/// The revision to go back to; 0 means the one before the newest.
///
/// # Errors
/// When there is none.
pub(crate) fn target(revisions: &[Revision], number: i64) -> Result<&Revision> {
    let found = match number {
        0 => revisions.iter().rev().nth(1),
        number => revisions.iter().find(|revision| revision.number == number),
    };
    match (found, number) {
        (Some(revision), _) => Ok(revision),
        (None, 0) => bail!("no last revision to roll back to"),
        (None, number) => bail!("unable to find specified revision {number} in history"),
    }
}

/// The workload with the template of a revision.
pub(crate) fn back_to(object: &Object, revision: &Revision) -> Decision {
    let live = without_null(object.value["spec"]["template"].clone());
    if is_same(object.kind, &live, &revision.template) {
        return Decision::Stay(format!(
            "skipped rollback (current template already matches revision {})",
            revision.number
        ));
    }
    let mut after = object.value.clone();
    set(&mut after, &["spec", "template"], revision.template.clone());
    if object.kind == DEPLOYMENT {
        let is_kept = |key: &str| KEPT_ANNOTATIONS.contains(&key) || key.contains(STEERED_BY_OTHERS);
        let own = object.value["metadata"]["annotations"].as_object();
        let kept = own.into_iter().flat_map(Map::iter).filter(|(key, _)| is_kept(key));
        let old = revision.annotations.as_object();
        let old = old.into_iter().flat_map(Map::iter).filter(|(key, _)| !is_kept(key));
        let both: Map<String, Value> = kept
            .chain(old)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        set(&mut after, &["metadata", "annotations"], both.into());
    }
    Decision::Become(after)
}

fn is_same(kind: Kind, one: &Value, other: &Value) -> bool {
    if kind.is(&uniteddeployment::KIND) {
        revision::is_same_workload_data(&revision::workload_data(one), &revision::workload_data(other))
    } else {
        one == other || revision::data(one) == revision::data(other)
    }
}

#[cfg(test)]
mod tests;
