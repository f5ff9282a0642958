//! Containers that requests ask to restart, when all goes well.

use std::time::Duration;

use kruise_api::containerrecreaterequest::v1beta1::ContainerRecreateRequest;
use kruise_cri::{Executed, fake::Ends};
use kruise_testkit::eventually::{NotYet, consistently, eventually, run_test};
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::world::{Node, PATIENCE, becomes};

const DEADLINE: Duration = Duration::from_mins(2);

/// A request for containers of a Pod, as the webhook leaves it.
pub(super) async fn ask(
    node: &Node,
    name: &str,
    pod: &str,
    containers: &[&str],
    strategy: &Value,
) -> Api<ContainerRecreateRequest> {
    let pods: Api<k8s_openapi::api::core::v1::Pod> = node.space.api();
    let uid = pods.get(pod).await.unwrap().metadata.uid.unwrap();
    let containers: Vec<Value> = containers
        .iter()
        .map(|name| {
            let world = node.runtime.world();
            let runs = world.of(&uid, name).unwrap();
            json!({"name": name, "statusContext": {
                "containerID": format!("containerd://{}", runs.id), "restartCount": runs.restart_count,
            }})
        })
        .collect();
    let mut whole = json!({"failurePolicy": "Fail", "terminationGracePeriodSeconds": 3});
    for (key, value) in strategy.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let object = json!({
        "metadata": {"name": name, "labels": {
            "crr.apps.kruise.io/node-name": node.name, "crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/pod-uid": uid,
        }},
        "spec": {"podName": pod, "containers": containers, "strategy": whole},
    });
    let api: Api<ContainerRecreateRequest> = node.space.api();
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    api
}

/// Does what the manager does while a request runs: says which containers are ready.
pub(super) async fn tell_ready(node: &Node, request: &str, pod: &str, names: &[&str]) {
    let pods: Api<k8s_openapi::api::core::v1::Pod> = node.space.api();
    let uid = pods.get(pod).await.unwrap().metadata.uid.unwrap();
    let snapshot: Vec<Value> = names
        .iter()
        .map(|name| {
            let world = node.runtime.world();
            let runs = world.of(&uid, name).unwrap();
            json!({"name": name, "ready": true, "restartCount": runs.restart_count, "containerID": format!("containerd://{}", runs.id)})
        })
        .collect();
    set_status(node, request, &json!({"containerStatusSnapshot": snapshot})).await;
}

pub(super) async fn set_status(node: &Node, request: &str, status: &Value) {
    let api: Api<ContainerRecreateRequest> = node.space.api();
    let patch = json!({"status": status});
    api.patch_status(request, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

/// Phase of the request and of each container.
pub(super) fn phases(request: &ContainerRecreateRequest) -> (String, Vec<String>) {
    let status = request.status.clone().unwrap_or_default();
    let states = status.container_recreate_states.iter();
    (
        status.phase.to_string(),
        states.map(|state| state.phase.to_string()).collect(),
    )
}

pub(super) async fn reach(
    api: &Api<ContainerRecreateRequest>,
    name: &str,
    phase: &str,
    states: &[&str],
) -> ContainerRecreateRequest {
    becomes(api, name, &format!("{name} is {phase} {states:?}"), |request| {
        phases(request)
            == (
                phase.to_owned(),
                states.iter().map(|state| (*state).to_owned()).collect(),
            )
    })
    .await
}

pub(super) fn stops(node: &Node) -> Vec<String> {
    node.runtime
        .calls("StopContainer")
        .into_iter()
        .map(|call| call.about)
        .collect()
}

#[test]
fn given_a_request_then_the_container_is_stopped_once_and_the_request_completes_when_it_is_ready_again() {
    run_test(DEADLINE, async {
        let node = Node::new("recreate").await;
        node.pod(
            "p",
            "apps/v1",
            &json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]),
        )
        .await;
        let daemon = node.daemon(&[]).await;
        let api = ask(&node, "r", "p", &["b"], &json!({})).await;
        let request = reach(&api, "r", "Recreating", &["Recreating"]).await;
        assert!(request.status.unwrap().container_recreate_states[0].is_killed);
        assert_eq!(stops(&node).len(), 1);
        assert_eq!(node.runtime.calls("StopContainer")[0].timeout, 3);
        let event = node.event("p", "Killing").await;
        assert_eq!(
            event.message.as_deref(),
            Some("Stopping container b by ContainerRecreateRequest r")
        );
        assert_eq!(event.involved_object.field_path.as_deref(), Some("spec.containers{b}"));
        let source = event.source.unwrap();
        assert_eq!(source.component.as_deref(), Some("kruise-daemon-crr"));

        // A second request for the same Pod waits for its turn.
        ask(&node, "second", "p", &["a"], &json!({})).await;
        reach(&api, "second", "Pending", &[]).await;
        tell_ready(&node, "r", "p", &["b"]).await;
        let done = reach(&api, "r", "Completed", &["Succeeded"]).await.status.unwrap();
        assert!(done.completion_time.is_some() && done.message.is_empty());
        reach(&api, "second", "Recreating", &["Recreating"]).await;
        tell_ready(&node, "second", "p", &["a"]).await;
        reach(&api, "second", "Completed", &["Succeeded"]).await;
        assert_eq!(stops(&node).len(), 2);
        daemon.stop().await;
    });
}

