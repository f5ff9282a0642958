//! Claims: bound where their Pod is, growing, failing to grow, stuck, and gone.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kruise_testkit::eventually::{eventually, not_yet};
use kruise_testkit::storage::{self, LocalStorage};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{PATIENCE, Scenario, is_ready, on_cluster};

/// A class of the test's own, and the storage that serves it. Others may serve it, too.
async fn serve(scenario: &Scenario) -> (String, LocalStorage) {
    let name = scenario.namespace.name().to_owned();
    let classes: Api<StorageClass> = Api::all(scenario.client.clone());
    let class = serde_json::from_value(storage::class(&name)).unwrap();
    classes.create(&PostParams::default(), &class).await.unwrap();
    (name, LocalStorage::start(scenario.client.clone()))
}

/// A claim with a script, and a Pod that uses it.
async fn claim(scenario: &Scenario, class: &str, name: &str, script: Value) {
    let claim = json!({
        "metadata": { "name": name, "annotations": script },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
    scenario.api().create(&PostParams::default(), &claim).await.unwrap();
    let (key, value) = scenario.nodes.selector();
    let pod = json!({
        "metadata": { "name": name },
        "spec": {
            "nodeSelector": { (key): value },
            "containers": [{ "name": "main", "image": "busybox:1.36", "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": name } }],
        },
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    scenario.api().create(&PostParams::default(), &pod).await.unwrap();
}

/// The claim as it is when `good` holds for it.
async fn until(
    scenario: &Scenario,
    name: &str,
    what: &str,
    good: impl Fn(&PersistentVolumeClaim) -> bool,
) -> PersistentVolumeClaim {
    let claims: Api<PersistentVolumeClaim> = scenario.api();
    eventually(PATIENCE, what, || async {
        let claim = claims.get(name).await?;
        if good(&claim) { Ok(claim) } else { Err(not_yet(&claim)) }
    })
    .await
}

async fn change(scenario: &Scenario, name: &str, patch: Value) {
    let claims: Api<PersistentVolumeClaim> = scenario.api();
    let patched = claims.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.unwrap();
}

fn size(size: &str) -> Value {
    json!({ "spec": { "resources": { "requests": { "storage": size } } } })
}

fn capacity(claim: &PersistentVolumeClaim) -> &str {
    let status = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    status
        .and_then(|capacity| capacity.get("storage"))
        .map_or("", |size| &size.0)
}

fn shows(claim: &PersistentVolumeClaim, condition: &str) -> bool {
    let conditions = claim.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| {
        all.iter()
            .any(|shown| shown.type_ == condition && shown.status == "True")
    })
}

#[test]
fn given_a_claim_of_a_pod_then_it_gets_a_volume_on_its_node_and_grows() {
    on_cluster("grow", |scenario| async move {
        let (class, _storage) = serve(&scenario).await;
        claim(&scenario, &class, "a", json!({})).await;
        let pod = scenario.until("a", "the Pod is ready", is_ready).await;
        let bound = until(&scenario, "a", "the claim is bound", |claim| capacity(claim) == "1Gi").await;
        let volumes: Api<PersistentVolume> = Api::all(scenario.client.clone());
        let name = bound.spec.unwrap().volume_name.unwrap();
        let volume = volumes.get(&name).await.unwrap();
        let affinity = serde_json::to_string(&volume.spec.unwrap().node_affinity).unwrap();
        let node = pod.spec.unwrap().node_name.unwrap();
        assert!(affinity.contains(&format!("\"{node}\"")), "{affinity} {node}");

        change(&scenario, "a", size("2Gi")).await;
        until(&scenario, "a", "the claim has grown", |claim| capacity(claim) == "2Gi").await;

        let pods: Api<Pod> = scenario.api();
        pods.delete("a", &DeleteParams::default()).await.unwrap();
        let claims: Api<PersistentVolumeClaim> = scenario.api();
        claims.delete("a", &DeleteParams::default()).await.unwrap();
        eventually(PATIENCE, "the volume is gone", || async {
            match volumes.get_opt(&name).await? {
                None => Ok(()),
                Some(volume) => Err(not_yet(&volume.status)),
            }
        })
        .await;
    });
}

#[test]
fn given_scripts_then_claims_wait_fail_and_recover_as_they_say() {
    on_cluster("scripts", |scenario| async move {
        let (class, _storage) = serve(&scenario).await;
        let grow = |how: &str| json!({ "storage.kruise.test/grow": how });
        for (name, script) in [
            ("stuck", grow("never")),
            ("failing", grow("fail")),
            ("pending", grow("restart")),
        ] {
            claim(&scenario, &class, name, script).await;
            until(&scenario, name, "the claim is bound", |claim| capacity(claim) == "1Gi").await;
            change(&scenario, name, size("2Gi")).await;
        }
        for (name, condition) in [
            ("stuck", "Resizing"),
            ("failing", "ControllerResizeError"),
            ("pending", "FileSystemResizePending"),
        ] {
            let claim = until(&scenario, name, "the condition is shown", |claim| {
                shows(claim, condition)
            })
            .await;
            assert_eq!(capacity(&claim), "1Gi");
            change(&scenario, name, json!({ "metadata": { "annotations": grow("yes") } })).await;
            let claim = until(&scenario, name, "the claim has grown", |claim| capacity(claim) == "2Gi").await;
            assert!(!shows(&claim, condition));
        }

        claim(
            &scenario,
            &class,
            "never",
            json!({ "storage.kruise.test/provision": "never" }),
        )
        .await;
        let asked = |claim: &PersistentVolumeClaim| {
            let annotations = claim.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key("volume.kubernetes.io/storage-provisioner"))
        };
        let waiting = until(&scenario, "never", "a volume is asked for", asked).await;
        assert_eq!(waiting.spec.unwrap().volume_name, None);
        let patch = json!({ "metadata": { "annotations": { "storage.kruise.test/provision": null } } });
        change(&scenario, "never", patch).await;
        until(&scenario, "never", "the claim is bound", |claim| {
            capacity(claim) == "1Gi"
        })
        .await;
    });
}
