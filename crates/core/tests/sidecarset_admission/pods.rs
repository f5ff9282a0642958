//! Pods on their way through all steps, beside what the original made of them.

use jiff::Timestamp;
use kruise_api::gates::Gates;
use kruise_api::namespace::Namespace;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use kruise_core::json_patch;
use kruise_core::pod::{self, Budgets, Env, Missing, PersistentPodStates, ProbeMarkers, SidecarSets};
use kruise_core::sidecarset::default::default;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Deserialize)]
struct Case {
    name: String,
    sets: Vec<Map<String, Value>>,
    pod: Value,
    created: Map<String, Value>,
}

struct All(Vec<Arc<SidecarSet>>);

impl kruise_core::pod::WorkloadSpreads for All {}

impl SidecarSets for All {
    fn candidates(&self, _: &str, _: &BTreeMap<&str, &str>) -> Result<Vec<Arc<SidecarSet>>, Missing> {
        Ok(self.0.clone())
    }

    fn namespace(&self, _: &str) -> Result<Option<Arc<Namespace>>, Missing> {
        Ok(None)
    }

    fn revision(&self, _: &str) -> Result<Option<Arc<ControllerRevision>>, Missing> {
        Ok(None)
    }

    fn revisions_of(&self, _: &str) -> Result<Vec<Arc<ControllerRevision>>, Missing> {
        Ok(Vec::new())
    }
}

impl Budgets for All {}

impl PersistentPodStates for All {}

impl ProbeMarkers for All {}

/// Without what the API server writes by itself.
fn shown(pod: &Value) -> Map<String, Value> {
    let containers = |field: &str| -> Vec<Value> {
        let list = pod["spec"][field].as_array().cloned().unwrap_or_default();
        let small = list.into_iter().map(|mut container| {
            let fields = container.as_object_mut().unwrap();
            for field in ["terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"] {
                fields.remove(field);
            }
            fields.retain(|name, value| name != "resources" || *value != json!({}));
            container
        });
        small.collect()
    };
    let shown = json!({
        "annotations": pod["metadata"].get("annotations").unwrap_or(&json!({})),
        "initContainers": containers("initContainers"),
        "containers": containers("containers"),
        "volumes": pod["spec"].get("volumes").unwrap_or(&json!([])),
        "readinessGates": pod["spec"].get("readinessGates").unwrap_or(&json!([])),
    });
    shown.as_object().unwrap().clone()
}

#[test]
fn given_every_recorded_pod_then_the_same_is_injected() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../fixtures/sidecarset/pods.json")).unwrap();
    assert_eq!(cases.len(), 16);
    for case in cases {
        let hashes = case.created["annotations"]["kruise.io/sidecarset-hash"].as_str();
        let records: Value = serde_json::from_str(hashes.unwrap_or("{}")).unwrap();
        let mut now = Timestamp::UNIX_EPOCH;
        let mut sets = Vec::new();
        for mut set in case.sets {
            default(&mut set);
            // Only the server knows what the set was called when it was stored.
            let name = set["metadata"]["name"].as_str().unwrap().to_owned();
            if let Some(revision) = records[&name]["controllerRevision"].as_str() {
                set.insert("status".into(), json!({"latestRevision": revision}));
                now = records[&name]["updateTimestamp"].as_str().unwrap().parse().unwrap();
            }
            set.insert("apiVersion".into(), json!("apps.kruise.io/v1beta1"));
            sets.push(Arc::new(serde_json::from_value(Value::Object(set)).unwrap()));
        }
        let env = Env {
            gates: Gates::default(),
            now,
            chance: 0,
            view: &All(sets),
            namespace: case.pod["metadata"]["namespace"].as_str().unwrap_or_default(),
            dry_run: true,
            name_suffix: "x7k2p",
        };
        let mut pod = case.pod.clone();
        for operation in pod::mutate(&case.pod.to_string(), &env).unwrap() {
            assert!(json_patch::apply(&mut pod, &operation), "{operation:?}");
        }
        let mut shown = shown(&pod);
        // Some were recorded with a gate that gives every Pod a readiness gate.
        shown.retain(|part, _| part != "readinessGates" || case.created.contains_key(part));
        assert_eq!(shown, case.created, "{}", case.name);
    }
}
