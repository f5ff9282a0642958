//! The same manifest as a StatefulSet of Kubernetes and as one of ours: where users know the behaviour, it is the same.
//!
//! Everything a user does is done to both, first in order and with a rolling update, then in parallel and with `OnDelete`, on the claims that the first sets left. Compared are identity, claims,
//! status, the number of revisions, and in order also in which order Pods come and go. Left out is what ours has besides: the labels and annotations of lifecycle hooks, and the status fields
//! that only ours has.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kruise_testkit::{
    builders::{Fixture as _, Workload},
    eventually::{NotYet, eventually},
    features::{Feature, lacks},
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, Scenario, Stage, image, scenarios, to_image, web};
use crate::cluster::scenario::pod_history::PodHistory;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_the_same_manifest_then_both_kinds_behave_alike]
}

const OURS: &str = "ours";
const THEIRS: &str = "theirs";
/// Of the status, what both have.
const COUNTS: [&str; 6] = [
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "currentReplicas",
    "updatedReplicas",
    "collisionCount",
];

struct Both<'s> {
    stage: &'s Stage,
    sets: [(&'static str, Api<DynamicObject>); 2],
}

impl<'s> Both<'s> {
    async fn create(stage: &'s Stage, set: Workload) -> Self {
        let native = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "StatefulSet"));
        let native = Api::namespaced_with(stage.client(), stage.namespace(), &native);
        let sets = [(OURS, stage.subjects.clone()), (THEIRS, native)];
        for (name, api) in &sets {
            let mut set: Value = serde_json::from_str(&set.clone().json().to_string().replace("web", name)).unwrap();
            if *name == THEIRS {
                set["apiVersion"] = json!("apps/v1");
            }
            let set = serde_json::from_value(set).unwrap();
            api.create(&PostParams::default(), &set).await.unwrap();
        }
        Self { stage, sets }
    }

    async fn patch(&self, patch: Value) {
        for (name, api) in &self.sets {
            let patch = Patch::Merge(&patch);
            api.patch(name, &PatchParams::default(), &patch).await.unwrap();
        }
    }

    /// Deletes both sets. Returns the claims that stay when they are gone with their Pods; they are the same of both.
    async fn delete(&self, stay: usize) -> Vec<String> {
        for (name, api) in &self.sets {
            api.delete(name, &DeleteParams::background()).await.unwrap();
        }
        eventually(PATIENCE, "both sets are gone", || async {
            let mut left = Vec::new();
            for (name, api) in &self.sets {
                let pods = self.stage.try_pods(name).await?;
                let revisions = self.stage.revisions().await.into_iter();
                let revisions = revisions
                    .filter(|revision| revision.name_any().starts_with(name))
                    .count();
                if api.get_opt(name).await?.is_some() || !pods.is_empty() || revisions > 0 {
                    return Err(NotYet::new(format!("{name}: {:?}, {revisions} revisions", pods.keys())));
                }
                let claims = self.stage.claims().await.into_keys();
                let claims = claims.filter(|claim| claim.contains(name));
                left.push(claims.map(|claim| claim.replace(name, "web")).collect::<Vec<_>>());
            }
            match &left[..] {
                [ours, theirs] if ours == theirs && ours.len() == stay => Ok(ours.clone()),
                _ => Err(NotYet::new(format!("{left:?}"))),
            }
        })
        .await
    }

    async fn end_pods(&self, ordinal: i32, phase: &str) {
        let before = self.uids(ordinal).await;
        for pod in Self::pods(ordinal) {
            self.stage.script_pod(&pod, "phase", Some(phase)).await;
        }
        self.come_anew(ordinal, before).await;
    }

    /// The Pods of an ordinal.
    fn pods(ordinal: i32) -> [String; 2] {
        [OURS, THEIRS].map(|name| format!("{name}-{ordinal}"))
    }

    async fn delete_pods(&self, ordinal: i32) {
        let before = self.uids(ordinal).await;
        for pod in Self::pods(ordinal) {
            self.stage.delete_pod(&pod).await;
        }
        self.come_anew(ordinal, before).await;
    }

    async fn uids(&self, ordinal: i32) -> Vec<Option<String>> {
        let pods = Self::pods(ordinal);
        let pods = pods.iter().map(|pod| self.stage.pods.get_opt(pod));
        let found = futures::future::try_join_all(pods).await.unwrap();
        found.into_iter().map(|pod| pod.and_then(|pod| pod.uid())).collect()
    }

    async fn come_anew(&self, ordinal: i32, before: Vec<Option<String>>) {
        eventually(PATIENCE, "both Pods are made anew", || async {
            let now = self.uids(ordinal).await;
            let is_new = now
                .iter()
                .zip(&before)
                .all(|(now, before)| now.is_some() && now != before);
            is_new.then_some(()).ok_or_else(|| NotYet::new(format!("{now:?}")))
        })
        .await;
    }

    /// Waits until both sets have these counts, and says what there is then. It is the same of both.
    async fn reach(&self, what: &str, counts: Value) -> Value {
        eventually(PATIENCE, what, || async {
            let [ours, theirs] = [self.facts(0).await?, self.facts(1).await?];
            let reached = counts.as_object().unwrap();
            let reached = reached.iter().all(|(field, value)| ours["status"][field] == *value);
            if reached && ours == theirs {
                Ok(ours)
            } else {
                Err(NotYet::new(format!("{counts}\nours: {ours:#}\ntheirs: {theirs:#}")))
            }
        })
        .await
    }

    async fn facts(&self, which: usize) -> kube::Result<Value> {
        let (name, api) = &self.sets[which];
        let set = api.get(name).await?;
        let status = &set.data["status"];
        let mut counts: BTreeMap<&str, Value> = COUNTS
            .into_iter()
            .map(|field| (field, json!(status[field].as_i64().unwrap_or(0))))
            .collect();
        counts.insert(
            "is seen",
            json!(status["observedGeneration"].as_i64() == set.metadata.generation),
        );
        counts.insert(
            "is at one revision",
            json!(status["currentRevision"] == status["updateRevision"]),
        );
        let pods = self.stage.try_pods(name).await?;
        let pods: BTreeMap<&String, Value> = pods.iter().map(|(name, pod)| (name, identity(pod))).collect();
        let claims = self.stage.claims().await.into_iter();
        let claims: BTreeMap<String, Value> = claims
            .filter(|(claim, _)| claim.contains(name))
            .map(|(name, claim)| {
                let owners: Vec<String> = claim
                    .owner_references()
                    .iter()
                    .map(|owner| owner.kind.clone())
                    .collect();
                (name, json!({"labels": claim.labels(), "owners": owners}))
            })
            .collect();
        let revisions = self.stage.revisions().await.into_iter();
        let revisions: Vec<i64> = revisions
            .filter(|revision| revision.name_any().starts_with(&format!("{name}-")))
            .map(|revision| revision.revision.unwrap_or_default())
            .collect();
        let facts = json!({"status": counts, "pods": pods, "claims": claims, "revisions": revisions});
        Ok(serde_json::from_str(&facts.to_string().replace(name, "web")).unwrap())
    }
}

