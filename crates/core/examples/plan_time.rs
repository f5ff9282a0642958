//! How long a CloneSet's planner thinks about a large set. Run by hand:
//!
//! ```sh
//! cargo run --release -p kruise-core --example plan_time -- 5000
//! ```
//!
//! Every line is one situation: the best of several rounds, since what else the machine does can only make them longer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::resource::Resource;
use kruise_api::revision::ControllerRevision;
use kruise_core::cloneset::{self, Observed};
use kruise_core::plan::{Action, Env, Plan};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

// As in the manager.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const UID: &str = "11111111-1111-4111-8111-111111111111";
const ROUNDS: usize = 15;

fn main() {
    let pods: usize = std::env::args()
        .nth(1)
        .map_or(5000, |text| text.parse().expect("a number of Pods"));
    let env = Env::at("2026-01-01T00:00:00Z".parse().expect("a time"));
    let mut set = set(pods);
    let mut observed = Observed {
        set: read(&set),
        ..Observed::default()
    };

    let begun = time("all to be created", &observed, &env);
    let revision = created(&begun, ControllerRevision::RESOURCE).remove(0);
    observed.revisions = vec![read(&revision)];
    let mut members = BTreeMap::new();
    for (number, mut pod) in created(&begun, Pod::RESOURCE).into_iter().enumerate() {
        run(&mut pod, number);
        members.insert(pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(), pod);
    }
    observed.pods = members.values().map(read).collect();
    let status = cloneset::plan(&observed, &env).status.expect("a status");
    if let Action::Patch { patch, .. } = &status {
        merge(&mut set, patch.document());
    }
    observed.set = read(&set);
    assert!(time("nothing to do", &observed, &env).is_idle());

    set["metadata"]["generation"] = json!(2);
    set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/app:2");
    observed.set = read(&set);
    let changed = cloneset::plan(&observed, &env);
    let revisions = created(&changed, ControllerRevision::RESOURCE);
    observed.revisions.extend(revisions.iter().map(read));
    let update = time("all to be updated in place", &observed, &env);

    let mut patched = BTreeSet::new();
    for write in update.writes() {
        if let Action::Patch { object, patch, .. } = write
            && let Some(pod) = members.get_mut(&object.name)
        {
            merge(pod, patch.document());
            let container = json!({"image": "registry.example/app:2", "imageID": "sha256:2", "restartCount": 1});
            merge(&mut pod["status"]["containerStatuses"][0], &container);
            patched.insert(&object.name);
        }
    }
    assert!(!patched.is_empty());
    observed.pods = members.values().map(read).collect();
    let finish = time("updates of a round finish at once", &observed, &env);
    assert_eq!(finish.writes().count(), patched.len());

    set["spec"]["replicas"] = json!(0);
    observed.set = read(&set);
    let end = time("all to be deleted", &observed, &env);
    assert_eq!(end.writes().count(), pods);
}

/// Plans several times and says how long the shortest took.
fn time(situation: &str, observed: &Observed, env: &Env) -> Plan {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let plan = cloneset::plan(observed, env);
        best = best.min(begin.elapsed());
        drop(plan);
    }
    println!("{situation}: {:.3} ms", best.as_secs_f64() * 1000.0);
    cloneset::plan(observed, env)
}

fn set(replicas: usize) -> Value {
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example/app:1", "env": [{"name": "A", "value": "1"}],
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        })
    };
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
        "metadata": {"name": "large", "namespace": "shop", "uid": UID, "generation": 1, "resourceVersion": "1"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "large"}},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%", "partition": 0},
            },
            "template": {
                "metadata": {"labels": {"app": "large"}},
                "spec": {"containers": [container("main"), container("side")]},
            },
        },
    })
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

fn created(plan: &Plan, kind: &'static Resource) -> Vec<Value> {
    let bodies = plan.writes().filter_map(|write| match write {
        Action::Create { object, body } if object.resource == kind => Some(body.json()),
        _ => None,
    });
    bodies.collect()
}

/// Merges objects by their fields and lists by `name` or `type`, as far as Pods need it.
fn merge(object: &mut Value, patch: &Value) {
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

fn read<T: DeserializeOwned>(object: &Value) -> Arc<T> {
    // Through text, because raw parts keep what was written.
    Arc::new(serde_json::from_str(&object.to_string()).expect("an object of its kind"))
}
