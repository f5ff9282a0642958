//! Claims that grow with their templates, on storage that does it, takes its time, fails, or never provides anything.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kruise_testkit::{
    builders::{Fixture as _, Workload},
    eventually::{NotYet, eventually},
    storage::{self, LocalStorage},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, Scenario, Stage, in_place, ordinals_with, parallel, scenarios, to_image};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_bigger_template_then_claims_grow_and_pods_stay,
        given_volumes_that_take_their_time_then_no_more_grow_than_may_be_unavailable,
        given_a_volume_that_cannot_be_made_bigger_then_it_is_told_and_the_rest_waits,
        given_file_systems_that_grow_with_a_start_then_the_update_of_the_pod_is_that_start,
        given_no_volume_then_it_is_told_and_other_pods_come,
        given_a_class_that_does_not_allow_it_then_it_is_refused_or_told,
        given_on_delete_then_claims_stay_as_they_are,
    ]
}

/// Storage with a class of the scenario's own.
struct Storage<'s> {
    stage: &'s Stage,
    classes: Api<StorageClass>,
    _served: LocalStorage,
}

impl<'s> Storage<'s> {
    /// The class allows volumes to grow, does not, or says nothing about it.
    async fn start(stage: &'s Stage, grows: Option<bool>) -> Self {
        let classes: Api<StorageClass> = Api::all(stage.client());
        let mut class = storage::class(stage.namespace());
        class["allowVolumeExpansion"] = json!(grows);
        let class = serde_json::from_value(class).unwrap();
        classes.create(&PostParams::default(), &class).await.unwrap();
        Self {
            stage,
            classes,
            _served: LocalStorage::start(stage.client()),
        }
    }

    /// A template for claims of this size. `script` says what shall happen to their volumes.
    fn template(&self, size: &str, script: &Value) -> Value {
        json!([{"metadata": {"name": "data", "annotations": script}, "spec": {
            "storageClassName": self.stage.namespace(), "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}},
        }}])
    }

    fn of(&self, set: Workload, script: &Value) -> Workload {
        set.set("/spec/volumeClaimTemplates", self.template("1Gi", script))
            .set("/spec/volumeClaimUpdateStrategy/type", "OnPodRollingUpdate")
    }

    async fn grow(&self) {
        self.stage.patch("web", self.bigger()).await;
    }

    fn bigger(&self) -> Value {
        json!({"spec": {"volumeClaimTemplates": self.template("2Gi", &json!({}))}})
    }

    /// Another script for a claim.
    async fn script(&self, claim: &str, key: &str, value: Option<&str>) {
        let claims: Api<PersistentVolumeClaim> = self.stage.api();
        let key = format!("storage.kruise.test/{key}");
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        claims.patch(claim, &PatchParams::default(), &patch).await.unwrap();
    }

    /// What each claim asks for and has, by ordinal: `2Gi/1Gi`.
    async fn sizes(&self) -> Vec<String> {
        let sizes = self.stage.claims().await.into_values().map(|claim| {
            let claim = json!(claim);
            let text = |pointer: &str| claim.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
            format!(
                "{}/{}",
                text("/spec/resources/requests/storage"),
                text("/status/capacity/storage")
            )
        });
        sizes.collect()
    }

    async fn until(&self, wanted: &[&str]) {
        eventually(PATIENCE, "claims have these sizes", || async {
            let found = self.sizes().await;
            (found == wanted)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{found:?}")))
        })
        .await;
    }

