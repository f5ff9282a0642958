//! Pods with claims of their own.
//!
//! Nobody provides volumes here. The Pods are bound to a node past the scheduler, which would wait for them.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_testkit::{
    builders::{Fixture as _, Workload},
    eventually::{NotYet, eventually},
};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{PATIENCE, Scenario, Stage, names, scenarios, web};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_reuse_and_a_pod_that_somebody_deletes_then_it_returns_with_its_claim,
        given_no_reuse_and_a_pod_that_somebody_deletes_then_its_claim_goes_too,
        given_scaling_in_then_claims_go_with_their_pods,
        given_reuse_and_scaling_in_then_claims_go_with_their_pods,
        given_other_claim_templates_then_only_new_pods_are_different,
    ]
}

fn claim_template(size: &str) -> Value {
    let request = json!({"requests": {"storage": size}});
    json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": request}}])
}

fn with_claims(stage: &Stage, replicas: i32, reuse: bool) -> Workload {
    web(replicas)
        .set("/spec/volumeClaimTemplates", claim_template("1Gi"))
        .set("/spec/scaleStrategy/enablePVCReuse", reuse)
        .pod(|pod| pod.on_node(&stage.node(0)))
}

/// Waits until there are claims of exactly these names.
async fn claims_are(stage: &Stage, wanted: &BTreeSet<String>) {
    let api: Api<PersistentVolumeClaim> = stage.api();
    eventually(PATIENCE, "exactly these claims are left", || async {
        let found = api.list(&kube::api::ListParams::default()).await?.items;
        let found: BTreeSet<String> = found.iter().map(kube::ResourceExt::name_any).collect();
        (found == *wanted)
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{found:?} instead of {wanted:?}")))
    })
    .await;
}

fn claims_of<'a>(pods: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
    pods.into_iter().map(|pod| format!("data-{pod}")).collect()
}

async fn given_reuse_and_a_pod_that_somebody_deletes_then_it_returns_with_its_claim(stage: Arc<Stage>) {
    let before = stage.settled(with_claims(&stage, 2, true)).await;
    let claims = stage.claims().await;
    assert_eq!(
        claims.keys().cloned().collect::<BTreeSet<_>>(),
        claims_of(before.keys())
    );
    let chosen = before.keys().next().unwrap();
    let claim = format!("data-{chosen}");
    let volumes = json!(before[chosen].spec)["volumes"].clone();
    assert_eq!(
        volumes[0],
        json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
    );

    stage.delete_pod(chosen).await;
    let old = before[chosen].uid();
    stage
        .until("web", "it is back", |pods| {
            pods.get(chosen).is_some_and(|pod| pod.uid() != old)
        })
        .await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    let after = stage.claims().await;
    assert_eq!(after[&claim].uid(), claims[&claim].uid());
    assert_eq!(after.len(), 2);
}

async fn given_no_reuse_and_a_pod_that_somebody_deletes_then_its_claim_goes_too(stage: Arc<Stage>) {
    let before = names(&stage.settled(with_claims(&stage, 2, false)).await);
    let chosen = before.first().unwrap();
    stage.delete_pod(chosen).await;
    let after = stage
        .until("web", "there is another", |pods| {
            pods.len() == 2 && !pods.contains_key(chosen)
        })
        .await;
    claims_are(&stage, &claims_of(after.keys())).await;
}

async fn given_scaling_in_then_claims_go_with_their_pods(stage: Arc<Stage>) {
    scale_in(&stage, false).await;
}

async fn given_reuse_and_scaling_in_then_claims_go_with_their_pods(stage: Arc<Stage>) {
    scale_in(&stage, true).await;
}

async fn scale_in(stage: &Stage, reuse: bool) {
    stage.settled(with_claims(stage, 3, reuse)).await;
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    let left = stage.until("web", "one is left", |pods| pods.len() == 1).await;
    claims_are(stage, &claims_of(left.keys())).await;
}

async fn given_other_claim_templates_then_only_new_pods_are_different(stage: Arc<Stage>) {
    let before = stage.settled(with_claims(&stage, 2, false)).await;
    stage
        .patch("web", json!({"spec": {"volumeClaimTemplates": claim_template("2Gi")}}))
        .await;
    stage.status("web", json!({"replicas": 2, "updatedReplicas": 2})).await;
    stage.patch("web", json!({"spec": {"replicas": 3}})).await;
    stage
        .status(
            "web",
            json!({"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}),
        )
        .await;
    assert_eq!(stage.revisions().await.len(), 1);
    let after = stage.pods("web").await;
    for (name, pod) in &after {
        let claim = &stage.claims().await[&format!("data-{name}")];
        let size = json!(claim.spec)["resources"]["requests"]["storage"].clone();
        match before.get(name) {
            Some(old) => assert_eq!((pod.uid(), size), (old.uid(), json!("1Gi"))),
            None => assert_eq!(size, "2Gi"),
        }
    }
}
