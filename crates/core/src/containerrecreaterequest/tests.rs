//! Requests in a model of a cluster; the test is the daemon and the kubelet.

use kruise_api::containerrecreaterequest::v1beta1::ContainerRecreateRequest;
use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;

use super::*;
use crate::plan::harness::Cluster;

struct World {
    cluster: Cluster,
}

impl World {
    fn new(spec: &Value) -> Self {
        let mut cluster = Cluster::at("2026-05-01T10:00:00Z".parse().unwrap());
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "pod-uid"},
            "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "a"}], "readinessGates": [{"conditionType": "KruisePodReady"}]},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "KruisePodReady", "status": "True"}, {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"},
                ],
                "containerStatuses": [container("old", 0, "2026-05-01T09:00:00Z", true)],
            },
        });
        cluster.put(Pod::RESOURCE, pod);
        let mut full = json!({"podName": "web", "containers": [{"name": "main", "statusContext": {"containerID": "c://old", "restartCount": 0}}]});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let labels = json!({"crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/pod-uid": "pod-uid", "crr.apps.kruise.io/node-name": "n"});
        let request = json!({"metadata": {"name": "r", "namespace": "shop", "labels": labels}, "spec": full});
        cluster.put(ContainerRecreateRequest::RESOURCE, request);
        Self { cluster }
    }

    fn round(&mut self) -> Plan {
        let request = self.cluster.get(ContainerRecreateRequest::RESOURCE, "r").unwrap();
        let observed = Observed {
            request: Arc::new(serde_json::from_value(request.clone()).unwrap()),
            pod: self
                .cluster
                .get(Pod::RESOURCE, "web")
                .map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap())),
        };
        let plan = plan(&observed, &Env::at(self.cluster.now));
        assert_eq!(self.cluster.apply(&plan, usize::MAX).failures, [], "{plan:#?}");
        plan
    }

    fn request(&self) -> Value {
        self.cluster
            .get(ContainerRecreateRequest::RESOURCE, "r")
            .cloned()
            .unwrap_or_default()
    }

    fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(ContainerRecreateRequest::RESOURCE, "r", change);
    }

    fn pod(&mut self, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(Pod::RESOURCE, "web", change);
    }

    fn condition(&self, kind: &str) -> Value {
        let pod = self.cluster.get(Pod::RESOURCE, "web").unwrap();
        let mut all = pod["status"]["conditions"].as_array().unwrap().iter();
        all.find(|condition| condition["type"] == kind)
            .cloned()
            .unwrap_or_default()
    }
}

fn container(id: &str, restarts: i32, started: &str, ready: bool) -> Value {
    json!({"name": "main", "containerID": format!("c://{id}"), "restartCount": restarts, "ready": ready, "state": {"running": {"startedAt": started}}})
}

#[test]
fn given_a_container_that_comes_back_then_the_daemon_is_told_and_the_request_ends_and_goes() {
    let mut world = World::new(&json!({"ttlSecondsAfterFinished": 10}));
    world.round();
    world.edit(|request| request["status"] = json!({"phase": "Recreating"}));
    let plan = world.round();
    assert!(plan.is_idle(), "the old container started before the request");
    assert_eq!(plan.wake_after, Some(Duration::from_secs(3)));
    world.pod(|pod| pod["status"]["containerStatuses"] = json!([container("new", 1, "2026-05-01T10:00:00Z", false)]));
    world.round();
    let snapshot = |ready: bool| json!([{"name": "main", "ready": ready, "restartCount": 1, "containerID": "c://new"}]);
    assert_eq!(
        world.request()["status"]["containerStatusSnapshot"],
        snapshot(false),
        "the same second counts"
    );
    world.pod(|pod| pod["status"]["containerStatuses"][0]["ready"] = json!(true));
    world.round();
    assert_eq!(world.request()["status"]["containerStatusSnapshot"], snapshot(true));
    world.pod(|pod| pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {}}));
    assert!(world.round().is_idle(), "what was said is kept");

    world.edit(|request| {
        request["status"]["phase"] = json!("Completed");
        request["status"]["completionTime"] = json!("2026-05-01T10:00:00Z");
    });
    world.round();
    assert!(
        world.request()["metadata"]["labels"]
            .get("crr.apps.kruise.io/active")
            .is_none()
    );
    assert_eq!(world.round().wake_after, Some(Duration::from_secs(10)));
    world.cluster.pass(10);
    world.round();
    assert!(world.request().is_null());
}