    /// Nothing is left behind but the set's namespace.
    async fn end(self) {
        let (name, now) = (self.stage.namespace(), DeleteParams::default());
        self.stage.subjects.delete("web", &now).await.unwrap();
        let (claims, all): (Api<PersistentVolumeClaim>, _) = (self.stage.api(), ListParams::default());
        claims.delete_collection(&now, &all).await.unwrap();
        let volumes: Api<PersistentVolume> = Api::all(self.stage.client());
        eventually(PATIENCE, "its volumes are gone", || async {
            let found = volumes.list(&ListParams::default()).await?.items.into_iter();
            let class = |volume: &PersistentVolume| volume.spec.as_ref()?.storage_class_name.clone();
            let left = found.filter(|volume| class(volume).as_deref() == Some(name)).count();
            if left == 0 {
                Ok(())
            } else {
                Err(NotYet::new(left.to_string()))
            }
        })
        .await;
        self.classes.delete(name, &now).await.unwrap();
    }
}

/// So many claims of the set follow their template, and so many of them have what they ask for.
fn follow(all: i32, ready: i32) -> Value {
    json!({"volumeClaims": [{"volumeClaimName": "data", "compatibleReplicas": all, "compatibleReadyReplicas": ready}]})
}

async fn given_a_bigger_template_then_claims_grow_and_pods_stay(stage: Arc<Stage>) {
    let storage = Storage::start(&stage, Some(true)).await;
    let before = stage.settled(storage.of(super::web(2), &json!({}))).await;
    stage.status("web", follow(2, 2)).await;
    storage.grow().await;
    stage.status("web", follow(2, 2)).await;
    storage.until(&["2Gi/2Gi", "2Gi/2Gi"]).await;
    let after = stage.pods("web").await;
    assert!(after.iter().all(|(name, pod)| pod.uid() == before[name].uid()));
    stage.event("web", "SuccessfulResize", "resize Claim data-web-1").await;
    storage.end().await;
}

async fn given_volumes_that_take_their_time_then_no_more_grow_than_may_be_unavailable(stage: Arc<Stage>) {
    let storage = Storage::start(&stage, Some(true)).await;
    let slow = json!({"storage.kruise.test/grow": "never"});
    let set = storage
        .of(parallel(4), &slow)
        .set("/spec/updateStrategy/rollingUpdate/maxUnavailable", 2);
    stage.settled(set).await;
    storage.grow().await;
    stage.status("web", follow(2, 0)).await;
    stage.why("web", "claimsGrowing").await;
    storage.until(&["1Gi/1Gi", "1Gi/1Gi", "2Gi/1Gi", "2Gi/1Gi"]).await;
    storage.script("data-web-2", "grow", None).await;
    storage.until(&["1Gi/1Gi", "2Gi/1Gi", "2Gi/2Gi", "2Gi/1Gi"]).await;
    stage.status("web", follow(3, 1)).await;
    for claim in ["data-web-0", "data-web-1", "data-web-3"] {
        storage.script(claim, "grow", None).await;
    }
    stage.status("web", follow(4, 4)).await;
    storage.end().await;
}

async fn given_a_volume_that_cannot_be_made_bigger_then_it_is_told_and_the_rest_waits(stage: Arc<Stage>) {
    let storage = Storage::start(&stage, Some(true)).await;
    let failing = json!({"storage.kruise.test/grow": "fail"});
    stage.settled(storage.of(parallel(2), &failing)).await;
    storage.grow().await;
    let why = stage.why("web", "claimNotExpandable").await;
    assert_eq!(why["claim"], "data-web-1", "{why}");
    stage.condition("web", "FailedUpdatePod", "True").await;
    stage.event("web", "FailedResize", "data-web-1").await;
    storage.until(&["1Gi/1Gi", "2Gi/1Gi"]).await;
    for claim in ["data-web-0", "data-web-1"] {
        storage.script(claim, "grow", None).await;
    }
    stage.status("web", follow(2, 2)).await;
    stage.condition_is("web", "FailedUpdatePod", Value::is_null).await;
    storage.end().await;
}

