//! Pods with claims of their own.
//!
//! Nobody provides volumes here. The Pods are bound to a node past the scheduler, which would wait for them.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kruise_testkit::{
    builders::{Fixture as _, Workload},
    eventually::{NotYet, eventually},
    features::{self, Feature},
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, Scenario, Stage, names, scenarios, web};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_reuse_and_a_pod_that_somebody_deletes_then_it_returns_with_its_claim,
        given_no_reuse_and_a_pod_that_somebody_deletes_then_its_claim_goes_too,
        given_scaling_in_then_claims_go_with_their_pods,
        given_reuse_and_scaling_in_then_claims_go_with_their_pods,
        given_other_claim_templates_then_only_new_pods_are_different,
        given_reuse_and_a_refused_deletion_that_is_taken_back_then_the_pod_keeps_its_claim,
        given_reuse_and_a_released_pod_then_its_name_is_left_to_it,
        given_reuse_and_a_failed_pod_then_its_successor_has_its_name_and_claim,
        given_a_claim_that_is_somebody_else_s_then_it_is_told_and_other_pods_are_made,
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

/// The UID of a Pod's claim, and the kind of its owner.
async fn claim_of(stage: &Stage, pod: &str) -> (Option<String>, Vec<String>) {
    let claim = stage.claims().await.remove(&format!("data-{pod}"));
    let claim = claim.unwrap_or_else(|| panic!("the claim of {pod} is gone"));
    let owners = claim.owner_references().iter().map(|owner| owner.kind.clone());
    (claim.uid(), owners.collect())
}

/// Lets nobody delete a Pod, as long as it is there.
struct Protected<'a> {
    stage: &'a Stage,
    pod: String,
    name: String,
}

impl<'a> Protected<'a> {
    async fn new(stage: &'a Stage, pod: &str) -> Self {
        let this = Self {
            stage,
            pod: pod.to_owned(),
            name: format!("{}.{pod}", stage.namespace()),
        };
        let here = json!({"matchLabels": {"kubernetes.io/metadata.name": stage.namespace()}});
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["DELETE"]});
        let policy = json!({
            "matchConstraints": {"namespaceSelector": here, "resourceRules": [rule]},
            "validations": [{"expression": format!("oldObject.metadata.name != '{pod}'"), "message": "it stays"}],
        });
        this.create("ValidatingAdmissionPolicy", policy).await;
        let binding = json!({"policyName": this.name, "validationActions": ["Deny"]});
        this.create("ValidatingAdmissionPolicyBinding", binding).await;
        this.until_refused(true).await;
        this
    }

    async fn remove(self) {
        for kind in ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"] {
            self.api(kind)
                .delete(&self.name, &DeleteParams::default())
                .await
                .unwrap();
        }
        self.until_refused(false).await;
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        Api::all_with(self.stage.client(), &ApiResource::from_gvk(&kind))
    }

    async fn create(&self, kind: &str, spec: Value) {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": self.name}, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(kind).create(&PostParams::default(), &object).await.unwrap();
    }

    /// The server takes a moment to see a policy.
    async fn until_refused(&self, refused: bool) {
        eventually(PATIENCE, "the server knows the policy", || async {
            let tried = self
                .stage
                .pods
                .delete(&self.pod, &DeleteParams::default().dry_run())
                .await;
            (tried.is_err() == refused)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{tried:?}")))
        })
        .await;
    }
}

async fn given_reuse_and_a_refused_deletion_that_is_taken_back_then_the_pod_keeps_its_claim(stage: Arc<Stage>) {
    if features::lacks(Feature::ValidatingAdmissionPolicy) {
        return;
    }
    let before = stage.settled(with_claims(&stage, 2, true)).await;
    let chosen = before.keys().next().unwrap();
    let (claim, _) = claim_of(&stage, chosen).await;
    let cheap = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"}}});
    stage.patch_pod(chosen, cheap).await;
    let protected = Protected::new(&stage, chosen).await;

    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    stage.event("web", "FailedDelete", chosen).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    eventually(PATIENCE, "the claim is the set's again", || async {
        let (uid, owners) = claim_of(&stage, chosen).await;
        assert_eq!(uid, claim);
        (owners == ["CloneSet"])
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{owners:?}")))
    })
    .await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    assert_eq!(names(&stage.pods("web").await), names(&before));

    protected.remove().await;
    stage.delete_pod(chosen).await;
    let old = before[chosen].uid();
    stage
        .until("web", "it is back", |pods| {
            pods.get(chosen).is_some_and(|pod| pod.uid() != old)
        })
        .await;
    assert_eq!(claim_of(&stage, chosen).await, (claim, vec!["CloneSet".to_owned()]));
}

async fn given_reuse_and_a_released_pod_then_its_name_is_left_to_it(stage: Arc<Stage>) {
    let before = stage.settled(with_claims(&stage, 2, true)).await;
    let chosen = before.keys().next().unwrap();
    stage.label_pod(chosen, "app", Some("other")).await;
    stage
        .until("web", "there is another", |pods| {
            pods.len() == 2 && !pods.contains_key(chosen)
        })
        .await;
    stage.patch("web", json!({"spec": {"replicas": 4}})).await;
    stage
        .status("web", json!({"replicas": 4, "availableReplicas": 4}))
        .await;
    let released = stage.pods.get(chosen).await.unwrap();
    assert_eq!(released.uid(), before[chosen].uid());
    assert_eq!(claim_of(&stage, chosen).await.1, ["CloneSet"]);
}

async fn given_reuse_and_a_failed_pod_then_its_successor_has_its_name_and_claim(stage: Arc<Stage>) {
    let before = stage.settled(with_claims(&stage, 2, true)).await;
    let chosen = before.keys().next().unwrap();
    let claim = claim_of(&stage, chosen).await;
    stage.script_pod(chosen, "phase", Some("Failed")).await;
    let old = before[chosen].uid();
    stage
        .until("web", "it is back", |pods| {
            pods.get(chosen).is_some_and(|pod| pod.uid() != old)
        })
        .await;
    stage
        .status("web", json!({"replicas": 2, "availableReplicas": 2}))
        .await;
    assert_eq!(names(&stage.pods("web").await), names(&before));
    assert_eq!(claim_of(&stage, chosen).await, claim);
}

async fn given_a_claim_that_is_somebody_else_s_then_it_is_told_and_other_pods_are_made(stage: Arc<Stage>) {
    let mut templates = claim_template("1Gi");
    let mut other = templates[0].clone();
    other["metadata"]["name"] = json!("logs");
    templates.as_array_mut().unwrap().push(other);
    let set = with_claims(&stage, 1, true).set("/spec/volumeClaimTemplates", templates);
    let before = stage.settled(set).await;
    let chosen = before.keys().next().unwrap();
    // Somebody takes one of the two claims for himself, and the Pod goes.
    let api: Api<PersistentVolumeClaim> = stage.api();
    let orphan = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    let name = format!("logs-{chosen}");
    api.patch(&name, &PatchParams::default(), &orphan).await.unwrap();
    stage.patch("web", json!({"spec": {"replicas": 3}})).await;
    stage
        .status("web", json!({"replicas": 3, "availableReplicas": 3}))
        .await;
    stage.delete_pod(chosen).await;
    stage.gone(chosen).await;
    stage.patch("web", json!({"spec": {"replicas": 6}})).await;

    stage.event("web", "FailedCreate", &name).await;
    stage.until("web", "all others are there", |pods| pods.len() == 5).await;
    let failed = stage.condition("web", "FailedScale", "True").await;
    assert!(failed["message"].as_str().unwrap().contains(&name), "{failed}");
}
