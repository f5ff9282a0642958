//! Whatever happens: what is listed is what the Pods are to be probed with, others are left alone, and there is an end.

use proptest::prelude::*;

use super::*;

/// What users, kubelets and other markers do.
#[derive(Clone, Debug)]
enum Change {
    Probes(u8),
    Pod(usize, bool),
    Initialized(usize, bool),
    Ip(usize, u8),
    List(usize, bool),
    Other(usize),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..8_u8).prop_map(Change::Probes),
        (0..3_usize, any::<bool>()).prop_map(|(pod, there)| Change::Pod(pod, there)),
        (0..3_usize, any::<bool>()).prop_map(|(pod, on)| Change::Initialized(pod, on)),
        (0..3_usize, 0..3_u8).prop_map(|(pod, ip)| Change::Ip(pod, ip)),
        (0..2_usize, any::<bool>()).prop_map(|(node, there)| Change::List(node, there)),
        (0..2_usize).prop_map(Change::Other),
    ]
}

const NODES: [&str; 2] = ["n1", "n2"];

fn probes(which: u8) -> Value {
    let all = [exec("idle"), tcp("web", &json!("web")), tcp("none", &json!("none"))];
    let chosen = all
        .into_iter()
        .enumerate()
        .filter(|(place, _)| which & (1 << place) != 0);
    Value::Array(chosen.map(|(_, probe)| probe).collect())
}

fn make(world: &mut World, change: &Change) {
    let name = |number: usize| format!("p{number}");
    match change {
        Change::Probes(which) => world.edit(|marker| marker["spec"]["probes"] = probes(*which)),
        Change::Pod(number, true) => {
            let there = world.cluster.get(Pod::RESOURCE, &name(*number)).is_some();
            if !there {
                world.cluster.put(Pod::RESOURCE, pod(&name(*number), NODES[number % 2]));
            }
        }
        Change::Pod(number, false) => drop(world.cluster.objects.remove(&(Pod::RESOURCE, name(*number)))),
        Change::Initialized(number, on) => world.cluster.edit(Pod::RESOURCE, &name(*number), |pod| {
            pod["status"]["conditions"][0]["status"] = json!(if *on { "True" } else { "False" });
        }),
        Change::Ip(number, ip) => world.cluster.edit(Pod::RESOURCE, &name(*number), |pod| {
            pod["status"]["podIP"] = json!(if *ip == 0 {
                String::new()
            } else {
                format!("10.0.0.{ip}")
            });
        }),
        Change::List(node, true) if world.entries(NODES[*node]).is_null() => world.list(NODES[*node], &json!([])),
        Change::List(_, true) => {}
        Change::List(node, false) => {
            world
                .cluster
                .objects
                .remove(&(CachedNodePodProbe::RESOURCE, NODES[*node].to_owned()));
        }
        Change::Other(node) => world.cluster.edit(CachedNodePodProbe::RESOURCE, NODES[*node], |list| {
            let entries = list["spec"]["podProbes"].as_array_mut().unwrap();
            let probe = json!({"name": "other#game", "containerName": "main", "probe": {}});
            match entries.first_mut() {
                Some(entry) => entry["probes"].as_array_mut().unwrap().push(probe),
                None => entries.push(json!({"name": "o", "namespace": "ns", "uid": "o", "IP": "", "probes": [probe]})),
            }
        }),
    }
}

/// The probes of each Pod of a node that are this marker's, and how many are of others.
fn listed(world: &World, node: &str) -> (Vec<String>, usize) {
    let entries = world.entries(node).as_array().cloned().unwrap_or_default();
    let (mut ours, mut others) = (Vec::new(), 0);
    for entry in &entries {
        for probe in entry["probes"].as_array().into_iter().flatten() {
            let name = probe["name"].as_str().unwrap();
            if name.starts_with("game#") {
                ours.push(format!("{} {} {name}", entry["name"], entry["uid"]));
            } else {
                others += 1;
            }
        }
    }
    ours.sort();
    (ours, others)
}

/// What should be listed for the Pods of a node.
fn expected(world: &World, node: &str) -> Vec<String> {
    let Some(observed) = world.observe() else {
        return Vec::new();
    };
    let mut expected = Vec::new();
    if observed.node_probes.contains_key(node) {
        for pod in observed
            .pods
            .iter()
            .filter(|pod| is_probed(pod) && *pod.spec.node_name == *node)
        {
            for probe in observed.marker.spec.probes.iter().filter(|probe| probe.name != "none") {
                expected.push(format!(
                    "{:?} {:?} game#{}",
                    &*pod.metadata.name,
                    pod.metadata.uid.to_string(),
                    probe.name
                ));
            }
        }
    }
    expected.sort();
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_happens_lists_say_what_is_to_be_probed(changes in proptest::collection::vec(any_change(), 0..14)) {
        let mut world = World::new(&probes(3));
        for change in &changes {
            make(&mut world, change);
            let others: Vec<usize> = NODES.iter().map(|node| listed(&world, node).1).collect();
            world.run();
            let after: Vec<usize> = NODES.iter().map(|node| listed(&world, node).1).collect();
            prop_assert_eq!(others, after, "what others list is left alone");
        }
        world.run();
        for node in NODES {
            prop_assert_eq!(listed(&world, node).0, expected(&world, node), "{}", node);
        }
        prop_assert_eq!(world.plan(), world.plan());
        world.delete();
        world.run();
        prop_assert!(world.marker().is_null());
        for node in NODES {
            prop_assert_eq!(listed(&world, node).0, Vec::<String>::new());
        }
    }

    #[test]
    fn after_a_crash_at_any_write_the_end_is_the_same(pods in 1..4_usize, delete in any::<bool>()) {
        let start = || {
            let pods: Vec<Value> = (0..pods).map(|number| pod(&format!("p{number}"), NODES[number % 2])).collect();
            let mut world = World::new(&probes(7)).with(&pods);
            if delete {
                world.run();
                world.delete();
            }
            world
        };
        let mut straight = start();
        straight.run();
        for crash in 0..5 {
            let mut world = start();
            world.round_of(crash);
            world.last = Outcome::default();
            world.run();
            for node in NODES {
                prop_assert_eq!(world.brief(node), straight.brief(node), "crash after {} writes", crash);
            }
            prop_assert_eq!(&world.marker()["status"], &straight.marker()["status"]);
        }
    }

    #[test]
    fn a_plan_from_an_old_picture_harms_nobody(changes in proptest::collection::vec(any_change(), 1..6)) {
        let mut world = World::new(&probes(3)).with(&[pod("p0", "n1")]);
        let stale = world.plan();
        for change in &changes {
            make(&mut world, change);
            world.run();
        }
        let others: Vec<usize> = NODES.iter().map(|node| listed(&world, node).1).collect();
        world.cluster.apply(&stale, usize::MAX);
        let after: Vec<usize> = NODES.iter().map(|node| listed(&world, node).1).collect();
        prop_assert_eq!(others, after);
        world.run();
        for node in NODES {
            prop_assert_eq!(listed(&world, node).0, expected(&world, node));
        }
    }
}
