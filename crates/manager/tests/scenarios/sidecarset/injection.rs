//! What a new Pod gets from the SidecarSets that apply to it.

use std::sync::Arc;

use kruise_testkit::{
    builders::Fixture as _,
    eventually::{NotYet, eventually},
    features::{Feature, lacks},
};
use serde_json::{Value, json};

use super::update_support::{LABEL, Set, annotation, image, injected, names, record, selected, tried};
use crate::cluster::scenario::{PATIENCE, Scenario, Stage, scenarios};

pub(crate) fn all() -> Vec<Scenario> {
    scenarios![
        given_a_set_then_a_new_pod_has_its_container_and_says_so_to_the_byte,
        given_policies_then_containers_stand_in_front_behind_or_in_the_place_of_their_namesake,
        given_init_containers_then_they_stand_behind_by_name,
        given_shared_volumes_then_own_paths_win_and_variables_of_sub_paths_come_along,
        given_variables_to_take_over_then_they_are_found_or_passed_over,
        given_two_sets_then_both_are_injected_and_listed,
        given_volumes_and_pull_secrets_then_only_what_is_needed_and_missing_is_added,
        given_a_native_sidecar_then_it_keeps_running_beside_and_a_new_image_reaches_no_pod,
        given_a_hot_sidecar_then_two_take_turns_also_in_an_injected_pod,
        given_injection_that_ends_then_pods_that_have_the_sidecar_are_updated_on,
    ]
}

const HASH: &str = "kruise.io/sidecarset-hash";
const IMAGELESS: &str = "kruise.io/sidecarset-hash-without-image";
const LIST: &str = "kruise.io/sidecarset-injected-list";

