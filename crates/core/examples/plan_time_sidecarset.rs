//! How long a SidecarSet's planner thinks about many Pods. Run by hand:
//!
//! ```sh
//! cargo run --release -p kruise-core --example plan_time_sidecarset -- 5000
//! ```
//!
//! Every line is one situation: the best of several rounds, since what else the machine does can only make them longer.

#[allow(dead_code, reason = "the examples of workloads need more of it")]
#[path = "shared/plan_time.rs"]
mod shared;

use std::sync::Arc;

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_api::sidecarset::v1beta1::SidecarSet;
use kruise_core::plan::{Action, Env};
use kruise_core::sidecarset::default::default;
use kruise_core::sidecarset::inject::{Injection, Rules, inject};
use kruise_core::sidecarset::{Observed, plan};
use serde_json::{Value, json};
use shared::{created, merge, read, time};

// As in the manager.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const NOW: &str = "2026-01-01T00:00:00Z";

fn main() {
    let pods: usize = std::env::args()
        .nth(1)
        .map_or(5000, |text| text.parse().expect("a number of Pods"));
    let env = Env::at(NOW.parse().expect("a time"));
    let mut observed = Observed {
        set: read(&set("registry.example/sidecar:1", 1)),
        system: "kruise-system".to_owned(),
        ..Observed::default()
    };
    observed.pods = (0..pods).map(|number| pod(&observed.set, number)).collect();
    let begun = time("new", || plan(&observed, &env));
    let revisions = created(&begun, ControllerRevision::RESOURCE);
    observed.revisions = revisions.iter().map(read::<ControllerRevision>).collect();
    observed.set = read(&with_status(set("registry.example/sidecar:1", 1), &observed, &env));
    assert!(time("nothing to do", || plan(&observed, &env)).is_idle());

    observed.set = read(&set("registry.example/sidecar:2", 2));
    let update = time("all to be updated", || plan(&observed, &env));
    assert!(update.writes().count() > 100.min(pods));
}

fn set(image: &str, generation: i64) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "log", "uid": "11111111-1111-4111-8111-111111111111", "generation": generation, "resourceVersion": "1"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "log", "image": image, "env": [{"name": "A", "value": "1"}]}],
            "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": "100%"},
        },
    });
    default(set.as_object_mut().expect("an object"));
    set
}

/// The set with the status that its planner would write.
fn with_status(mut set: Value, observed: &Observed, env: &Env) -> Value {
    if let Some(Action::Patch { patch, .. }) = plan(observed, env).status {
        merge(&mut set, patch.document());
    }
    set
}

/// A Pod with its sidecar that runs.
fn pod(set: &Arc<SidecarSet>, number: usize) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {
            "name": format!("web-{number}"), "namespace": "shop", "labels": {"app": "web"}, "resourceVersion": "100",
            "uid": format!("22222222-2222-4222-8222-{number:012}"), "creationTimestamp": "2025-12-31T23:00:00Z",
        },
        "spec": {"nodeName": format!("node-{}", number % 100), "containers": shared::containers()},
    });
    let rules = Rules {
        now: NOW.parse().expect("a time"),
        sort_containers: false,
    };
    inject(&mut pod, &[Injection::current(set)], rules).expect("it is injected");
    let containers = pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let statuses = containers.iter().map(|container| {
        json!({"name": container["name"], "image": container["image"], "imageID": "sha256:1", "ready": true, "restartCount": 0})
    });
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T23:00:00Z"});
    pod["status"] =
        json!({"phase": "Running", "conditions": [ready], "containerStatuses": statuses.collect::<Vec<_>>()});
    read(&pod)
}
