//! How long a StatefulSet's planner thinks about a large set with claims. Run by hand:
//!
//! ```sh
//! cargo run --release -p kruise-core --example plan_time_statefulset -- 2000
//! ```
//!
//! Every line is one situation: the best of several rounds, since what else the machine does can only make them longer.

#[path = "shared/plan_time.rs"]
mod shared;

use kruise_api::gates::{Gate, Gates};
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_api::storage::PersistentVolumeClaim;
use kruise_core::plan::{Action, Env};
use kruise_core::statefulset::{self, Observed};
use serde_json::{Value, json};
use shared::{containers, created, merge, read, running, time};

// As in the manager.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const UID: &str = "11111111-1111-4111-8111-111111111111";

fn main() {
    let pods: usize = std::env::args()
        .nth(1)
        .map_or(2000, |text| text.parse().expect("a number of Pods"));
    let env = Env {
        gates: Gates::default().with(Gate::StatefulSetAutoResizePVCGate, true),
        ..Env::at("2026-01-01T00:00:00Z".parse().expect("a time"))
    };
    let mut set = set(pods);
    let mut observed = Observed {
        set: read(&set),
        classes: vec![read(
            &json!({"metadata": {"name": "fast"}, "allowVolumeExpansion": true}),
        )],
        ..Observed::default()
    };
    let begun = time("all to be created", || statefulset::plan(&observed, &env));
    observed.revisions = created(&begun, ControllerRevision::RESOURCE).iter().map(read).collect();
    observed.pods = running(&begun, Pod::RESOURCE).values().map(read).collect();
    let mut claims = created(&begun, PersistentVolumeClaim::RESOURCE);
    assert_eq!((observed.pods.len(), claims.len()), (pods, pods));
    for (number, claim) in claims.iter_mut().enumerate() {
        let uid = format!("33333333-3333-4333-8333-{number:012}");
        merge(claim, &json!({"metadata": {"uid": uid, "resourceVersion": "100"}}));
        merge(
            claim,
            &json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}),
        );
    }
    observed.claims = claims.iter().map(read).collect();
    let status = statefulset::plan(&observed, &env).status.expect("a status");
    if let Action::Patch { patch, .. } = &status {
        merge(&mut set, patch.document());
    }
    observed.set = read(&set);
    assert!(time("nothing to do", || statefulset::plan(&observed, &env)).is_idle());

    let steady = set.clone();
    set["metadata"]["generation"] = json!(2);
    set["spec"]["volumeClaimTemplates"] = claim_template("2Gi");
    observed.set = read(&set);
    let growing = time("all claims to grow", || statefulset::plan(&observed, &env));
    assert!(growing.writes().count() > 0);

    set = steady;
    set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/app:2");
    observed.set = read(&set);
    let changed = statefulset::plan(&observed, &env);
    let revisions = created(&changed, ControllerRevision::RESOURCE);
    observed.revisions.extend(revisions.iter().map(read));
    let update = time("all to be updated in place", || statefulset::plan(&observed, &env));
    assert!(update.writes().count() > 0);

    set["spec"]["replicas"] = json!(0);
    observed.set = read(&set);
    let end = time("all to be deleted", || statefulset::plan(&observed, &env));
    assert!(end.writes().count() >= pods);
}

fn claim_template(size: &str) -> Value {
    json!([{"metadata": {"name": "data"}, "spec": {
        "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}},
    }}])
}

fn set(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
        "metadata": {"name": "large", "namespace": "shop", "uid": UID, "generation": 1, "resourceVersion": "1"},
        "spec": {
            "replicas": replicas,
            "serviceName": "large",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "large"}},
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Retain"},
            "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"},
            "volumeClaimTemplates": claim_template("1Gi"),
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%", "partition": 0},
            },
            "template": {
                "metadata": {"labels": {"app": "large"}},
                "spec": {"containers": containers(), "readinessGates": [{"conditionType": "InPlaceUpdateReady"}]},
            },
        },
    })
}
