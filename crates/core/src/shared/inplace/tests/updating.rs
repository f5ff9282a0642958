//! A Pod on its way through an update.

use kruise_api::resource::Preconditions;
use kruise_api::resource::Subresource;

use super::*;
use crate::shared::lifecycle;
use std::time::Duration;

fn updating_pod() -> PodBuilder {
    running_pod("p")
        .at("demo-old")
        .state("Normal")
        .running("a", "a:1")
        .running("b", "b:1")
        .ready()
}

/// Kubelet has restarted a container with a new image.
fn running(pod: PodBuilder, name: &str, image: &str) -> PodBuilder {
    pod.status(name, "image", image)
        .status(name, "imageID", format!("sha256:{image}"))
}

#[test]
fn given_a_new_image_then_three_requests_bring_it() {
    let pod = updating_pod();
    let change = change(
        &containers(&json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}])),
        &containers(&json!([{"name": "a", "image": "a:2"}, {"name": "b", "image": "b:1"}])),
    );
    let started = begin(&pod, &change, &env("10:00:00"));
    assert_eq!(parts(&started.requests), [Some(Subresource::Status), None]);
    assert_eq!(
        started.requests[0].body,
        json!({
            "status": {"conditions": [
                {"type": "InPlaceUpdateReady", "status": "False", "reason": "StartInPlaceUpdate", "message": null, "lastTransitionTime": "2024-05-01T10:00:00Z"},
                {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "lastTransitionTime": null,
                    "message": "the status of pod readiness gate \"InPlaceUpdateReady\" is not \"True\", but False"},
            ]},
        })
    );
    let both = Preconditions::uid("u-1").at("7");
    let conditions: Vec<_> = started.requests.iter().map(|request| &request.preconditions).collect();
    assert_eq!(conditions, [&both, &Preconditions::uid("u-1")]);
    let state = r#"{"revision":"demo-new","updateTimestamp":"2024-05-01T10:00:00Z","lastContainerStatuses":{"a":{"imageID":"sha256:a:1"}},"updateImages":true,"containerBatchesRecord":[{"timestamp":"2024-05-01T10:00:00Z","containers":["a"]}]}"#;
    assert_eq!(
        started.requests[1].body,
        json!({
            "metadata": {
                "labels": {"controller-revision-hash": "demo-new", "pod-template-hash": "new", "lifecycle.apps.kruise.io/state": "Updating"},
                "annotations": {"apps.kruise.io/inplace-update-state": state, "lifecycle.apps.kruise.io/timestamp": "2024-05-01T10:00:00Z"},
            },
            "spec": {"containers": [{"name": "a", "image": "a:2"}]},
        })
    );
    assert_eq!(started.look_again, None);

    let pod = pod.patched(&started.requests);
    let waiting = advanced(&pod, "10:00:01");
    assert_eq!(
        (waiting.requests, waiting.waits),
        (vec![], Some(Waits::Containers(Pending::Image("a".into()))))
    );

    let done = advanced(&running(pod.clone(), "a", "a:2"), "10:00:05");
    assert_eq!(done.state, Some(lifecycle::State::Normal));
    assert_eq!(parts(&done.requests), [Some(Subresource::Status)]);
    assert_eq!(
        done.requests[0].body,
        json!({
            "metadata": {
                "labels": {"lifecycle.apps.kruise.io/state": "Normal"},
                "annotations": {"lifecycle.apps.kruise.io/timestamp": "2024-05-01T10:00:05Z"},
            },
            "status": {"conditions": [
                {"type": "InPlaceUpdateReady", "status": "True", "reason": null, "message": null, "lastTransitionTime": "2024-05-01T10:00:05Z"}]},
        })
    );
    let end = running(pod, "a", "a:2").patched(&done.requests);
    assert_eq!(advanced(&end, "10:00:06"), Advanced::default(), "and then nothing");
}

