//! What is remembered, and what comes of it.

use kruise_testkit::sim::{SET_LABEL, SimOptions, SimulatedNodes};
use kube::api::{ApiResource, GroupVersionKind};

use super::{generated::annotations, *};

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        given_required_and_preferred_topology_then_a_pod_comes_back_there,
        given_a_template_that_says_otherwise_then_the_record_wins,
        given_a_pod_that_is_not_ready_then_it_is_not_remembered,
        given_scaling_in_then_records_go_unless_they_are_kept,
        given_reserved_ordinals_then_those_behind_are_kept,
        given_a_set_of_kubernetes_that_goes_then_nothing_is_remembered,
        given_a_node_that_is_full_up_then_the_record_moves_with_the_pod,
        given_a_listed_kind_then_its_pods_come_back_too_and_its_annotations_ask_for_more,
    ]
}

async fn given_required_and_preferred_topology_then_a_pod_comes_back_there(stage: Arc<Stage>) {
    keep(
        &stage,
        &json!({
            "requiredPersistentTopology": {"keys": [ZONE, "rack"]},
            "preferredPersistentTopology": [{"weight": 50, "preference": {"keys": [HOST]}}],
            "persistentPodAnnotations": [{"key": "example.com/address"}, {"key": "example.com/missing"}],
        }),
    )
    .await;
    let set = web(1).pod(|pod| pod.annotation("example.com/address", "10.0.0.1"));
    stage.create(set).await;
    let states = names(&stage, &["web-0"]).await;
    let first = json!(stage.pods.get("web-0").await.unwrap());
    assert_eq!(
        first["metadata"]["annotations"][INJECTED],
        Value::Null,
        "the first comes as it is"
    );
    let node = first["spec"]["nodeName"].as_str().unwrap();
    let record = &states["web-0"];
    let zone = record["nodeTopologyLabels"][ZONE].clone();
    assert_eq!(record["nodeName"], node);
    assert_eq!(
        record["nodeTopologyLabels"],
        json!({(ZONE): zone, (HOST): node}),
        "a label that the node lacks is left out"
    );
    assert_eq!(record["annotations"], json!({"example.com/address": "10.0.0.1"}));

    let second = replaced(&stage, "web-0").await;
    assert_eq!(second["spec"]["nodeSelector"], json!({(ZONE): zone}));
    assert_eq!(
        preferred(&second),
        json!([{"weight": 50, "preference": {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}}])
    );
    assert_eq!(second["metadata"]["annotations"][INJECTED], "keep");
}

async fn given_a_template_that_says_otherwise_then_the_record_wins(stage: Arc<Stage>) {
    keep(&stage, &json!({"requiredPersistentTopology": {"keys": [ZONE]}})).await;
    stage.create(web(1)).await;
    let zone = names(&stage, &["web-0"]).await["web-0"]["nodeTopologyLabels"][ZONE].clone();
    let other = if zone == "a" { "b" } else { "a" };
    let old = stage.pods.get("web-0").await.unwrap().metadata.uid;
    stage
        .patch(
            "web",
            json!({"spec": {"template": {"spec": {"nodeSelector": {(ZONE): other}}}}}),
        )
        .await;
    let new = successor(&stage, "web-0", old.as_deref()).await;
    assert_eq!(new["spec"]["nodeSelector"], json!({(ZONE): zone}));
}

async fn given_a_pod_that_is_not_ready_then_it_is_not_remembered(stage: Arc<Stage>) {
    keep(&stage, &json!({"requiredPersistentTopology": {"keys": [ZONE]}})).await;
    stage.create(web(2)).await;
    names(&stage, &["web-0", "web-1"]).await;
    let never = json!({"spec": {"template": {"metadata": {"annotations": {"sim.kruise.test/never-ready": "true"}}}, "replicas": 3}});
    stage.patch("web", never).await;
    stage
        .until_pod("web-2", "it runs", |pod| json!(pod.status)["phase"] == "Running")
        .await;
    let states = remembered(&stage, "keep", "it is looked at", |_| true).await;
    assert_eq!(states.get("web-2"), None);
}

