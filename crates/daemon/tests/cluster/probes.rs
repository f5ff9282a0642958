//! Probes: what is found in containers, and what is told of it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kruise_cri::{Executed, fake::Ends};
use kruise_testkit::eventually::{NotYet, consistently, eventually, run_test};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::world::{Daemon, Node, PATIENCE, apply, dynamic};

const DEADLINE: Duration = Duration::from_mins(2);

/// A running Pod with one container.
async fn pod(node: &Node, name: &str) -> Pod {
    node.pod(name, "apps/v1", &json!([{"name": "main", "image": "nginx:1.25"}]))
        .await
}

fn exec(name: &str, command: &str, more: &Value) -> Value {
    let mut probe = json!({"exec": {"command": [command]}, "periodSeconds": 1, "timeoutSeconds": 1});
    probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"name": name, "containerName": "main", "probe": probe})
}

fn entry(pod: &Pod, probes: &Value) -> Value {
    let metadata = &pod.metadata;
    json!({"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid, "IP": "127.0.0.1", "probes": probes})
}

/// What the manager asks the daemon of a node for.
async fn ask(node: &Node, entries: &[Value]) {
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe",
        "metadata": {"name": node.name}, "spec": {"podProbes": entries}});
    apply(&node.client, &object).await;
}

fn lists(node: &Node) -> Api<DynamicObject> {
    dynamic(
        &node.client,
        &json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe", "metadata": {}}),
    )
}

/// What a command in a container comes to from now on.
fn comes_to(node: &Node, command: &str, exit_code: i32, stdout: &str, stderr: &str) {
    let ended = Executed {
        exit_code,
        stdout: stdout.as_bytes().to_vec(),
        stderr: stderr.as_bytes().to_vec(),
    };
    node.runtime.world().commands.insert(command.to_owned(), ended);
}

