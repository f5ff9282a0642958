//! What the webhook refuses.

use super::{
    Arc, Distribution, DynamicObject, PostParams, Scenario, Stage, distributions, fresh, included, json, listed,
    scenarios, v1,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_bad_distributions_then_they_are_refused_at_the_field_that_is_wrong,
        given_v1alpha1_then_its_names_are_understood,
    ]
}

#[track_caller]
fn refused(answer: kube::Result<DynamicObject>, field: &str) {
    match answer {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 422, "{}", status.message);
            assert!(status.message.contains(field), "{field} is not in: {}", status.message);
        }
        other => panic!("{field}: {other:?}"),
    }
}

async fn given_bad_distributions_then_they_are_refused_at_the_field_that_is_wrong(stage: Arc<Stage>) {
    let distribution = Distribution::new(&stage);
    let name = stage.namespace();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {}});
    let bad_key = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"a b": "YQ=="}});
    let bad_data = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"a": "%%%"}});
    for (resource, field) in [
        (deployment, "spec.resource: Invalid value: \"Deployment.apps\""),
        (bad_key, "spec.resource.data[a b]: Invalid value"),
        (bad_data, "spec.resource: Invalid value"),
    ] {
        refused(distribution.try_create(&resource, &json!({})).await, field);
    }
    let good = distribution.resource(&v1());
    for (targets, field) in [
        (
            json!({"includedNamespaces": listed(&["a"]), "excludedNamespaces": listed(&["a"])}),
            "spec.targets: Invalid value: \"a\"",
        ),
        (
            included(&["BAD_"]),
            "spec.targets.includedNamespaces: Invalid value: \"BAD_\"",
        ),
        (
            json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "spec.targets.namespaceSelector.matchExpressions[0].values",
        ),
    ] {
        refused(distribution.try_create(&good, &targets).await, field);
    }
    distribution.create(&json!({})).await;
    for resource in [json!({"metadata": {"name": "other"}}), json!({"kind": "Secret"})] {
        refused(
            distribution.try_patch(json!({"resource": resource})).await,
            "spec.resource: Invalid value",
        );
    }
    distribution
        .patch(json!({"resource": {"metadata": {"labels": {"x": "2"}}}}))
        .await;
    distribution.delete().await;
}

async fn given_v1alpha1_then_its_names_are_understood(stage: Arc<Stage>) {
    let team = stage.namespace();
    let one = fresh(&stage, &[("team", team)]).await;
    let distribution = Distribution::new(&stage);
    let missing = format!("{team}-none");
    let object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution", "metadata": {"name": team},
        "spec": {"resource": distribution.resource(&v1()), "targets": {
            "namespaceLabelSelector": {"matchLabels": {"team": team}}, "includedNamespaces": listed(&[&missing]),
        }},
    });
    let old = distributions(&stage, "v1alpha1");
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    old.create(&PostParams::default(), &object).await.unwrap();
    distribution
        .counts(2, 1, 1, &[("NamespaceNotExists", &[&missing])])
        .await;
    distribution.has(one.name(), &v1()).await;
    let read = old.get(team).await.unwrap();
    assert_eq!(
        read.data["status"]["conditions"][5]["failedNamespace"],
        json!([missing])
    );
    distribution.delete().await;
}