async fn given_scaling_in_then_records_go_unless_they_are_kept(stage: Arc<Stage>) {
    keep(&stage, &json!({"requiredPersistentTopology": {"keys": [ZONE]}})).await;
    stage.create(web(3)).await;
    names(&stage, &["web-0", "web-1", "web-2"]).await;
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    names(&stage, &["web-0", "web-1"]).await;
    let kept = Patch::Merge(json!({"spec": {"persistentPodStateRetentionPolicy": "WhenDeleted"}}));
    states(&stage)
        .patch("keep", &PatchParams::default(), &kept)
        .await
        .unwrap();
    stage.patch("web", json!({"spec": {"replicas": 1}})).await;
    stage.gone("web-1").await;
    let zone = names(&stage, &["web-0", "web-1"]).await["web-1"]["nodeTopologyLabels"][ZONE].clone();
    stage.patch("web", json!({"spec": {"replicas": 2}})).await;
    let back = successor(&stage, "web-1", None).await;
    assert_eq!(back["spec"]["nodeSelector"], json!({(ZONE): zone}));
    let none = Patch::Merge(json!({"spec": {"persistentPodStateRetentionPolicy": "WhenScaled"}}));
    states(&stage)
        .patch("keep", &PatchParams::default(), &none)
        .await
        .unwrap();
    stage.patch("web", json!({"spec": {"replicas": 0}})).await;
    names(&stage, &[]).await;
}

async fn given_reserved_ordinals_then_those_behind_are_kept(stage: Arc<Stage>) {
    keep(&stage, &json!({"requiredPersistentTopology": {"keys": [ZONE]}})).await;
    stage.create(web(3).set("/spec/reserveOrdinals", json!([1]))).await;
    names(&stage, &["web-0", "web-2", "web-3"]).await;
    let back = replaced(&stage, "web-3").await;
    assert_eq!(back["metadata"]["annotations"][INJECTED], "keep");
}

async fn given_a_set_of_kubernetes_that_goes_then_nothing_is_remembered(stage: Arc<Stage>) {
    let sets: Api<k8s_openapi::api::apps::v1::StatefulSet> = stage.api();
    let labels = json!({"app": "plain"});
    let set = json!({"metadata": {"name": "plain"}, "spec": {
        "replicas": 1, "serviceName": "plain", "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}},
    }});
    let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "plain"});
    keep(&stage, &json!({
        "targetRef": target, "requiredPersistentTopology": {"keys": [ZONE]}, "persistentPodStateRetentionPolicy": "WhenDeleted",
    }))
    .await;
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap())
        .await
        .unwrap();
    names(&stage, &["plain-0"]).await;
    let back = replaced(&stage, "plain-0").await;
    assert_eq!(back["metadata"]["annotations"][INJECTED], "keep");
    sets.delete("plain", &DeleteParams::background()).await.unwrap();
    names(&stage, &[]).await;
}

async fn given_a_node_that_is_full_up_then_the_record_moves_with_the_pod(stage: Arc<Stage>) {
    let options = SimOptions {
        count: 2,
        name_prefix: stage.namespace().to_owned(),
        namespace: Some(stage.namespace().to_owned()),
        ..SimOptions::default()
    };
    let own = SimulatedNodes::start(stage.client(), options).await.unwrap();
    keep(
        &stage,
        &json!({"preferredPersistentTopology": [{"weight": 100, "preference": {"keys": [HOST]}}]}),
    )
    .await;
    let only = |pod: kruise_testkit::builders::PodBuilder| {
        pod.node_selector((SET_LABEL.to_owned(), stage.namespace().to_owned()))
    };
    stage.create(web(1).pod(only)).await;
    let first = names(&stage, &["web-0"]).await["web-0"]["nodeName"]
        .as_str()
        .unwrap()
        .to_owned();
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(stage.client());
    nodes.cordon(&first).await.unwrap();
    stage.delete_pod("web-0").await;
    remembered(&stage, "keep", "it is remembered on the other node", |states| {
        states["web-0"]["nodeName"].as_str().is_some_and(|node| node != first)
    })
    .await;
    own.stop().await.unwrap();
}

