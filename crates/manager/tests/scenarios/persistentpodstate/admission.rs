//! What the webhook refuses.

use kube::api::{ApiResource, GroupVersionKind};

use super::*;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_bad_ones_then_they_are_refused_with_400_at_their_field,
        given_v1alpha1_then_its_names_are_understood,
        given_a_distribution_without_its_gate_then_it_is_refused,
    ]
}

#[track_caller]
fn refused(answer: kube::Result<DynamicObject>, code: u16, field: &str) {
    match answer {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, code, "{}", status.message);
            assert!(status.message.contains(field), "{field} is not in: {}", status.message);
        }
        other => panic!("{field}: {other:?}"),
    }
}

async fn given_bad_ones_then_they_are_refused_with_400_at_their_field(stage: Arc<Stage>) {
    let required = json!({"keys": [ZONE]});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    for (spec, says) in [
        (
            json!({"targetRef": deployment, "requiredPersistentTopology": required}),
            "spec.targetRef: Invalid value",
        ),
        (json!({}), "spec: Invalid value"),
        (
            json!({"targetRef": {"name": ""}, "requiredPersistentTopology": required}),
            "empty targetRef is not valid",
        ),
    ] {
        refused(try_keep(&stage, "bad", &spec).await, 400, says);
    }
    keep(&stage, &json!({"requiredPersistentTopology": required})).await;
    let again = json!({"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1"}, "requiredPersistentTopology": required});
    refused(
        try_keep(&stage, "again", &again).await,
        400,
        "in conflict with other PersistentPodState keep",
    );
    let moved = Patch::Merge(json!({"spec": {"targetRef": {"name": "other"}}}));
    refused(
        states(&stage).patch("keep", &PatchParams::default(), &moved).await,
        400,
        "spec.targetRef: Forbidden",
    );
}

async fn given_v1alpha1_then_its_names_are_understood(stage: Arc<Stage>) {
    let object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "metadata": {"name": "keep"},
        "spec": {
            "targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "StatefulSet", "name": "web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]},
        },
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    stage
        .objects("v1alpha1", "PersistentPodState")
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    let read = states(&stage).get("keep").await.unwrap();
    assert_eq!(read.data["spec"]["requiredPersistentTopology"], json!({"keys": [ZONE]}));
    stage.create(web(1)).await;
    names(&stage, &["web-0"]).await;
}

async fn given_a_distribution_without_its_gate_then_it_is_refused(stage: Arc<Stage>) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apps.kruise.io",
        "v1beta1",
        "ResourceDistribution",
    ));
    let all: Api<DynamicObject> = Api::all_with(stage.client(), &kind);
    let resource = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution", "metadata": {"name": stage.namespace()},
        "spec": {"resource": resource, "targets": {}},
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let answer = all.create(&PostParams::default(), &object).await;
    refused(answer, 403, "feature-gate ResourceDistributionGate is not enabled");
}
