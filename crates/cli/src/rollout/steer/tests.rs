use super::*;
use crate::{change::patch, kinds, server::Patch};

fn object(word: &str, spec: &Value) -> Object {
    let (kind, version) = kinds::resolve(word).unwrap();
    let version = version.unwrap_or_else(|| kind.versions()[0]);
    let value = json!({"apiVersion": format!("{}/{version}", kind.group), "kind": kind.kind,
        "metadata": {"name": "web", "generation": 2}, "spec": spec, "status": {"desiredNumberScheduled": 10, "matchedPods": 8}});
    Object { kind, version, value }
}

fn merge(object: &Object, decision: Decision) -> Value {
    let Decision::Become(after) = decision else {
        panic!("{decision:?}");
    };
    match patch(&object.value, &after) {
        Some(Patch::Merge(patch)) => patch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn given_either_version_then_pause_is_written_where_it_belongs() {
    let old = "clonesets.v1alpha1.apps.kruise.io";
    let rolling = json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": true}}}});
    let flat = json!({"spec": {"updateStrategy": {"paused": true}}});
    for (word, paused) in [
        ("clone", &rolling),
        (old, &flat),
        ("asts", &rolling),
        ("ads", &rolling),
        ("sidecarset", &flat),
        ("deploy", &json!({"spec": {"paused": true}})),
    ] {
        let running = object(word, &json!({}));
        assert_eq!(&merge(&running, pause(&running, true).unwrap()), paused, "{word}");
        let error = pause(&running, false).unwrap_err().to_string();
        assert!(error.ends_with("\"web\" is not paused"), "{error}");
        let held = object(word, &paused["spec"]);
        let error = pause(&held, true).unwrap_err().to_string();
        assert!(error.ends_with("\"web\" is already paused"), "{error}");
        let resumed = merge(&held, pause(&held, false).unwrap());
        assert!(resumed.to_string().contains("\"paused\":null"), "{resumed}");
    }
    for word in ["sts", "ds", "ud", "bcj"] {
        let error = pause(&object(word, &json!({})), true).unwrap_err().to_string();
        assert!(error.ends_with("\"web\" pausing is not supported"), "{error}");
    }
}

#[test]
fn given_a_workload_of_ours_then_restart_sets_the_variable_in_every_container() {
    let containers = json!([{"name": "a"}, {"name": "b", "env": [{"name": "RESTARTED_AT", "valueFrom": {}}, {"name": "X", "value": "1"}]}]);
    let set = object(
        "clone",
        &json!({"template": {"spec": {"containers": containers, "initContainers": [{"name": "i"}]}}}),
    );
    let Decision::Become(after) = restart(&set, "now").unwrap() else {
        panic!("it is changed");
    };
    let spec = &after["spec"]["template"]["spec"];
    let variable = json!({"name": "RESTARTED_AT", "value": "now"});
    assert_eq!(spec["containers"][0]["env"], json!([variable]));
    assert_eq!(
        spec["containers"][1]["env"],
        json!([variable, {"name": "X", "value": "1"}])
    );
    assert_eq!(spec["initContainers"][0], json!({"name": "i"}));
}

#[test]
fn given_what_cannot_be_restarted_then_it_says_why() {
    let error = |word: &str, spec: Value| restart(&object(word, &spec), "now").unwrap_err().to_string();
    let in_place = json!({"updateStrategy": {"type": "InPlaceOnly"}});
    assert!(error("clonesets.v1alpha1.apps.kruise.io", in_place).contains("never replaces Pods"));
    assert_eq!(
        error("deploy", json!({"paused": true})),
        "deployments.apps \"web\" can't restart paused deployment (run rollout resume first)"
    );
    assert!(error("ud", json!({})).ends_with("restarting is not supported"));
    let set = object("sts", &json!({}));
    assert_eq!(
        merge(&set, restart(&set, "now").unwrap()),
        json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}})
    );
}