#[test]
fn given_time_that_passes_then_the_request_ends_with_a_reason() {
    for (spec, phase, seconds, message) in [
        (json!({}), None, 60, "daemon has not responded for a long time"),
        (
            json!({"activeDeadlineSeconds": 5}),
            Some("Recreating"),
            5,
            "recreating has exceeded the activeDeadlineSeconds",
        ),
        (
            json!({"activeDeadlineSeconds": 5}),
            Some("Pending"),
            5,
            "recreating has exceeded the activeDeadlineSeconds",
        ),
    ] {
        let mut world = World::new(&spec);
        if let Some(phase) = phase {
            world.edit(|request| request["status"] = json!({"phase": phase}));
        }
        world.cluster.pass(seconds - 1);
        assert_eq!(world.round().wake_after, Some(Duration::from_secs(1)), "{message}");
        world.cluster.pass(1);
        world.round();
        let status = world.request()["status"].clone();
        assert_eq!(
            (&status["phase"], &status["message"]),
            (&json!("Completed"), &json!(message))
        );
        assert!(status["completionTime"].is_string());
    }
}

#[test]
fn given_a_pod_that_is_gone_going_or_another_one_then_the_request_ends() {
    for change in [
        (|pod: &mut Value| pod["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z")) as fn(&mut Value),
        |pod| pod["metadata"]["uid"] = json!("another"),
    ] {
        let mut world = World::new(&json!({}));
        world.pod(change);
        world.round();
        assert_eq!(world.request()["status"]["message"], "pod has gone");
    }
    let mut world = World::new(&json!({}));
    world.cluster.objects.remove(&(Pod::RESOURCE, "web".to_owned()));
    world.round();
    assert_eq!(world.request()["status"]["message"], "pod has gone");
}

#[test]
fn given_a_grace_period_then_the_pod_is_held_first_and_let_go_at_the_end() {
    for ends_by in ["completion", "deletion"] {
        let mut world = World::new(&json!({"strategy": {"unreadyGracePeriodSeconds": 0}}));
        world.edit(|request| request["status"] = json!({"phase": "Recreating"}));
        let plan = world.round();
        let order: Vec<_> = plan.writes().map(|action| action.object().resource).collect();
        let request = ContainerRecreateRequest::RESOURCE;
        assert_eq!(order, [request, Pod::RESOURCE, request], "finalizer, Pod, condition");
        assert_eq!(
            world.request()["metadata"]["finalizers"],
            json!(["crr.apps.kruise.io/unready-acquired"])
        );
        assert_eq!(
            world.request()["status"]["conditions"],
            json!([{
                "type": "PreRecreateGrace", "status": "True", "reason": "PreRecreateGrace", "lastTransitionTime": "2026-05-01T10:00:00Z",
                "message": "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain",
            }])
        );
        let held = world.condition("KruisePodReady");
        assert_eq!(
            (&held["status"], &held["message"]),
            (
                &json!("False"),
                &json!(r#"[{"userAgent":"ContainerRecreateRequest","key":"shop/r"}]"#)
            )
        );
        assert_eq!(world.condition("Ready")["status"], "False", "traffic stops at once");
        assert!(world.round().is_idle(), "the time does not move");

        world.edit(|request| match ends_by {
            "completion" => request["status"]["completionTime"] = json!("2026-05-01T10:00:09Z"),
            _ => request["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:09Z"),
        });
        world.round();
        let let_go = world.condition("KruisePodReady");
        assert_eq!(
            (&let_go["status"], &let_go["message"]),
            (&json!("True"), &json!("[]")),
            "{ends_by}"
        );
        assert_eq!(world.condition("Ready")["status"], "False", "that is kubelet's to say");
        assert_eq!(world.request()["metadata"]["finalizers"], json!([]));
    }
}

#[test]
fn given_a_pod_without_the_gate_then_the_time_passes_all_the_same() {
    let mut world = World::new(&json!({"strategy": {"unreadyGracePeriodSeconds": 5}}));
    world.pod(|pod| pod["spec"]["readinessGates"] = json!([]));
    world.edit(|request| request["status"] = json!({"phase": "Recreating"}));
    world.round();
    assert!(world.request()["metadata"].get("finalizers").is_none());
    assert_eq!(world.request()["status"]["conditions"][0]["type"], "PreRecreateGrace");
    assert_eq!(world.condition("KruisePodReady")["status"], "True");
}

#[test]
fn given_a_held_pod_that_is_gone_then_only_the_finalizer_goes() {
    let mut world = World::new(&json!({"strategy": {"unreadyGracePeriodSeconds": 5}}));
    world.edit(|request| request["status"] = json!({"phase": "Recreating"}));
    world.round();
    world.cluster.objects.remove(&(Pod::RESOURCE, "web".to_owned()));
    world.round();
    assert_eq!(world.request()["status"]["message"], "pod has gone");
    world.round();
    assert_eq!(world.request()["metadata"]["finalizers"], json!([]));
}
