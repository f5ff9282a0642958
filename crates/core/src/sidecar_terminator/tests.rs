use super::*;
use crate::shared::fixture::{Fixture as _, PodBuilder, at, running_pod};

mod recording;

const SWITCH: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
const IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
const IGNORE: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE";

fn pod(policy: &str) -> PodBuilder {
    running_pod("job").set("/spec/restartPolicy", json!(policy))
}

fn main_ended(pod: PodBuilder, name: &str, code: i32) -> PodBuilder {
    ended(pod.running(name, "app:1"), name, code)
}

fn ended(pod: PodBuilder, name: &str, code: i32) -> PodBuilder {
    pod.status(name, "state", json!({"terminated": {"exitCode": code}}))
}

fn sidecar(pod: PodBuilder, name: &str, variables: &[(&str, &str)]) -> PodBuilder {
    let pod = pod
        .running(name, "side:1")
        .status(name, "state", json!({"running": {}}));
    variables
        .iter()
        .fold(pod, |pod, (name, value)| pod.env(json!({"name": name, "value": value})))
}

fn observed(pod: &PodBuilder, is_virtual: bool) -> Observed {
    let labels = if is_virtual {
        json!({"type": "virtual-kubelet"})
    } else {
        json!({})
    };
    let node = serde_json::from_value(json!({"metadata": {"name": "node1", "labels": labels}})).unwrap();
    Observed {
        pod: Arc::new(pod.typed()),
        node: Some(Arc::new(node)),
        is_requested: false,
    }
}

/// What is written, in short: `stop a b`, `image a=x`, `phase Succeeded`.
fn written(observed: &Observed) -> Vec<String> {
    let plan = observed.plan(&Env::at(at("10:00:00")));
    assert!(is_due(&observed.pod) || plan == Plan::default());
    let short = |action: &Action| match action {
        Action::Create { body, object } => {
            let body = body.json();
            assert_eq!(object.name, "sidecar-termination-u-1");
            assert_eq!(body["spec"]["podName"], "job");
            let strategy = json!({"forceRecreate": true, "failurePolicy": "Ignore"});
            assert_eq!(body["spec"]["strategy"], strategy);
            let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "job", "uid": "u-1",
                "controller": true, "blockOwnerDeletion": true}]);
            assert_eq!(body["metadata"]["ownerReferences"], owner);
            let names = body["spec"]["containers"].as_array().unwrap().iter();
            let names: Vec<_> = names.map(|container| container["name"].as_str().unwrap()).collect();
            format!("stop {}", names.join(" "))
        }
        Action::Patch {
            patch,
            subresource: None,
            ..
        } => {
            let containers = patch.document()["spec"]["containers"].as_array().unwrap();
            let images: Vec<_> = containers
                .iter()
                .map(|container| {
                    format!(
                        "{}={}",
                        container["name"].as_str().unwrap(),
                        container["image"].as_str().unwrap()
                    )
                })
                .collect();
            format!("image {}", images.join(" "))
        }
        Action::Patch { patch, .. } => {
            let status = &patch.document()["status"];
            assert_eq!(status["conditions"][0]["type"], "SidecarTerminated");
            assert_eq!(status["conditions"][0]["lastTransitionTime"], "2024-05-01T10:00:00Z");
            format!("phase {}", status["phase"].as_str().unwrap())
        }
        other => panic!("{other:?}"),
    };
    plan.writes().map(short).collect()
}

#[test]
fn given_main_containers_then_the_restart_policy_says_when_they_have_ended() {
    let side = |pod: PodBuilder| sidecar(pod, "side", &[(SWITCH, "true")]);
    let running = |pod: PodBuilder| pod.running("main", "app:1");
    for (what, pod, stops) in [
        ("never, ended well", side(main_ended(pod("Never"), "main", 0)), true),
        ("never, failed", side(main_ended(pod("Never"), "main", 1)), true),
        (
            "on failure, ended well",
            side(main_ended(pod("OnFailure"), "main", 0)),
            true,
        ),
        (
            "on failure, failed",
            side(main_ended(pod("OnFailure"), "main", 1)),
            false,
        ),
        ("always", side(main_ended(pod("Always"), "main", 0)), false),
        ("runs", side(running(pod("Never"))), false),
        (
            "one of two runs",
            side(running(main_ended(pod("Never"), "other", 0))),
            false,
        ),
        ("no main container", side(pod("Never")), true),
        (
            "pending",
            side(main_ended(pod("Never"), "main", 0)).set("/status/phase", json!("Pending")),
            false,
        ),
        (
            "failed, and its sidecar runs",
            side(main_ended(pod("Never"), "main", 1)).set("/status/phase", json!("Failed")),
            true,
        ),
        (
            "leaving",
            side(main_ended(pod("Never"), "main", 0)).set("/metadata/deletionTimestamp", json!("2024-05-01T10:00:00Z")),
            false,
        ),
        (
            "a status is missing",
            side(main_ended(pod("Never"), "main", 0)).set(
                "/status/containerStatuses",
                json!([{"name": "main", "state": {"terminated": {"exitCode": 0}}}]),
            ),
            false,
        ),
        (
            "ended",
            ended(side(main_ended(pod("Never"), "main", 0)), "side", 0),
            false,
        ),
    ] {
        let expected: &[&str] = if stops { &["stop side"] } else { &[] };
        assert_eq!(written(&observed(&pod, false)), expected, "{what}");
    }
}

