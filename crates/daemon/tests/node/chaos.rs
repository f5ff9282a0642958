//! Daemons, containerds and kubelets are killed at moments that nobody chose, while images are pulled and containers restarted. Everything comes to an end, and
//! what did not work says why.
//!
//! The moments come from a seed, which is printed; `KRUISE_TEST_SEED` gives it again.

use std::time::Duration;

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kruise_testkit::{
    eventually::{NotYet, eventually, run_test},
    instance::repair_node,
    process::Processes,
};
use kube::Api;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{
    jobs::{done, pull},
    registry::Registry,
    requests::{completed, container, pod, restart},
    world::{NODES, Node, PATIENCE, cluster_folder, kubectl},
};

const DEADLINE: Duration = Duration::from_mins(18);
const ROUNDS: u8 = 4;
const KILLS_IN_A_ROUND: u8 = 5;
/// The longest time between two kills.
const PAUSE: u64 = 1500;
/// More would be held back by the kubelet: it waits longer each time before it starts a daemon that ended.
const DAEMON_KILLS_PER_NODE: u8 = 2;

/// Ends one part of one node, and starts it again where the kubelet does not.
async fn kill(nodes: &[Node; 3], number: usize, part: &str) {
    let folder = cluster_folder();
    if part == "daemon" {
        // One that is just being started again cannot be killed, which is as good.
        if let Some(pid) = nodes[number].running_daemon().await {
            let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
        }
        return;
    }
    let processes = Processes::below(&folder).unwrap();
    if let Some(process) = processes.running(&format!("{}-{part}", NODES[number])) {
        process.signal(Signal::KILL);
        process.ends_within(Duration::from_secs(5));
    }
    repair(number).await;
}

async fn repair(number: usize) {
    let node = u8::try_from(number + 1).unwrap();
    tokio::task::spawn_blocking(move || repair_node(&cluster_folder(), node).unwrap())
        .await
        .unwrap();
}

/// Waits until every kubelet has renewed its lease. One that begins while its containerd is killed ends at once, so it is started again here.
async fn all_live(nodes: &[Node; 3]) {
    let now = Timestamp::now();
    let leases: Api<Lease> = Api::namespaced(nodes[0].client.clone(), "kube-node-lease");
    eventually(PATIENCE, "all kubelets live", || async {
        for (number, node) in nodes.iter().enumerate() {
            repair(number).await;
            let renewed = leases.get(node.name).await?.spec.and_then(|spec| spec.renew_time);
            if renewed.as_ref().is_none_or(|renewed| renewed.0 < now) {
                return Err(NotYet::new(format!("{} since {renewed:?}", node.name)));
            }
        }
        Ok(())
    })
    .await;
}

#[test]
fn given_parts_of_the_nodes_are_killed_at_any_moment_then_everything_ends_and_failures_have_a_reason() {
    run_test(DEADLINE, async {
        let first = Node::alone("node1").await;
        let nodes = [first.other("node1"), first.other("node2"), first.other("node3")];
        let given = std::env::var("KRUISE_TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed: u64 = given.unwrap_or_else(|| fastrand::u64(..));
        println!("KRUISE_TEST_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let registry = Registry::start(15065);
        registry.release();
        for round in 0..ROUNDS {
            let mut hook = container("main");
            hook["lifecycle"] = json!({"preStop": {"exec": {"command": ["sleep", "1"]}}});
            let pods = nodes.iter().map(|node| {
                let given = pod(&format!("{}-{round}", node.name), std::slice::from_ref(&hook));
                async move { node.runs(&given).await }
            });
            futures::future::join_all(pods).await;
        }

        let mut daemons = [0; 3];
        let (mut jobs, mut requests) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let name = format!("round-{round}");
            let image = registry.image(&format!("held/round:{round}"));
            let more = json!({"parallelism": 3, "pullPolicy": {"timeoutSeconds": 30, "backoffLimit": 5}});
            jobs.push((pull(&first, &name, &image, &more).await, name.clone(), round));
            for node in &nodes {
                let name = format!("{}-{round}", node.name);
                requests.push((
                    restart(
                        node,
                        &name,
                        &name,
                        &["main"],
                        &json!({"terminationGracePeriodSeconds": 5}),
                    )
                    .await,
                    name,
                ));
            }
            for _ in 0..KILLS_IN_A_ROUND {
                let moment = Duration::from_millis(random.u64(..PAUSE));
                let (api, job, _) = jobs.last().unwrap();
                // Until that moment, unless everything is done before.
                let _ = tokio::time::timeout(moment, done(api, job)).await;
                let number = random.usize(..nodes.len());
                let part = match random.u8(..3) {
                    0 if daemons[number] < DAEMON_KILLS_PER_NODE => {
                        daemons[number] += 1;
                        "daemon"
                    }
                    0 | 1 => "containerd",
                    _ => "kubelet",
                };
                println!("round {round}: {part} of {}", nodes[number].name);
                kill(&nodes, number, part).await;
            }
        }

        all_live(&nodes).await;
        for (api, name, round) in jobs {
            let status = done(&api, &name).await;
            assert_eq!(status.succeeded + status.failed, status.desired, "{name}: {status:?}");
            assert_eq!(status.desired, 3, "{name}: {status:?}");
            for failed in &status.failed_nodes {
                let node = nodes.iter().find(|node| node.name == failed).unwrap();
                let tag = node
                    .tag(&registry.image("held/round"), &round.to_string())
                    .await
                    .unwrap();
                assert_ne!(tag["message"].as_str().unwrap_or_default(), "", "{name}: {tag}");
            }
            println!("{name}: {} of {} nodes", status.succeeded, status.desired);
        }
        for (api, name) in requests {
            let status = completed(&api, &name).await;
            let states = &status.container_recreate_states;
            let reasons = states
                .iter()
                .filter(|state| state.phase.as_str() != "Succeeded")
                .map(|state| state.message.as_str());
            let all_well = states.len() == 1 && reasons.clone().count() == 0;
            assert!(
                all_well || !status.message.is_empty() || reasons.clone().all(|reason| !reason.is_empty()),
                "{name}: {status:?}"
            );
            println!("{name}: {} {:?}", status.message, reasons.collect::<Vec<_>>());
        }
        for node in &nodes {
            node.daemon().await;
        }
        eventually(PATIENCE, "all nodes are ready", || async {
            let said = kubectl(&["get", "nodes", "--no-headers"]);
            let ready = said.lines().filter(|line| line.contains(" Ready ")).count();
            (ready == nodes.len()).then_some(()).ok_or_else(|| NotYet::new(said))
        })
        .await;
    });
}
