//! Nodes: registration, heartbeats, ill health, removal, and what is left when a simulation ends.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kruise_testkit::builders::{Fixture, pod};
use kruise_testkit::eventually::{consistently, eventually, not_yet, run_test};
use kruise_testkit::namespace;
use kruise_testkit::sim::{NodeHealth, SET_LABEL, SimOptions, SimulatedNodes};
use kube::Api;
use kube::api::{DeleteParams, ListParams};

use super::{PATIENCE, Scenario, condition_is, is_ready, main_status, on_cluster, with_nodes};

fn node_api(scenario: &Scenario) -> Api<Node> {
    Api::all(scenario.client.clone())
}

fn readiness(node: &Node) -> &str {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
        .map_or("", |condition| condition.status.as_str())
}

async fn taint_appears(scenario: &Scenario, node: &str, key: &str) {
    let nodes = node_api(scenario);
    eventually(PATIENCE, "the node controller has tainted the node", || async {
        let taints = nodes
            .get(node)
            .await?
            .spec
            .unwrap_or_default()
            .taints
            .unwrap_or_default();
        if taints.iter().any(|taint| taint.key == key) {
            Ok(())
        } else {
            Err(not_yet(&taints))
        }
    })
    .await;
}

fn two() -> SimOptions {
    let zone = |zone: &str| BTreeMap::from([("zone".to_owned(), zone.to_owned())]);
    SimOptions {
        count: 2,
        labels_in_turn: vec![zone("a"), zone("b")],
        ..SimOptions::default()
    }
}

#[test]
fn nodes_carry_their_labels_and_take_pods_of_the_scheduler() {
    with_nodes("labels", two(), |scenario| async move {
        let [first, second] = scenario.nodes.names().try_into().unwrap();
        let pod = scenario
            .created_and_ready(pod("a").set("/spec/nodeSelector/zone", "b"))
            .await;
        assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some(second.as_str()));
        let node = node_api(&scenario).get(&first).await.unwrap();
        let labels = node.metadata.labels.unwrap();
        assert_eq!(
            (labels["kubernetes.io/hostname"].as_str(), labels["zone"].as_str()),
            (first.as_str(), "a")
        );
    });
}

#[test]
fn leases_are_renewed_unless_a_node_is_silent() {
    with_nodes("leases", two(), |scenario| async move {
        let [silent, alive] = scenario.nodes.names().try_into().unwrap();
        scenario.nodes.set_health(&silent, NodeHealth::Silent).await.unwrap();
        let leases: Api<Lease> = Api::namespaced(scenario.client.clone(), "kube-node-lease");
        let renewed = async |node: &str| leases.get(node).await.unwrap().spec.unwrap().renew_time.unwrap().0;
        let (silent_before, alive_before) = (renewed(&silent).await, renewed(&alive).await);
        eventually(
            Duration::from_secs(30),
            "the living node has renewed its Lease",
            || async {
                match renewed(&alive).await {
                    later if later > alive_before => Ok(()),
                    same => Err(same.to_string().into()),
                }
            },
        )
        .await;
        assert_eq!(renewed(&silent).await, silent_before);
        scenario.nodes.set_health(&silent, NodeHealth::Ready).await.unwrap();
        eventually(
            Duration::from_secs(10),
            "the node that came back has renewed its Lease",
            || async {
                if renewed(&silent).await > silent_before {
                    Ok(())
                } else {
                    Err("not renewed".into())
                }
            },
        )
        .await;
    });
}

#[test]
fn an_unreachable_node_makes_its_pods_unready_and_does_nothing_for_them() {
    with_nodes("unreachable", two(), |scenario| async move {
        let [lost, healthy] = scenario.nodes.names().try_into().unwrap();
        let on = |name: &str, node: &str| {
            pod(name)
                .on_node(node)
                .set("/spec/tolerations", [serde_json::json!({ "operator": "Exists" })])
        };
        scenario.created_and_ready(on("there", &lost)).await;
        scenario.created_and_ready(on("here", &healthy)).await;

        scenario.nodes.set_health(&lost, NodeHealth::Unreachable).await.unwrap();
        scenario
            .until("there", "it is not ready", |pod| condition_is(pod, "Ready", "False"))
            .await;
        assert_eq!(readiness(&node_api(&scenario).get(&lost).await.unwrap()), "Unknown");
        taint_appears(&scenario, &lost, "node.kubernetes.io/unreachable").await;
        assert!(is_ready(
            &scenario.until("here", "the other Pod is as before", |_| true).await
        ));

        let pods: Api<Pod> = scenario.api();
        pods.delete("there", &DeleteParams::default()).await.unwrap();
        scenario.create(on("late", &lost)).await;
        consistently(
            Duration::from_secs(2),
            "nobody ends or starts Pods of a lost node",
            || async {
                let there = pods.get("there").await?;
                let late = pods.get("late").await?;
                if main_status(&late).is_none() {
                    Ok(there)
                } else {
                    Err(not_yet(&late.status))
                }
            },
        )
        .await;

        scenario.nodes.set_health(&lost, NodeHealth::Ready).await.unwrap();
        scenario.gone("there").await;
        scenario.until("late", "it has started", is_ready).await;
    });
}

