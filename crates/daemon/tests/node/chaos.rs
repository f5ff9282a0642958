//! Daemons, containerds and kubelets are killed at moments that nobody chose, while images are pulled and containers restarted. Every image is on every node in the
//! end. Every request has ended with one state for its container: restarted, or not stopped because its runtime was gone. Afterwards all works as before.
//!
//! The moments come from a seed, which is printed; `KRUISE_TEST_SEED` gives it again.

use std::time::Duration;

use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Pod},
    jiff::Timestamp,
};
use kruise_api::containerrecreaterequest::v1beta1::ContainerRecreateRequestStatus;
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
    world::{NODES, Node, PATIENCE, cluster_folder, kubectl, restarts},
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
fn given_parts_of_the_nodes_are_killed_at_any_moment_then_images_are_pulled_and_requests_end_with_a_clear_state() {
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
            let more = json!({"parallelism": 3, "pullPolicy": {"timeoutSeconds": 30, "backoffLimit": 8}});
            jobs.push((pull(&first, &name, &image, &more).await, name));
            for node in &nodes {
                let name = format!("{}-{round}", node.name);
                requests.push((
                    node,
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
                let (api, job) = jobs.last().unwrap();
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
        for (api, name) in jobs {
            let status = done(&api, &name).await;
            // Attempts that were cut off are made again, by the next daemon if need be.
            assert_eq!((status.desired, status.succeeded), (3, 3), "{name}: {status:?}");
        }
        let mut succeeded = 0;
        for (node, api, name) in requests {
            let status = completed(&api, &name).await;
            match has_ended(node, &name, &status).await {
                Ok(()) => succeeded += 1,
                // Who could not be asked to stop the container, as its runtime was killed.
                Err(why) => assert!(why.starts_with("kill container error: "), "{name}: {why:?}, {status:?}"),
            }
        }
        println!("{succeeded} containers were restarted meanwhile");
        assert!(succeeded > 0, "not one container was restarted");
        for node in &nodes {
            node.daemon().await;
        }
        eventually(PATIENCE, "all nodes are ready", || async {
            let text = kubectl(&["get", "nodes", "--no-headers"]);
            let ready = text.lines().filter(|line| line.contains(" Ready ")).count();
            (ready == nodes.len()).then_some(()).ok_or_else(|| NotYet::new(text))
        })
        .await;
        works_again(&first, &nodes, &registry).await;
    });
}

/// Whether the container was restarted, or what the request says about it. Anything but one clear state is wrong.
async fn has_ended(node: &Node, pod: &str, status: &ContainerRecreateRequestStatus) -> Result<(), String> {
    assert_eq!(
        (status.phase.as_str(), status.message.as_str()),
        ("Completed", ""),
        "{status:?}"
    );
    let [state] = status.container_recreate_states.as_slice() else {
        panic!("one container, one state: {status:?}");
    };
    assert_eq!(state.name, "main");
    if state.phase.as_str() == "Succeeded" {
        let pod = node.space.api::<Pod>().get(pod).await.unwrap();
        assert!(restarts(&pod) > 0, "{:?}: {:?}", status, pod.status);
        return Ok(());
    }
    assert_eq!(state.phase.as_str(), "Failed", "{status:?}");
    Err(state.message.clone())
}

/// When nobody is killed any more, nothing fails any more.
async fn works_again(first: &Node, nodes: &[Node; 3], registry: &Registry) {
    let more = json!({"parallelism": 3});
    let job = pull(first, "calm", &registry.image("held/calm:1"), &more).await;
    let status = done(&job, "calm").await;
    assert_eq!((status.desired, status.succeeded), (3, 3), "{status:?}");
    for node in nodes {
        let (name, pod) = (format!("{}-calm", node.name), format!("{}-0", node.name));
        let request = restart(
            node,
            &name,
            &pod,
            &["main"],
            &json!({"terminationGracePeriodSeconds": 5}),
        )
        .await;
        let status = completed(&request, &name).await;
        assert_eq!(has_ended(node, &pod, &status).await, Ok(()), "{status:?}");
    }
}