#[test]
fn given_only_metadata_then_no_container_is_in_the_batch_and_the_pod_is_unready_for_a_moment() {
    // Keys that the projection keeps, so that they can be seen here.
    let old = json!({"metadata": {"annotations": {"demo.kruise.io/n": "1", "demo.kruise.io/gone": "1"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}});
    let new = json!({"metadata": {"annotations": {"demo.kruise.io/n": "2"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}});
    let pod = updating_pod().annotation("demo.kruise.io/gone", "1");
    let started = begin(&pod, &change(&old, &new), &env("10:00:00"));
    assert_eq!(parts(&started.requests), [Some(Subresource::Status), None]);
    assert!(started.requests[1].body.get("spec").is_none());
    let pod = pod.patched(&started.requests);
    assert_eq!(annotation_of(&pod, "demo.kruise.io/n").as_deref(), Some("2"));
    assert_eq!(annotation_of(&pod, "demo.kruise.io/gone"), None);
    assert_eq!(
        annotation_of(&pod, IN_PLACE_STATE).unwrap(),
        r#"{"revision":"demo-new","updateTimestamp":"2024-05-01T10:00:00Z","lastContainerStatuses":null,"containerBatchesRecord":[{"timestamp":"2024-05-01T10:00:00Z","containers":[]}]}"#
    );
    assert_eq!(advanced(&pod, "10:00:01").state, Some(lifecycle::State::Normal));
}

#[test]
fn given_nothing_but_the_revision_differs_then_only_labels_and_records_are_written() {
    let template = containers(&json!([{"name": "a", "image": "a:1"}]));
    let started = begin(&updating_pod(), &change(&template, &template), &env("10:00:00"));
    assert!(started.requests[1].body.get("spec").is_none());
    assert_eq!(
        started.requests[1].body["metadata"]["labels"]["controller-revision-hash"],
        "demo-new"
    );
}

#[test]
fn given_a_pod_without_the_gate_then_it_is_not_made_unready() {
    let pod = updating_pod().set("/spec/readinessGates", json!([]));
    let started = begin(&pod, &one_image(), &env("10:00:00"));
    assert_eq!(parts(&started.requests), [None]);
    assert_eq!(
        started.requests[0].preconditions.resource_version.as_deref(),
        Some("7"),
        "now this one is guarded"
    );
    let pod = running(pod.patched(&started.requests), "a", "a:2");
    let done = advanced(&pod, "10:00:05");
    assert_eq!(
        (parts(&done.requests), done.state),
        (vec![None], Some(lifecycle::State::Normal))
    );
}

#[test]
fn given_a_pod_that_looks_unready_already_then_it_is_made_unready_all_the_same() {
    let pod = running_pod("p")
        .running("a", "a:1")
        .condition("InPlaceUpdateReady", "False");
    let started = begin(&pod, &one_image(), &env("10:00:00"));
    let condition = &started.requests[0].body["status"]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["lastTransitionTime"]),
        (&json!("False"), &json!("2024-05-01T09:00:00Z"))
    );
}

