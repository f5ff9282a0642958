//! What is in a set's way: objects of others under its names, revisions that are gone, nodes that are gone. It is told, and the rest goes on.

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    core::v1::{ConfigMap, PersistentVolumeClaim},
};
use kruise_testkit::{
    builders::{Fixture as _, Workload, config_map},
    eventually::{NotYet, eventually},
    sim::{NodeHealth, SimOptions, SimulatedNodes},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    PATIENCE, Scenario, Stage, claims::with_claims, in_place, ordinals, parallel, rolling, scenarios, to_image,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_claim_that_somebody_manages_then_it_is_used_and_left_as_it_is,
        given_a_claim_on_its_way_out_then_only_its_pod_waits,
        given_a_revision_that_is_deleted_then_it_comes_back_and_no_pod_is_written,
        given_the_old_revision_is_gone_then_its_pods_are_replaced,
        given_other_content_under_the_name_of_a_revision_then_another_name_is_taken,
        given_a_hook_that_never_lets_go_then_the_other_pods_are_updated,
        given_a_node_that_does_not_answer_then_its_pod_is_named_and_not_forced,
        given_a_pod_on_its_way_out_when_its_node_stops_answering_then_it_is_named,
    ]
}

/// A claim that the set `web` wants. `metadata` is what makes it special.
async fn claim(stage: &Stage, name: &str, metadata: Value) -> PersistentVolumeClaim {
    let request = json!({"requests": {"storage": "1Gi"}});
    let mut claim = json!({"metadata": metadata, "spec": {"accessModes": ["ReadWriteOnce"], "resources": request}});
    claim["metadata"]["name"] = json!(name);
    let claims: Api<PersistentVolumeClaim> = stage.api();
    let claim = serde_json::from_value(claim).unwrap();
    claims.create(&PostParams::default(), &claim).await.unwrap()
}

async fn given_a_claim_that_somebody_manages_then_it_is_used_and_left_as_it_is(stage: Arc<Stage>) {
    let maps: Api<ConfigMap> = stage.api();
    let map = config_map("manager").build();
    let map = maps.create(&PostParams::default(), &map).await.unwrap();
    let owner = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "manager", "uid": map.uid(), "controller": true,
    }]);
    let theirs = claim(&stage, "data-web-0", json!({"ownerReferences": owner})).await;
    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    let set = with_claims(&stage, 2).set("/spec/persistentVolumeClaimRetentionPolicy", policy);
    stage.settled(set).await;
    let why = stage.why("web", "claimsOfOthers").await;
    assert_eq!(why["claims"]["names"], json!(["data-web-0"]), "{why}");
    let claims = stage.claims().await;
    assert_eq!(claims["data-web-0"].uid(), theirs.uid());
    assert_eq!(claims["data-web-0"].owner_references(), theirs.owner_references());
    assert_eq!(claims["data-web-1"].owner_references()[0].kind, "StatefulSet");
}

async fn given_a_claim_on_its_way_out_then_only_its_pod_waits(stage: Arc<Stage>) {
    claim(&stage, "data-web-0", json!({"finalizers": ["example.com/held"]})).await;
    let claims: Api<PersistentVolumeClaim> = stage.api();
    claims.delete("data-web-0", &DeleteParams::default()).await.unwrap();
    stage.create(with_claims(&stage, 2)).await;
    stage
        .until("web", "the other one is there", |pods| ordinals(pods) == [1])
        .await;
    stage.why("web", "claimsTerminating").await;
    stage.condition("web", "FailedCreatePod", "True").await;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    claims
        .patch("data-web-0", &PatchParams::default(), &free)
        .await
        .unwrap();
    stage.status("web", json!({"availableReplicas": 2})).await;
    stage.condition_is("web", "FailedCreatePod", Value::is_null).await;
}

async fn given_a_revision_that_is_deleted_then_it_comes_back_and_no_pod_is_written(stage: Arc<Stage>) {
    let before = stage.settled(parallel(2)).await;
    let old = stage.revisions().await.remove(0);
    let revisions: Api<ControllerRevision> = stage.api();
    revisions
        .delete(&old.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    eventually(PATIENCE, "it is back", || async {
        let found = revisions.get_opt(&old.name_any()).await?;
        let is_new = found.is_some_and(|found| found.uid() != old.uid());
        is_new.then_some(()).ok_or_else(|| NotYet::new("not yet"))
    })
    .await;
    let after = stage.pods("web").await;
    let is_untouched = |name: &String| after[name].metadata.generation == before[name].metadata.generation;
    assert!(before.keys().all(is_untouched));
    assert!(after.iter().all(|(name, pod)| pod.uid() == before[name].uid()));
}

async fn given_the_old_revision_is_gone_then_its_pods_are_replaced(stage: Arc<Stage>) {
    let before = stage.settled(in_place(2)).await;
    let old = stage.revisions().await.remove(0).name_any();
    stage.patch("web", rolling("partition", 1)).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 1, "availableReplicas": 2}))
        .await;
    // Nobody knows any more what its Pod was made from.
    let revisions: Api<ControllerRevision> = stage.api();
    revisions.delete(&old, &DeleteParams::default()).await.unwrap();
    stage.patch("web", rolling("partition", 0)).await;
    stage
        .status("web", json!({"updatedReplicas": 2, "availableReplicas": 2}))
        .await;
    let after = stage.pods("web").await;
    assert_eq!(after["web-1"].uid(), before["web-1"].uid());
    assert_ne!(after["web-0"].uid(), before["web-0"].uid());
}