#[test]
fn a_node_that_is_not_ready_gets_no_new_pods_but_keeps_its_own() {
    on_cluster("not-ready", |scenario| async move {
        let node = scenario.nodes.names().remove(0);
        scenario.created_and_ready(pod("a")).await;
        scenario.nodes.set_health(&node, NodeHealth::NotReady).await.unwrap();
        assert_eq!(readiness(&node_api(&scenario).get(&node).await.unwrap()), "False");
        taint_appears(&scenario, &node, "node.kubernetes.io/not-ready").await;
        scenario.create(pod("b")).await;
        scenario
            .until("b", "the scheduler finds no node", |pod| {
                condition_is(pod, "PodScheduled", "False")
            })
            .await;
        assert!(is_ready(
            &scenario.until("a", "the first Pod is as before", |_| true).await
        ));
        scenario.nodes.set_health(&node, NodeHealth::Ready).await.unwrap();
        scenario.until("b", "it runs after all", is_ready).await;
    });
}

#[test]
fn nodes_can_be_scrapped_and_join_later() {
    with_nodes("scrapped", two(), |scenario| async move {
        let [scrapped, kept] = scenario.nodes.names().try_into().unwrap();
        scenario.nodes.remove(&scrapped).await.unwrap();
        assert_eq!(node_api(&scenario).get_opt(&scrapped).await.unwrap(), None);
        assert_eq!(scenario.nodes.names(), [kept]);
        assert!(scenario.nodes.set_health(&scrapped, NodeHealth::Ready).await.is_err());
        let added = scenario.nodes.add(1).await.unwrap();
        let pod = scenario
            .created_and_ready(pod("a").set("/spec/nodeSelector/kubernetes.io~1hostname", &added[0]))
            .await;
        assert_eq!(pod.spec.unwrap().node_name.as_ref(), added.first());
    });
}

#[test]
fn a_new_simulation_of_the_same_nodes_takes_their_pods_over() {
    with_nodes("takeover", two(), |scenario| async move {
        let before = scenario.created_and_ready(pod("a")).await;
        let options = SimOptions {
            name_prefix: scenario.namespace.name().to_owned(),
            ..two()
        };
        // The earlier simulation has crashed: its nodes are still there.
        for node in scenario.nodes.names() {
            scenario.nodes.set_health(&node, NodeHealth::Silent).await.unwrap();
        }
        let successor = SimulatedNodes::start(scenario.client.clone(), options).await.unwrap();
        let change = serde_json::json!({ "spec": { "containers": [{ "name": "main", "image": "nginx:2" }] } });
        scenario.patch("a", change).await;
        let restarted = |pod: &Pod| main_status(pod).is_some_and(|main| main.restart_count == 1);
        let after = scenario
            .until("a", "the successor restarts the container", restarted)
            .await;
        assert_eq!(after.status.as_ref().unwrap().pod_ip, before.status.unwrap().pod_ip);
        assert_eq!(successor.stats().patches, 1, "what was well is left alone");
        assert_eq!(successor.stats().pods, 1);
        successor.stop().await.unwrap();
    });
}

#[test]
fn nothing_is_left_after_a_test_that_panics() {
    kruise_testkit::cluster::kubeconfig();
    let (tell, told) = std::sync::mpsc::channel();
    let failed = std::panic::catch_unwind(move || {
        run_test(PATIENCE, async move {
            let client = kruise_testkit::cluster::client().await;
            let namespace = namespace::fresh(&client, "panics").await.unwrap();
            let options = SimOptions {
                name_prefix: namespace.name().to_owned(),
                ..SimOptions::default()
            };
            let _nodes = SimulatedNodes::start(client.clone(), options).await.unwrap();
            tell.send(namespace.name().to_owned()).unwrap();
            panic!("as expected");
        });
    });
    assert!(failed.is_err());
    let name = told.recv().unwrap();
    run_test(PATIENCE, async move {
        let client = kruise_testkit::cluster::client().await;
        let nodes: Api<Node> = Api::all(client.clone());
        let ours = ListParams::default().labels(&format!("{SET_LABEL}={name}"));
        assert_eq!(nodes.list(&ours).await.unwrap().items.len(), 0);
        let namespaces: Api<Namespace> = Api::all(client);
        eventually(PATIENCE, "the namespace is gone", || async {
            match namespaces.get_opt(&name).await? {
                None => Ok(()),
                Some(namespace) => Err(not_yet(&namespace.status)),
            }
        })
        .await;
    });
}

#[test]
fn the_program_ends_cleanly_and_takes_its_nodes_along() {
    kruise_testkit::cluster::kubeconfig();
    run_test(PATIENCE * 2, async {
        let client = kruise_testkit::cluster::client().await;
        // Only for a name that nobody else has.
        let namespace = namespace::fresh(&client, "program").await.unwrap();
        let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_kruise-sim-nodes"))
            .arg("--kubeconfig")
            .arg(kruise_testkit::cluster::kubeconfig())
            .args([
                "--nodes",
                "2",
                "--taint",
                "simulated=yes:NoSchedule",
                "--prefix",
                namespace.name(),
            ])
            .env("RUST_LOG", "warn")
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let nodes: Api<Node> = Api::all(client);
        let ours = ListParams::default().labels(&format!("{SET_LABEL}={}", namespace.name()));
        let joined = eventually(PATIENCE, "two nodes have joined", || async {
            let nodes = nodes.list(&ours).await?.items;
            if nodes.len() == 2 {
                Ok(nodes)
            } else {
                Err(not_yet(&nodes))
            }
        })
        .await;
        for node in joined {
            assert!(
                node.spec
                    .unwrap()
                    .taints
                    .unwrap()
                    .iter()
                    .any(|taint| taint.key == "simulated")
            );
        }
        let pid = rustix::process::Pid::from_raw(program.id().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(program.wait().await.unwrap().success());
        assert_eq!(nodes.list(&ours).await.unwrap().items.len(), 0);
    });
}
