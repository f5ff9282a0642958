//! Claims: they follow their ordinal, and go with a Pod or the set if the policy says so.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_testkit::{
    builders::{Fixture as _, Workload},
    eventually::{NotYet, eventually},
};
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::json;

use super::{PATIENCE, Scenario, Stage, parallel, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_pod_that_is_replaced_then_it_finds_its_claim,
        given_when_scaled_delete_then_claims_go_with_their_pods,
        given_when_deleted_delete_then_claims_go_with_the_set,
        given_another_policy_then_living_claims_get_its_owners_and_outlive_the_set,
    ]
}

/// Nobody provides volumes here: the Pods are bound to a node past the scheduler, which would wait for them.
pub(super) fn with_claims(stage: &Stage, replicas: i32) -> Workload {
    let request = json!({"requests": {"storage": "1Gi"}});
    let template =
        json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": request}}]);
    parallel(replicas)
        .set("/spec/volumeClaimTemplates", template)
        .pod(|pod| pod.on_node(&stage.node(0)))
}

/// Waits until there are claims of exactly these names.
async fn claims_are(stage: &Stage, wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    eventually(PATIENCE, "exactly these claims are left", || async {
        let found: BTreeSet<String> = stage.claims().await.into_keys().collect();
        (found == wanted)
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{found:?}")))
    })
    .await;
}

async fn given_a_pod_that_is_replaced_then_it_finds_its_claim(stage: Arc<Stage>) {
    let before = stage.settled(with_claims(&stage, 2)).await;
    let claims = stage.claims().await;
    assert!(claims.values().all(|claim| claim.owner_references().is_empty()));
    stage.delete_pod("web-1").await;
    let old = before["web-1"].uid();
    let after = stage
        .until("web", "it is back", |pods| {
            pods.get("web-1").is_some_and(|pod| pod.uid() != old)
        })
        .await;
    let volumes = json!(after["web-1"].spec)["volumes"].clone();
    assert_eq!(volumes[0]["persistentVolumeClaim"]["claimName"], "data-web-1");
    assert_eq!(stage.claims().await["data-web-1"].uid(), claims["data-web-1"].uid());
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    stage.gone("web-1").await;
    claims_are(&stage, &["data-web-0", "data-web-1"]).await;
}

async fn given_when_scaled_delete_then_claims_go_with_their_pods(stage: Arc<Stage>) {
    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    stage
        .settled(with_claims(&stage, 3).set("/spec/persistentVolumeClaimRetentionPolicy", policy))
        .await;
    let old = stage.claims().await["data-web-1"].uid();
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    claims_are(&stage, &["data-web-0"]).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    stage.status("web", json!({"availableReplicas": 2})).await;
    assert_ne!(stage.claims().await["data-web-1"].uid(), old);
}

async fn given_when_deleted_delete_then_claims_go_with_the_set(stage: Arc<Stage>) {
    let policy = json!({"whenScaled": "Retain", "whenDeleted": "Delete"});
    stage
        .settled(with_claims(&stage, 2).set("/spec/persistentVolumeClaimRetentionPolicy", policy))
        .await;
    let claims = stage.claims().await;
    assert!(
        claims
            .values()
            .all(|claim| claim.owner_references()[0].kind == "StatefulSet")
    );
    stage.subjects.delete("web", &DeleteParams::background()).await.unwrap();
    claims_are(&stage, &[]).await;
}

async fn given_another_policy_then_living_claims_get_its_owners_and_outlive_the_set(stage: Arc<Stage>) {
    let policy = |deleted: &str| json!({"whenScaled": "Retain", "whenDeleted": deleted});
    let path = "/spec/persistentVolumeClaimRetentionPolicy";
    stage.settled(with_claims(&stage, 2).set(path, policy("Delete"))).await;
    let keep = json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy("Retain")}});
    stage.patch("web", keep).await;
    let nobodys = |claim: &PersistentVolumeClaim| claim.owner_references().is_empty();
    eventually(PATIENCE, "claims belong to nobody", || async {
        let claims = stage.claims().await;
        let free = claims.values().all(nobodys);
        free.then_some(()).ok_or_else(|| NotYet::new(format!("{claims:?}")))
    })
    .await;
    stage.subjects.delete("web", &DeleteParams::foreground()).await.unwrap();
    stage.gone("web-0").await;
    stage.gone("web-1").await;
    claims_are(&stage, &["data-web-0", "data-web-1"]).await;
}
