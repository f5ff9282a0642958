//! The storage of a local cluster on real nodes: what one Pod wrote, the next one reads, on the same node; and the claim grows.

use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kruise_testkit::cluster;
use kruise_testkit::eventually::{eventually, not_yet, run_test};
use kruise_testkit::namespace::{self, FreshNamespace};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(2);

async fn create<K>(namespace: &FreshNamespace, object: Value)
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    let created = namespace.api::<K>().create(&PostParams::default(), &object).await;
    created.unwrap();
}

/// Runs a Pod with the claim to its end; returns its node.
async fn run(namespace: &FreshNamespace, name: &str, command: &str) -> String {
    let pod = json!({
        "metadata": { "name": name },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "main", "image": "busybox:1.36", "command": ["sh", "-c", command],
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }],
        },
    });
    create::<Pod>(namespace, pod).await;
    let pods = namespace.api::<Pod>();
    let ended = eventually(PATIENCE, "the Pod has ended well", || async {
        let pod = pods.get(name).await?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase == Some("Succeeded") {
            Ok(pod)
        } else {
            Err(not_yet(&pod.status))
        }
    })
    .await;
    pods.delete(name, &DeleteParams::default()).await.unwrap();
    ended.spec.unwrap().node_name.unwrap()
}

#[test]
fn given_a_claim_of_the_default_class_then_its_data_outlives_pods_and_it_grows() {
    run_test(PATIENCE * 3, async {
        let client = cluster::nodes_client().await;
        let namespace = namespace::fresh(&client, "storage").await.unwrap();
        let claim = json!({
            "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        });
        create::<PersistentVolumeClaim>(&namespace, claim).await;
        let wrote = run(&namespace, "writer", "echo kept > /data/file").await;
        let read = run(&namespace, "reader", "grep -x kept /data/file").await;
        assert_eq!(wrote, read);

        let claims = namespace.api::<PersistentVolumeClaim>();
        let more = json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } });
        let patched = claims.patch("data", &PatchParams::default(), &Patch::Merge(more)).await;
        patched.unwrap();
        eventually(PATIENCE, "the claim has grown", || async {
            let claim = claims.get("data").await?;
            let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
            match capacity.and_then(|capacity| capacity.get("storage")) {
                Some(size) if size.0 == "2Gi" => Ok(()),
                _ => Err(not_yet(&claim.status)),
            }
        })
        .await;
    });
}