async fn given_a_set_then_a_new_pod_has_its_container_and_says_so_to_the_byte(stage: Arc<Stage>) {
    let log = json!({"name": "log", "image": "busybox:1.36"});
    let set = Set::injecting(&stage, "", &json!({"spec": {"containers": [log]}})).await;
    let name = &*set.name;
    let revision = set.status(&json!({})).await["latestRevision"].clone();
    let revision = revision.as_str().unwrap();
    // The cache has the status of the set a moment later.
    let known = eventually(PATIENCE, "the Pod names the revision", || async {
        let pod = tried(&stage, selected(&stage, "p0")).await?;
        let known = record(&pod, HASH, name)["controllerRevision"] == revision;
        known.then_some(pod).ok_or_else(|| NotYet::new("not yet"))
    });
    known.await;
    let pod = injected(&stage, selected(&stage, "p0")).await;
    let containers = &pod["spec"]["containers"];
    assert_eq!(names(containers), ["log", "main"]);
    let env = json!([{"name": "IS_INJECTED", "value": "true"}]);
    assert_eq!((&containers[0]["env"], &containers[1]["env"]), (&env, &Value::Null));
    // Recorded from the original, for the same container.
    let hash = "bzv6592862b6w846cw4xx5w9647xz74dxc6d24fw7b6bcx554fxd2z4z4vbd8ff4";
    let imageless = "4424wfff8b57d47vb7684zc4bb5478vxwwdcz7dd2xdwbf4d4446424d4w29cwd5";
    assert_eq!(revision, format!("{name}-78d6bc76b8"));
    let stored = set.get().await["metadata"]["annotations"].clone();
    assert_eq!((&stored[HASH], &stored[IMAGELESS]), (&json!(hash), &json!(imageless)));
    let time = record(&pod, HASH, name)["updateTimestamp"].clone();
    let time = time.as_str().unwrap();
    assert!(
        time.len() == "2024-05-01T08:00:00Z".len() && time.ends_with('Z'),
        "{time}"
    );
    let said = |hash: &str, more: &str| {
        format!(
            r#"{{"{name}":{{"updateTimestamp":"{time}","hash":"{hash}","sidecarSetName":"{name}","sidecarList":["log"]{more}}}}}"#
        )
    };
    let annotations = &pod["metadata"]["annotations"];
    let of_revision = format!(r#","controllerRevision":"{revision}""#);
    assert_eq!(annotations[HASH], said(hash, &of_revision));
    assert_eq!(annotations[IMAGELESS], said(imageless, ""));
    assert_eq!(annotations[LIST], name);
    assert_eq!(annotations.as_object().unwrap().len(), 3, "{annotations}");
    assert_eq!(pod["metadata"]["labels"], json!({LABEL: stage.namespace()}));
    set.status(&json!({"matchedPods": 1, "updatedPods": 1, "readyPods": 1}))
        .await;
    set.delete().await;
}

async fn given_policies_then_containers_stand_in_front_behind_or_in_the_place_of_their_namesake(stage: Arc<Stage>) {
    let containers = json!([
        {"name": "behind", "image": "b:1", "podInjectPolicy": "AfterAppContainer"},
        {"name": "front", "image": "f:1"},
        {"name": "old", "image": "new:1"},
    ]);
    let set = Set::injecting(&stage, "", &json!({"spec": {"containers": containers}})).await;
    let pod = tried(&stage, selected(&stage, "p0").container("old", "old:1"))
        .await
        .unwrap();
    let containers = &pod["spec"]["containers"];
    assert_eq!(names(containers), ["front", "main", "old", "behind"]);
    assert_eq!(containers[2]["image"], "new:1");
    // The whole list is said, sorted by name.
    let list = json!(["behind", "front", "old"]);
    assert_eq!(record(&pod, HASH, &set.name)["sidecarList"], list);
    set.delete().await;
}

async fn given_init_containers_then_they_stand_behind_by_name(stage: Arc<Stage>) {
    let init = json!([{"name": "b", "image": "b:1"}, {"name": "a", "image": "a:1"},
        {"name": "first", "image": "f:1", "podInjectPolicy": "BeforeAppContainer"}]);
    let set = Set::injecting(&stage, "", &json!({"spec": {"initContainers": init}})).await;
    let pod = selected(&stage, "p0").init_container("z", "z:1");
    let pod = tried(&stage, pod).await.unwrap();
    assert_eq!(names(&pod["spec"]["initContainers"]), ["first", "z", "a", "b"]);
    assert_eq!(names(&pod["spec"]["containers"]), ["main"]);
    assert_eq!(record(&pod, HASH, &set.name)["sidecarList"], json!([]));
    set.delete().await;
}

/// Mounts without the one that Kubernetes itself gives each container.
fn mounts(container: &Value) -> Vec<(&str, &str)> {
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let mounts = mounts.map(|mount| (mount["name"].as_str().unwrap(), mount["mountPath"].as_str().unwrap()));
    mounts
        .filter(|(_, path)| !path.starts_with("/var/run/secrets"))
        .collect()
}

fn variables(container: &Value) -> Vec<(&str, &Value)> {
    let variables = container["env"].as_array().into_iter().flatten();
    variables
        .map(|variable| (variable["name"].as_str().unwrap(), &variable["value"]))
        .collect()
}

async fn given_shared_volumes_then_own_paths_win_and_variables_of_sub_paths_come_along(stage: Arc<Stage>) {
    let side = json!({"name": "side", "image": "s:1", "shareVolumePolicy": {"type": "enabled"},
        "podInjectPolicy": "AfterAppContainer", "volumeMounts": [{"name": "own", "mountPath": "/log"}]});
    let volumes = json!([{"name": "own", "emptyDir": {}}]);
    let set = Set::injecting(&stage, "", &json!({"spec": {"containers": [side], "volumes": volumes}})).await;
    let mounts_of_main = json!([{"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": "/log", "subPathExpr": "$(POD)"}]);
    let pod = selected(&stage, "p0")
        .set("/spec/containers/0/volumeMounts", mounts_of_main)
        .set(
            "/spec/containers/0/env",
            json!([{"name": "POD", "value": "p"}, {"name": "OTHER", "value": "o"}]),
        )
        .set("/spec/volumes", json!([{"name": "data", "emptyDir": {}}]));
    let pod = tried(&stage, pod).await.unwrap();
    let side = &pod["spec"]["containers"][1];
    assert_eq!(mounts(side), [("own", "/log"), ("data", "/data")]);
    assert_eq!(variables(side), [("IS_INJECTED", &json!("true")), ("POD", &json!("p"))]);
    set.delete().await;
}

async fn given_variables_to_take_over_then_they_are_found_or_passed_over(stage: Arc<Stage>) {
    let from = json!({"fieldRef": {"fieldPath": "metadata.annotations['main-c']"}});
    let transfers = json!([{"sourceContainerNameFrom": from, "envNames": ["B", "A", "NONE"]},
        {"sourceContainerName": "main", "envName": "OWN"}]);
    let side = json!({"name": "side", "image": "s:1", "podInjectPolicy": "AfterAppContainer",
        "env": [{"name": "OWN", "value": "mine"}], "transferEnv": transfers});
    let set = Set::injecting(&stage, "", &json!({"spec": {"containers": [side]}})).await;
    let pod = || {
        let variables =
            json!([{"name": "A", "value": "a"}, {"name": "B", "value": "b"}, {"name": "OWN", "value": "theirs"}]);
        selected(&stage, "p0").set("/spec/containers/0/env", variables)
    };
    let named = tried(&stage, pod().annotation("main-c", "main")).await.unwrap();
    let (yes, mine, a, b) = (json!("true"), json!("mine"), json!("a"), json!("b"));
    let expected = [("OWN", &mine), ("IS_INJECTED", &yes), ("A", &a), ("B", &b)];
    assert_eq!(variables(&named["spec"]["containers"][1]), expected);
    for other in [pod(), pod().annotation("main-c", "nobody")] {
        let other = tried(&stage, other).await.unwrap();
        assert_eq!(variables(&other["spec"]["containers"][1]), expected[..2]);
    }
    set.delete().await;
}

async fn given_two_sets_then_both_are_injected_and_listed(stage: Arc<Stage>) {
    let container = |name: &str| json!({"spec": {"containers": [{"name": name, "image": "s:1"}]}});
    let second = Set::injecting(&stage, "-b", &container("b")).await;
    let first = Set::injecting(&stage, "-a", &container("a")).await;
    let pod = injected(&stage, selected(&stage, "p0")).await;
    assert_eq!(names(&pod["spec"]["containers"]), ["a", "b", "main"]);
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations[LIST], format!("{},{}", first.name, second.name));
    for (key, set, list) in [
        (HASH, &first, "a"),
        (HASH, &second, "b"),
        (IMAGELESS, &first, "a"),
        (IMAGELESS, &second, "b"),
    ] {
        assert_eq!(record(&pod, key, &set.name)["sidecarList"], json!([list]), "{key}");
    }
    for set in [first, second] {
        set.status(&json!({"matchedPods": 1, "updatedReadyPods": 1})).await;
        set.delete().await;
    }
}