/// What makes a Pod the one of its ordinal.
fn identity(pod: &Pod) -> Value {
    let spec = json!(pod.spec);
    let mut labels = pod.labels().clone();
    labels.retain(|label, _| label != "controller-revision-hash" && !label.starts_with("lifecycle."));
    let owner = &pod.owner_references()[0];
    json!({
        "labels": labels, "image": image(pod), "hostname": spec["hostname"], "subdomain": spec["subdomain"],
        "claim": spec["volumes"][0], "generateName": pod.metadata.generate_name,
        "owner": [owner.kind, owner.controller, owner.block_owner_deletion],
    })
}

/// Which Pods there were one after another, by name and image.
async fn order(history: PodHistory, name: &str) -> Vec<String> {
    let states = history.end().await.into_iter();
    let states = states.map(|pods| {
        let pods = pods
            .iter()
            .map(|(pod, object)| format!("{}={}", pod.replace(name, "web"), image(object)));
        pods.collect::<Vec<String>>().join(" ")
    });
    let mut states: Vec<String> = states.collect();
    states.dedup();
    states
}

fn set(stage: &Stage) -> Workload {
    let request = json!({"requests": {"storage": "1Gi"}});
    let claim = json!([{"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": request,
    }}]);
    web(3)
        .image("nginx:1")
        .set("/spec/ordinals/start", 1)
        .set("/spec/volumeClaimTemplates", claim)
        .set("/spec/template/spec/readinessGates", json!([]))
        .pod(|pod| pod.on_node(&stage.node(0)))
}

