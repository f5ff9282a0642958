use super::*;
use crate::kinds;

fn set(word: &str, template: &Value) -> Object {
    let (kind, _) = kinds::resolve(word).unwrap();
    let version = kind.versions()[0];
    let api_version = format!("{}/{version}", kind.group);
    let value = json!({"apiVersion": api_version, "kind": kind.kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 4, "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "new"}},
        "spec": {"template": template, "selector": {}},
        "status": {"updateRevision": "web-2", "currentRevision": "web-1"}});
    Object { kind, version, value }
}

fn template(image: &str, more: &Value) -> Value {
    let mut template = json!({"metadata": {"creationTimestamp": null, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]}});
    kruise_api::merge_patch::merge(&mut template, more);
    template
}

fn revision(number: i64, owner: &str, template: &Value) -> Object {
    let mut stored = template.clone();
    stored["$patch"] = json!("replace");
    let value = json!({"revision": number, "data": {"spec": {"template": stored}}, "metadata": {"name": format!("web-{number}"),
        "annotations": {"kubernetes.io/change-cause": if number == 1 { "" } else { "a new image" }},
        "ownerReferences": [{"uid": owner, "controller": true}]}});
    Object {
        kind: REVISION,
        version: "v1",
        value,
    }
}

fn two() -> Vec<Revision> {
    let env = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
    let all = [
        revision(2, "u", &template("nginx:2", &env)),
        revision(1, "u", &template("nginx:1", &json!({}))),
        revision(7, "other", &template("nginx:7", &json!({}))),
    ];
    of_owner(&all, "u")
}

#[test]
fn given_revisions_then_those_of_the_workload_are_listed_the_oldest_first() {
    let object = set("clone", &template("nginx:2", &json!({})));
    assert_eq!(
        list(&object, &two()),
        "cloneset.apps.kruise.io/web\nREVISION  CHANGE-CAUSE\n1         <none>\n2         a new image\n\n"
    );
    assert_eq!(list(&object, &[]), "No rollout history found.\n");
    let all = machine_readable(&object, &two());
    assert_eq!(
        (&all["revisions"][1]["revision"], &all["revisions"][1]["wanted"]),
        (&json!(2), &json!(true))
    );
}

#[test]
fn given_a_number_then_its_template_and_what_changed_are_told() {
    let object = set("clone", &template("nginx:2", &json!({})));
    let told = one(&object, &two(), 2).unwrap();
    assert!(
        told.starts_with("cloneset.apps.kruise.io/web with revision #2\nPod Template:\n"),
        "{told}"
    );
    assert!(
        told.ends_with(
            "Changes since revision 1:\n  containers[main].image: nginx:1 -> nginx:2\n  nodeSelector: added, {\"disk\":\"ssd\"}\n"
        ),
        "{told}"
    );
    assert!(!one(&object, &two(), 1).unwrap().contains("Changes"));
    for (number, error) in [
        (3, "unable to find the specified revision"),
        (-1, "revision must be a positive integer: -1"),
    ] {
        assert_eq!(one(&object, &two(), number).unwrap_err().to_string(), error);
    }
    let all = differences(&object, &two());
    assert!(
        all.starts_with("cloneset.apps.kruise.io/web\nrevision 1 (reached)\nrevision 2 (wanted)\nChanges"),
        "{all}"
    );
}

#[test]
fn going_back_means_the_one_before_or_the_one_that_is_named() {
    let revisions = two();
    assert_eq!(target(&revisions, 0).unwrap().number, 1);
    assert_eq!(target(&revisions, 2).unwrap().number, 2);
    for (number, error) in [
        (9, "unable to find specified revision 9 in history"),
        (-1, "unable to find specified revision -1 in history"),
    ] {
        assert_eq!(target(&revisions, number).unwrap_err().to_string(), error);
    }
    let alone = target(&revisions[..1], 0).unwrap_err();
    assert_eq!(alone.to_string(), "no last revision to roll back to");
}

#[test]
fn given_what_the_old_template_lacks_then_it_is_gone_after_going_back() {
    let revisions = two();
    let live = template(
        "nginx:2",
        &json!({"spec": {"nodeSelector": {"disk": "ssd"}}, "metadata": {"annotations": {"a": "b"}}}),
    );
    let object = set("asts", &live);
    let Decision::Become(after) = back_to(&object, &revisions[0]) else {
        panic!("it is another template");
    };
    assert_eq!(
        after["spec"]["template"],
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}})
    );
    assert_eq!(after["metadata"], object.value["metadata"]);
    let patch = crate::change::patch(&object.value, &after).unwrap();
    let crate::server::Patch::Json(steps) = patch else {
        panic!("a list changes");
    };
    let paths: Vec<&str> = steps
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        [
            "/metadata/generation",
            "/spec/template/metadata/annotations",
            "/spec/template/metadata/creationTimestamp",
            "/spec/template/spec/containers/0/image",
            "/spec/template/spec/nodeSelector"
        ]
    );
}

#[test]
fn given_the_template_is_there_already_then_nothing_is_written() {
    let object = set("ads", &template("nginx:1", &json!({"spec": {"nodeSelector": null}})));
    let Decision::Stay(text) = back_to(&object, &two()[0]) else {
        panic!("it is the same template");
    };
    assert_eq!(text, "skipped rollback (current template already matches revision 1)");
}

#[test]
fn given_a_deployment_then_its_replica_sets_are_its_history() {
    let template =
        json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "7d9"}}, "spec": {"containers": []}});
    let value = json!({"metadata": {"name": "web-7d9", "annotations": {"deployment.kubernetes.io/revision": "4", "team": "old",
        "deployment.kubernetes.io/desired-replicas": "3"}, "ownerReferences": [{"uid": "u", "controller": true}]},
        "spec": {"template": template}});
    let stored = Object {
        kind: REPLICA_SET,
        version: "v1",
        value,
    };
    let revisions = of_owner(&[stored], "u");
    assert_eq!(revisions[0].number, 4);
    assert_eq!(revisions[0].template["metadata"]["labels"], json!({"app": "web"}));
    let Decision::Become(after) = back_to(&set("deploy", &json!({"spec": {}})), &revisions[0]) else {
        panic!("it is another template");
    };
    assert_eq!(
        after["metadata"]["annotations"],
        json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "old"})
    );
}