#[test]
fn given_an_order_then_the_next_is_stopped_when_the_one_before_is_back_and_without_at_once() {
    run_test(DEADLINE, async {
        let node = Node::new("order").await;
        let both = json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]);
        node.pod("ordered", "apps/v1", &both).await;
        node.pod("plain", "apps/v1", &both).await;
        let daemon = node.daemon(&[]).await;
        let api = ask(
            &node,
            "ordered",
            "ordered",
            &["a", "b"],
            &json!({"orderedRecreate": true}),
        )
        .await;
        ask(&node, "plain", "plain", &["a", "b"], &json!({})).await;
        reach(&api, "plain", "Recreating", &["Recreating", "Recreating"]).await;
        reach(&api, "ordered", "Recreating", &["Recreating", "Pending"]).await;
        assert_eq!(stops(&node).len(), 3);
        tell_ready(&node, "ordered", "ordered", &["a"]).await;
        reach(&api, "ordered", "Recreating", &["Succeeded", "Recreating"]).await;
        tell_ready(&node, "ordered", "ordered", &["a", "b"]).await;
        reach(&api, "ordered", "Completed", &["Succeeded", "Succeeded"]).await;
        daemon.stop().await;
    });
}

#[test]
fn given_a_hook_then_it_runs_before_the_stop_and_its_failure_stops_nothing() {
    run_test(DEADLINE, async {
        let node = Node::new("hook").await;
        for name in ["good", "bad", "web", "hasty", "chatty"] {
            node.pod(name, "apps/v1", &json!([{"name": name, "image": "i"}])).await;
        }
        let failing = Executed {
            exit_code: 3,
            stderr: b"oh no".to_vec(),
            ..Executed::default()
        };
        node.runtime.world().commands.insert("fail".to_owned(), failing);
        let chatty = Executed {
            stdout: vec![b'y'; 15 << 20],
            ..Executed::default()
        };
        node.runtime.world().commands.insert("yes".to_owned(), chatty);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let api: Api<ContainerRecreateRequest> = node.space.api();
        // The webhook writes hooks down; here the test does, before there is a daemon.
        for (name, hook, grace) in [
            ("good", json!({"exec": {"command": ["bye", "now"]}}), 3),
            ("bad", json!({"exec": {"command": ["fail"]}}), 3),
            ("web", json!({"httpGet": {"port": "bye", "path": "/bye"}}), 3),
            ("hasty", json!({"exec": {"command": ["never"]}}), 0),
            ("chatty", json!({"exec": {"command": ["yes"]}}), 3),
        ] {
            ask(
                &node,
                "draft",
                name,
                &[name],
                &json!({"terminationGracePeriodSeconds": grace}),
            )
            .await;
            let mut request = api.get("draft").await.unwrap();
            api.delete("draft", &DeleteParams::default()).await.unwrap();
            request.metadata = ObjectMeta {
                name: Some(name.to_owned()),
                labels: request.metadata.labels,
                ..ObjectMeta::default()
            };
            let container = &mut request.spec.containers[0];
            container.pre_stop = Some(serde_json::from_value(hook).unwrap());
            container.ports = serde_json::from_value(json!([{"name": "bye", "containerPort": port}])).unwrap();
            api.create(&PostParams::default(), &request).await.unwrap();
        }
        node.runtime.world().kubelet = false;
        node.runtime
            .next("ExecSync", [Ends::After(Duration::from_millis(1500))]);
        let daemon = node.daemon(&[]).await;
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = [0; 8];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut heard)
            .await
            .unwrap();
        assert_eq!(&heard, b"GET /bye");
        drop(stream);
        eventually(PATIENCE, "all are stopped", || async {
            let stopped = stops(&node);
            (stopped.len() == 5)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{stopped:?}")))
        })
        .await;
        let timeout = |name: &str| {
            let calls = node.runtime.calls("StopContainer").into_iter();
            let mut of = calls.filter(|call| call.about.starts_with(name));
            of.next().map(|call| call.timeout)
        };
        assert!(
            ["good", "bad", "chatty"]
                .into_iter()
                .any(|name| timeout(name) == Some(2)),
            "the hook's whole seconds are gone"
        );
        assert_eq!(timeout("hasty"), Some(2), "two seconds at least");
        let commands: Vec<_> = node
            .runtime
            .calls("ExecSync")
            .into_iter()
            .map(|call| call.about)
            .collect();
        assert!(
            commands.iter().any(|about| about.ends_with(": bye now")),
            "{commands:?}"
        );
        assert!(
            !commands.iter().any(|about| about.ends_with(": never")),
            "no time, no hook: {commands:?}"
        );
        let event = node.event("bad", "FailedPreStopHook").await;
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        daemon.stop().await;
    });
}

