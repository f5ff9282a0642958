//! Requests to restart containers as users make them: webhook, manager, daemon, runtime and kubelet each do their part.
//!
//! Containers write what happens to them into a volume of the Pod, which stays when they are restarted.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kruise_api::{
    cloneset::v1beta1::CloneSet,
    containerrecreaterequest::v1beta1::{ContainerRecreateRequest, ContainerRecreateRequestStatus},
};
use kruise_testkit::eventually::{NotYet, eventually, run_test};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::world::{Node, PATIENCE, becomes, is_ready, kubectl, restarts};

const DEADLINE: Duration = Duration::from_mins(6);
/// Says when it starts and when it is asked to end.
const WRITE_LOG: &str = r#"echo "$WHO starts" >> /log/all; trap 'echo "$WHO ends" >> /log/all; exit 0' TERM; while true; do sleep 0.1; done"#;
/// Answers one request after the other and notes them.
const LISTEN: &str = r#"read line; echo "asked for $line" >> /log/all; while read rest && [ ${#rest} -gt 1 ]; do :; done; printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'"#;

pub(super) fn container(name: &str) -> Value {
    json!({
        "name": name, "image": "busybox:1.36", "command": ["sh", "-c", WRITE_LOG], "env": [{"name": "WHO", "value": name}],
        "volumeMounts": [{"name": "log", "mountPath": "/log"}],
    })
}

pub(super) fn pod(name: &str, containers: &[Value]) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 10, "containers": containers, "volumes": [{"name": "log", "emptyDir": {}}]},
    })
}

pub(super) async fn restart(
    node: &Node,
    name: &str,
    pod: &str,
    containers: &[&str],
    strategy: &Value,
) -> Api<ContainerRecreateRequest> {
    let api: Api<ContainerRecreateRequest> = node.space.api();
    let containers: Vec<Value> = containers.iter().map(|name| json!({ "name": name })).collect();
    let object = json!({
        "metadata": {"name": name}, "spec": {"podName": pod, "containers": containers, "strategy": strategy},
    });
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    api
}

pub(super) async fn completed(api: &Api<ContainerRecreateRequest>, name: &str) -> ContainerRecreateRequestStatus {
    let what = format!("the request {name} is completed");
    let done = becomes(api, name, &what, |request| {
        request
            .status
            .as_ref()
            .is_some_and(|status| status.completion_time.is_some())
    });
    done.await.status.unwrap()
}

fn all_succeeded(status: &ContainerRecreateRequestStatus, containers: usize) {
    let states = &status.container_recreate_states;
    assert!(
        states.len() == containers && states.iter().all(|state| state.phase.as_str() == "Succeeded"),
        "{status:?}"
    );
    assert_eq!((status.phase.as_str(), status.message.as_str()), ("Completed", ""));
}

async fn current(node: &Node, pod: &str) -> Pod {
    node.space.api::<Pod>().get(pod).await.unwrap()
}

fn of<'a>(pod: &'a Pod, container: &str) -> &'a ContainerStatus {
    let statuses = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
    statuses.iter().find(|status| status.name == container).unwrap()
}

