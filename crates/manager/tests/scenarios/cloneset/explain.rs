//! Questions about a set, by people with different rights.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kruise_api::merge_patch::merge;
use kruise_testkit::{
    builders::Fixture as _,
    cluster,
    eventually::{NotYet, eventually},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, Scenario, Stage, names, scenarios, uids, web, web_in_place};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_reader_of_a_set_then_its_plan_is_explained_without_contents,
        given_a_question_of_somebody_who_may_not_read_then_the_missing_right_is_named,
        given_a_question_that_would_be_stored_then_it_is_refused,
        given_a_reader_who_proposes_a_change_then_it_is_played_through_and_nothing_is_written,
    ]
}

/// A client of somebody who has these rights in the namespace.
async fn somebody(stage: &Stage, name: &str, rights: Value) -> Client {
    let user = format!("{name}-of-{}", stage.namespace());
    let params = PostParams::default();
    let role: Role = serde_json::from_value(json!({"metadata": {"name": name}, "rules": rights})).unwrap();
    stage.api::<Role>().create(&params, &role).await.unwrap();
    let binding = json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
    let binding: RoleBinding = serde_json::from_value(binding).unwrap();
    stage.api::<RoleBinding>().create(&params, &binding).await.unwrap();
    cluster::client_as(&user).await
}

async fn ask(client: &Client, stage: &Stage, dry_run: bool, spec: Value) -> kube::Result<Value> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("explain.kruise.io", "v1alpha1", "Explanation"));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), stage.namespace(), &resource);
    let question = DynamicObject::new("question", &resource).data(json!({"spec": spec}));
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    api.create(&params, &question)
        .await
        .map(|answer| answer.data["status"].clone())
}

fn asks() -> Value {
    json!({"apiGroups": ["explain.kruise.io"], "resources": ["explanations"], "verbs": ["create"]})
}

/// Waits until a question is answered so; rights take a moment to count.
async fn refused(client: &Client, stage: &Stage, spec: &Value, text: &str) {
    eventually(PATIENCE, "the question is refused", || async {
        match ask(client, stage, true, spec.clone()).await {
            Err(error) if error.to_string().contains(text) => Ok(()),
            other => Err(NotYet::new(format!("{other:?}"))),
        }
    })
    .await;
}

async fn given_a_reader_of_a_set_then_its_plan_is_explained_without_contents(stage: Arc<Stage>) {
    let set = stage
        .create(web(2).set("/spec/updateStrategy/rollingUpdate/paused", true))
        .await;
    stage.status("web", json!({"readyReplicas": 2})).await;
    let rights = json!([asks(), {"apiGroups": ["apps.kruise.io"], "resources": ["clonesets"], "verbs": ["get"]}]);
    let reader = somebody(&stage, "reader", rights).await;
    stage
        .patch(
            "web",
            json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:secret"}]}}}}),
        )
        .await;
    let spec = json!({"kind": "CloneSet", "name": "web", "uid": set.uid()});
    let status = eventually(PATIENCE, "the pause is explained", || async {
        let status = ask(&reader, &stage, true, spec.clone()).await?;
        let reasons = status["plans"]["cloneset-controller"]["why"].to_string();
        if reasons.contains("paused") {
            Ok(status)
        } else {
            Err(NotYet::new(status.to_string()))
        }
    })
    .await;
    assert_eq!(status["leader"], true, "{status:#}");
    assert!(!status.to_string().contains("nginx"), "{status:#}");
    let stale = json!({"kind": "CloneSet", "name": "web", "uid": "another"});
    refused(&reader, &stage, &stale, "there is no CloneSet web with this UID").await;
}