async fn given_volumes_and_pull_secrets_then_only_what_is_needed_and_missing_is_added(stage: Arc<Stage>) {
    let mounts_of_side = json!([{"name": "own", "mountPath": "/own"}, {"name": "both", "mountPath": "/both"}]);
    let side = json!({"name": "side", "image": "s:1", "volumeMounts": mounts_of_side});
    let volumes =
        json!([{"name": "own", "emptyDir": {}}, {"name": "both", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}]);
    let secrets = json!([{"name": "mine"}, {"name": "shared"}]);
    let spec = json!({"containers": [side], "volumes": volumes, "imagePullSecrets": secrets});
    let set = Set::injecting(&stage, "", &json!({ "spec": spec })).await;
    let pod = selected(&stage, "p0")
        .set(
            "/spec/volumes",
            json!([{"name": "both", "hostPath": {"path": "/theirs"}}]),
        )
        .set("/spec/imagePullSecrets", json!([{"name": "shared"}]));
    let pod = tried(&stage, pod).await.unwrap();
    let volumes = names(&pod["spec"]["volumes"]);
    let volumes: Vec<&str> = volumes
        .into_iter()
        .filter(|name| !name.starts_with("kube-api-access"))
        .collect();
    assert_eq!(volumes, ["both", "own"]);
    assert_eq!(pod["spec"]["volumes"][0]["hostPath"]["path"], "/theirs");
    assert_eq!(names(&pod["spec"]["imagePullSecrets"]), ["shared", "mine"]);
    set.delete().await;
}

