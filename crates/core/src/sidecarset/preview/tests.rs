use super::*;
use serde_json::json;

fn set(name: &str, more: &Value) -> SidecarSet {
    let mut set = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "web"}},
        "containers": [{"name": name, "image": "i:1", "podInjectPolicy": "AfterAppContainer"}]}});
    kruise_api::merge_patch::merge(&mut set, more);
    serde_json::from_value(set).unwrap()
}

fn pod() -> Value {
    json!({"metadata": {"name": "web-0", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "m:1"}]}})
}

fn known<'a>(sets: &'a [SidecarSet], revisions: &'a [ControllerRevision]) -> Known<'a> {
    Known {
        namespace: ("shop", None),
        system: "kruise-system",
        sets,
        revisions,
        sort_containers: false,
        now: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn given_sets_then_it_is_told_what_each_brings_and_why_others_do_not() {
    let base = json!({"metadata": {"annotations": {
        "apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "base"}}});
    let all = [
        set(
            "log",
            &json!({"spec": {"volumes": [{"name": "buf", "emptyDir": {}}], "imagePullSecrets": [{"name": "s"}],
            "patchPodMetadata": [{"annotations": {"k": "v"}}],
            "containers": [{"name": "log", "image": "i:1", "volumeMounts": [{"name": "buf", "mountPath": "/b"}]}]}}),
        ),
        set("base", &json!({})),
        set("canary", &base),
        set("db", &json!({"spec": {"selector": {"matchLabels": {"app": "db"}}}})),
        set("paused", &json!({"spec": {"injectionStrategy": {"paused": true}}})),
        set(
            "team",
            &json!({"spec": {"namespaceSelector": {"matchLabels": {"team": "infra"}}}}),
        ),
        set(
            "there",
            &json!({"spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "there"}}}}),
        ),
        set(
            "taken",
            &json!({"spec": {"containers": [{"name": "main", "image": "i:1"}]}}),
        ),
    ];
    let told = preview(&pod(), known(&all, &[]));
    let brought = |set: &str| told.applied.iter().find(|brought| brought.set == set).unwrap();
    let names: Vec<&str> = told.applied.iter().map(|brought| &*brought.set).collect();
    assert_eq!(names, ["canary", "log", "taken"]);
    let log = Brought {
        set: "log".into(),
        containers: vec!["log".into()],
        volumes: vec!["buf".into()],
        pull_secrets: vec!["s".into()],
        annotations: vec!["k".into()],
        ..Brought::default()
    };
    assert_eq!(brought("log"), &log);
    assert_eq!(brought("taken").replaced, ["main"]);
    let reasons: Vec<(&str, &NotApplied)> = told.passed_over.iter().map(|(set, reason)| (&**set, reason)).collect();
    assert_eq!(
        reasons,
        [
            ("base", &NotApplied::Canary("canary".into())),
            ("db", &NotApplied::Selector),
            ("paused", &NotApplied::Paused),
            ("team", &NotApplied::NamespaceUnknown),
            ("there", &NotApplied::Namespace),
        ]
    );
    let made = told.outcome.unwrap();
    assert_eq!(made["spec"]["containers"].as_array().unwrap().len(), 3);
}

#[test]
fn given_a_pod_that_was_injected_then_it_is_told_the_same_as_before() {
    let all = [
        set("log", &json!({})),
        set(
            "mesh",
            &json!({"spec": {"containers": [{"name": "mesh", "image": "i:1",
            "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"}}]}}),
        ),
    ];
    let first = preview(&pod(), known(&all, &[]));
    let mut live = first.outcome.clone().unwrap();
    live["status"] = json!({"phase": "Running"});
    live["metadata"]["uid"] = json!("u");
    assert_eq!(preview(&live, known(&all, &[])), first);
}

#[test]
fn given_a_named_revision_then_its_policy_says_whether_the_pod_gets_it() {
    let data = json!({"spec": {"containers": [{"name": "log", "image": "old"}]}});
    let revision = json!({"metadata": {"name": "log-1", "labels": {"kruise.io/sidecarset-name": "log",
        "apps.kruise.io/sidecarset-custom-version": "v1"}}, "revision": 1, "data": data});
    let revision: [ControllerRevision; 1] = [serde_json::from_value(revision).unwrap()];
    let named = |policy: &str, partition: Value| {
        let spec = json!({"updateStrategy": {"partition": partition},
            "injectionStrategy": {"revision": {"customVersion": "v1", "policy": policy}}});
        [set("log", &json!({ "spec": spec }))]
    };
    for (policy, partition, expected, image) in [
        ("Always", json!(0), Source::Revision("log-1".into()), "old"),
        ("Partial", json!("100%"), Source::Revision("log-1".into()), "old"),
        ("Partial", json!("1%"), Source::Either("log-1".into()), "i:1"),
        ("Partial", json!(5), Source::Current, "i:1"),
    ] {
        let sets = named(policy, partition.clone());
        let told = preview(&pod(), known(&sets, &revision));
        assert_eq!(told.applied[0].source, expected, "{policy} {partition}");
        assert_eq!(
            told.outcome.unwrap()["spec"]["containers"][1]["image"],
            image,
            "{policy} {partition}"
        );
    }
    // Without it the Pod is refused, and what others bring is told all the same.
    let [log] = named("Always", json!(0));
    let both = [log, set("mesh", &json!({}))];
    let told = preview(&pod(), known(&both, &[]));
    assert!(matches!(told.outcome, Err(InjectError::NoRevision { .. })));
    assert_eq!(told.applied.len(), 1);
}

#[test]
fn given_a_namespace_that_nobody_asks_about_then_nothing_is_injected() {
    let sets = [set("log", &json!({}))];
    let ours = json!({"metadata": {"name": "ours", "labels": {"control-plane": "openkruise"}}});
    let ours: Namespace = serde_json::from_value(ours).unwrap();
    for namespace in [("kube-system", None), ("kruise-system", None), ("ours", Some(&ours))] {
        let told = preview(
            &pod(),
            Known {
                namespace,
                ..known(&sets, &[])
            },
        );
        assert!(told.not_asked.is_some() && told.applied.is_empty(), "{namespace:?}");
        assert_eq!(told.outcome.unwrap(), pod());
    }
}

#[test]
fn given_anything_as_a_pod_then_no_panic() {
    let sets = [set("log", &json!({}))];
    for odd in [
        json!(null),
        json!([]),
        json!({"spec": 1, "metadata": []}),
        json!({"spec": {"containers": {"a": 1}}}),
    ] {
        let _ = preview(&odd, known(&sets, &[]));
    }
}

#[test]
fn given_two_sets_with_one_name_then_it_is_told_which_leaves_it_out() {
    let log = |image: &str| json!({"spec": {"containers": [{"name": "log", "image": image}, {"name": image, "image": image}]}});
    let sets = [set("a", &log("one")), set("b", &log("two"))];
    let told = preview(&pod(), known(&sets, &[]));
    let of = |index: usize| (&told.applied[index].containers[..], &told.applied[index].left_out[..]);
    assert_eq!(of(0), (&["log".to_owned(), "one".to_owned()][..], &[][..]));
    assert_eq!(of(1), (&["two".to_owned()][..], &["log".to_owned()][..]));
}
