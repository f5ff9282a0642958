//! Protection against deletion by a label.

use k8s_openapi::api::core::v1::{Namespace, Service};
use kruise_testkit::{
    builders::{cloneset, deployment, pod},
    eventually::{NotYet, eventually},
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{fmt::Debug, sync::Arc};

use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_protected_workload_then_it_goes_only_when_it_is_scaled_to_zero,
        given_a_protected_set_of_ours_then_users_of_both_versions_are_refused,
        given_a_protected_namespace_then_it_goes_only_when_it_is_empty,
        given_a_service_then_only_always_protects_it,
        given_an_object_that_goes_already_then_it_is_not_kept,
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
    stage.delete_pod("one").await;
    stage.gone("one").await;
    // The cache may still show the Pod that was here.
    eventually(PATIENCE, "it is empty", || async {
        match api.delete(name, &dry).await {
            Ok(_) => Ok(()),
            other => Err(NotYet::new(format!("{other:?}"))),
        }
    })
    .await;
    let nobody = json!({"metadata": {"labels": {"policy.kruise.io/delete-protection": null}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(nobody))
        .await
        .unwrap();
}

async fn given_a_service_then_only_always_protects_it(stage: Arc<Stage>) {
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