async fn given_a_native_sidecar_then_it_keeps_running_beside_and_a_new_image_reaches_no_pod(stage: Arc<Stage>) {
    if lacks(Feature::SidecarContainers) {
        return;
    }
    let native = |image: &str| json!([{"name": "native", "image": image, "restartPolicy": "Always"}]);
    let more = json!({"spec": {"initContainers": native("n:1"), "updateStrategy": {"type": "NotUpdate"}}});
    let set = Set::injecting(&stage, "", &more).await;
    let pod = injected(&stage, selected(&stage, "p0")).await;
    let sidecar = &pod["spec"]["initContainers"][0];
    assert_eq!(
        (&sidecar["name"], &sidecar["restartPolicy"]),
        (&json!("native"), &json!("Always"))
    );
    assert_eq!(record(&pod, HASH, &set.name)["sidecarList"], json!(["native"]));
    let before = set.get().await["metadata"]["annotations"].clone();
    set.patch(&json!({"spec": {"initContainers": native("n:2")}})).await;
    set.status(&json!({"matchedPods": 1, "updatedPods": 0})).await;
    let after = set.get().await["metadata"]["annotations"].clone();
    assert_ne!(before[HASH], after[HASH]);
    assert_eq!(before[IMAGELESS], after[IMAGELESS]);
    let pod = json!(stage.pods.get("p0").await.unwrap());
    assert_eq!(pod["spec"]["initContainers"][0]["image"], "n:1");
    assert_eq!(
        pod["metadata"]["annotations"]["kruise.io/sidecarset-inplace-update-state"],
        Value::Null
    );
    set.delete().await;
}

async fn given_a_hot_sidecar_then_two_take_turns_also_in_an_injected_pod(stage: Arc<Stage>) {
    let hot = json!({"name": "mesh", "image": "mesh:1",
        "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}});
    let set = Set::injecting(&stage, "", &json!({"spec": {"containers": [hot]}})).await;
    let pod = injected(&stage, selected(&stage, "p0")).await;
    assert_eq!(names(&pod["spec"]["containers"]), ["mesh-1", "mesh-2", "main"]);
    let annotations = &pod["metadata"]["annotations"];
    for (index, name, picture, version, other) in
        [(0, "mesh-1", "mesh:1", "1", "0"), (1, "mesh-2", "empty:1", "0", "1")]
    {
        let container = &pod["spec"]["containers"][index];
        assert_eq!(container["image"], picture);
        let path = |key: &str| json!({"fieldRef": {"apiVersion": "v1", "fieldPath": format!("metadata.annotations['{key}']")}});
        let keys = [
            format!("version.sidecarset.kruise.io/{name}"),
            format!("versionalt.sidecarset.kruise.io/{name}"),
        ];
        let expected = json!([{"name": "IS_INJECTED", "value": "true"},
            {"name": "SIDECARSET_VERSION", "valueFrom": path(&keys[0])},
            {"name": "SIDECARSET_VERSION_ALT", "valueFrom": path(&keys[1])}]);
        assert_eq!(container["env"], expected);
        assert_eq!(
            (&annotations[&keys[0]], &annotations[&keys[1]]),
            (&json!(version), &json!(other))
        );
    }
    assert_eq!(
        annotations["kruise.io/sidecarset-working-hotupgrade-container"],
        r#"{"mesh":"mesh-1"}"#
    );
    assert_eq!(record(&pod, HASH, &set.name)["sidecarList"], json!(["mesh"]));
    set.status(&json!({"matchedPods": 1, "readyPods": 1})).await;
    set.image("mesh:2").await;
    let pod = stage
        .until_pod("p0", "they took turns", |pod| {
            image(pod, "mesh-1") == "empty:1" && image(pod, "mesh-2") == "mesh:2"
        })
        .await;
    let working = "kruise.io/sidecarset-working-hotupgrade-container";
    assert_eq!(annotation(&pod, working), r#"{"mesh":"mesh-2"}"#);
    set.status(&json!({"readyPods": 1, "updatedReadyPods": 1})).await;
    set.delete().await;
}

async fn given_injection_that_ends_then_pods_that_have_the_sidecar_are_updated_on(stage: Arc<Stage>) {
    let log = json!({"name": "log", "image": "log:1"});
    let set = Set::injecting(&stage, "", &json!({"spec": {"containers": [log]}})).await;
    injected(&stage, selected(&stage, "before")).await;
    set.status(&json!({"matchedPods": 1, "readyPods": 1})).await;
    set.patch(&json!({"spec": {"injectionStrategy": {"paused": true}}}))
        .await;
    set.status(&json!({})).await;
    let pod = injected(&stage, selected(&stage, "after")).await;
    assert_eq!(names(&pod["spec"]["containers"]), ["main"]);
    assert_eq!(pod["metadata"]["annotations"], Value::Null);
    set.image("log:2").await;
    set.status(&json!({"matchedPods": 1, "updatedReadyPods": 1})).await;
    assert_eq!(image(&stage.pods.get("before").await.unwrap(), "log"), "log:2");
    set.delete().await;
}