async fn given_file_systems_that_grow_with_a_start_then_the_update_of_the_pod_is_that_start(stage: Arc<Stage>) {
    let storage = Storage::start(&stage, Some(true)).await;
    let offline = json!({"storage.kruise.test/grow": "restart"});
    stage.settled(storage.of(in_place(2), &offline)).await;
    storage.grow().await;
    let why = stage.why("web", "claimsNeedRestart").await;
    assert_eq!(why["claims"]["names"], json!(["data-web-1"]), "{why}");
    // The Pod's own update is not held up by it, and the next Pod is held up by the volume that is not ready.
    stage.patch("web", to_image("nginx:2")).await;
    stage
        .until("web", "the first is updated", |pods| {
            ordinals_with(pods, "nginx:2") == [1]
        })
        .await;
    storage.until(&["1Gi/1Gi", "2Gi/1Gi"]).await;
    // As the kubelet does when the Pod starts.
    storage.script("data-web-1", "grow", None).await;
    stage
        .until("web", "the next is updated", |pods| {
            ordinals_with(pods, "nginx:2") == [0, 1]
        })
        .await;
    storage.script("data-web-0", "grow", None).await;
    stage.status("web", follow(2, 2)).await;
    storage.end().await;
}

async fn given_no_volume_then_it_is_told_and_other_pods_come(stage: Arc<Stage>) {
    let storage = Storage::start(&stage, Some(true)).await;
    let stuck = json!({"storage.kruise.test/provision": "never"});
    let claim = &storage.template("1Gi", &stuck)[0];
    let mut first: PersistentVolumeClaim = serde_json::from_value(claim.clone()).unwrap();
    first.metadata.name = Some("data-web-0".to_owned());
    let claims: Api<PersistentVolumeClaim> = stage.api();
    claims.create(&PostParams::default(), &first).await.unwrap();
    stage.create(storage.of(parallel(2), &json!({}))).await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 1}))
        .await;
    let why = stage.why("web", "claimsNotBound").await;
    assert_eq!(why["claims"]["names"], json!(["data-web-0"]), "{why}");
    storage.script("data-web-0", "provision", None).await;
    stage.status("web", json!({"availableReplicas": 2})).await;
    storage.end().await;
}

async fn given_a_class_that_does_not_allow_it_then_it_is_refused_or_told(stage: Arc<Stage>) {
    let storage = Storage::start(&stage, Some(false)).await;
    stage.create(storage.of(parallel(0), &json!({}))).await;
    let refused = stage.try_patch("web", storage.bigger()).await.unwrap_err().to_string();
    assert!(refused.contains("spec.volumeClaimTemplates[data]"), "{refused}");
    let name = stage.namespace();
    let now = DeleteParams::default();
    storage.classes.delete(name, &now).await.unwrap();
    drop(storage);
    // It says nothing about it, so the webhook does not mind.
    let storage = Storage::start(&stage, None).await;
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    stage.status("web", json!({"availableReplicas": 1})).await;
    storage.grow().await;
    let why = stage.why("web", "claimNotExpandable").await;
    assert!(why["message"].as_str().unwrap().contains(name), "{why}");
    stage.condition("web", "FailedUpdatePod", "True").await;
    stage
        .event("web", "FailedResize", "does not allow volumes to grow")
        .await;
    // Nothing but the class changes.
    let allow = Patch::Merge(json!({"allowVolumeExpansion": true}));
    let params = PatchParams::default();
    storage.classes.patch(name, &params, &allow).await.unwrap();
    storage.until(&["2Gi/2Gi"]).await;
    storage.end().await;
}

async fn given_on_delete_then_claims_stay_as_they_are(stage: Arc<Stage>) {
    let storage = Storage::start(&stage, Some(true)).await;
    let set = storage
        .of(parallel(1), &json!({}))
        .set("/spec/volumeClaimUpdateStrategy/type", "OnDelete");
    stage.settled(set).await;
    stage.status("web", follow(1, 1)).await;
    storage.grow().await;
    stage.status("web", follow(0, 0)).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    stage.status("web", json!({"availableReplicas": 2})).await;
    storage.until(&["1Gi/1Gi", "2Gi/2Gi"]).await;
    storage.end().await;
}
