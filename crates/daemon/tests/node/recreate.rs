//! A container of a real Pod is restarted in place, and a killed daemon goes on with it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kruise_api::containerrecreaterequest::v1beta1::ContainerRecreateRequest;
use kruise_testkit::{
    eventually::{NotYet, eventually, run_test},
    node::own_path,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::world::{DAEMONS, Node, PATIENCE, becomes, cluster_folder, container_id, restarts};

const DEADLINE: Duration = Duration::from_mins(6);
/// Lasts two seconds and notes in a volume when it begins and when it ends.
const HOOK: &str = "echo >> /shared/begun; sleep 2; echo >> /shared/ended";

/// How often the hook of a Pod has begun, or ended.
fn hooks(node: &Node, pod: &Pod, what: &str) -> usize {
    let uid = pod.metadata.uid.as_ref().unwrap();
    let note = format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/shared/{what}");
    let note = own_path(&cluster_folder(), node.name, &note);
    std::fs::read_to_string(note).unwrap_or_default().lines().count()
}

/// Makes a request. Without a manager that fills it in, the test does.
async fn ask(node: &Node, name: &str, pod: &Pod, grace: i64) -> Api<ContainerRecreateRequest> {
    let api: Api<ContainerRecreateRequest> = node.space.api();
    let (pod_name, uid) = (pod.metadata.name.clone().unwrap(), pod.metadata.uid.clone().unwrap());
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"podName": pod_name, "containers": [{"name": "main"}], "strategy": {"terminationGracePeriodSeconds": grace}},
    });
    let create = |object: serde_json::Value| {
        let api = api.clone();
        async move {
            let object = serde_json::from_value(object).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap()
        }
    };
    let made = create(object.clone()).await;
    if made.metadata.labels.is_none() {
        api.delete(name, &DeleteParams::default()).await.unwrap();
        object["metadata"]["labels"] = json!({
            "crr.apps.kruise.io/node-name": node.name, "crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/pod-uid": uid,
        });
        object["spec"]["strategy"]["failurePolicy"] = json!("Fail");
        object["spec"]["containers"][0]["statusContext"] =
            json!({"containerID": container_id(pod), "restartCount": restarts(pod)});
        object["spec"]["containers"][0]["preStop"] = json!({"exec": {"command": ["sh", "-c", HOOK]}});
        create(object).await;
    }
    api
}

/// Does what the manager does: says that the container is ready again. Then the request completes.
async fn completes(node: &Node, api: &Api<ContainerRecreateRequest>, name: &str, old: &Pod) -> Pod {
    let pods: Api<Pod> = node.space.api();
    let before = container_id(old);
    let pod = becomes(
        &pods,
        old.metadata.name.as_ref().unwrap(),
        "another container is ready",
        |pod| {
            let statuses = pod
                .status
                .as_ref()
                .and_then(|status| status.container_statuses.as_ref());
            let ready = statuses.is_some_and(|statuses| statuses.iter().all(|status| status.ready));
            ready && !container_id(pod).is_empty() && container_id(pod) != before
        },
    )
    .await;
    let snapshot =
        json!([{"name": "main", "ready": true, "restartCount": restarts(&pod), "containerID": container_id(&pod)}]);
    let patch = json!({"status": {"containerStatusSnapshot": snapshot}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let done = becomes(api, name, "the request is completed", |request| {
        request
            .status
            .as_ref()
            .is_some_and(|status| status.completion_time.is_some())
    })
    .await;
    let status = done.status.unwrap();
    assert_eq!(
        status.container_recreate_states[0].phase.as_str(),
        "Succeeded",
        "{status:?}"
    );
    pod
}

#[test]
fn given_a_request_then_the_container_is_restarted_once_with_its_hook_also_when_the_daemon_is_killed_meanwhile() {
    run_test(DEADLINE, async {
        let _kills = DAEMONS.read().await;
        let node = Node::new("node2").await;
        let pod = node
            .runs(&json!({
                "metadata": {"name": "p"},
                "spec": {
                    "terminationGracePeriodSeconds": 20,
                    "containers": [{"name": "main", "image": "nginx:1.25", "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
                        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", HOOK]}}},
                        "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}],
                    "volumes": [{"name": "shared", "emptyDir": {}}],
                },
            }))
            .await;
        let api = ask(&node, "first", &pod, 20).await;
        let second = completes(&node, &api, "first", &pod).await;
        assert_eq!(restarts(&second), 1);
        assert_eq!([hooks(&node, &pod, "begun"), hooks(&node, &pod, "ended")], [1, 1]);
        let events: Api<Event> = node.space.api();
        let list = ListParams::default().fields("involvedObject.name=p,reason=Killing");
        let killing = events.list(&list).await.unwrap().items;
        let ours = killing.iter().find(|event| {
            let source = event.source.as_ref().and_then(|source| source.component.as_deref());
            source == Some("kruise-daemon-crr")
        });
        let message = ours.and_then(|event| event.message.as_deref());
        assert_eq!(
            message,
            Some("Stopping container main by ContainerRecreateRequest first")
        );

        // The daemon dies in the middle of the hook. Not as the hook begins: containerd 1.6 does nothing with a container for half a
        // minute after the caller of a command was lost at that very moment.
        let api = ask(&node, "second", &second, 20).await;
        eventually(PATIENCE, "the hook runs", || async {
            let begun = hooks(&node, &pod, "begun");
            (begun == 2)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{begun} begun")))
        })
        .await;
        node.kill_daemon().await;
        let third = completes(&node, &api, "second", &second).await;
        assert_eq!(restarts(&third), 2, "one restart for each request");
        assert!(hooks(&node, &pod, "ended") >= 2, "the next daemon lets it end");
    });
}