fn promoted(word: &str, spec: &Value, step: &Step) -> (Value, String) {
    let set = object(word, spec);
    let Promotion { decision, done } = promote(&set, step).unwrap();
    (merge(&set, decision), done)
}

#[test]
fn promote_lowers_the_partition_step_by_step() {
    let spec =
        |partition: Value| json!({"replicas": 10, "updateStrategy": {"rollingUpdate": {"partition": partition}}});
    let by = |text: &str| Step::By(IntOrPercent::from(text));
    for (partition, step, expected) in [
        (json!(10), Step::Double, json!(9)),
        (json!(9), Step::Double, json!(8)),
        (json!(6), Step::Double, json!(2)),
        (json!(2), Step::Double, json!(0)),
        (json!(9), by("30%"), json!(6)),
        (json!(9), Step::By(IntOrPercent::Int(2)), json!(7)),
        (json!(9), Step::By(IntOrPercent::Int(-2)), json!(8)),
        (json!(9), Step::Full, json!(0)),
        (json!("100%"), Step::Double, json!("90%")),
        (json!("80%"), Step::Double, json!("60%")),
        (json!("99%"), Step::Full, json!("0%")),
    ] {
        let (patch, _) = promoted("clone", &spec(partition.clone()), &step);
        assert_eq!(
            patch,
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": expected}}}}),
            "{partition} {step:?}"
        );
    }
    let (_, done) = promoted("clone", &spec(json!("80%")), &Step::Double);
    assert_eq!(done, "promoted (partition 80% -> 60%, 4 of 10 may be updated)");
}

#[test]
fn promote_ends_for_every_size_and_partition() {
    for total in [0, 1, 2, 3, 7, 100, 333] {
        for partition in ["100%", "99%", "50%", "1%"] {
            let mut left = kept(Some(&json!(partition)), total);
            let mut steps = 0;
            while left > 0 {
                let text = percent(after_step(left, total, &Step::Double), total);
                let next = kept(Some(&json!(text)), total);
                assert!(next < left, "{total} {partition}: {left} -> {text}");
                (left, steps) = (next, steps + 1);
            }
            assert!(steps <= 20, "{total} {partition}");
        }
    }
}

#[test]
fn given_other_kinds_then_their_own_partition_is_lowered() {
    let rolling = json!({"updateStrategy": {"rollingUpdate": {"partition": 8}}});
    let lower = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 6}}}});
    assert_eq!(promoted("ads", &rolling, &Step::Double).0, lower, "of ten nodes");
    let flat = json!({"updateStrategy": {"partition": "50%"}});
    let (patch, _) = promoted("sidecarset", &flat, &Step::Full);
    assert_eq!(patch, json!({"spec": {"updateStrategy": {"partition": "0%"}}}));
    let united = json!({"updateStrategy": {"manualUpdate": {"partitions": {"a": 3, "b": 0}}}});
    let (patch, done) = promoted("ud", &united, &Step::Double);
    assert_eq!(
        patch,
        json!({"spec": {"updateStrategy": {"manualUpdate": {"partitions": {"a": 2}}}}})
    );
    assert_eq!(done, "promoted (partitions a=3,b=0 -> a=2,b=0)");
}

#[test]
fn given_nothing_to_promote_then_it_says_so() {
    let stays = |word: &str, spec: Value| match promote(&object(word, &spec), &Step::Double).unwrap().decision {
        Decision::Stay(text) => text,
        other => panic!("{other:?}"),
    };
    for word in ["clone", "asts", "sts", "ud"] {
        assert_eq!(stays(word, json!({"replicas": 3})), "is fully promoted already");
    }
    let error = |word: &str, spec: Value| promote(&object(word, &spec), &Step::Full).unwrap_err().to_string();
    assert!(error("deploy", json!({})).contains("it has no partition"));
    assert!(error("asts", json!({"updateStrategy": {"type": "OnDelete"}})).contains("type OnDelete"));
    let paused = json!({"updateStrategy": {"rollingUpdate": {"paused": true, "partition": 1}}});
    assert!(error("clone", paused).contains("is paused (run rollout resume first)"));
}
