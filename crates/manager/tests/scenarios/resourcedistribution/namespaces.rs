//! Which namespaces have copies.

use k8s_openapi::api::core::v1::Namespace;

use super::{
    Api, Arc, DeleteParams, Distribution, Patch, PatchParams, PostParams, Scenario, Stage, fresh, included, json,
    listed, scenarios, v1,
};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_missing_namespace_then_it_is_told_of_and_served_when_it_comes,
        given_all_namespaces_but_one_then_new_ones_are_served,
        given_labels_then_namespaces_gain_and_lose_their_copy,
        given_a_namespace_stuck_terminating_then_nothing_is_made_there,
        given_namespaces_of_the_system_then_they_are_not_counted,
    ]
}

fn namespaces(stage: &Stage) -> Api<Namespace> {
    Api::all(stage.client())
}

async fn make(stage: &Stage, name: &str) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    namespaces(stage)
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
}

async fn remove(stage: &Stage, name: &str) {
    namespaces(stage).delete(name, &DeleteParams::default()).await.unwrap();
}

async fn given_a_missing_namespace_then_it_is_told_of_and_served_when_it_comes(stage: Arc<Stage>) {
    let later = format!("{}-later", stage.namespace());
    let distribution = Distribution::new(&stage);
    distribution.create(&included(&[&later])).await;
    let status = distribution.counts(1, 0, 1, &[("NamespaceNotExists", &[&later])]).await;
    assert_eq!(
        status["conditions"][5]["reason"],
        "namespace not found or is terminating"
    );
    make(&stage, &later).await;
    distribution.counts(1, 1, 0, &[]).await;
    distribution.has(&later, &v1()).await;
    remove(&stage, &later).await;
    distribution.counts(1, 0, 1, &[("NamespaceNotExists", &[&later])]).await;
    distribution.delete().await;
}

async fn given_all_namespaces_but_one_then_new_ones_are_served(stage: Arc<Stage>) {
    let (before, excluded) = (fresh(&stage, &[]).await, fresh(&stage, &[]).await);
    let distribution = Distribution::new(&stage);
    distribution
        .create(&json!({"allNamespaces": true, "excludedNamespaces": listed(&[excluded.name()])}))
        .await;
    distribution.has(before.name(), &v1()).await;
    let after = fresh(&stage, &[]).await;
    distribution.has(after.name(), &v1()).await;
    distribution.has_none(excluded.name()).await;
    for system in ["kube-system", "kube-public"] {
        distribution.has_none(system).await;
    }
    distribution
        .patch(json!({"targets": {"excludedNamespaces": listed(&[excluded.name(), before.name()])}}))
        .await;
    distribution.has_none(before.name()).await;
    distribution.delete().await;
    distribution.has_none(after.name()).await;
}

async fn given_labels_then_namespaces_gain_and_lose_their_copy(stage: Arc<Stage>) {
    let team = stage.namespace();
    let (labelled, plain) = (fresh(&stage, &[("team", team)]).await, fresh(&stage, &[]).await);
    let distribution = Distribution::new(&stage);
    distribution
        .create(&json!({"namespaceSelector": {"matchLabels": {"team": team}}}))
        .await;
    distribution.counts(1, 1, 0, &[]).await;
    let label = async |namespace: &str, value: Option<&str>| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"team": value}}}));
        namespaces(&stage)
            .patch(namespace, &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    label(plain.name(), Some(team)).await;
    distribution.counts(2, 2, 0, &[]).await;
    distribution.has(plain.name(), &v1()).await;
    label(labelled.name(), None).await;
    distribution.counts(1, 1, 0, &[]).await;
    distribution.has_none(labelled.name()).await;
    distribution.delete().await;
}

async fn given_a_namespace_stuck_terminating_then_nothing_is_made_there(stage: Arc<Stage>) {
    let stuck = format!("{}-stuck", stage.namespace());
    make(&stage, &stuck).await;
    let distribution = Distribution::new(&stage);
    let maps = distribution.maps(&stuck);
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    maps.create(&PostParams::default(), &serde_json::from_value(held).unwrap())
        .await
        .unwrap();
    remove(&stage, &stuck).await;
    distribution.create(&included(&[&stuck])).await;
    distribution.counts(1, 0, 1, &[("NamespaceNotExists", &[&stuck])]).await;
    distribution.has_none(&stuck).await;
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &release).await.unwrap();
    distribution.delete().await;
}

async fn given_namespaces_of_the_system_then_they_are_not_counted(stage: Arc<Stage>) {
    let one = fresh(&stage, &[]).await;
    let distribution = Distribution::new(&stage);
    distribution
        .create(&included(&["kube-system", "kube-public", one.name()]))
        .await;
    distribution.counts(1, 1, 0, &[]).await;
    distribution.has_none("kube-system").await;
    distribution.has_none("kube-public").await;
    distribution.delete().await;
}