/// What was reported of a Pod's probe; `null` when nothing was.
fn state_of(list: &DynamicObject, pod: &str, probe: &str) -> Value {
    let statuses = list.data["status"]["podProbeStatuses"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let of_pod = statuses
        .into_iter()
        .find(|status| status["name"] == pod)
        .unwrap_or_default();
    let states = of_pod["probeStates"].as_array().cloned().unwrap_or_default();
    states
        .into_iter()
        .find(|state| state["name"] == probe)
        .unwrap_or_default()
}

/// Waits until a probe of the Pod `web` is in a state.
async fn becomes(node: &Node, probe: &str, state: &str) -> Value {
    let lists = lists(node);
    eventually(PATIENCE, &format!("{probe} is {state}"), || async {
        let list = lists.get(&node.name).await?;
        let found = state_of(&list, "web", probe);
        if found["state"] == state {
            Ok(found)
        } else {
            Err(NotYet::new(format!("{:#}", list.data)))
        }
    })
    .await
}

async fn events(node: &Node, reason: &str) -> Vec<Event> {
    let events: Api<Event> = node.space.api();
    let params = ListParams::default().fields(&format!("reason={reason}"));
    events.list(&params).await.unwrap().items
}

#[test]
fn given_commands_then_what_they_print_is_reported_and_told_and_two_on_one_container_are_two() {
    run_test(DEADLINE, async {
        let node = Node::new("probe-exec").await;
        comes_to(&node, "idle", 0, "idle", "");
        comes_to(&node, "busy", 1, "out", "err");
        let web = pod(&node, "web").await;
        let daemon = node.daemon(&[]).await;
        ask(
            &node,
            &[entry(
                &web,
                &json!([exec("m#a", "idle", &json!({})), exec("m#b", "busy", &json!({}))]),
            )],
        )
        .await;
        let good = becomes(&node, "m#a", "Succeeded").await;
        let bad = becomes(&node, "m#b", "Failed").await;
        assert_eq!((&good["message"], &bad["message"]), (&json!("idle"), &json!("err")));
        let told = node.event("web", "KruiseProbeSucceeded").await;
        assert_eq!(told.message.as_deref(), Some("idle"));
        assert_eq!(
            told.source.and_then(|source| source.component).as_deref(),
            Some("kruise-daemon-podprobe")
        );
        node.event("web", "KruiseProbeFailed").await;
        comes_to(&node, "busy", 0, "done", "");
        assert_eq!(becomes(&node, "m#b", "Succeeded").await["message"], "done");
        // Nothing changes, and nothing is written.
        let version = lists(&node).get(&node.name).await.unwrap().metadata.resource_version;
        consistently(Duration::from_secs(3), "nothing is reported", || async {
            assert_eq!(lists(&node).get(&node.name).await?.metadata.resource_version, version);
            Ok(())
        })
        .await;
        assert_eq!(events(&node, "KruiseProbeFailed").await.len(), 1);
        daemon.stop().await;
    });
}

#[test]
fn given_connections_and_requests_then_they_are_made_to_the_pod() {
    run_test(DEADLINE, async {
        let node = Node::new("probe-net").await;
        let web = pod(&node, "web").await;
        let daemon = node.daemon(&[]).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = axum::Router::new().route("/healthy", axum::routing::get(|| async { "well" }));
        let server = tokio::spawn(async move { axum::serve(listener, server).await });
        let tcp = json!({"name": "m#tcp", "containerName": "main", "probe": {"tcpSocket": {"port": port}, "periodSeconds": 1}});
        let http = |name: &str, path: &str| {
            json!({"name": name, "containerName": "main", "probe": {
                "httpGet": {"port": port, "path": path, "scheme": "HTTP"}, "periodSeconds": 1}})
        };
        ask(
            &node,
            &[entry(
                &web,
                &json!([tcp, http("m#good", "/healthy"), http("m#bad", "/nowhere")]),
            )],
        )
        .await;
        becomes(&node, "m#tcp", "Succeeded").await;
        assert_eq!(becomes(&node, "m#good", "Succeeded").await["message"], "well");
        let bad = becomes(&node, "m#bad", "Failed").await;
        assert_eq!(bad["message"], "HTTP probe failed with statuscode: 404");
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
        let failed = becomes(&node, "m#tcp", "Failed").await;
        assert_eq!(
            failed["message"],
            format!("dial tcp 127.0.0.1:{port}: connect: connection refused")
        );
        daemon.stop().await;
    });
}

#[test]
fn given_a_container_that_ends_then_it_has_failed_and_a_new_one_is_unknown_before_it_is_probed() {
    run_test(DEADLINE, async {
        let node = Node::new("probe-restart").await;
        comes_to(&node, "idle", 0, "idle", "");
        let web = pod(&node, "web").await;
        let uid = web.metadata.uid.clone().unwrap();
        let daemon = node.daemon(&[]).await;
        ask(
            &node,
            &[entry(
                &web,
                &json!([exec("m#a", "idle", &json!({"initialDelaySeconds": 3}))]),
            )],
        )
        .await;
        becomes(&node, "m#a", "Succeeded").await;
        let end = |kubelet: bool| {
            let mut world = node.runtime.world();
            world.kubelet = kubelet;
            let id = world.of(&uid, "main").unwrap().id.clone();
            world.end(&id);
        };
        end(false);
        let failed = becomes(&node, "m#a", "Failed").await;
        assert_eq!(failed["message"], "Container(main) is Non-running");
        node.runtime.world().run(&uid, "main", &[]);
        becomes(&node, "m#a", "Unknown").await;
        becomes(&node, "m#a", "Succeeded").await;
        end(true);
        becomes(&node, "m#a", "Unknown").await;
        becomes(&node, "m#a", "Succeeded").await;
        daemon.stop().await;
    });
}

#[test]
fn given_a_container_that_is_restarted_in_mid_probe_then_the_new_one_has_not_failed() {
    run_test(DEADLINE, async {
        let node = Node::new("probe-mid").await;
        comes_to(&node, "idle", 0, "idle", "");
        let web = pod(&node, "web").await;
        let uid = web.metadata.uid.clone().unwrap();
        let daemon = node.daemon(&[]).await;
        node.runtime.next("ExecSync", [Ends::Never]);
        ask(&node, &[entry(&web, &json!([exec("m#a", "idle", &json!({}))]))]).await;
        eventually(PATIENCE, "the command is under way", || async {
            let under_way: usize = node.runtime.world().executing.values().sum();
            (under_way == 1).then_some(()).ok_or_else(|| NotYet::new("none"))
        })
        .await;
        {
            let mut world = node.runtime.world();
            let id = world.of(&uid, "main").unwrap().id.clone();
            world.end(&id);
        }
        becomes(&node, "m#a", "Succeeded").await;
        assert!(events(&node, "KruiseProbeFailed").await.is_empty());
        daemon.stop().await;
    });
}

#[test]
fn given_commands_that_hang_flood_or_are_not_there_then_that_is_told_and_one_is_under_way_at_a_time() {
    run_test(DEADLINE, async {
        let node = Node::new("probe-odd").await;
        comes_to(&node, "flood", 0, &"x".repeat(1 << 20), "");
        comes_to(&node, "long", 0, &"y".repeat(5000), "");
        let web = pod(&node, "web").await;
        let daemon = node.daemon(&[]).await;
        node.runtime.next("ExecSync", vec![Ends::Never; 2]);
        ask(&node, &[entry(&web, &json!([exec("m#hang", "hang", &json!({}))]))]).await;
        let hang = becomes(&node, "m#hang", "Failed").await;
        assert_eq!(hang["message"], "the command did not end within 1s");
        // Those two are over; the next one ends.
        becomes(&node, "m#hang", "Succeeded").await;
        node.runtime.world().missing.insert("none".to_owned());
        ask(&node, &[entry(&web, &json!([exec("m#none", "none", &json!({}))]))]).await;
        let lists = lists(&node);
        eventually(PATIENCE, "it is said why nothing is known", || async {
            let none = state_of(&lists.get(&node.name).await?, "web", "m#none");
            let why = "rpc error: code = Unknown desc = failed to exec in container: no such file";
            let is_said = none["state"] == "Unknown" && none["message"] == why;
            is_said.then_some(()).ok_or_else(|| NotYet::new(format!("{none:#}")))
        })
        .await;
        ask(
            &node,
            &[entry(
                &web,
                &json!([exec("m#flood", "flood", &json!({})), exec("m#long", "long", &json!({}))]),
            )],
        )
        .await;
        let flood = becomes(&node, "m#flood", "Failed").await;
        assert_eq!(
            flood["message"],
            "the command printed more than 65536 bytes, so how it ended is not known"
        );
        let long = becomes(&node, "m#long", "Succeeded").await;
        assert_eq!(long["message"].as_str().unwrap().len(), 1024);
        assert_eq!(node.runtime.world().most_at_once, 1);
        daemon.stop().await;
    });
}

#[test]
fn given_thresholds_then_fewer_failures_than_asked_for_change_nothing() {
    run_test(DEADLINE, async {
        let node = Node::new("probe-threshold").await;
        comes_to(&node, "idle", 0, "idle", "");
        let web = pod(&node, "web").await;
        let daemon = node.daemon(&[]).await;
        ask(
            &node,
            &[entry(
                &web,
                &json!([exec("m#a", "idle", &json!({"failureThreshold": 1000}))]),
            )],
        )
        .await;
        becomes(&node, "m#a", "Succeeded").await;
        comes_to(&node, "idle", 1, "", "no");
        let calls = node.runtime.calls("ExecSync").len();
        eventually(PATIENCE, "it has failed some times", || async {
            let more = node.runtime.calls("ExecSync").len() - calls;
            (more > 3).then_some(()).ok_or_else(|| NotYet::new(format!("{more}")))
        })
        .await;
        let list = lists(&node).get(&node.name).await.unwrap();
        assert_eq!(state_of(&list, "web", "m#a")["state"], "Succeeded");
        // The threshold is taken over as it changes.
        ask(
            &node,
            &[entry(
                &web,
                &json!([exec("m#a", "idle", &json!({"failureThreshold": 2}))]),
            )],
        )
        .await;
        becomes(&node, "m#a", "Failed").await;
        daemon.stop().await;
    });
}

#[test]
fn given_a_changed_or_dropped_probe_then_it_begins_anew_or_leaves_the_report() {
    run_test(DEADLINE, async {
        let node = Node::new("probe-change").await;
        comes_to(&node, "idle", 0, "idle", "");
        comes_to(&node, "busy", 1, "", "busy");
        let web = pod(&node, "web").await;
        let daemon = node.daemon(&[]).await;
        let (a, b) = (exec("m#a", "idle", &json!({})), exec("m#b", "idle", &json!({})));
        ask(&node, &[entry(&web, &json!([a, b]))]).await;
        for probe in ["m#a", "m#b"] {
            becomes(&node, probe, "Succeeded").await;
        }
        ask(&node, &[entry(&web, &json!([exec("m#a", "busy", &json!({}))]))]).await;
        assert_eq!(becomes(&node, "m#a", "Failed").await["message"], "busy");
        let list = lists(&node).get(&node.name).await.unwrap();
        assert_eq!(state_of(&list, "web", "m#b"), Value::Null);
        ask(&node, &[]).await;
        eventually(PATIENCE, "nothing is reported", || async {
            let list = lists(&node).get(&node.name).await?;
            let status = list.data["status"].clone();
            let is_empty = status["podProbeStatuses"].as_array().is_none_or(Vec::is_empty);
            is_empty.then_some(()).ok_or_else(|| NotYet::from(status))
        })
        .await;
        let calls = node.runtime.calls("ExecSync").len();
        consistently(Duration::from_secs(3), "nothing is probed", || async {
            assert_eq!(node.runtime.calls("ExecSync").len(), calls);
            Ok(())
        })
        .await;
        daemon.stop().await;
    });
}

#[test]
fn given_a_daemon_that_is_killed_then_its_successor_goes_on_from_what_was_reported() {
    run_test(DEADLINE, async {
        let node = Node::new("probe-successor").await;
        comes_to(&node, "idle", 0, "idle", "");
        let web = pod(&node, "web").await;
        let uid = web.metadata.uid.clone().unwrap();
        let first = node.daemon(&[]).await;
        ask(&node, &[entry(&web, &json!([exec("m#a", "idle", &json!({}))]))]).await;
        let before = becomes(&node, "m#a", "Succeeded").await;
        first.kill().await;
        let calls = node.runtime.calls("ExecSync").len();
        let second = node.daemon(&[]).await;
        probed_again(&node, calls).await;
        let list = lists(&node).get(&node.name).await.unwrap();
        assert_eq!(
            state_of(&list, "web", "m#a"),
            before,
            "neither forgotten nor told again"
        );
        // A container that was restarted while nobody looked is another one.
        second.kill().await;
        {
            let mut world = node.runtime.world();
            let id = world.of(&uid, "main").unwrap().id.clone();
            world.end(&id);
        }
        comes_to(&node, "idle", 1, "", "no");
        let third = node.daemon(&[]).await;
        becomes(&node, "m#a", "Failed").await;
        third.stop().await;
    });
}

async fn probed_again(node: &Node, calls: usize) {
    eventually(PATIENCE, "it probes again", || async {
        let more = node.runtime.calls("ExecSync").len() - calls;
        (more > 1).then_some(()).ok_or_else(|| NotYet::new(format!("{more}")))
    })
    .await;
}

#[test]
fn given_a_hundred_probes_then_all_are_reported_in_few_writes() {
    run_test(DEADLINE, async {
        let node = Node::new("probe-many").await;
        comes_to(&node, "idle", 0, "idle", "");
        let daemon = node.daemon(&[]).await;
        let mut entries = Vec::new();
        for number in 0..10 {
            let made = pod(&node, &format!("web-{number}")).await;
            let probes: Vec<Value> = (0..10)
                .map(|probe| exec(&format!("m#{probe}"), "idle", &json!({})))
                .collect();
            entries.push(entry(&made, &json!(probes)));
        }
        ask(&node, &entries).await;
        eventually(PATIENCE, "all are reported", || async {
            let list = lists(&node).get(&node.name).await?;
            let pods = 0..10;
            let good = pods
                .flat_map(|pod| (0..10).map(move |probe| (format!("web-{pod}"), format!("m#{probe}"))))
                .filter(|(pod, probe)| state_of(&list, pod, probe)["state"] == "Succeeded");
            let count = good.count();
            (count == 100)
                .then_some(())
                .ok_or_else(|| NotYet::new(format!("{count}")))
        })
        .await;
        let writes = reports(&daemon);
        assert!(writes < 20, "{writes} writes");
        assert!(
            node.runtime.world().most_at_once <= 10,
            "each container has ten probes with one command"
        );
        daemon.stop().await;
    });
}

fn reports(daemon: &Daemon) -> u64 {
    let calls = daemon.faults.calls();
    let ours = calls.iter().filter(|(call, _)| call.1.contains("nodepodprobes"));
    ours.filter(|(call, _)| call.0 == "patch")
        .map(|(_, count)| *count)
        .sum()
}

#[test]
fn given_the_gate_is_off_then_nobody_probes_and_health_does_not_wait() {
    run_test(DEADLINE, async {
        let node = Node::new("probe-off").await;
        let web = pod(&node, "web").await;
        ask(&node, &[entry(&web, &json!([exec("m#a", "idle", &json!({}))]))]).await;
        let daemon = node.daemon(&["--feature-gates=PodProbeMarkerGate=false"]).await;
        assert_eq!(daemon.faults.count("watch", "nodepodprobes"), 0);
        assert!(node.runtime.calls("ExecSync").is_empty());
        daemon.stop().await;
    });
}