async fn given_the_same_manifest_then_both_kinds_behave_alike(stage: Arc<Stage>) {
    if lacks(Feature::Ordinals) {
        return;
    }
    in_order(&stage).await;
    in_parallel(&stage).await;
}

async fn in_order(stage: &Stage) {
    let rules = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    let set = set(stage)
        .set("/spec/updateStrategy", rules)
        .set("/spec/persistentVolumeClaimRetentionPolicy", policy);
    let histories = [stage.pod_history(OURS).await, stage.pod_history(THEIRS).await];
    let both = Both::create(stage, set).await;
    let all = json!({"replicas": 3, "availableReplicas": 3, "updatedReplicas": 3, "is seen": true});
    both.reach("they come one after another", all.clone()).await;

    both.patch(to_image("nginx:2")).await;
    let part = json!({"updatedReplicas": 2, "currentReplicas": 1, "availableReplicas": 3, "is seen": true});
    both.reach("all but one are updated", part.clone()).await;
    both.delete_pods(1).await;
    let facts = both.reach("the one that is left comes back as it was", part).await;
    assert_eq!(facts["pods"]["web-1"]["image"], "nginx:1");

    both.patch(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}))
        .await;
    let done = json!({"updatedReplicas": 3, "availableReplicas": 3, "is at one revision": true, "is seen": true});
    both.reach("the rollout is over", done.clone()).await;

    both.end_pods(3, "Failed").await;
    both.reach("the failed Pod is replaced", done.clone()).await;

    both.patch(json!({"spec": {"replicas": 1}})).await;
    let one = json!({"replicas": 1, "availableReplicas": 1, "is seen": true});
    let facts = both.reach("Pods go with their claims", one).await;
    assert_eq!(facts["claims"].as_object().unwrap().len(), 1, "{facts:#}");

    both.patch(json!({"spec": {"replicas": 3}})).await;
    both.reach("they come again", done.clone()).await;
    both.patch(to_image("nginx:1")).await;
    let facts = both.reach("the old template is rolled back to", done).await;
    assert_eq!(facts["revisions"], json!([2, 3]), "{facts:#}");

    let [ours, theirs] = histories;
    let (ours, theirs) = (order(ours, OURS).await, order(theirs, THEIRS).await);
    assert_eq!(ours, theirs);
    assert!(ours.len() > 20, "{ours:#?}");
    assert_eq!(both.delete(3).await, ["data-web-1", "data-web-2", "data-web-3"]);
}

async fn in_parallel(stage: &Stage) {
    let policy = json!({"whenScaled": "Retain", "whenDeleted": "Delete"});
    let set = set(stage)
        .set("/spec/podManagementPolicy", "Parallel")
        .set("/spec/updateStrategy", json!({"type": "OnDelete"}))
        .set("/spec/persistentVolumeClaimRetentionPolicy", policy);
    let both = Both::create(stage, set).await;
    let all = json!({"replicas": 3, "availableReplicas": 3, "updatedReplicas": 3, "is seen": true});
    let facts = both.reach("they come, on the claims there are", all).await;
    assert_eq!(
        facts["claims"]["data-web-3"]["owners"],
        json!(["StatefulSet"]),
        "{facts:#}"
    );

    both.patch(to_image("nginx:2")).await;
    let none = json!({"updatedReplicas": 0, "currentReplicas": 3, "availableReplicas": 3, "is seen": true});
    both.reach("none is updated", none).await;
    both.delete_pods(2).await;
    let one = json!({"updatedReplicas": 1, "currentReplicas": 2, "availableReplicas": 3, "is seen": true});
    let facts = both.reach("the one that was deleted is", one).await;
    assert_eq!(facts["pods"]["web-2"]["image"], "nginx:2");
    both.end_pods(3, "Succeeded").await;
    let two = json!({"updatedReplicas": 2, "currentReplicas": 1, "availableReplicas": 3, "is seen": true});
    both.reach("the one that has ended is", two).await;

    both.patch(json!({"spec": {"replicas": 1}})).await;
    let last = json!({"replicas": 1, "availableReplicas": 1, "updatedReplicas": 0, "is seen": true});
    let facts = both.reach("the others go, and their claims stay", last).await;
    assert_eq!(facts["claims"].as_object().unwrap().len(), 3, "{facts:#}");
    both.delete(0).await;
}