async fn given_other_content_under_the_name_of_a_revision_then_another_name_is_taken(stage: Arc<Stage>) {
    stage.settled(parallel(1)).await;
    let taken = stage.revisions().await.remove(0).name_any();
    stage.subjects.delete("web", &DeleteParams::background()).await.unwrap();
    eventually(PATIENCE, "all is gone", || async {
        let left = stage.revisions().await.len() + stage.try_pods("web").await?.len();
        if left == 0 {
            Ok(())
        } else {
            Err(NotYet::new(left.to_string()))
        }
    })
    .await;
    let other = json!({"metadata": {"name": taken}, "revision": 1, "data": {"nothing": "of a template"}});
    let revisions: Api<ControllerRevision> = stage.api();
    let other = serde_json::from_value(other).unwrap();
    revisions.create(&PostParams::default(), &other).await.unwrap();
    let pods = stage.settled(parallel(1)).await;
    let status = stage.status("web", json!({"collisionCount": 1})).await;
    assert_ne!(status["updateRevision"], json!(taken));
    assert_eq!(
        pods["web-0"].labels()["controller-revision-hash"],
        status["updateRevision"].as_str().unwrap()
    );
    assert!(revisions.get(&taken).await.unwrap().owner_references().is_empty());
}

async fn given_a_hook_that_never_lets_go_then_the_other_pods_are_updated(stage: Arc<Stage>) {
    let set = parallel(3)
        .set("/spec/lifecycle/preDelete/labelsHandler", json!({"block": "yes"}))
        .set("/spec/updateStrategy/rollingUpdate/maxUnavailable", 2);
    let before = stage.settled(set).await;
    stage.label_pod("web-2", "block", Some("yes")).await;
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .status("web", json!({"updatedReplicas": 2, "availableReplicas": 2}))
        .await;
    let why = stage.why("web", "hookWaiting").await;
    assert_eq!(why["pods"]["names"], json!(["web-2"]), "{why}");
    let held = stage.pods("web").await.remove("web-2").unwrap();
    assert_eq!(
        (super::state(&held), held.uid()),
        ("PreparingDelete", before["web-2"].uid())
    );
}

/// A node for this stage alone.
async fn own_node(stage: &Stage) -> SimulatedNodes {
    let options = SimOptions {
        name_prefix: stage.namespace().to_owned(),
        namespace: Some(stage.namespace().to_owned()),
        labels: [("field".to_owned(), stage.namespace().to_owned())].into(),
        ..SimOptions::default()
    };
    SimulatedNodes::start(stage.client(), options).await.unwrap()
}

fn on_own_node(stage: &Stage) -> Workload {
    let here = ("field".to_owned(), stage.namespace().to_owned());
    parallel(2).pod(|pod| pod.node_selector(here))
}

async fn given_a_node_that_does_not_answer_then_its_pod_is_named_and_not_forced(stage: Arc<Stage>) {
    let nodes = own_node(&stage).await;
    let before = stage.settled(on_own_node(&stage)).await;
    let node = nodes.names().remove(0);
    nodes.set_health(&node, NodeHealth::Unreachable).await.unwrap();
    stage.delete_pod("web-1").await;
    let why = stage.why("web", "nodeLost").await;
    assert_eq!(why["node"], json!(node), "{why}");
    stage.condition("web", "FailedCreatePod", "True").await;
    let held = stage.pods.get("web-1").await.unwrap();
    assert_eq!(held.uid(), before["web-1"].uid(), "it may still run there");
    nodes.set_health(&node, NodeHealth::Ready).await.unwrap();
    stage.status("web", json!({"availableReplicas": 2})).await;
    let after = stage.pods("web").await;
    assert_ne!(after["web-1"].uid(), before["web-1"].uid());
    nodes.stop().await.unwrap();
}

async fn given_a_pod_on_its_way_out_when_its_node_stops_answering_then_it_is_named(stage: Arc<Stage>) {
    let nodes = own_node(&stage).await;
    stage.settled(on_own_node(&stage)).await;
    let node = nodes.names().remove(0);
    // Nothing about the Pod changes any more when its node goes: it is not ready already.
    stage.script_pod("web-1", "never-ready", Some("true")).await;
    stage.status("web", json!({"availableReplicas": 1})).await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    stage.patch_pod("web-1", held).await;
    stage.delete_pod("web-1").await;
    stage.why("web", "terminating").await;
    nodes.set_health(&node, NodeHealth::Unreachable).await.unwrap();
    let why = stage.why("web", "nodeLost").await;
    assert_eq!(why["node"], json!(node), "{why}");
    nodes.set_health(&node, NodeHealth::Ready).await.unwrap();
    stage.why("web", "terminating").await;
    stage
        .patch_pod("web-1", json!({"metadata": {"finalizers": null}}))
        .await;
    stage.status("web", json!({"availableReplicas": 2})).await;
    nodes.stop().await.unwrap();
}
