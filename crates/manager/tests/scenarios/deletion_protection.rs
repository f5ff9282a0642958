//! Protection against deletion by a label.

use k8s_openapi::api::{
    core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Service},
    networking::v1::Ingress,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kruise_testkit::{
    builders::{cloneset, deployment, pod},
    eventually::{NotYet, eventually},
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{fmt::Debug, sync::Arc};

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_protected_workload_then_it_goes_only_when_it_is_scaled_to_zero,
        given_a_protected_set_of_ours_then_users_of_both_versions_are_refused,
        given_a_protected_namespace_then_it_goes_only_when_it_is_empty,
        given_a_bound_claim_then_its_namespace_stays_and_with_one_that_is_pending_it_goes,
        given_a_protected_definition_then_it_goes_only_without_objects_that_stay,
        given_a_service_or_an_ingress_then_only_always_protects_it,
        given_an_object_that_goes_already_then_it_is_not_kept,
        given_the_example_of_the_docs_then_it_says_what_may_be_deleted,
    ]
}

fn labels(value: &str) -> Value {
    json!({"metadata": {"labels": {"policy.kruise.io/delete-protection": value}}})
}

async fn protect<K>(api: &Api<K>, name: &str, value: &str)
where
    K: Clone + Debug + serde::de::DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(labels(value)))
        .await
        .unwrap();
}

#[track_caller]
fn is_refused<T: Debug>(answer: kube::Result<T>, text: &str) {
    match answer {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 403, "{status:?}");
            assert!(
                status.message.contains("forbidden by ResourcesProtectionDeletion"),
                "{status:?}"
            );
            assert!(status.message.contains(text), "{status:?}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

async fn given_a_protected_workload_then_it_goes_only_when_it_is_scaled_to_zero(stage: Arc<Stage>) {
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = stage.api();
    api.create(&PostParams::default(), &deployment("web").replicas(3).build())
        .await
        .unwrap();
    let delete = async || api.delete("web", &DeleteParams::default()).await;
    protect(&api, "web", "Cascading").await;
    is_refused(delete().await, "delete-protection=Cascading and replicas 3>0");
    protect(&api, "web", "Always").await;
    is_refused(delete().await, "delete-protection=Always");
    protect(&api, "web", "Cascading").await;
    let zero = json!({"spec": {"replicas": 0}});
    api.patch("web", &PatchParams::default(), &Patch::Merge(zero))
        .await
        .unwrap();
    delete().await.unwrap();
}

async fn given_a_protected_set_of_ours_then_users_of_both_versions_are_refused(stage: Arc<Stage>) {
    stage.create(cloneset("web").replicas(0)).await;
    protect(&stage.subjects, "web", "Always").await;
    for version in ["v1alpha1", "v1beta1"] {
        let sets: Api<DynamicObject> = stage.objects(version, "CloneSet");
        is_refused(sets.delete("web", &DeleteParams::default()).await, "=Always");
    }
    protect(&stage.subjects, "web", "always").await;
    stage.subjects.delete("web", &DeleteParams::default()).await.unwrap();
}

async fn given_a_protected_namespace_then_it_goes_only_when_it_is_empty(stage: Arc<Stage>) {
    let api: Api<Namespace> = Api::all(stage.client());
    let name = stage.namespace();
    let dry = DeleteParams::default().dry_run();
    protect(&api, name, "Always").await;
    is_refused(api.delete(name, &dry).await, "=Always");
    protect(&api, name, "Cascading").await;
    api.delete(name, &dry).await.unwrap();
    let made = pod("one").image("nginx:1").on_node(&stage.node(0)).build();
    stage.pods.create(&PostParams::default(), &made).await.unwrap();
    is_refused(api.delete(name, &dry).await, "=Cascading and active pods 1>0");
    // What has ended does not count. The cache may be a moment behind.
    stage.script_pod("one", "phase", Some("Succeeded")).await;
    eventually(PATIENCE, "it is empty", || async {
        match api.delete(name, &dry).await {
            Ok(_) => Ok(()),
            other => Err(NotYet::new(format!("{other:?}"))),
        }
    })
    .await;
    protect(&api, name, "Always").await;
    is_refused(api.delete(name, &dry).await, "=Always");
    release(&api, name).await;
    api.delete(name, &dry).await.unwrap();
}

async fn release<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + serde::de::DeserializeOwned,
{
    let nobody = json!({"metadata": {"labels": {"policy.kruise.io/delete-protection": null}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(nobody))
        .await
        .unwrap();
}

async fn given_a_bound_claim_then_its_namespace_stays_and_with_one_that_is_pending_it_goes(stage: Arc<Stage>) {
    let api: Api<Namespace> = Api::all(stage.client());
    let name = stage.namespace();
    let dry = DeleteParams::default().dry_run();
    protect(&api, name, "Cascading").await;
    let claims: Api<PersistentVolumeClaim> = stage.api();
    let volumes: Api<PersistentVolume> = Api::all(stage.client());
    let amount = json!({"storage": "1Gi"});
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name, "resources": {"requests": amount},
    }});
    claims
        .create(&PostParams::default(), &serde_json::from_value(claim).unwrap())
        .await
        .unwrap();
    api.delete(name, &dry).await.unwrap();
    let volume = json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": amount, "hostPath": {"path": "/nowhere"},
        "claimRef": {"namespace": name, "name": "data"},
    }});
    volumes
        .create(&PostParams::default(), &serde_json::from_value(volume).unwrap())
        .await
        .unwrap();
    eventually(PATIENCE, "the claim is bound", || async {
        let phase = claims.get("data").await?.status.and_then(|status| status.phase);
        (phase.as_deref() == Some("Bound"))
            .then_some(())
            .ok_or_else(|| NotYet::new(format!("{phase:?}")))
    })
    .await;
    is_refused(api.delete(name, &dry).await, "=Cascading and \"Bound\" status pvc 1>0");
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    volumes.delete(name, &DeleteParams::default()).await.unwrap();
    release(&api, name).await;
}

