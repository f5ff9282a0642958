//! Pull Secrets, copied to where daemons may read them.

use k8s_openapi::api::core::v1::Secret;
use kruise_testkit::eventually::{NotYet, eventually};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{PATIENCE, Scenario, Stage, create, image, job, known, scenarios, status, until_node};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![given_two_jobs_with_a_secret_then_they_share_a_copy_that_goes_with_the_last]
}

/// Waits until the copy of our Secret is as wanted; nothing when there is none.
async fn until_copy(stage: &Stage, what: &str, wanted: impl Fn(Option<&Secret>) -> bool) -> Option<Secret> {
    let copies = stage.secret_copies();
    let source = format!("{}/login", stage.namespace());
    eventually(PATIENCE, what, || async {
        let all = copies.list(&ListParams::default()).await?.items.into_iter();
        let is_ours = |copy: &Secret| copy.annotations().get("imagepulljobs.kruise.io/source-key") == Some(&source);
        let ours: Vec<Secret> = all.filter(is_ours).collect();
        if ours.len() <= 1 && wanted(ours.first()) {
            Ok(ours.into_iter().next())
        } else {
            Err(NotYet::new(format!("{ours:#?}")))
        }
    })
    .await
}

fn users(copy: Option<&Secret>) -> String {
    let copy = copy.map(ResourceExt::annotations);
    copy.and_then(|all| all.get("imagepulljobs.kruise.io/references").cloned())
        .unwrap_or_default()
}

fn secret(text: &str) -> Value {
    json!({"metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": text}})
}

async fn given_two_jobs_with_a_secret_then_they_share_a_copy_that_goes_with_the_last(stage: Arc<Stage>) {
    let node = stage.node(3);
    known(&stage, std::slice::from_ref(&node)).await;
    let secrets = stage.api::<Secret>();
    let made: Secret = serde_json::from_value(secret("{}")).unwrap();
    secrets.create(&PostParams::default(), &made).await.unwrap();
    // Not for a registry, so nobody gets a copy of it.
    let other = json!({"metadata": {"name": "key"}, "stringData": {"key": "private"}});
    let other: Secret = serde_json::from_value(other).unwrap();
    secrets.create(&PostParams::default(), &other).await.unwrap();
    let (name, held) = image(&stage, "held");
    let spec = job(
        &held,
        &json!({"selector": {"names": [node]}, "pullSecrets": ["key", "login"]}),
    );
    for job in ["one", "two"] {
        create(&stage, "ImagePullJob", job, &spec).await;
    }
    let namespace = stage.namespace();
    let both = format!("{namespace}/one,{namespace}/two");
    let copy = until_copy(&stage, "both share a copy", |copy| users(copy) == both)
        .await
        .unwrap();
    assert!(copy.name_any().starts_with("login-"), "{}", copy.name_any());
    assert_eq!(copy.annotations()["imagepulljobs.kruise.io/mode"], "batch");
    assert_eq!(copy.type_.as_deref(), Some("kubernetes.io/dockerconfigjson"));
    let images = until_node(&stage, &node, "both asked", |images| {
        images["spec"]["images"][&name]["tags"][0]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.len() == 2)
    })
    .await;
    let listed = &images["spec"]["images"][&name]["pullSecrets"];
    let expected = json!([{"namespace": copy.namespace(), "name": copy.name_any(), "mode": "batch"}]);
    assert_eq!(*listed, expected);
    let copies = stage.secret_copies().list(&ListParams::default()).await.unwrap().items;
    let of_key = format!("{namespace}/key");
    assert!(
        !copies
            .iter()
            .any(|copy| copy.annotations().values().any(|value| *value == of_key))
    );

    let other = Patch::Merge(secret(r#"{"auths":{}}"#));
    secrets.patch("login", &PatchParams::default(), &other).await.unwrap();
    let old = copy.data.clone();
    until_copy(&stage, "the copy follows", |copy| {
        copy.is_some_and(|copy| copy.data != old)
    })
    .await;
    let jobs = stage.objects("v1beta1", "ImagePullJob");
    jobs.delete("one", &DeleteParams::default()).await.unwrap();
    let left = format!("{namespace}/two");
    until_copy(&stage, "one needs it", |copy| users(copy) == left).await;
    jobs.delete("two", &DeleteParams::default()).await.unwrap();
    until_copy(&stage, "nobody needs it", |copy| copy.is_none()).await;
    status_is_gone(&stage).await;
}

async fn status_is_gone(stage: &Stage) {
    for job in ["one", "two"] {
        super::gone(stage, "ImagePullJob", job).await;
    }
    // A Secret that is not there does not hold a job up.
    let spec = job(
        "nginx:1",
        &json!({"selector": {"names": ["none"]}, "pullSecrets": ["missing"]}),
    );
    create(stage, "ImagePullJob", "without", &spec).await;
    status(
        stage,
        "ImagePullJob",
        "without",
        &json!({"message": "job has completed"}),
    )
    .await;
}