async fn given_a_question_of_somebody_who_may_not_read_then_the_missing_right_is_named(stage: Arc<Stage>) {
    let set = stage.create(web(1)).await;
    let blind = somebody(&stage, "blind", json!([asks()])).await;
    let spec = json!({"kind": "CloneSet", "name": "web", "uid": set.uid()});
    let place = format!(
        "may not get clonesets.apps.kruise.io in namespace {}",
        stage.namespace()
    );
    refused(&blind, &stage, &spec, &place).await;
    let of_cluster = json!({"kind": "SidecarSet", "name": "web", "uid": "some"});
    refused(
        &blind,
        &stage,
        &of_cluster,
        "may not get sidecarsets.apps.kruise.io of the cluster",
    )
    .await;
    let foreign = json!({"kind": "Secret", "name": "web", "uid": "some"});
    refused(&blind, &stage, &foreign, "spec.kind: Unsupported value: \"Secret\"").await;
}

async fn given_a_question_that_would_be_stored_then_it_is_refused(stage: Arc<Stage>) {
    let spec = json!({"kind": "CloneSet", "name": "web", "uid": "some"});
    let error = ask(&stage.client(), &stage, false, spec).await.unwrap_err().to_string();
    assert!(error.contains("create it in a dry run"), "{error}");
}

async fn given_a_reader_who_proposes_a_change_then_it_is_played_through_and_nothing_is_written(stage: Arc<Stage>) {
    let before = stage.settled(web_in_place(3)).await;
    let rights = json!([asks(), {"apiGroups": ["apps.kruise.io"], "resources": ["clonesets"], "verbs": ["get"]}]);
    let reader = somebody(&stage, "proposer", rights).await;
    let read =
        || async { serde_json::to_value(stage.objects("v1beta1", "CloneSet").get("web").await.unwrap()).unwrap() };
    let set = read().await;
    let spec = |change: Value| {
        let mut proposed = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web"}, "spec": set["spec"]});
        proposed["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(1);
        merge(&mut proposed, &change);
        json!({"kind": "CloneSet", "name": "web", "uid": set["metadata"]["uid"], "proposed": proposed})
    };
    let image =
        spec(json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:secret"}]}}}}));
    let status = eventually(PATIENCE, "the change is played through", || async {
        Ok(ask(&reader, &stage, true, image.clone()).await?)
    })
    .await;
    let rehearsal = &status["proposal"]["rehearsal"];
    let waves = rehearsal["waves"].as_array().unwrap();
    let in_place = waves.iter().filter_map(|wave| wave["inPlace"][0].as_str());
    assert_eq!(
        in_place.map(str::to_owned).collect::<BTreeSet<_>>(),
        names(&before),
        "{status:#}"
    );
    assert_eq!(
        (&rehearsal["leastReady"], &rehearsal["updated"]),
        (&json!(2), &json!(3)),
        "{status:#}"
    );
    assert!(!rehearsal.to_string().contains("nginx"), "{status:#}");
    let completed = &status["proposal"]["completed"]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&completed["image"], &completed["imagePullPolicy"]),
        (&json!("nginx:secret"), &json!("Always")),
        "what was proposed, with defaults"
    );

    let wrong = ask(&reader, &stage, true, spec(json!({"spec": {"replicas": -1}})))
        .await
        .unwrap();
    assert!(
        wrong["proposal"]["refused"]["message"]
            .to_string()
            .contains("spec.replicas"),
        "{wrong:#}"
    );
    let mut other = image.clone();
    other["proposed"]["metadata"]["name"] = json!("other");
    refused(&reader, &stage, &other, "spec.proposed.metadata.name: must be").await;
    let mut unknown = image.clone();
    unknown["uid"] = json!("");
    refused(&reader, &stage, &unknown, "there is no CloneSet web with this UID").await;
    let mut new = unknown;
    (new["name"], new["proposed"]["metadata"]["name"]) = (json!("new"), json!("new"));
    let status = ask(&reader, &stage, true, new).await.unwrap();
    assert_eq!(status["proposal"]["rehearsal"]["after"]["pods"], 3, "{status:#}");

    assert_eq!(read().await["spec"], set["spec"]);
    assert_eq!(stage.revisions().await.len(), 1);
    assert_eq!(uids(&stage.pods("web").await), uids(&before));
}
