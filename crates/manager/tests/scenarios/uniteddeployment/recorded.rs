//! A UnitedDeployment of CloneSets, as the original was recorded: what the user did once more, and after each step the workloads, their Pods, the revisions, the
//! status and the events are what they were then.
//!
//! What differs on purpose, and is left out here: the condition `UnitedDeploymentUpdated`, which never noticed a rollout of CloneSets; the entry of a subset that was
//! removed, which stayed for ever. Fields that say nothing count as absent.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::apps::v1::ControllerRevision;
use kruise_testkit::eventually::{NotYet, eventually};
use kube::{Api, ResourceExt, api::ListParams};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CLONE_SET, PATIENCE, REVISION, SUBSET, Scenario, Stage, image, scenarios, subset_of, try_children};
use crate::cluster::scenario::recorded::{Call, filled};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_the_steps_of_the_recording_then_workloads_pods_and_status_are_the_same]
}

#[derive(Deserialize)]
struct Step {
    #[serde(rename = "step")]
    name: String,
    requests: Vec<Call>,
    /// What there is in the end.
    status: Value,
    children: BTreeMap<String, Value>,
    /// Subset, revision and image of each.
    pods: Vec<[String; 3]>,
    revisions: Vec<String>,
    events: Vec<String>,
}

async fn given_the_steps_of_the_recording_then_workloads_pods_and_status_are_the_same(stage: Arc<Stage>) {
    let nodes = [("$a", 0), ("$b", 1), ("$c", 2)].map(|(word, number)| (word, stage.node(number)));
    let meant: Vec<_> = nodes
        .into_iter()
        .chain([("$ns", stage.namespace().to_owned())])
        .collect();
    let steps = include_str!("../../fixtures/recordings/09-uniteddeployment.json");
    let steps: Vec<Step> = serde_json::from_str(&filled(steps, &meant)).unwrap();
    for step in steps {
        for call in &step.requests {
            call.send(&stage, &meant).await;
        }
        eventually(PATIENCE, &step.name, || async {
            let (found, expected) = (found(&stage).await?, expected(&step));
            if found == expected {
                Ok(())
            } else {
                Err(NotYet::new(format!("{found:#} is not {expected:#}")))
            }
        })
        .await;
        for event in &step.events {
            let (reason, message) = event.split_once(": ").unwrap();
            stage.event("ud", reason, message).await;
        }
    }
}

fn expected(step: &Step) -> Value {
    let children = step.children.iter().map(|(name, child)| (name.clone(), plain(child)));
    json!({
        "status": compared(step.status.clone(), &step.children.keys().map(String::as_str).collect::<Vec<_>>()),
        "children": children.collect::<BTreeMap<_, _>>(),
        "pods": step.pods,
        "revisions": step.revisions,
    })
}

async fn found(stage: &Stage) -> kube::Result<Value> {
    let children = try_children(stage, CLONE_SET).await?;
    let children: BTreeMap<String, Value> = children
        .iter()
        .map(|child| {
            let meta = &child["metadata"];
            let part = json!({
                "generateName": meta["generateName"], "labels": meta["labels"], "annotations": meta["annotations"], "spec": child["spec"],
            });
            (subset_of(child), plain(&part))
        })
        .collect();
    let pods = stage.try_pods("ud").await?;
    let label = |pod: &k8s_openapi::api::core::v1::Pod, key: &str| pod.labels().get(key).cloned().unwrap_or_default();
    let mut pods: Vec<[String; 3]> = pods
        .values()
        .map(|pod| [label(pod, SUBSET), label(pod, REVISION), image(pod).to_owned()])
        .collect();
    pods.sort();
    let revisions: Api<ControllerRevision> = stage.api();
    let revisions = revisions.list(&ListParams::default()).await?.items;
    let of_it = |revision: &&ControllerRevision| revision.owner_references().iter().any(|owner| owner.name == "ud");
    let mut revisions: Vec<String> = revisions.iter().filter(of_it).map(ResourceExt::name_any).collect();
    revisions.sort();
    let status = stage.subjects.get("ud").await?.data["status"].clone();
    let names: Vec<&str> = children.keys().map(String::as_str).collect();
    Ok(json!({
        "status": compared(status, &names), "children": children, "pods": pods, "revisions": revisions,
    }))
}

/// The part of a status that is compared.
fn compared(mut status: Value, subsets: &[&str]) -> Value {
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != "UnitedDeploymentUpdated");
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove("lastTransitionTime");
        }
    }
    if let Some(entries) = status["subsetStatuses"].as_array_mut() {
        entries.retain(|entry| entry["name"].as_str().is_some_and(|name| subsets.contains(&name)));
    }
    plain(&status)
}

/// A document without what says nothing.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), plain(value)));
            fields.filter(|(_, value)| !says_nothing(value)).collect()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(is) => !is,
    }
}