async fn given_a_protected_definition_then_it_goes_only_without_objects_that_stay(stage: Arc<Stage>) {
    let definition = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(stage.client(), &ApiResource::from_gvk(&definition));
    let name = "kept.protection.kruise.test";
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "labels": {"policy.kruise.io/delete-protection": "Cascading"}},
        "spec": {
            "group": "protection.kruise.test", "scope": "Namespaced", "names": {"kind": "Kept", "plural": "kept"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    definitions
        .create(&PostParams::default(), &serde_json::from_value(crd).unwrap())
        .await
        .unwrap();
    let dry = DeleteParams::default().dry_run();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("protection.kruise.test", "v1", "Kept"));
    let kind = ApiResource {
        plural: "kept".to_owned(),
        ..kind
    };
    let objects: Api<DynamicObject> = Api::namespaced_with(stage.client(), stage.namespace(), &kind);
    let object = json!({"apiVersion": "protection.kruise.test/v1", "kind": "Kept", "metadata": {
        "name": "one", "finalizers": ["tests.kruise.io/stay"],
    }});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    eventually(PATIENCE, "the kind is served", || async {
        objects.create(&PostParams::default(), &object).await?;
        Ok(())
    })
    .await;
    let refused = definitions.delete(name, &dry).await.unwrap_err().to_string();
    let words = [
        "failed to list CRs of protection.kruise.test/v1, Kind=Kept",
        "cannot list resource \"kept\"",
    ];
    assert!(words.iter().all(|words| refused.contains(words)), "{refused}");
    let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
        (Api::all(stage.client()), Api::all(stage.client()));
    let meta = json!({"name": stage.namespace()});
    let role = json!({"metadata": meta, "rules": [{"apiGroups": ["protection.kruise.test"], "resources": ["kept"], "verbs": ["list"]}]});
    roles
        .create(&PostParams::default(), &serde_json::from_value(role).unwrap())
        .await
        .unwrap();
    let everybody = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": stage.namespace()});
    let binding = json!({"metadata": meta, "roleRef": role, "subjects": [everybody]});
    bindings
        .create(&PostParams::default(), &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
    eventually(PATIENCE, "the right counts", || async {
        match definitions.delete(name, &dry).await {
            Err(error) if error.to_string().contains("=Cascading and active CRs 1>0") => Ok(()),
            other => Err(NotYet::new(format!("{other:?}"))),
        }
    })
    .await;
    objects.delete("one", &DeleteParams::default()).await.unwrap();
    definitions.delete(name, &dry).await.unwrap();
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    objects.patch("one", &PatchParams::default(), &free).await.unwrap();
    // Without any object it goes.
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    bindings
        .delete(stage.namespace(), &DeleteParams::default())
        .await
        .unwrap();
    roles.delete(stage.namespace(), &DeleteParams::default()).await.unwrap();
}

async fn given_a_service_or_an_ingress_then_only_always_protects_it(stage: Arc<Stage>) {
    let ingresses: Api<Ingress> = stage.api();
    let ingress = json!({"metadata": {"name": "web"}, "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}});
    ingresses
        .create(&PostParams::default(), &serde_json::from_value(ingress).unwrap())
        .await
        .unwrap();
    protect(&ingresses, "web", "Always").await;
    is_refused(ingresses.delete("web", &DeleteParams::default()).await, "=Always");
    protect(&ingresses, "web", "Cascading").await;
    ingresses.delete("web", &DeleteParams::default()).await.unwrap();
    let api: Api<Service> = stage.api();
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    api.create(&PostParams::default(), &serde_json::from_value(service).unwrap())
        .await
        .unwrap();
    protect(&api, "web", "Always").await;
    is_refused(api.delete("web", &DeleteParams::default()).await, "=Always");
    protect(&api, "web", "Cascading").await;
    api.delete("web", &DeleteParams::default()).await.unwrap();
}

async fn given_an_object_that_goes_already_then_it_is_not_kept(stage: Arc<Stage>) {
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = stage.api();
    let mut made = deployment("web").replicas(0).build();
    made.metadata.finalizers = Some(vec!["tests.kruise.io/stay".to_owned()]);
    api.create(&PostParams::default(), &made).await.unwrap();
    api.delete("web", &DeleteParams::default()).await.unwrap();
    protect(&api, "web", "Always").await;
    api.delete("web", &DeleteParams::default()).await.unwrap();
    let free = json!({"metadata": {"finalizers": null}});
    api.patch("web", &PatchParams::default(), &Patch::Merge(free))
        .await
        .unwrap();
}

async fn given_the_example_of_the_docs_then_it_says_what_may_be_deleted(stage: Arc<Stage>) {
    let text = include_str!("../../../../docs/examples/deletion-protection.yaml");
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let strict = PatchParams {
        field_manager: Some("examples".to_owned()),
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::default()
    };
    for document in &documents {
        let kind: GroupVersionKind = match document["kind"].as_str().unwrap() {
            "Service" => GroupVersionKind::gvk("", "v1", "Service"),
            kind => GroupVersionKind::gvk("apps.kruise.io", "v1beta1", kind),
        };
        let objects: Api<DynamicObject> =
            Api::namespaced_with(stage.client(), stage.namespace(), &ApiResource::from_gvk(&kind));
        objects.patch("web", &strict, &Patch::Apply(document)).await.unwrap();
    }
    let services: Api<Service> = stage.api();
    is_refused(services.delete("web", &DeleteParams::default()).await, "=Always");
    let delete = async || stage.subjects.delete("web", &DeleteParams::default()).await;
    is_refused(delete().await, "=Cascading and replicas 3>0");
    stage.patch("web", json!({"spec": {"replicas": 0}})).await;
    delete().await.unwrap();
    release(&services, "web").await;
    services.delete("web", &DeleteParams::default()).await.unwrap();
}