#[test]
fn given_a_container_that_restarted_by_itself_then_only_force_stops_it_once_more() {
    run_test(DEADLINE, async {
        let node = Node::new("force").await;
        for pod in ["plain", "force"] {
            node.pod(pod, "apps/v1", &json!([{"name": "a", "image": "i"}])).await;
            ask(
                &node,
                pod,
                pod,
                &["a"],
                &json!({"forceRecreate": pod == "force", "minStartedSeconds": i32::from(pod == "plain")}),
            )
            .await;
        }
        let crashed: Vec<_> = node
            .runtime
            .world()
            .containers
            .iter()
            .map(|container| container.id.clone())
            .collect();
        for id in crashed {
            node.runtime.world().end(&id);
        }
        let daemon = node.daemon(&[]).await;
        let api: Api<ContainerRecreateRequest> = node.space.api();
        reach(&api, "plain", "Recreating", &["Recreating"]).await;
        tell_ready(&node, "plain", "plain", &["a"]).await;
        // Nothing but time makes this one complete.
        reach(&api, "plain", "Completed", &["Succeeded"]).await;
        reach(&api, "force", "Recreating", &["Recreating"]).await;
        tell_ready(&node, "force", "force", &["a"]).await;
        reach(&api, "force", "Completed", &["Succeeded"]).await;
        assert_eq!(stops(&node).len(), 1, "only the one with force, once");
        daemon.stop().await;
    });
}

#[test]
fn given_a_pod_to_drain_then_nothing_is_stopped_before_the_manager_has_begun_and_the_time_is_over() {
    run_test(DEADLINE, async {
        let node = Node::new("drain").await;
        node.pod("p", "apps/v1", &json!([{"name": "a", "image": "i"}])).await;
        let daemon = node.daemon(&[]).await;
        let api = ask(&node, "r", "p", &["a"], &json!({"unreadyGracePeriodSeconds": 2})).await;
        reach(&api, "r", "Recreating", &[]).await;
        consistently(Duration::from_millis(500), "nothing is stopped", || async {
            stops(&node)
                .is_empty()
                .then_some(())
                .ok_or_else(|| NotYet::new("stopped"))
        })
        .await;
        let began = k8s_openapi::jiff::Timestamp::now();
        let condition = json!({"type": "PreRecreateGrace", "status": "True", "reason": "PreRecreateGrace", "message": "",
            "lastTransitionTime": k8s_openapi::jiff::Timestamp::from_second(began.as_second()).unwrap().to_string()});
        set_status(&node, "r", &json!({"conditions": [condition]})).await;
        reach(&api, "r", "Recreating", &["Recreating"]).await;
        let waited = k8s_openapi::jiff::Timestamp::now().as_millisecond() - began.as_second() * 1000;
        assert!(waited >= 2000, "stopped after {waited} ms");
        daemon.stop().await;
    });
}
