use super::*;
use crate::sidecarset::select;
use proptest::prelude::*;
use serde_json::json;

fn set(name: &str, spec: &Value) -> SidecarSet {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

fn injected(pod: &Value, sets: &[SidecarSet]) -> Result<Value, InjectError> {
    injected_sorted(pod, sets, false)
}

fn injected_sorted(pod: &Value, sets: &[SidecarSet], sort_containers: bool) -> Result<Value, InjectError> {
    let rules = Rules {
        now: "2024-05-01T08:00:00Z".parse().unwrap(),
        sort_containers,
    };
    let mut sets: Vec<&SidecarSet> = sets.iter().collect();
    select::settle(&mut sets);
    let injections: Vec<Injection<'_>> = sets.into_iter().map(Injection::current).collect();
    let mut pod = pod.clone();
    inject(&mut pod, &injections, rules).map(|()| pod)
}

fn pod(containers: &Value) -> Value {
    json!({"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"containers": containers}})
}

fn names<'a>(pod: &'a Value, list: &str) -> Vec<&'a str> {
    let list = pod["spec"][list].as_array();
    list.into_iter().flatten().map(name_of).collect()
}

fn env(container: &Value) -> Vec<&str> {
    container["env"].as_array().into_iter().flatten().map(name_of).collect()
}

#[test]
fn given_policies_then_containers_go_in_front_to_the_end_or_in_the_place_of_one_with_their_name() {
    let before = json!({"name": "log", "image": "l", "podInjectPolicy": "BeforeAppContainer"});
    let after = json!({"name": "mesh", "image": "m", "podInjectPolicy": "AfterAppContainer"});
    let same = json!({"name": "old", "image": "new", "podInjectPolicy": "BeforeAppContainer"});
    let sets = [set("a", &json!({"containers": [after, before, same]}))];
    let made = injected(&pod(&json!([{"name": "main"}, {"name": "old", "image": "x"}])), &sets).unwrap();
    assert_eq!(names(&made, "containers"), ["log", "main", "old", "mesh"]);
    assert_eq!(made["spec"]["containers"][2]["image"], "new");
    assert_eq!(env(&made["spec"]["containers"][0]), ["IS_INJECTED"]);
}

#[test]
fn given_init_containers_then_they_go_behind_by_name_and_in_front_only_where_asked() {
    let init = |name: &str, policy: &str| json!({"name": name, "podInjectPolicy": policy});
    let sets = [
        set(
            "a",
            &json!({"initContainers": [init("b", "AfterAppContainer"), init("a", "AfterAppContainer")]}),
        ),
        set("c", &json!({"initContainers": [init("x", "BeforeAppContainer")]})),
    ];
    let mut given = pod(&json!([{"name": "main"}]));
    given["spec"]["initContainers"] = json!([{"name": "z"}]);
    let made = injected(&given, &sets).unwrap();
    assert_eq!(names(&made, "initContainers"), ["x", "z", "a", "b"]);
    let records: Value = serde_json::from_str(
        made["metadata"]["annotations"]["kruise.io/sidecarset-hash"]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(records["a"]["sidecarList"], json!([]));
}

#[test]
fn given_the_gate_then_containers_are_sorted_by_name() {
    let sets = [
        set("a", &json!({"containers": [{"name": "z"}, {"name": "m"}]})),
        set("b", &json!({"containers": [{"name": "a"}]})),
    ];
    let given = pod(&json!([{"name": "main"}]));
    assert_eq!(
        names(&injected(&given, &sets).unwrap(), "containers"),
        ["main", "z", "m", "a"]
    );
    assert_eq!(
        names(&injected_sorted(&given, &sets, true).unwrap(), "containers"),
        ["main", "a", "m", "z"]
    );
}

#[test]
fn given_shared_volumes_then_own_paths_win_and_variables_of_sub_paths_come_along() {
    let sidecar = json!({"name": "s", "shareVolumePolicy": {"type": "enabled"}, "shareVolumeDevicePolicy": {"type": "enabled"},
        "volumeMounts": [{"name": "own", "mountPath": "/log"}], "volumeDevices": [{"name": "d", "devicePath": "/dev/x"}]});
    let main = json!({"name": "main", "env": [{"name": "POD", "value": "p"}, {"name": "OTHER", "value": "o"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "l", "mountPath": "/log", "subPathExpr": "$(POD)/$(NONE)/$(1)"},
            {"name": "y", "mountPath": "/dev/x"}],
        "volumeDevices": [{"name": "e", "devicePath": "/data"}, {"name": "f", "devicePath": "/dev/y"}]});
    let other = json!({"name": "side", "env": [{"name": "IS_INJECTED", "value": "true"}],
        "volumeMounts": [{"name": "no", "mountPath": "/no"}]});
    let sets = [set(
        "a",
        &json!({"containers": [sidecar], "volumes": [{"name": "own", "emptyDir": {}}, {"name": "unused"},
        {"name": "d", "emptyDir": {}}]}),
    )];
    let mut given = pod(&json!([main, other]));
    given["spec"]["volumes"] = json!([{"name": "d", "hostPath": {"path": "/d"}}]);
    let made = injected(&given, &sets).unwrap();
    let sidecar = &made["spec"]["containers"][2];
    let paths = |field: &str, path: &str| -> Vec<String> {
        let list = sidecar[field].as_array().unwrap();
        list.iter()
            .map(|mount| mount[path].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(paths("volumeMounts", "mountPath"), ["/log", "/data"]);
    assert_eq!(paths("volumeDevices", "devicePath"), ["/dev/x", "/dev/y"]);
    assert_eq!(env(sidecar), ["IS_INJECTED", "POD"]);
    // The volume of the Pod wins, and what nobody mounts is left out.
    let volumes = made["spec"]["volumes"].as_array().unwrap();
    assert_eq!(volumes.iter().map(name_of).collect::<Vec<_>>(), ["d", "own"]);
    assert!(volumes[0].get("hostPath").is_some());
}

#[test]
fn given_variables_to_take_over_then_they_are_found_by_name_label_or_annotation_or_passed_over() {
    let by = |path: &str| json!({"sourceContainerNameFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}, "envName": "C"});
    let sidecar =
        |transfers: Value| json!({"name": "s", "env": [{"name": "B", "value": "mine"}], "transferEnv": transfers});
    let mut given = pod(
        &json!([{"name": "main", "env": [{"name": "B", "value": "b"}, {"name": "C", "value": "c"},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]),
    );
    given["metadata"]["annotations"] = json!({"main-c": "main"});
    for (transfers, expected) in [
        (
            json!([{"sourceContainerName": "main", "envNames": ["C", "A", "B", "Z"], "envName": "A"}]),
            vec!["B", "IS_INJECTED", "A", "C"],
        ),
        (
            json!([{"sourceContainerName": "none", "envName": "A"}]),
            vec!["B", "IS_INJECTED"],
        ),
        (
            json!([by("metadata.annotations['main-c']")]),
            vec!["B", "IS_INJECTED", "C"],
        ),
        (json!([by("metadata.annotations['missing']")]), vec!["B", "IS_INJECTED"]),
        (json!([by("metadata.labels['app']")]), vec!["B", "IS_INJECTED"]),
        (json!([by("metadata.name")]), vec!["B", "IS_INJECTED"]),
        (
            json!([{"sourceContainerNameFrom": {}, "sourceContainerName": "main", "envName": "C"}]),
            vec!["B", "IS_INJECTED", "C"],
        ),
    ] {
        let made = injected(
            &given,
            &[set("a", &json!({"containers": [sidecar(transfers.clone())]}))],
        )
        .unwrap();
        assert_eq!(env(&made["spec"]["containers"][1]), expected, "{transfers}");
    }
}

#[test]
fn given_pull_secrets_then_each_is_there_once() {
    let mut given = pod(&json!([{"name": "main"}]));
    given["spec"]["imagePullSecrets"] = json!([{"name": "x"}, {"name": "x"}]);
    let spec = json!({"containers": [{"name": "s"}], "imagePullSecrets": [{"name": "y"}, {"name": "x"}]});
    let made = injected(&given, &[set("a", &spec)]).unwrap();
    assert_eq!(names(&made, "imagePullSecrets"), ["x", "y"]);
}

#[test]
fn given_annotations_that_are_there_then_they_are_merged_and_what_cannot_be_read_refuses_this_pod() {
    let sets = [
        set("log", &json!({"containers": [{"name": "s"}]})),
        set("envoy", &json!({"containers": [{"name": "e"}]})),
    ];
    let mut given = pod(&json!([{"name": "main"}]));
    let made = injected(&given, &sets).unwrap();
    assert_eq!(
        made["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"],
        "envoy,log"
    );
    given["metadata"]["annotations"] = json!({
        "kruise.io/sidecarset-hash": r#"{"old":"h"}"#, "kruise.io/sidecarset-injected-list": "old"});
    let made = injected(&given, &sets).unwrap();
    let hashes = made["metadata"]["annotations"]["kruise.io/sidecarset-hash"]
        .as_str()
        .unwrap();
    assert!(
        hashes.contains(r#""old":{"updateTimestamp":null,"hash":"h","sidecarSetName":"old","sidecarList":null}"#),
        "{hashes}"
    );
    assert!(
        hashes.starts_with(r#"{"envoy":{"updateTimestamp":"2024-05-01T08:00:00Z","hash":""#),
        "{hashes}"
    );
    assert_eq!(
        made["metadata"]["annotations"]["kruise.io/sidecarset-injected-list"],
        "envoy,log,old"
    );
    for (key, bad) in [
        ("kruise.io/sidecarset-hash", "{"),
        ("kruise.io/sidecarset-hash-without-image", "[]"),
    ] {
        given["metadata"]["annotations"] = json!({key: bad});
        assert!(
            matches!(injected(&given, &sets), Err(InjectError::Annotation { .. })),
            "{key}"
        );
    }
}

#[test]
fn given_a_hot_upgrade_then_two_containers_take_turns() {
    let hot = |extra: Value| {
        let mut container = json!({"name": "mesh", "image": "v1",
            "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty"}});
        for (key, value) in extra.as_object().unwrap() {
            container[key] = value.clone();
        }
        container
    };
    let given = pod(&json!([{"name": "main"}]));
    let made = injected(&given, &[set("a", &json!({"containers": [hot(json!({}))]}))]).unwrap();
    assert_eq!(names(&made, "containers"), ["main", "mesh-1", "mesh-2"]);
    assert_eq!(made["spec"]["containers"][2]["image"], "empty");
    assert_eq!(
        env(&made["spec"]["containers"][1]),
        ["IS_INJECTED", "SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"]
    );
    let annotations = &made["metadata"]["annotations"];
    assert_eq!(
        annotations["kruise.io/sidecarset-working-hotupgrade-container"],
        r#"{"mesh":"mesh-1"}"#
    );
    assert_eq!(annotations["version.sidecarset.kruise.io/mesh-2"], "0");
    // A plain init container is there once, a native sidecar twice.
    let plain = injected(&given, &[set("a", &json!({"initContainers": [hot(json!({}))]}))]).unwrap();
    assert_eq!(names(&plain, "initContainers"), ["mesh"]);
    let native = injected(
        &given,
        &[set(
            "a",
            &json!({"initContainers": [hot(json!({"restartPolicy": "Always"}))]}),
        )],
    )
    .unwrap();
    assert_eq!(names(&native, "initContainers"), ["mesh-1", "mesh-2"]);
}

#[test]
fn given_sets_that_meet_later_then_a_name_is_the_first_ones_and_the_other_does_not_say_that_it_brought_it() {
    let hot = |name: &str| json!({"name": name, "image": "hot", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty"}});
    let mounting = json!({"name": "log", "image": "b", "volumeMounts": [{"name": "only-b", "mountPath": "/b"}]});
    let sets = [
        set(
            "a",
            &json!({"containers": [{"name": "log", "image": "a"}, {"name": "mesh-2"}], "initContainers": [{"name": "early"}]}),
        ),
        set(
            "b",
            &json!({"containers": [mounting, hot("mesh"), {"name": "early"}, {"name": "own"}],
                "volumes": [{"name": "only-b", "emptyDir": {}}]}),
        ),
    ];
    let made = injected(&pod(&json!([{"name": "main"}])), &sets).unwrap();
    assert_eq!(names(&made, "containers"), ["main", "log", "mesh-2", "own"]);
    assert_eq!(names(&made, "initContainers"), ["early"]);
    assert_eq!(made["spec"]["containers"][1]["image"], "a");
    assert_eq!(made["spec"]["volumes"], Value::Null);
    let annotations = made["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations["kruise.io/sidecarset-injected-list"], "a,b");
    assert!(
        !annotations.keys().any(|key| key.contains("version")),
        "{annotations:?}"
    );
    let records: Value = serde_json::from_str(annotations["kruise.io/sidecarset-hash"].as_str().unwrap()).unwrap();
    assert_eq!(records["a"]["sidecarList"], json!(["log", "mesh-2"]));
    assert_eq!(records["b"]["sidecarList"], json!(["own"]));
}

#[test]
fn given_only_annotations_to_write_then_nothing_else_is() {
    let spec = json!({"patchPodMetadata": [{"annotations": {"k": "v"}, "patchPolicy": "Retain"}]});
    let made = injected(&pod(&json!([{"name": "main"}])), &[set("a", &spec)]).unwrap();
    assert_eq!(made["metadata"]["annotations"], json!({"k": "v"}));
}

fn any_set() -> impl Strategy<Value = Value> {
    let container = ("[abcm]", any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(name, before, hot, share)| {
        json!({"name": name, "image": "i",
            "podInjectPolicy": if before { "BeforeAppContainer" } else { "AfterAppContainer" },
            "upgradeStrategy": {"upgradeType": if hot { "HotUpgrade" } else { "ColdUpgrade" }},
            "shareVolumePolicy": {"type": if share { "enabled" } else { "disabled" }},
            "transferEnv": [{"sourceContainerName": "m", "envName": "E"}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}]})
    });
    let list = || proptest::collection::vec(container.clone(), 0..3);
    (list(), list()).prop_map(|(containers, init_containers)| {
        json!({"containers": containers, "initContainers": init_containers, "volumes": [{"name": "v", "emptyDir": {}}],
            "imagePullSecrets": [{"name": "s"}], "patchPodMetadata": [{"annotations": {"k": "v"}}]})
    })
}

fn any_pod() -> impl Strategy<Value = Value> {
    let container = "[amxyz]".prop_map(|name| {
        json!({"name": name, "image": "own", "env": [{"name": "E", "value": "e"}],
            "volumeMounts": [{"name": "w", "mountPath": "/w"}]})
    });
    let unique = |list: Vec<Value>| -> Vec<Value> {
        let mut seen = BTreeSet::new();
        list.into_iter()
            .filter(|each| seen.insert(name_of(each).to_owned()))
            .collect()
    };
    proptest::collection::vec(container, 1..4).prop_map(move |list| {
        let mut pod = pod(&json!(unique(list)));
        pod["spec"]["volumes"] = json!([{"name": "w", "emptyDir": {}}]);
        pod["metadata"]["annotations"] = json!({"mine": "x"});
        pod
    })
}

proptest! {
    #[test]
    fn given_any_sets_then_the_merge_keeps_its_promises(
        pod in any_pod(), specs in proptest::collection::vec(any_set(), 0..4), turn in 0..4_usize,
    ) {
        let sets: Vec<SidecarSet> = specs.iter().enumerate().map(|(index, spec)| set(&format!("s{index}"), spec)).collect();
        let once = injected(&pod, &sets).unwrap();

        // Doing it again changes nothing, unless a sidecar took the place of a container from which it or others had something.
        let own = pod["spec"]["containers"].as_array().unwrap();
        let kept = own.iter().all(|container| once["spec"]["containers"].as_array().unwrap().contains(container));
        if kept {
            prop_assert_eq!(&injected(&once, &sets).unwrap(), &once);
        }

        // The order in which the cache has the sets does not count.
        let mut turned = sets.clone();
        if !turned.is_empty() {
            let by = turn % turned.len();
            turned.rotate_left(by);
        }
        prop_assert_eq!(&injected(&pod, &turned).unwrap(), &once);

        // No name is there twice.
        for list in ["containers", "initContainers", "volumes", "imagePullSecrets"] {
            let found = names(&once, list);
            let unique: BTreeSet<&str> = found.iter().copied().collect();
            prop_assert_eq!(found.len(), unique.len(), "{}", list);
        }
        let both = ["containers", "initContainers"].map(|list| once["spec"][list].as_array().cloned().unwrap_or_default());
        let injected: Vec<&Value> = both.iter().flatten().filter(|each| env(each).contains(&"IS_INJECTED")).collect();
        let unique: BTreeSet<&str> = injected.iter().map(|each| name_of(each)).collect();
        prop_assert_eq!(injected.len(), unique.len());

        // What the user wrote is there, in its order, but for containers that a set replaces by name.
        let declared: BTreeSet<&str> = names(&once, "containers").into_iter().collect();
        for container in pod["spec"]["containers"].as_array().unwrap() {
            prop_assert!(declared.contains(name_of(container)));
            let now = once["spec"]["containers"].as_array().unwrap();
            let now = now.iter().find(|each| name_of(each) == name_of(container)).unwrap();
            prop_assert!(now == container || env(now).contains(&"IS_INJECTED"));
        }
        prop_assert_eq!(&once["metadata"]["annotations"]["mine"], "x");
        prop_assert_eq!(&once["metadata"]["labels"], &pod["metadata"]["labels"]);
        prop_assert_eq!(&once["spec"]["volumes"][0], &pod["spec"]["volumes"][0]);
    }

    #[test]
    fn given_anything_as_a_pod_then_no_panic(value in 0..7_usize, spec in any_set()) {
        let odd = [json!(null), json!(1), json!("x"), json!([]), json!({"name": []}), json!([1, {"env": 1, "volumeMounts": {"a": 1}}]), json!({})];
        for field in ["spec", "metadata"] {
            let mut pod = pod(&json!([{"name": "main"}]));
            pod[field] = odd[value].clone();
            let _ = injected(&pod, &[set("a", &spec)]);
        }
        for field in ["containers", "initContainers", "volumes", "imagePullSecrets"] {
            let mut pod = pod(&json!([{"name": "main"}]));
            pod["spec"][field] = odd[value].clone();
            let _ = injected(&pod, &[set("a", &spec)]);
        }
        let mut pod = pod(&json!([{"name": "main"}]));
        pod["metadata"]["annotations"] = odd[value].clone();
        let _ = injected(&pod, &[set("a", &spec)]);
    }
}
