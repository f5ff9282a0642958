//! How long a CloneSet's planner thinks about a large set. Run by hand:
//!
//! ```sh
//! cargo run --release -p kruise-core --example plan_time -- 5000
//! ```
//!
//! Every line is one situation: the best of several rounds, since what else the machine does can only make them longer.

#[path = "shared/plan_time.rs"]
mod shared;

use std::collections::BTreeSet;

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::revision::ControllerRevision;
use kruise_core::cloneset::{self, Observed};
use kruise_core::plan::{Action, Env};
use serde_json::{Value, json};
use shared::{containers, created, merge, read, running, time};

// As in the manager.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const UID: &str = "11111111-1111-4111-8111-111111111111";

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

    let begun = time("all to be created", || cloneset::plan(&observed, &env));
    let revision = created(&begun, ControllerRevision::RESOURCE).remove(0);
    observed.revisions = vec![read(&revision)];
    let mut members = running(&begun, Pod::RESOURCE);
    observed.pods = members.values().map(read).collect();
    let status = cloneset::plan(&observed, &env).status.expect("a status");
    if let Action::Patch { patch, .. } = &status {
        merge(&mut set, patch.document());
    }
    observed.set = read(&set);
    assert!(time("nothing to do", || cloneset::plan(&observed, &env)).is_idle());

    set["metadata"]["generation"] = json!(2);
    set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/app:2");
    observed.set = read(&set);
    let changed = cloneset::plan(&observed, &env);
    let revisions = created(&changed, ControllerRevision::RESOURCE);
    observed.revisions.extend(revisions.iter().map(read));
    let update = time("all to be updated in place", || cloneset::plan(&observed, &env));

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
    let finish = time("updates of a round finish at once", || cloneset::plan(&observed, &env));
    assert_eq!(finish.writes().count(), patched.len());

    set["spec"]["replicas"] = json!(0);
    observed.set = read(&set);
    let end = time("all to be deleted", || cloneset::plan(&observed, &env));
    assert_eq!(end.writes().count(), pods);
}

fn set(replicas: usize) -> Value {
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
                "spec": {"containers": containers()},
            },
        },
    })
}
