//! Kinds of the white list.
//!
//! The white list, the kinds and the right to read them belong to everybody: the one scenario says what happens to several workloads.

use super::*;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_a_listed_kind_then_the_pods_that_the_filter_chooses_are_spread_by_the_replicas_at_its_path]
}

/// The kinds of a user's own, and what becomes of them.
struct Kinds {
    group: String,
    stage: Arc<Stage>,
}

impl Kinds {
    fn of(&self, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&self.group, "v1", kind));
        Api::namespaced_with(self.stage.client(), self.stage.namespace(), &resource)
    }

    fn definitions(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        Api::all_with(self.stage.client(), &ApiResource::from_gvk(&kind))
    }

    /// Defines a kind, lets the manager read its objects, and makes one.
    async fn define(&self, kind: &str, object: Value) -> Value {
        let plural = format!("{}s", kind.to_lowercase());
        let name = format!("{plural}.{}", self.group);
        let any = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {
                "group": self.group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": any}],
            },
        });
        let definition = serde_json::from_value(definition).unwrap();
        let params = PostParams::default();
        self.definitions().create(&params, &definition).await.unwrap();
        let role = json!({"metadata": {"name": name}, "rules": [{"apiGroups": [self.group], "resources": [plural], "verbs": ["get"]}]});
        let role: ClusterRole = serde_json::from_value(role).unwrap();
        let roles: Api<ClusterRole> = Api::all(self.stage.client());
        roles.create(&params, &role).await.unwrap();
        let manager = self.stage.of_manager::<Pod>();
        let manager = json!({"kind": "ServiceAccount", "name": "kruise-manager", "namespace": manager.namespace()});
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let binding = json!({"metadata": {"name": name}, "roleRef": reference, "subjects": [manager]});
        let bindings: Api<ClusterRoleBinding> = Api::all(self.stage.client());
        let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
        bindings.create(&params, &binding).await.unwrap();
        let mut whole = json!({"apiVersion": format!("{}/v1", self.group), "kind": kind});
        kruise_api::merge_patch::merge(&mut whole, &object);
        let object: DynamicObject = serde_json::from_value(whole).unwrap();
        let made = eventually(PATIENCE, "the kind is served", || async {
            Ok(self.of(kind).create(&params, &object).await?)
        });
        self.owner(kind, &json!(made.await))
    }

    fn owner(&self, kind: &str, object: &Value) -> Value {
        let meta = &object["metadata"];
        json!({
            "apiVersion": format!("{}/v1", self.group), "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": true,
        })
    }

    async fn list(&self, list: Value) {
        let data = json!({"WorkloadSpread_Watch_Custom_Workload_WhiteList": list.to_string()});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kruise-configuration"}, "data": data});
        let force = PatchParams::apply("scenario").force();
        let maps = self.stage.configuration();
        maps.patch("kruise-configuration", &force, &Patch::Apply(map))
            .await
            .unwrap();
    }

    /// A Pod as a controller of the owner would make it.
    async fn pod(&self, owner: &Value, role: &str) -> Pod {
        let mut pod = template();
        pod["metadata"]["generateName"] = json!("web-");
        pod["metadata"]["labels"]["role"] = json!(role);
        pod["metadata"]["ownerReferences"] = json!([owner]);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.stage.pods.create(&PostParams::default(), &pod).await.unwrap()
    }

    async fn remove(&self) {
        for kind in ["trainings", "rounds"] {
            let name = format!("{kind}.{}", self.group);
            let params = DeleteParams::default();
            let _ = self.definitions().delete(&name, &params).await;
            let _ = Api::<ClusterRole>::all(self.stage.client())
                .delete(&name, &params)
                .await;
            let _ = Api::<ClusterRoleBinding>::all(self.stage.client())
                .delete(&name, &params)
                .await;
        }
    }
}

async fn given_a_listed_kind_then_the_pods_that_the_filter_chooses_are_spread_by_the_replicas_at_its_path(
    stage: Arc<Stage>,
) {
    let kinds = Kinds {
        group: format!("{}.example.com", stage.namespace()),
        stage: stage.clone(),
    };
    let target = json!({"apiVersion": format!("{}/v1", kinds.group), "kind": "Training", "name": "web"});
    let filter = json!({"selector": {"matchLabels": {"role": "worker"}}});
    let subsets = two_zones(json!("50%"));
    let spec = json!({"targetRef": target, "targetFilter": filter, "subsets": subsets});
    // As long as nobody lists the kind, it cannot be spread.
    match try_spread(&stage, "spread", spec.clone()).await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 400, "{status:?}"),
        other => panic!("not refused: {other:?}"),
    }
    let roles = |workers: i32| json!({"Worker": {"replicas": workers}, "PS": {"replicas": 1}});
    let training = json!({"metadata": {"name": "web"}, "spec": {"replicas": 5, "roles": roles(4)}});
    let training = kinds.define("Training", training).await;
    let round = json!({"metadata": {"name": "web-round", "ownerReferences": [training]}});
    let round = kinds.define("Round", round).await;
    let between = json!([{"Group": kinds.group, "Version": "v1", "Kind": "Round"}]);
    let entry = json!({"Group": kinds.group, "Version": "v1", "Kind": "Training", "replicasPath": "spec.roles.Worker.replicas", "subResources": between});
    kinds.list(json!({"workloads": [entry]})).await;
    try_spread(&stage, "spread", spec).await.unwrap();
    seen(&stage).await;

    let mut made = Vec::new();
    // Pods of the workload itself, and of one between.
    for (owner, role) in [
        (&training, "ps"),
        (&training, "worker"),
        (&round, "worker"),
        (&round, "worker"),
        (&training, "worker"),
    ] {
        made.push(subset_of(&kinds.pod(owner, role).await));
    }
    assert_eq!(made, ["", "a", "a", "b", "b"]);
    until_status(&stage, "two fit into a, and are there", |status| {
        let first = &status["versionedSubsetStatuses"]["versionIgnored"][0];
        first["replicas"] == 2 && first["missingReplicas"] == 0 && first["creatingPods"].is_null()
    })
    .await;
    // More replicas count although nobody watches the kind.
    let more = Patch::Merge(json!({"spec": {"roles": roles(6)}}));
    let trainings = kinds.of("Training");
    trainings.patch("web", &PatchParams::default(), &more).await.unwrap();
    until_status(&stage, "one more fits", |status| {
        status["versionedSubsetStatuses"]["versionIgnored"][0]["missingReplicas"] == 1
    })
    .await;
    assert_eq!(subset_of(&kinds.pod(&round, "worker").await), "a");

    // A path that leads nowhere is told, and nothing is counted by a guess.
    let list = json!({"spec": {"targetFilter": {"replicasPathList": ["spec.roles.Chief.replicas"]}}});
    merge(&spreads(&stage), "spread", list).await;
    stage.about("WorkloadSpread").why("spread", "invalid").await;
    let list = json!({"spec": {"targetFilter": {"replicasPathList": ["spec.roles.Worker.replicas", "spec.roles.PS.replicas"]}}});
    merge(&spreads(&stage), "spread", list).await;
    until_status(&stage, "half of seven are four", |status| {
        status["versionedSubsetStatuses"]["versionIgnored"][0]["missingReplicas"] == 1
    })
    .await;
    kinds.remove().await;
}