#[test]
fn given_variables_then_they_say_how_a_sidecar_ends() {
    for (variables, node, virtual_node) in [
        (&[(SWITCH, "true")][..], &["stop side"][..], &[][..]),
        (&[(SWITCH, "True")], &["stop side"], &[]),
        (&[(SWITCH, "yes")], &[], &[]),
        (&[(SWITCH, "1")], &[], &[]),
        (
            &[(SWITCH, "true"), (IMAGE, "end:1")],
            &["stop side"],
            &["image side=end:1"],
        ),
        (&[(IMAGE, "end:1")], &[], &["image side=end:1"]),
        (&[(IMAGE, "")], &[], &[]),
        (
            &[(SWITCH, "true"), (IGNORE, "true")],
            &["phase Succeeded", "stop side"],
            &[],
        ),
        (
            &[(SWITCH, "true"), (IGNORE, "TRUE"), (IMAGE, "end:1")],
            &["phase Succeeded", "stop side"],
            &["image side=end:1"],
        ),
        (&[(IGNORE, "true")], &[], &[]),
        // It has the image already, and ends soon.
        (&[(SWITCH, "true"), (IMAGE, "side:1")], &["stop side"], &[]),
    ] {
        let pod = sidecar(main_ended(pod("Never"), "main", 0), "side", variables);
        assert_eq!(written(&observed(&pod, false)), node, "{variables:?}");
        assert_eq!(written(&observed(&pod, true)), virtual_node, "{variables:?}");
    }
}

#[test]
fn given_two_sidecars_then_what_has_ended_is_left_alone_and_exit_codes_are_ignored_last() {
    let both = sidecar(main_ended(pod("Never"), "main", 2), "a", &[(SWITCH, "true")]);
    let both = sidecar(both, "b", &[(SWITCH, "true"), (IGNORE, "true")]);
    assert_eq!(written(&observed(&both, false)), ["stop a"]);
    let after = ended(both.clone(), "a", 137);
    assert_eq!(written(&observed(&after, false)), ["phase Failed", "stop b"]);
    let mut requested = observed(&after, false);
    requested.is_requested = true;
    assert_eq!(written(&requested), ["phase Failed"], "there is one request only");
    let final_phase = after.set("/status/phase", json!("Failed"));
    let mut requested = observed(&final_phase, false);
    assert_eq!(written(&requested), ["stop b"], "a crash came in between");
    requested.is_requested = true;
    assert_eq!(written(&requested), [""; 0]);
}

#[test]
fn given_a_request_then_the_event_says_what_is_done() {
    let pod = sidecar(main_ended(pod("Never"), "main", 0), "a", &[(SWITCH, "true")]);
    let pod = sidecar(pod, "b", &[(SWITCH, "true"), (IMAGE, "end:1")]);
    for (is_virtual, told) in [
        (
            false,
            "Kruise SidecarTerminator is trying to terminate sidecar [a b] using crr",
        ),
        (
            true,
            "Kruise SidecarTerminator is trying to terminate sidecar [b] using in-place update",
        ),
    ] {
        let plan = observed(&pod, is_virtual).plan(&Env::at(at("10:00:00")));
        let event = &plan.actions[0].chains[0].writes[0].succeeded[0];
        assert_eq!((event.reason, &*event.message), ("SidecarTerminator", told));
    }
}

#[test]
fn given_an_unknown_node_then_it_is_waited_for() {
    let pod = sidecar(main_ended(pod("Never"), "main", 0), "side", &[(SWITCH, "true")]);
    let observed = Observed {
        node: None,
        ..observed(&pod, false)
    };
    let plan = observed.plan(&Env::at(at("10:00:00")));
    assert!(plan.is_idle() && plan.wake_after.is_some() && plan.why.len() == 1);
}