#[test]
fn given_launch_priorities_then_the_next_batch_waits_until_the_one_before_is_done_and_ready() {
    let pod = running_pod("p")
        .at("demo-old")
        .state("Normal")
        .prioritised("a", "a:1", 0)
        .prioritised("b", "b:1", 10)
        .ready();
    let started = begin(&pod, &two_images(), &env("10:00:00"));
    assert_eq!(
        started.requests[1].body["spec"],
        json!({"containers": [{"name": "b", "image": "b:2"}]})
    );
    let pod = pod.patched(&started.requests);
    let state = state_of(&pod.typed()).unwrap().unwrap();
    assert_eq!(json!(state.next_container_images), json!({"a": "a:2"}));
    assert_eq!(
        json!(state.pre_check_before_next),
        json!({"containersRequiredReady": ["b"]})
    );
    assert!(!is_complete(&pod.typed(), gates()));

    let done = running(pod, "b", "b:2");
    let unready = advanced(&done.clone().status("b", "ready", false), "10:00:02");
    assert_eq!(
        (unready.requests, unready.waits),
        (vec![], Some(Waits::Ready("b".into())))
    );
    let next = advanced(&done, "10:00:03");
    assert_eq!(parts(&next.requests), [None]);
    assert_eq!(
        next.requests[0].body["spec"],
        json!({"containers": [{"name": "a", "image": "a:2"}]})
    );
    assert_eq!(next.requests[0].preconditions, Preconditions::uid("u-1").at("9"));
    let pod = done.patched(&next.requests);
    assert_eq!(
        annotation_of(&pod, IN_PLACE_STATE).unwrap(),
        r#"{"revision":"demo-new","updateTimestamp":"2024-05-01T10:00:00Z","lastContainerStatuses":{"a":{"imageID":"sha256:a:1"},"b":{"imageID":"sha256:b:1"}},"updateImages":true,"containerBatchesRecord":[{"timestamp":"2024-05-01T10:00:00Z","containers":["b"]},{"timestamp":"2024-05-01T10:00:03Z","containers":["a"]}]}"#
    );
    let end = advanced(&running(pod, "a", "a:2"), "10:00:05");
    assert_eq!(end.state, Some(lifecycle::State::Normal));
}

#[test]
fn given_a_shared_key_then_containers_of_different_priority_change_together() {
    let reads =
        |key: &str| json!({"name": key, "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{key}']")}}});
    let spec = json!({"containers": [
        {"name": "a", "image": "x", "env": [reads("k")]},
        {"name": "b", "image": "x", "env": [reads("k"), reads("l")]},
        {"name": "c", "image": "x", "env": [reads("l")]},
        {"name": "d", "image": "x", "env": [reads("m")]},
    ]});
    let template = |value: &str| json!({"metadata": {"labels": {"k": value, "l": value, "m": value}}, "spec": spec});
    let pod = running_pod("p")
        .prioritised("a", "x", 9)
        .prioritised("b", "x", 5)
        .prioritised("c", "x", 1)
        .prioritised("d", "x", 1);
    let started = begin(&pod, &change(&template("1"), &template("2")), &env("10:00:00"));
    let pod = pod.patched(&started.requests).typed();
    let state = state_of(&pod).unwrap().unwrap();
    assert_eq!(
        json!(state.container_batches_record.unwrap()[0].containers),
        json!(["a", "b", "c"])
    );
    assert_eq!(
        json!(state.next_container_ref_metadata),
        json!({"d": {"creationTimestamp": null, "labels": {"m": "2"}}})
    );
    assert_eq!((pod.metadata.label("l"), pod.metadata.label("m")), (Some("2"), None));
}

