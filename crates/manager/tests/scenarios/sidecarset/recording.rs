//! A recorded life of two sets, one cold and one hot, with a CloneSet and a Deployment: after each step of the user all is as it was with the original.
//!
//! Compared are the hashes and the status of the sets, names and numbers of the revisions, and of each Pod what was injected, all annotations and the condition about sidecars,
//! and the events. Times, ids of images and versions of sets are left out (`T`, `I`, `R`). Names begin with `$`, which stands for the name of the namespace.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Event;
use kruise_testkit::eventually::{NotYet, eventually};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::update_support::{condition, sets};
use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![given_the_steps_of_a_recording_then_all_goes_as_it_did_with_the_original]
}

#[derive(Deserialize)]
struct Step {
    #[serde(rename = "step")]
    name: String,
    requests: Vec<Request>,
    sets: BTreeMap<String, Value>,
    revisions: BTreeMap<String, i64>,
    /// All Pods had the same.
    pod: Option<Value>,
    events: Vec<String>,
}

#[derive(Deserialize)]
struct Request {
    verb: String,
    path: String,
    body: Value,
}

const CONDITION: &str = "SidecarSetUpgradable";

async fn given_the_steps_of_a_recording_then_all_goes_as_it_did_with_the_original(stage: Arc<Stage>) {
    let recorded = include_str!("../../fixtures/sidecarset/recording.jsonl");
    let space = stage.namespace();
    let named = recorded.replace("$namespace", space).replace('$', &format!("{space}-"));
    for line in named.lines() {
        let mut step: Step = serde_json::from_str(line).unwrap();
        differences(&mut step, space);
        for request in &step.requests {
            act(&stage, request).await;
        }
        eventually(PATIENCE, &format!("{}: all is as recorded", step.name), || async {
            same("sets", &json!(step.sets), &seen_sets(&stage).await?)?;
            same("revisions", &json!(step.revisions), &seen_revisions(&stage).await?)?;
            if let Some(expected) = &step.pod {
                let pods = stage.pods.list(&ListParams::default()).await?.items;
                same("how many Pods", &json!(3), &json!(pods.len()))?;
                for pod in &pods {
                    same(&pod.name_any(), expected, &of_pod(pod))?;
                }
            }
            told(&stage, &step.events).await
        })
        .await;
    }
}

/// A Pod that is at the hash of its set says that it can be updated; with the original it goes on saying what was true before the rollback.
fn differences(step: &mut Step, space: &str) {
    let is_behind = [
        "07-rollback",
        "08-volumes-only",
        "09-workload-inplace",
        "10-delete-sets",
    ];
    if is_behind.contains(&&*step.name)
        && let Some(pod) = &mut step.pod
    {
        let message = json!({format!("{space}-cold"): true, format!("{space}-hot"): true}).to_string();
        pod["condition"] = json!(["True", "AllSidecarsetUpgradable", message]);
    }
}

async fn act(stage: &Stage, request: &Request) {
    let (kind, version) = match request
        .path
        .split('/')
        .find(|part| ["sidecarsets", "clonesets", "deployments"].contains(part))
    {
        Some("deployments") => ("Deployment", "apps/v1"),
        Some("clonesets") => ("CloneSet", "apps.kruise.io/v1beta1"),
        _ => ("SidecarSet", "apps.kruise.io/v1beta1"),
    };
    let (group, version) = version.split_once('/').unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match kind {
        "SidecarSet" => Api::all_with(stage.client(), &resource),
        _ => Api::namespaced_with(stage.client(), stage.namespace(), &resource),
    };
    let name = request.path.rsplit('/').next().unwrap();
    match &*request.verb {
        "POST" => {
            let object: DynamicObject = serde_json::from_value(request.body.clone()).unwrap();
            api.create(&PostParams::default(), &object).await.map(drop).unwrap();
        }
        "PATCH" => {
            let patch: Patch<Value> = Patch::Json(serde_json::from_value(request.body.clone()).unwrap());
            api.patch(name, &PatchParams::default(), &patch)
                .await
                .map(drop)
                .unwrap();
        }
        _ => api.delete(name, &DeleteParams::default()).await.map(drop).unwrap(),
    }
}

