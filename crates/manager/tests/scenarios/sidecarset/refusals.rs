//! What the API server does not take, and annotations that an administrator has to allow.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kruise_testkit::{
    builders::{Fixture as _, config_map},
    eventually::{NotYet, eventually},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use super::update_support::{LABEL, Set, injected, selected, tried};
use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_mistakes_then_each_is_refused_where_it_stands,
        given_changes_that_running_pods_cannot_follow_then_they_are_refused,
        given_sets_that_contradict_each_other_then_the_second_is_refused_unless_they_never_meet,
        given_annotations_for_pods_then_an_administrator_has_to_allow_the_keys_and_policies_say_what_stays,
    ]
}

fn refused(made: Result<Set<'_>, String>, reason: &str) {
    match made {
        Ok(set) => panic!("{} is not refused: {reason}", set.name),
        Err(refusal) => assert!(refusal.contains(reason), "{reason} is not in {refusal}"),
    }
}

async fn given_mistakes_then_each_is_refused_where_it_stands(stage: Arc<Stage>) {
    let container = |more: Value| {
        let mut container = json!({"name": "log", "image": "log:1"});
        kruise_api::merge_patch::merge(&mut container, &more);
        json!({"containers": [container]})
    };
    let native = json!([{"name": "n", "image": "n:1", "restartPolicy": "Always"}]);
    let probe = json!({"startupProbe": {"httpGet": {"port": 80}}});
    let transfer = json!({"transferEnv": [{"sourceContainerNameFrom": {}, "envName": "A"}]});
    for (spec, reason) in [
        (json!({"containers": []}), "spec"),
        (
            json!({"selector": {"matchLabels": null}, "containers": [{"name": "log", "image": "log:1"}]}),
            "spec.selector",
        ),
        (json!({"initContainers": native}), "spec.updateStrategy.type"),
        (
            container(json!({"volumeMounts": [{"name": "none", "mountPath": "/x"}]})),
            "volumeMounts[0].name",
        ),
        (container(json!({"image": ""})), "image"),
        (
            container(
                json!({"resourcesPolicy": {"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu-4"}}}}),
            ),
            "resourcesExpr",
        ),
        (
            container(
                json!({"resourcesPolicy": {"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "1/0"}}}}),
            ),
            "resourcesExpr",
        ),
        (container(transfer), "sourceContainerNameFrom"),
        (
            container(json!({"upgradeStrategy": {"upgradeType": "HotUpgrade"}})),
            "upgradeStrategy.hotUpgradeEmptyImage",
        ),
    ] {
        refused(Set::try_injecting(&stage, "", &json!({ "spec": spec })).await, reason);
    }
    // Kubernetes completes the probe in the Pod.
    let set = Set::injecting(&stage, "", &json!({"spec": container(probe)})).await;
    assert_eq!(
        set.get().await["spec"]["containers"][0]["startupProbe"],
        json!({"httpGet": {"port": 80}})
    );
    let pod = tried(&stage, selected(&stage, "p0")).await.unwrap();
    assert_eq!(pod["spec"]["containers"][0]["startupProbe"]["successThreshold"], 1);
    set.delete().await;
}

async fn given_changes_that_running_pods_cannot_follow_then_they_are_refused(stage: Arc<Stage>) {
    let containers = |names: &[&str]| -> Value {
        let containers = names.iter().map(|name| json!({"name": name, "image": "i:1"}));
        json!({"spec": {"containers": containers.collect::<Vec<_>>()}})
    };
    let set = Set::injecting(&stage, "", &containers(&["a", "b"])).await;
    for (change, reason) in [
        (containers(&["a", "b", "c"]), "spec.containers[2].name"),
        (containers(&["a", "renamed"]), "spec.containers[1].name"),
        (
            json!({"spec": {"containers": [{"name": "a", "image": "i:1", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"}}]}}),
            "spec.containers[0].upgradeStrategy.upgradeType",
        ),
    ] {
        let refusal = set.try_patch(&change).await.unwrap_err();
        assert!(refusal.contains(reason), "{reason} is not in {refusal}");
    }
    injected(&stage, selected(&stage, "p0")).await;
    set.status(&json!({"matchedPods": 1})).await;
    // One that goes from the set stays in the Pods, which cannot follow in place.
    set.patch(&containers(&["a"])).await;
    set.event("NotUpgradablePods", "1 not upgradable pod(s)").await;
    set.delete().await;
}

async fn given_sets_that_contradict_each_other_then_the_second_is_refused_unless_they_never_meet(stage: Arc<Stage>) {
    let log = |name: &str, more: Value| {
        let mut spec = json!({"containers": [{"name": name, "image": "log:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}]});
        kruise_api::merge_patch::merge(&mut spec, &more);
        json!({ "spec": spec })
    };
    let first = Set::injecting(&stage, "", &log("log", json!({}))).await;
    let refusal = Set::try_injecting(&stage, "-2", &log("log", json!({}))).await;
    refused(refusal, &format!("container log already exist in {}", first.name));
    let other_volume = json!({"volumes": [{"name": "v", "hostPath": {"path": "/v"}}]});
    refused(
        Set::try_injecting(&stage, "-2", &log("other", other_volume)).await,
        "spec.volumes[0].name",
    );
    let elsewhere = json!({"selector": {"matchLabels": {LABEL: "elsewhere"}}});
    let second = Set::injecting(&stage, "-2", &log("log", elsewhere)).await;
    // It would meet the first one then.
    let here = json!({"spec": {"selector": {"matchLabels": {LABEL: stage.namespace()}}}});
    let refusal = second.try_patch(&here).await.unwrap_err();
    assert!(refusal.contains("spec.containers[0].name"), "{refusal}");
    let third = Set::injecting(&stage, "-3", &log("third", json!({}))).await;
    for set in [first, second, third] {
        set.delete().await;
    }
}

async fn given_annotations_for_pods_then_an_administrator_has_to_allow_the_keys_and_policies_say_what_stays(
    stage: Arc<Stage>,
) {
    let patches = |patches: Value| json!({"spec": {"containers": [{"name": "log", "image": "log:1"}], "patchPodMetadata": patches}});
    let weight = |policy: &str| patches(json!([{"annotations": {"mesh-weight": "1"}, "patchPolicy": policy}]));
    refused(
        Set::try_injecting(&stage, "", &weight("Retain")).await,
        "spec.patchPodMetadata",
    );
    let rules =
        json!({"rules": [{"selector": {"matchLabels": {"team": "infra"}}, "allowedAnnotationKeyExprs": ["^mesh-"]}]});
    let maps: Api<ConfigMap> = stage.of_manager();
    let map = config_map("kruise-configuration").data("SidecarSet_PatchPodMetadata_WhiteList", &rules.to_string());
    maps.create(&PostParams::default(), &map.build()).await.unwrap();
    let of_infra = |mut set: Value| {
        set["metadata"] = json!({"labels": {"team": "infra"}});
        set
    };
    let all = json!([
        {"annotations": {"mesh-kept": "new", "mesh-missing": "new"}, "patchPolicy": "Retain"},
        {"annotations": {"mesh-taken": "new"}, "patchPolicy": "Overwrite"},
        {"annotations": {"mesh-json": "{\"b\": 2}"}, "patchPolicy": "MergePatchJson"},
    ]);
    let set = eventually(PATIENCE, "the rule counts", || async {
        let made = Set::try_injecting(&stage, "", &of_infra(patches(all.clone()))).await;
        made.map_err(NotYet::new)
    })
    .await;
    let other = of_infra(patches(json!([{"annotations": {"x": "1"}, "patchPolicy": "Retain"}])));
    refused(
        Set::try_injecting(&stage, "-x", &other).await,
        "spec.patchPodMetadata[0].annotations[x]",
    );
    // The rule is about sets with the label.
    refused(
        Set::try_injecting(&stage, "-x", &weight("Retain")).await,
        "spec.patchPodMetadata",
    );

    let pod = |json: &str| {
        selected(&stage, "p0")
            .annotation("mesh-kept", "old")
            .annotation("mesh-taken", "old")
            .annotation("mesh-json", json)
    };
    let made = injected(&stage, pod(r#"{"a": 1}"#)).await;
    let annotations = &made["metadata"]["annotations"];
    for (key, expected) in [
        ("mesh-kept", "old"),
        ("mesh-missing", "new"),
        ("mesh-taken", "new"),
        ("mesh-json", r#"{"a":1,"b":2}"#),
    ] {
        assert_eq!(annotations[key], expected, "{key}");
    }
    let refusal = tried(&stage, pod("no JSON")).await.unwrap_err();
    assert!(
        refusal.contains("mesh-json") && refusal.contains(&set.name),
        "{refusal}"
    );
    // With an update they come along.
    stage
        .patch_pod(
            "p0",
            json!({"metadata": {"annotations": {"mesh-taken": "by hand", "mesh-missing": null}}}),
        )
        .await;
    set.image("log:2").await;
    stage
        .until_pod("p0", "it has the annotations again", |pod| {
            let annotations = json!(pod.metadata.annotations);
            annotations["mesh-taken"] == "new"
                && annotations["mesh-missing"] == "new"
                && annotations["mesh-kept"] == "old"
        })
        .await;
    set.delete().await;
    maps.delete("kruise-configuration", &DeleteParams::default())
        .await
        .unwrap();
}