/// What the containers of a Pod have written, in order.
fn logged(node: &Node, pod: &str, container: &str) -> Vec<String> {
    let text = kubectl(&[
        "exec",
        "-n",
        node.space.name(),
        pod,
        "-c",
        container,
        "--",
        "cat",
        "/log/all",
    ]);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn given_one_or_several_containers_then_these_are_restarted_after_their_hooks_and_no_other() {
    run_test(DEADLINE, async {
        let node = Node::new("node1").await;
        let mut command = container("command");
        command["lifecycle"] =
            json!({"preStop": {"exec": {"command": ["sh", "-c", "echo \"$WHO runs its hook\" >> /log/all"]}}});
        let mut http = container("http");
        http["lifecycle"] = json!({"preStop": {"httpGet": {"path": "/bye", "port": 8080}}});
        let mut ear = container("ear");
        ear["command"] = json!(["nc", "-ll", "-p", "8080", "-e", "sh", "-c", LISTEN]);
        let before = node.runs(&pod("hooks", &[command, http, ear])).await;

        let api = restart(&node, "one", "hooks", &["command"], &json!({})).await;
        all_succeeded(&completed(&api, "one").await, 1);
        let after = current(&node, "hooks").await;
        assert_eq!(after.metadata.uid, before.metadata.uid);
        let counts = ["command", "http", "ear"].map(|name| of(&after, name).restart_count);
        assert_eq!(counts, [1, 0, 0]);
        assert_eq!(of(&after, "http").container_id, of(&before, "http").container_id);
        let lines = logged(&node, "hooks", "ear");
        let command: Vec<&String> = lines.iter().filter(|line| line.starts_with("command")).collect();
        assert_eq!(
            command,
            [
                "command starts",
                "command runs its hook",
                "command ends",
                "command starts"
            ]
        );

        restart(&node, "more", "hooks", &["http", "ear"], &json!({})).await;
        all_succeeded(&completed(&api, "more").await, 2);
        let after = current(&node, "hooks").await;
        let counts = ["command", "http", "ear"].map(|name| of(&after, name).restart_count);
        assert_eq!(counts, [1, 1, 1]);
        let lines = logged(&node, "hooks", "http");
        let asked = lines.iter().position(|line| line.contains("asked for GET /bye"));
        let ended = lines.iter().position(|line| line == "http ends");
        assert!(asked.is_some() && asked < ended, "{lines:?}");
    });
}

#[test]
fn given_an_order_then_a_container_ends_when_the_one_before_is_back() {
    run_test(DEADLINE, async {
        let node = Node::new("node2").await;
        let containers = ["last", "first"].map(|name| {
            let mut container = container(name);
            container["readinessProbe"] = json!({"exec": {"command": ["true"]}, "periodSeconds": 1});
            container
        });
        node.runs(&pod("ordered", &containers)).await;
        let api = restart(
            &node,
            "r",
            "ordered",
            &["first", "last"],
            &json!({"orderedRecreate": true}),
        )
        .await;
        all_succeeded(&completed(&api, "r").await, 2);
        let lines = logged(&node, "ordered", "last");
        assert_eq!(lines[2..], ["first ends", "first starts", "last ends", "last starts"]);
    });
}

#[test]
fn given_a_container_that_does_not_end_by_itself_then_it_is_killed_when_its_time_is_over() {
    run_test(DEADLINE, async {
        let node = Node::new("node3").await;
        let mut stubborn = container("main");
        stubborn["command"] = json!(["sh", "-c", "trap '' TERM; while true; do sleep 0.1; done"]);
        let mut given = pod("stubborn", &[stubborn]);
        given["spec"]["terminationGracePeriodSeconds"] = json!(600);
        node.runs(&given).await;
        let strategy = json!({"terminationGracePeriodSeconds": 2, "minStartedSeconds": 1});
        let api = restart(&node, "r", "stubborn", &["main"], &strategy).await;
        all_succeeded(&completed(&api, "r").await, 1);
        let after = current(&node, "stubborn").await;
        let ended = of(&after, "main").last_state.clone().unwrap().terminated.unwrap();
        assert_eq!(ended.exit_code, 137, "{ended:?}");
    });
}

#[test]
fn given_a_pod_that_is_deleted_meanwhile_then_the_request_ends_and_says_so() {
    run_test(DEADLINE, async {
        let node = Node::new("node3").await;
        node.runs(&pod("short", &[container("main")])).await;
        let api = restart(&node, "r", "short", &["main"], &json!({"minStartedSeconds": 3600})).await;
        becomes(&api, "r", "under way", |request| {
            request
                .status
                .as_ref()
                .is_some_and(|status| !status.container_recreate_states.is_empty())
        })
        .await;
        let pods: Api<Pod> = node.space.api();
        pods.delete("short", &DeleteParams::default()).await.unwrap();
        let status = completed(&api, "r").await;
        assert_eq!(
            (status.phase.as_str(), status.message.as_str()),
            ("Completed", "pod has gone")
        );
        // And what cannot be restarted is refused at once, with a reason.
        let refused =
            json!({"metadata": {"name": "x"}, "spec": {"podName": "short-lived", "containers": [{"name": "main"}]}});
        let refused: ContainerRecreateRequest = serde_json::from_value(refused).unwrap();
        let error = api.create(&PostParams::default(), &refused).await.unwrap_err();
        assert!(error.to_string().contains("no found Pod named short-lived"), "{error}");
    });
}

#[test]
fn given_two_requests_for_a_pod_then_the_second_waits_for_the_first_and_force_restarts_once_more() {
    run_test(DEADLINE, async {
        let node = Node::new("node2").await;
        let mut main = container("main");
        main["lifecycle"] = json!({"preStop": {"exec": {"command": ["sleep", "3"]}}});
        node.runs(&pod("busy", &[main])).await;
        let api = restart(&node, "first", "busy", &["main"], &json!({})).await;
        becomes(&api, "first", "under way", |request| {
            request
                .status
                .as_ref()
                .is_some_and(|status| !status.phase.as_str().is_empty())
        })
        .await;
        restart(&node, "force", "busy", &["main"], &json!({"forceRecreate": true})).await;
        restart(&node, "late", "busy", &["main"], &json!({})).await;
        for waits in ["force", "late"] {
            becomes(&api, waits, "it waits", |request| {
                request
                    .status
                    .as_ref()
                    .is_some_and(|status| status.phase.as_str() == "Pending")
            })
            .await;
        }
        for name in ["first", "force", "late"] {
            all_succeeded(&completed(&api, name).await, 1);
        }
        // The third asked for a restart of the first container, which is gone by then.
        assert_eq!(restarts(&current(&node, "busy").await), 2);
    });
}

#[test]
fn given_a_pod_of_a_cloneset_then_it_is_out_of_service_before_its_container_ends() {
    run_test(DEADLINE, async {
        let node = Node::new("node1").await;
        let sets: Api<CloneSet> = node.space.api();
        let mut template = pod("", &[container("main")]);
        template["metadata"] = json!({"labels": {"app": "web"}});
        template["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node.name});
        let set = json!({
            "metadata": {"name": "web"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        });
        let set = serde_json::from_value(set).unwrap();
        sets.create(&PostParams::default(), &set).await.unwrap();
        let pods: Api<Pod> = node.space.api();
        let name = eventually(PATIENCE, "its Pod is ready", || async {
            let found = pods.list(&ListParams::default()).await?.items;
            let ready = found.iter().find(|pod| is_ready(pod)).map(ResourceExt::name_any);
            ready.ok_or_else(|| NotYet::new(format!("{} Pods", found.len())))
        })
        .await;
        let strategy = json!({"unreadyGracePeriodSeconds": 3});
        let api = restart(&node, "r", &name, &["main"], &strategy).await;
        let held = becomes(&pods, &name, "the Pod is not ready", |pod| !is_ready(pod)).await;
        assert_eq!(restarts(&held), 0, "its container still runs");
        let request = becomes(&api, "r", "the request says so", |request| {
            let status = request.status.as_ref();
            status.is_some_and(|status| status.conditions.iter().any(|each| each.type_ == "PreRecreateGrace"))
        })
        .await;
        let conditions = request.status.unwrap().conditions;
        let since = conditions[0].last_transition_time.clone().unwrap().0;
        all_succeeded(&completed(&api, "r").await, 1);
        // The gate may open before kubelet has written that the container is another one.
        let after = becomes(&pods, &name, "the Pod is ready again", |pod| {
            is_ready(pod) && restarts(pod) == 1
        })
        .await;
        let ended = of(&after, "main").last_state.clone().unwrap().terminated.unwrap();
        let waited = ended.finished_at.unwrap().0.duration_since(since);
        // Both times are in whole seconds.
        assert!(waited.as_secs() >= 2, "{waited:?}");
        becomes(&api, "r", "it holds nothing any more", |request| {
            request.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
        })
        .await;
    });
}