fn same(what: &str, recorded: &Value, seen: &Value) -> Result<(), NotYet> {
    let is_same = recorded == seen;
    is_same
        .then_some(())
        .ok_or_else(|| NotYet::new(format!("{what} were\n{recorded:#}\nand are\n{seen:#}")))
}

async fn seen_sets(stage: &Stage) -> Result<Value, NotYet> {
    let mut seen = json!({});
    for set in sets(stage, "v1beta1").list(&ListParams::default()).await?.items {
        let name = set.name_any();
        if name.starts_with(&format!("{}-", stage.namespace())) {
            seen[&name] = json!({
                "hash": set.annotations().get("kruise.io/sidecarset-hash"),
                "withoutImage": set.annotations().get("kruise.io/sidecarset-hash-without-image"),
                "status": set.data["status"],
            });
        }
    }
    Ok(seen)
}

async fn seen_revisions(stage: &Stage) -> Result<Value, NotYet> {
    let all: Api<k8s_openapi::api::apps::v1::ControllerRevision> = stage.of_manager();
    let all = all.list(&ListParams::default()).await?.items.into_iter();
    let ours = all.filter(|revision| revision.name_any().starts_with(&format!("{}-", stage.namespace())));
    let numbers: BTreeMap<String, Option<i64>> =
        ours.map(|revision| (revision.name_any(), revision.revision)).collect();
    Ok(json!(numbers))
}

/// What is compared of a Pod.
fn of_pod(pod: &k8s_openapi::api::core::v1::Pod) -> Value {
    let annotations = pod.annotations().iter().filter(|(key, _)| key.contains("sidecarset"));
    let annotations: BTreeMap<&String, String> = annotations
        .map(|(key, value)| {
            let is_version = key.starts_with("version") && value.parse::<u64>().is_ok_and(|version| version > 1);
            (
                key,
                if is_version {
                    "R".to_owned()
                } else {
                    without_chance(value)
                },
            )
        })
        .collect();
    let spec = pod.spec.as_ref().unwrap();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let sidecars = containers.filter(|container| container.name != "main");
    let images: BTreeMap<&str, Option<&str>> = sidecars
        .map(|container| (&*container.name, container.image.as_deref()))
        .collect();
    let condition = condition(pod, CONDITION);
    let condition = (!condition[0].is_empty()).then_some(condition);
    json!({"annotations": annotations, "images": images, "condition": condition})
}

/// Times and ids of images; the order of fields stays, as it is a part of what is compared.
fn without_chance(text: &str) -> String {
    let mut parts = text.split('"').map(str::to_owned).collect::<Vec<_>>();
    for index in 0..parts.len().saturating_sub(2) {
        let value = match &*parts[index] {
            "updateTimestamp" => "T",
            "imageID" => "I",
            _ => continue,
        };
        value.clone_into(&mut parts[index + 2]);
    }
    parts.join("\"")
}

/// Every recorded event was told.
async fn told(stage: &Stage, expected: &[String]) -> Result<(), NotYet> {
    let (here, of_cluster): (Api<Event>, Api<Event>) = (stage.api(), Api::namespaced(stage.client(), "default"));
    let mut told = Vec::new();
    for events in [here, of_cluster] {
        for event in events.list(&ListParams::default()).await?.items {
            let kind = event.involved_object.kind.unwrap_or_default();
            let [what, reason, message] = [event.type_, event.reason, event.message].map(Option::unwrap_or_default);
            told.push(format!("{kind} {what} {reason} {message}"));
        }
    }
    let missing = expected.iter().find(|event| !told.contains(event));
    missing.map_or(Ok(()), |event| {
        Err(NotYet::new(format!("{event} is not among {told:#?}")))
    })
}
