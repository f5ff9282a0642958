//! What the examples that time a planner share: a set of Pods that run, and a clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kruise_api::resource::Resource;
use kruise_core::plan::{Action, Plan};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const ROUNDS: usize = 15;

/// Plans several times and says how long the shortest took.
pub(crate) fn time(situation: &str, plan: impl Fn() -> Plan) -> Plan {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let planned = plan();
        best = best.min(begin.elapsed());
        drop(planned);
    }
    println!("{situation}: {:.3} ms", best.as_secs_f64() * 1000.0);
    plan()
}

/// Two containers of the usual size.
pub(crate) fn containers() -> Value {
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example/app:1", "env": [{"name": "A", "value": "1"}],
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        })
    };
    json!([container("main"), container("side")])
}

/// The Pods that a plan creates, when they run.
pub(crate) fn running(plan: &Plan, pods: &'static Resource) -> BTreeMap<String, Value> {
    let mut members = BTreeMap::new();
    for (number, mut pod) in created(plan, pods).into_iter().enumerate() {
        run(&mut pod, number);
        members.insert(pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(), pod);
    }
    members
}

/// What the webhook, the scheduler and the kubelet do to a Pod.
fn run(pod: &mut Value, number: usize) {
    let status = |name: &str| json!({"name": name, "image": "registry.example/app:1", "imageID": "sha256:1", "ready": true, "restartCount": 0});
    let since = "2025-12-31T23:00:00Z";
    let conditions = ["InPlaceUpdateReady", "KruisePodReady", "ContainersReady", "Ready"];
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": since}))
        .collect();
    let lived = json!({
        "metadata": {
            "uid": format!("22222222-2222-4222-8222-{number:012}"), "resourceVersion": "100",
            "namespace": "shop", "creationTimestamp": since,
            "labels": {"lifecycle.apps.kruise.io/state": "Normal"},
        },
        "spec": {
            "nodeName": format!("node-{}", number % 100),
            "readinessGates": [{"conditionType": "InPlaceUpdateReady"}, {"conditionType": "KruisePodReady"}],
        },
        "status": {
            "phase": "Running", "conditions": conditions,
            "containerStatuses": [status("main"), status("side")],
        },
    });
    merge(pod, &lived);
}

pub(crate) fn created(plan: &Plan, kind: &'static Resource) -> Vec<Value> {
    let bodies = plan.writes().filter_map(|write| match write {
        Action::Create { object, body } if object.resource == kind => Some(body.json()),
        _ => None,
    });
    bodies.collect()
}

/// Merges objects by their fields and lists by `name` or `type`, as far as Pods need it.
pub(crate) fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (field, value) in patch {
                merge(object.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(items), Value::Array(changed)) => {
            for change in changed {
                let is_same = |item: &&mut Value| {
                    ["name", "type"]
                        .iter()
                        .any(|key| !change[key].is_null() && item[key] == change[key])
                };
                match items.iter_mut().find(is_same) {
                    Some(item) => merge(item, change),
                    None => items.push(change.clone()),
                }
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

pub(crate) fn read<T: DeserializeOwned>(object: &Value) -> Arc<T> {
    // Through text, because raw parts keep what was written.
    Arc::new(serde_json::from_str(&object.to_string()).expect("an object of its kind"))
}
