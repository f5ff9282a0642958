//! Probes as users ask for them: webhook, manager, daemon and runtime each do their part, on real containers.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Event, Pod};
use kruise_testkit::eventually::{eventually, run_test};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    requests::{completed, restart},
    world::{Node, PATIENCE, becomes, kubectl},
};

const DEADLINE: Duration = Duration::from_mins(6);

/// A page on port 80, and a shell.
fn web(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "probed"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [
            {"name": "main", "image": "nginx:1.25", "ports": [{"name": "web", "containerPort": 80}]},
        ]},
    })
}

fn exec(name: &str, command: &str, more: &Value) -> Value {
    let mut probe = json!({"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1, "timeoutSeconds": 1});
    kruise_api::merge_patch::merge(&mut probe, more);
    with(name, &probe)
}

fn with(name: &str, probe: &Value) -> Value {
    json!({"name": name, "containerName": "main", "podConditionType": format!("example.com/{name}"), "probe": probe})
}

async fn mark(node: &Node, probes: &[Value]) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "PodProbeMarker"));
    let markers: Api<DynamicObject> = Api::namespaced_with(node.client.clone(), node.space.name(), &kind);
    let marker = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "marker"},
        "spec": {"selector": {"matchLabels": {"app": "probed"}}, "probes": probes},
    });
    let marker = serde_json::from_value(marker).unwrap();
    markers.create(&PostParams::default(), &marker).await.unwrap();
}

/// Status and message of the condition of each probe.
fn found(pod: &Pod) -> BTreeMap<String, (String, String)> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ours = conditions.filter_map(|condition| {
        let name = condition.type_.strip_prefix("example.com/")?.to_owned();
        Some((
            name,
            (condition.status.clone(), condition.message.clone().unwrap_or_default()),
        ))
    });
    ours.collect()
}

/// Waits until the condition of a probe is as wanted.
async fn is(node: &Node, pod: &str, probe: &str, status: &str, message: &str) -> Pod {
    let what = format!("{probe} is {status} with {message:?}");
    becomes(&node.space.api(), pod, &what, |pod| {
        found(pod)
            .get(probe)
            .is_some_and(|(now, said)| now == status && said.contains(message))
    })
    .await
}

/// Waits for a label, which is written after the condition.
async fn is_labelled(node: &Node, pod: &str, label: &str, value: &str) {
    becomes(&node.space.api::<Pod>(), pod, &format!("{label} is {value}"), |pod| {
        pod.labels().get(label).is_some_and(|now| now == value)
    })
    .await;
}

async fn told(node: &Node, reason: &str) -> Vec<String> {
    let events: Api<Event> = node.space.api();
    let params = ListParams::default().fields(&format!("reason={reason}"));
    let events = events.list(&params).await.unwrap().items;
    events.into_iter().filter_map(|event| event.message).collect()
}

fn run(node: &Node, pod: &str, command: &str) -> String {
    kubectl(&["exec", "-n", node.space.name(), pod, "--", "sh", "-c", command])
}

#[test]
fn given_commands_connections_and_requests_then_the_pod_is_marked_by_what_they_find() {
    run_test(DEADLINE, async {
        let node = Node::new("node1").await;
        let mut idle = exec("idle", "echo checking; test -e /tmp/idle", &json!({}));
        idle["markerPolicy"] = json!([
            {"state": "Succeeded", "labels": {"idle": "true"}}, {"state": "Failed", "labels": {"idle": "false"}},
        ]);
        mark(
            &node,
            &[
                idle,
                with("open", &json!({"tcpSocket": {"port": "web"}, "periodSeconds": 1})),
                with("closed", &json!({"tcpSocket": {"port": 81}, "periodSeconds": 1})),
                with(
                    "page",
                    &json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 1}),
                ),
            ],
        )
        .await;
        node.runs(&web("web")).await;
        is(&node, "web", "idle", "False", "").await;
        is_labelled(&node, "web", "idle", "false").await;
        is(&node, "web", "open", "True", "").await;
        is(&node, "web", "closed", "False", "connection refused").await;
        is(&node, "web", "page", "True", "").await;
        run(&node, "web", "touch /tmp/idle");
        is(&node, "web", "idle", "True", "checking").await;
        is_labelled(&node, "web", "idle", "true").await;
        run(&node, "web", "rm /tmp/idle");
        is(&node, "web", "idle", "False", "").await;
    });
}