async fn given_a_listed_kind_then_its_pods_come_back_too_and_its_annotations_ask_for_more(stage: Arc<Stage>) {
    let group = format!("{}.example.com", stage.namespace());
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("games.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Game", "plural": "games"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"scale": scale, "status": {}}}],
        },
    });
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let definitions: Api<DynamicObject> = Api::all_with(stage.client(), &kind);
    let definition: DynamicObject = serde_json::from_value(definition).unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let game = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Game"));
    let games: Api<DynamicObject> = Api::namespaced_with(stage.client(), stage.namespace(), &game);
    let x = json!({"apiVersion": format!("{group}/v1"), "kind": "Game", "metadata": {"name": "x"}, "spec": {"replicas": 1}});
    let x: DynamicObject = serde_json::from_value(x).unwrap();
    let x = eventually(PATIENCE, "the kind is served", || async {
        Ok(games.create(&PostParams::default(), &x).await?)
    })
    .await;

    let about = json!({
        "targetRef": {"apiVersion": format!("{group}/v1"), "kind": "Game", "name": "x"}, "requiredPersistentTopology": {"keys": [ZONE]},
    });
    let refusal = try_keep(&stage, "keep", &about).await.unwrap_err().to_string();
    assert!(refusal.contains("PPS_Watch_Custom_Workload_WhiteList"), "{refusal}");
    let list = json!({"workloads": [{"Group": group, "Version": "v1beta1", "Kind": "Game"}]});
    let data = json!({"PPS_Watch_Custom_Workload_WhiteList": list.to_string()});
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kruise-configuration"}, "data": data});
    let maps = stage.configuration();
    let force = PatchParams::apply("scenario").force();
    maps.patch("kruise-configuration", &force, &Patch::Apply(map))
        .await
        .unwrap();
    keep(&stage, &about).await;

    let owner = json!([{
        "apiVersion": format!("{group}/v1"), "kind": "Game", "name": "x", "uid": x.metadata.uid, "controller": true,
    }]);
    let pod = json!({
        "metadata": {"name": "x-0", "ownerReferences": owner},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}], "terminationGracePeriodSeconds": 0},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    stage.pods.create(&PostParams::default(), &pod).await.unwrap();
    let zone = names(&stage, &["x-0"]).await["x-0"]["nodeTopologyLabels"][ZONE].clone();
    stage.delete_pod("x-0").await;
    stage.gone("x-0").await;
    let back = stage.pods.create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(json!(back)["spec"]["nodeSelector"], json!({(ZONE): zone}));
    // Nobody wants it any more.
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    games.patch("x", &PatchParams::default(), &none).await.unwrap();
    stage.delete_pod("x-0").await;
    names(&stage, &[]).await;

    // Another one asks by annotations, wants something else, and nothing.
    let y = json!({"apiVersion": format!("{group}/v1"), "kind": "Game", "metadata": {"name": "y"}, "spec": {"replicas": 1}});
    let y: DynamicObject = serde_json::from_value(y).unwrap();
    let y = games.create(&PostParams::default(), &y).await.unwrap();
    let wish = |pairs: Value| Patch::Merge(annotations(&pairs));
    let asks = wish(json!({"auto-generate-persistent-pod-state": "true", "required-persistent-topology": ZONE}));
    games.patch("y", &PatchParams::default(), &asks).await.unwrap();
    let made = made_for(&stage, |spec| {
        spec["requiredPersistentTopology"] == json!({"keys": [ZONE]})
    })
    .await;
    assert_eq!(
        made.data["spec"]["targetRef"],
        json!({"apiVersion": format!("{group}/v1"), "kind": "Game", "name": "y"})
    );
    assert_eq!(json!(made.metadata.owner_references)[0]["uid"], json!(y.metadata.uid));
    let other = wish(json!({"required-persistent-topology": HOST}));
    games.patch("y", &PatchParams::default(), &other).await.unwrap();
    made_for(&stage, |spec| {
        spec["requiredPersistentTopology"] == json!({"keys": [HOST]})
    })
    .await;
    let nothing = wish(json!({"auto-generate-persistent-pod-state": null}));
    games.patch("y", &PatchParams::default(), &nothing).await.unwrap();
    eventually(PATIENCE, "it is gone", || async {
        match states(&stage).get_opt("y").await? {
            None => Ok(()),
            Some(object) => Err(NotYet::new(format!("{:#}", object.data))),
        }
    })
    .await;
    let _ = definitions
        .delete(&format!("games.{group}"), &DeleteParams::default())
        .await;
}

/// Waits until there is one called `y` with a spec like this.
async fn made_for(stage: &Stage, wanted: impl Fn(&Value) -> bool) -> DynamicObject {
    let states = states(stage);
    eventually(PATIENCE, "it is as the annotations say", || async {
        let made = states.get("y").await?;
        if wanted(&made.data["spec"]) {
            Ok(made)
        } else {
            Err(NotYet::new(format!("{:#}", made.data)))
        }
    })
    .await
}