#[test]
fn given_a_grace_period_then_the_change_waits_for_its_end() {
    let pod = updating_pod();
    let change = ChangeSet {
        grace_seconds: 30,
        ..one_image()
    };
    let started = begin(&pod, &change, &env("10:00:00"));
    assert_eq!(started.look_again, Some(Duration::from_secs(30)));
    assert_eq!(parts(&started.requests), [Some(Subresource::Status), None]);
    let pod = pod.patched(&started.requests);
    assert_eq!(
        annotation_of(&pod, IN_PLACE_GRACE).unwrap(),
        r#"{"revision":"demo-new","containerImages":{"a":"a:2"},"graceSeconds":30}"#
    );
    assert_eq!(
        annotation_of(&pod, IN_PLACE_STATE).unwrap(),
        r#"{"revision":"demo-new","updateTimestamp":"2024-05-01T10:00:00Z","lastContainerStatuses":null,"updateImages":true}"#
    );
    let read: Pod = pod.typed();
    assert_eq!(read.spec.template.containers[0].image, "a:1");
    assert_eq!(
        read.metadata.label("controller-revision-hash"),
        Some("demo-new"),
        "it counts as updated from now on"
    );
    assert!(!is_complete(&read, gates()));

    let env = Env {
        now: at("10:00:20") + Duration::from_millis(300),
        ..env("10:00:20")
    };
    let waiting = advance(&read, true, &workload(), &env);
    assert_eq!(
        (waiting.requests, waiting.waits),
        (vec![], Some(Waits::Grace(Duration::from_secs(10))))
    );

    let over = advanced(&pod, "10:00:30");
    let pod = pod.patched(&over.requests);
    assert_eq!(annotation_of(&pod, IN_PLACE_GRACE), None);
    assert_eq!(pod.typed::<Pod>().spec.template.containers[0].image, "a:2");
    let state = annotation_of(&pod, IN_PLACE_STATE).unwrap();
    assert!(
        state.contains(r#""updateTimestamp":"2024-05-01T10:00:00Z""#)
            && state.contains(r#""timestamp":"2024-05-01T10:00:30Z""#)
    );
    assert_eq!(
        advanced(&running(pod, "a", "a:2"), "10:00:33").state,
        Some(lifecycle::State::Normal)
    );
}

#[test]
fn given_a_pod_that_was_moved_during_its_grace_then_the_waiting_change_is_dropped() {
    let change = ChangeSet {
        grace_seconds: 30,
        ..one_image()
    };
    let pod = updating_pod();
    let requests = begin(&pod, &change, &env("10:00:00")).requests;
    let pod = pod.patched(&requests).at("demo-other");
    let dropped = advanced(&pod, "10:00:01");
    let body = &dropped.requests[0].body;
    assert_eq!(
        body["metadata"]["annotations"],
        json!({"apps.kruise.io/inplace-update-grace": null})
    );
    assert!(body.get("spec").is_none());
    assert_eq!(
        pod.patched(&dropped.requests).typed::<Pod>().spec.template.containers[0].image,
        "a:1"
    );
}

#[test]
fn given_records_that_cannot_be_read_then_the_pod_waits_for_repair() {
    let pod = updating_pod().at("demo-new").state("Updating");
    for (state, grace) in [
        (Some("{"), None),
        (None, Some("{")),
        (None, Some(r#"{"revision":"demo-new","graceSeconds":1}"#)),
        (Some("["), Some(r#"{"revision":"demo-new","graceSeconds":1}"#)),
        (
            Some(r#"{"revision":"demo-new"}"#),
            Some(r#"{"revision":"demo-new","metaDataPatch":"%"}"#),
        ),
    ] {
        let mut pod = pod.clone();
        for (key, value) in [(IN_PLACE_STATE, state), (IN_PLACE_GRACE, grace)] {
            pod = value.into_iter().fold(pod, |pod, value| pod.annotation(key, value));
        }
        let found = advanced(&pod, "10:00:00");
        assert!(matches!(found.waits, Some(Waits::Repair(_))), "{found:?}");
        assert_eq!(found.requests, []);
    }
}

#[test]
fn containers_are_done_by_image_id_by_name_or_by_the_daemons_word() {
    let pod = running_pod("p")
        .running("a", "a:2")
        .status("a", "imageID", "same")
        .status("a", "image", "a:1");
    let state = r#"{"revision":"r","lastContainerStatuses":{"a":{"imageID":"same"}}}"#;
    let report = |hash: u64, id: &str| {
        json!({"containers": [{"name": "a", "containerID": id, "hashes": {"plainHash": hash}}]}).to_string()
    };
    let hash = crate::shared::container_hash::plain("a", "a:2");
    // A kubelet before 1.31 hashes all of the container, so what the Pod has besides counts.
    let container = json!({"name": "a", "image": "a:2", "imagePullPolicy": "Always"});
    let whole = crate::shared::container_hash::whole(&container);
    let whole_pod = pod.clone().set("/spec/containers", json!([container]));
    let image = || Some(Pending::Image("a".into()));
    let report_key = "apps.kruise.io/runtime-containers-meta";
    for (what, pod, expected) in [
        ("the same ID under the old name", pod.clone(), image()),
        ("another ID", pod.clone().status("a", "imageID", "new"), None),
        (
            "the same ID under the new name",
            pod.clone().status("a", "image", "a:2"),
            None,
        ),
        (
            "no status",
            pod.clone().set("/status/containerStatuses", json!([])),
            Some(Pending::Status("a".into())),
        ),
        (
            "the daemon's word",
            pod.clone().annotation(report_key, report(hash, "containerd://a")),
            None,
        ),
        (
            "its word on a node with an older kubelet",
            whole_pod
                .clone()
                .state("Updating")
                .annotation(report_key, report(whole, "containerd://a")),
            None,
        ),
        (
            "the same, of a Pod that nobody updates",
            whole_pod
                .state("Normal")
                .annotation(report_key, report(whole, "containerd://a")),
            image(),
        ),
        (
            "its word about a former container",
            pod.clone().annotation(report_key, report(hash, "containerd://b")),
            image(),
        ),
        (
            "its word about another image",
            pod.clone().annotation(report_key, report(hash + 1, "containerd://a")),
            image(),
        ),
        (
            "an unreadable report",
            pod.clone().annotation(report_key, "{"),
            Some(Pending::UnreadableReport),
        ),
        (
            "an unreadable report, although the ID is new",
            pod.status("a", "imageID", "new").annotation(report_key, "{"),
            Some(Pending::UnreadableReport),
        ),
    ] {
        let read: State = serde_json::from_str(state).unwrap();
        assert_eq!(pending(&pod.typed(), &read, gates()), expected, "{what}");
    }
    // Kubelet names what the spec leaves out: the tag, the registry.
    for (wanted, reported, done) in [
        ("host/a", "host/a:latest", true),
        ("host:5000/a", "host:5000/a:latest", true),
        ("nginx:1", "docker.io/library/nginx:1", true),
        ("me/app", "docker.io/me/app:latest", true),
        ("nginx:1", "docker.io/library/nginx:2", false),
        ("nginx:1", "host/library/nginx:1", false),
    ] {
        let pod = running_pod("p")
            .running("a", wanted)
            .status("a", "imageID", "same")
            .status("a", "image", reported);
        let pending = pending(&pod.typed(), &serde_json::from_str(state).unwrap(), gates());
        assert_eq!(pending.is_none(), done, "{wanted} {reported}");
    }
}

#[test]
fn given_environment_from_metadata_then_the_daemon_has_to_report_it() {
    let variable = json!({"name": "V", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['v']"}}});
    let pod = running_pod("p")
        .label("v", "2")
        .running("a", "a:1")
        .env(variable)
        .running("b", "b:1");
    let state: State =
        serde_json::from_str(r#"{"revision":"r","lastContainerStatuses":null,"updateEnvFromMetadata":true}"#).unwrap();
    let report = |a: u64, b: u64| {
        let container = |name: &str, hash: u64| json!({"name": name, "containerID": format!("containerd://{name}"), "hashes": {"plainHash": 1, "extractedEnvFromMetadataHash": hash}});
        json!({"containers": [container("a", a), container("b", b)]}).to_string()
    };
    let hash = |value: &str| crate::shared::container_hash::environment(vec![("V".into(), value.into())]);
    let none = crate::shared::container_hash::environment(vec![]);
    for (report, expected) in [
        (None, Some(Pending::Environment)),
        (Some(report(hash("1"), none)), Some(Pending::Environment)),
        (Some(report(hash("2"), 0)), Some(Pending::Environment)),
        (Some(report(hash("2"), none)), None),
    ] {
        let pod = report.into_iter().fold(pod.clone(), |pod, report| {
            pod.annotation("apps.kruise.io/runtime-containers-meta", report)
        });
        assert_eq!(pending(&pod.typed(), &state, gates()), expected);
    }
}

#[test]
fn given_a_pod_of_an_old_release_then_the_missing_hash_label_comes_along() {
    let pod = running_pod("p").label("controller-revision-hash", "demo-1").ready();
    let found = advanced(&pod, "10:00:00");
    assert_eq!(
        found.requests[0].body["metadata"]["labels"],
        json!({"pod-template-hash": "1"})
    );
    assert_eq!(advance(&pod.typed(), true, &NoRules, &env("10:00:00")).requests, []);
}

#[test]
fn given_hooks_then_the_pod_stops_before_and_after_its_update() {
    let lifecycle: Lifecycle =
        serde_json::from_value(json!({"inPlaceUpdate": {"labelsHandler": {"hook": "on"}, "markPodNotReady": true}}))
            .unwrap();
    let workload = Rules {
        lifecycle: Some(&lifecycle),
    };
    let pod = running_pod("p")
        .at("demo-old")
        .state("Normal")
        .label("hook", "on")
        .running("a", "a:1")
        .ready();
    let hold = lifecycle::before_update(&pod.typed(), Some(&lifecycle), at("10:00:00")).unwrap();
    let lifecycle::BeforeUpdate::Hold(change) = hold else {
        panic!("hooked")
    };
    let requests = change.requests(&pod.typed(), crate::shared::pod_change::Guard::Version, true);
    assert_eq!(
        parts(&requests),
        [Some(Subresource::Status), None],
        "the label goes where admission of others sees it"
    );
    let waiting = pod.patched(&requests);
    let condition = waiting
        .typed::<Pod>()
        .status
        .condition("KruisePodReady")
        .unwrap()
        .clone();
    assert_eq!(
        &*condition.message,
        r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#
    );
    assert_eq!(
        advance(&waiting.typed(), false, &workload, &env("10:00:01")),
        Advanced::default()
    );

    // Rolled back meanwhile, with the hook still on: Normal, and no longer held (the original forgets that).
    let back = advance(&waiting.typed(), true, &workload, &env("10:00:02"));
    assert_eq!(
        (back.state, parts(&back.requests)),
        (Some(lifecycle::State::Normal), vec![Some(Subresource::Status), None])
    );
    assert!(
        waiting
            .clone()
            .patched(&back.requests)
            .typed::<Pod>()
            .status
            .is_true("KruisePodReady")
    );

    // Released: updated, and then held until the hook is back.
    let released = waiting.label("hook", "off");
    let requests = begin(&released, &one_image(), &env("10:00:03")).requests;
    let updated = running(released.patched(&requests), "a", "a:2");
    let done = advance(&updated.typed(), true, &workload, &env("10:00:06"));
    assert_eq!(
        (done.state, parts(&done.requests)),
        (Some(lifecycle::State::Updated), vec![Some(Subresource::Status), None])
    );
    let updated = updated.patched(&done.requests);
    assert!(
        updated.typed::<Pod>().status.is_true("KruisePodReady")
            && updated.typed::<Pod>().status.is_true("InPlaceUpdateReady")
    );
    assert_eq!(
        advance(&updated.typed(), true, &workload, &env("10:00:07")),
        Advanced::default()
    );
    let rehooked = advance(&updated.label("hook", "on").typed(), true, &workload, &env("10:00:08"));
    assert_eq!(rehooked.state, Some(lifecycle::State::Normal));
}

#[test]
fn given_a_crash_after_any_request_then_the_update_ends_the_same() {
    let change = one_image();
    let pod = updating_pod();
    let requests = begin(&pod, &change, &env("10:00:00")).requests;
    for done in 0..=requests.len() {
        let mut pod = pod.clone().patched(&requests[..done]);
        if pod.typed::<Pod>().metadata.label("controller-revision-hash") != Some("demo-new") {
            // It is still at the old revision, so it is chosen again, whatever its condition says.
            let again = begin(&pod, &change, &env("10:00:00")).requests;
            pod = pod.patched(&again);
        }
        let pod = running(pod, "a", "a:2");
        let end = advanced(&pod, "10:00:05");
        let pod = pod.patched(&end.requests).typed::<Pod>();
        assert_eq!(
            pod.metadata.label("lifecycle.apps.kruise.io/state"),
            Some("Normal"),
            "{done}"
        );
        assert!(pod.status.is_true("InPlaceUpdateReady"));
    }
}