#[test]
fn given_a_container_that_is_restarted_in_mid_probe_then_the_check_that_it_cut_short_is_no_failure() {
    run_test(DEADLINE, async {
        let node = Node::new("node1").await;
        let slow = exec(
            "slow",
            "echo >> /tmp/begun; sleep 3; echo well",
            &json!({"timeoutSeconds": 20}),
        );
        mark(&node, &[slow]).await;
        node.runs(&web("web")).await;
        is(&node, "web", "slow", "True", "well").await;
        let begun = |node: &Node| run(node, "web", "cat /tmp/begun 2>/dev/null | wc -l");
        let before = begun(&node);
        eventually(PATIENCE, "a check is under way", || async {
            (begun(&node) != before)
                .then_some(())
                .ok_or_else(|| before.clone().into())
        })
        .await;
        let requests = restart(&node, "again", "web", &["main"], &json!({})).await;
        completed(&requests, "again").await;
        is(&node, "web", "slow", "True", "well").await;
        let failures = told(&node, "KruiseProbeFailed").await;
        let is_known = |message: &String| message == "Container(main) is Non-running";
        assert!(failures.iter().all(is_known), "{failures:?}");
    });
}

#[test]
fn given_commands_that_hang_fork_or_flood_then_each_is_bounded_and_the_others_go_on() {
    run_test(DEADLINE, async {
        let node = Node::new("node2").await;
        mark(
            &node,
            &[
                exec("hang", "sleep 1111", &json!({})),
                exec("fork", "sleep 2222 & echo begun", &json!({"periodSeconds": 60})),
                exec("flood", "yes | head -c 1000000", &json!({"timeoutSeconds": 5})),
                exec("well", "echo well", &json!({})),
            ],
        )
        .await;
        node.runs(&web("web")).await;
        is(&node, "web", "well", "True", "well").await;
        is(&node, "web", "hang", "False", "did not end within 1s").await;
        is(&node, "web", "flood", "False", "printed more than 65536 bytes").await;
        // What it left behind holds its output open; that is over when its time is.
        let pod = becomes(&node.space.api(), "web", "the fork is answered", |pod: &Pod| {
            found(pod).contains_key("fork")
        })
        .await;
        assert!(found(&pod).contains_key("well"), "{pod:?}");
        eventually(PATIENCE, "those that hang are killed", || async {
            let left = run(
                &node,
                "web",
                "ps | grep 'sleep 1111' | grep -v grep | grep -v 'sh -c' | wc -l",
            );
            let left: usize = left.trim().parse().unwrap();
            // One may be under way.
            (left <= 1)
                .then_some(())
                .ok_or_else(|| format!("{left} of them").into())
        })
        .await;
    });
}

#[test]
fn given_a_hundred_probes_on_a_node_then_all_of_them_are_answered() {
    run_test(DEADLINE, async {
        let node = Node::new("node3").await;
        let probes: Vec<Value> = (0..20)
            .map(|number| {
                exec(
                    &format!("p{number}"),
                    "echo well",
                    &json!({"periodSeconds": 20, "timeoutSeconds": 10}),
                )
            })
            .collect();
        mark(&node, &probes).await;
        for number in 0..5 {
            node.runs(&web(&format!("web-{number}"))).await;
        }
        for number in 0..5 {
            becomes(
                &node.space.api(),
                &format!("web-{number}"),
                "all have succeeded",
                |pod: &Pod| {
                    let found = found(pod);
                    found.len() == 20 && found.values().all(|(status, _)| status == "True")
                },
            )
            .await;
        }
    });
}
