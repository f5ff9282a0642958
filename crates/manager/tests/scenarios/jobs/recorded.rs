//! BroadcastJobs as the original was recorded: the same jobs end with the same status, Pods and events.
//!
//! Compared are the whole status, one Pod with all that does not belong to its kubelet, the phases of the Pods that are left, and the events. Times are `T`; names of Pods, nodes and
//! the namespace, and UIDs stand for all others. What the containers of the recording did is told to simulated kubelets by annotations. What differs on purpose is in
//! [`differences`].

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::core::v1::{Event, Pod},
    jiff::Timestamp,
};
use kruise_testkit::{
    eventually::{NotYet, eventually},
    sim::SET_LABEL,
};
use kube::{
    ResourceExt as _,
    api::{DynamicObject, ListParams},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{PATIENCE, Scenario, Stage, create, gone, nodes, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_jobs_of_a_recording_then_they_go_as_they_did_with_the_original]
}

const KIND: &str = "BroadcastJob";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    #[serde(rename = "step")]
    name: String,
    job: Value,
    status: Value,
    pod: Value,
    phases: Vec<String>,
    events: Vec<RecordedEvent>,
}

/// Type, reason, message, and how often.
type RecordedEvent = (String, String, String, i32);

async fn given_jobs_of_a_recording_then_they_go_as_they_did_with_the_original(stage: Arc<Stage>) {
    let _nodes = nodes(&stage, 3).await;
    let steps: Vec<Step> = serde_json::from_str(include_str!("../../fixtures/recordings/07-jobs.json")).unwrap();
    assert_eq!(steps.len(), 5);
    let steps = steps.into_iter().map(|step| replay(&stage, differences(step)));
    futures::future::join_all(steps).await;
    // The recorded job that is kept for 15 seconds.
    gone(&stage, KIND, "once").await;
}

/// What is told once here, and what depends on which Pod failed first.
fn differences(mut step: Step) -> Step {
    step.events.retain(|(_, reason, message, _)| {
        let is_first_of_two = reason == "failed pod is found" && message.ends_with("2 pods failed");
        !is_first_of_two && !matches!(&**reason, "Continue" | "SuccessfulDelete")
    });
    for (_, reason, _, count) in &mut step.events {
        if reason == "Paused" {
            *count = 1;
        }
    }
    step
}

async fn replay(stage: &Stage, step: Step) {
    let name = step.job["metadata"]["name"].as_str().unwrap();
    let template = &step.job["spec"]["template"];
    let script = match template["spec"]["containers"][0]["command"][2].as_str() {
        Some("sleep 2") => json!({"sim.kruise.test/exit-after": "2s"}),
        Some("exit 1") if template["spec"]["restartPolicy"] == "OnFailure" => json!({"sim.kruise.test/crash": "true"}),
        Some("exit 1") => json!({"sim.kruise.test/exit-after": "0s", "sim.kruise.test/exit-code": "1"}),
        other => panic!("{other:?} cannot be simulated"),
    };
    let mut spec = step.job["spec"].clone();
    spec["template"]["metadata"]["annotations"] = script;
    spec["template"]["spec"]["nodeSelector"] = json!({(SET_LABEL): stage.namespace()});
    let made = create(stage, KIND, name, &spec).await;
    let words = Words::of(stage, &made);
    let jobs = stage.objects("v1beta1", KIND);
    eventually(PATIENCE, &format!("{}: all is as recorded", step.name), || async {
        let job = jobs.get(name).await?;
        same("status", &step.status, &words.replaced(&job.data["status"]))?;
        let events = events(stage, name, &words).await?;
        same("events", &json!(step.events), &json!(events))
    })
    .await;
    eventually(
        PATIENCE,
        &format!("{}: its Pods are as recorded", step.name),
        || async {
            let pods: Vec<Pod> = stage.try_pods(name).await?.into_values().collect();
            let mut phases: Vec<_> = pods.iter().map(|pod| json!(pod.status)["phase"].clone()).collect();
            let mut recorded = step.phases.clone();
            if step.name == "04-broadcast-failfast" {
                // How many had failed before the others were deleted is chance.
                phases.dedup();
                recorded.dedup();
            }
            same("phases", &json!(recorded), &json!(phases))?;
            pods.iter()
                .try_for_each(|pod| same("a Pod", &step.pod, &words.pod(pod)))
        },
    )
    .await;
}

fn same(what: &str, recorded: &Value, seen: &Value) -> Result<(), NotYet> {
    let is_same = recorded == seen;
    is_same
        .then_some(())
        .ok_or_else(|| NotYet::new(format!("{what} was\n{recorded:#}\nand is\n{seen:#}")))
}

/// Events about a job, each with its number.
async fn events(stage: &Stage, job: &str, words: &Words) -> kube::Result<Vec<RecordedEvent>> {
    let about = ListParams::default().fields(&format!("involvedObject.name={job}"));
    let mut told: BTreeMap<(String, String, String), i32> = BTreeMap::new();
    for event in stage.api::<Event>().list(&about).await?.items {
        let reason = event.reason.unwrap_or_default();
        if reason == "SuccessfulDelete" {
            continue;
        }
        let message = words.replaced(&json!(event.message.unwrap_or_default()));
        let mut message = message.as_str().unwrap_or_default().to_owned();
        if reason == "SuccessfulCreate" {
            let (begin, _) = message.split_once(&format!("{job}-")).unwrap_or((&message, ""));
            message = format!("{begin}POD");
        }
        *told
            .entry((event.type_.unwrap_or_default(), reason, message))
            .or_default() += event.count.unwrap_or(1);
    }
    let told = told.into_iter();
    Ok(told
        .map(|((type_, reason, message), count)| (type_, reason, message, count))
        .collect())
}

/// What stands for names and UIDs in the recording.
struct Words {
    namespace: String,
    uid: String,
}

impl Words {
    fn of(stage: &Stage, job: &DynamicObject) -> Self {
        Self {
            namespace: stage.namespace().to_owned(),
            uid: job.uid().unwrap(),
        }
    }

    fn replaced(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter();
                Value::Object(fields.map(|(key, value)| (key.clone(), self.replaced(value))).collect())
            }
            Value::Array(items) => items.iter().map(|item| self.replaced(item)).collect(),
            Value::String(text) if text.parse::<Timestamp>().is_ok() => json!("T"),
            Value::String(text) => json!(text.replace(&self.namespace, "NAMESPACE").replace(&self.uid, "UID")),
            other => other.clone(),
        }
    }

    fn pod(&self, pod: &Pod) -> Value {
        let spec = json!(pod.spec).to_string();
        let node = json!(pod.spec)["nodeName"].as_str().unwrap_or_default().to_owned();
        let mut spec: Value = serde_json::from_str(&spec.replace(&format!("\"{node}\""), "\"NODE\"")).unwrap();
        spec.as_object_mut().unwrap().remove("nodeSelector");
        let of_others =
            |key: &str| key.starts_with("sim.kruise.test/") || key == "apps.kruise.io/runtime-containers-meta";
        let annotations = pod.annotations().iter().filter(|(key, _)| !of_others(key));
        let annotations: Map<String, Value> = annotations.map(|(key, value)| (key.clone(), json!(value))).collect();
        self.replaced(&json!({
            "generateName": pod.metadata.generate_name, "labels": pod.labels(), "annotations": annotations,
            "ownerReferences": pod.metadata.owner_references, "spec": spec,
        }))
    }
}
