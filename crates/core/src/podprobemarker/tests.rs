//! What markers list in NodePodProbes, and what they leave alone.

mod properties;

use super::*;
use crate::plan::Observation as _;
use crate::plan::harness::{Cluster, name_of};
use kruise_api::gates::Gates;
use kruise_api::kind::Kind as _;
use serde_json::Value;

struct World {
    cluster: Cluster,
    gates: Gates,
    written: Written,
    last: Outcome,
}

fn node(name: &str, type_: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"type": type_}}})
}

/// A probed Pod of `app: game` with a container `main` that has a port `web`.
fn pod(name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": "game"}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Initialized", "status": "True"}]},
    })
}

fn exec(name: &str) -> Value {
    json!({"name": name, "containerName": "main", "podConditionType": format!("x/{name}"), "probe": {"exec": {"command": [name]}}})
}

fn tcp(name: &str, port: &Value) -> Value {
    json!({"name": name, "containerName": "main", "podConditionType": format!("x/{name}"), "probe": {"tcpSocket": {"port": port}}})
}

impl World {
    /// A cluster with two nodes and one virtual one, and a marker `game` with these probes.
    fn new(probes: &Value) -> Self {
        let mut world = Self {
            cluster: Cluster::at("2026-05-01T10:00:00Z".parse().unwrap()),
            gates: Gates::default(),
            written: Written::default(),
            last: Outcome::default(),
        };
        for name in ["n1", "n2"] {
            world.cluster.put(Node::RESOURCE, node(name, "machine"));
            world.list(name, &json!([]));
        }
        world.cluster.put(Node::RESOURCE, node("v", "virtual-kubelet"));
        let spec = json!({"selector": {"matchLabels": {"app": "game"}}, "probes": probes});
        let marker = json!({"metadata": {"name": "game", "namespace": "ns", "generation": 1}, "spec": spec});
        world.cluster.put(PodProbeMarker::RESOURCE, marker);
        world
    }

    fn with(mut self, pods: &[Value]) -> Self {
        for pod in pods {
            self.cluster.put(Pod::RESOURCE, pod.clone());
        }
        self
    }

    fn list(&mut self, node: &str, entries: &Value) {
        let list = json!({"metadata": {"name": node}, "spec": {"podProbes": entries}});
        self.cluster.put(CachedNodePodProbe::RESOURCE, list);
    }

    fn observe(&self) -> Option<Observed> {
        fn read<K: serde::de::DeserializeOwned>(object: &Value) -> Arc<K> {
            Arc::new(serde_json::from_value(object.clone()).unwrap())
        }
        let marker: Arc<PodProbeMarker> = read(self.cluster.get(PodProbeMarker::RESOURCE, "game")?);
        let pods = self.cluster.all(Pod::RESOURCE).map(read::<Pod>);
        let by_name = |kind| self.cluster.all(kind).map(|object| (name_of(object), object));
        Some(Observed {
            pods: pods.filter(|pod| chooses(&marker, pod)).collect(),
            nodes: by_name(Node::RESOURCE).map(|(name, node)| (name, read(node))).collect(),
            node_probes: by_name(CachedNodePodProbe::RESOURCE)
                .map(|(name, list)| (name, read(list)))
                .collect(),
            written: self.written.clone(),
            last: self.last.clone(),
            marker,
        })
    }

    fn plan(&self) -> Plan {
        let env = Env {
            gates: self.gates,
            ..Env::at(self.cluster.now)
        };
        self.observe().map(|observed| observed.plan(&env)).unwrap_or_default()
    }

    fn round_of(&mut self, writes: usize) -> Plan {
        let plan = self.plan();
        self.last = self.cluster.apply(&plan, writes);
        if writes == usize::MAX {
            self.written.remember(&plan, &self.last.failures);
        }
        self.collect();
        plan
    }

    /// Objects that are deleted go when nothing holds them.
    fn collect(&mut self) {
        let is_held = |object: &Value| {
            let finalizers = object["metadata"]["finalizers"].as_array();
            object["metadata"]["deletionTimestamp"].is_null() || finalizers.is_some_and(|all| !all.is_empty())
        };
        self.cluster
            .objects
            .retain(|(kind, _), object| *kind != PodProbeMarker::RESOURCE || is_held(object));
    }

    fn run(&mut self) {
        for _ in 0..10 {
            if self.round_of(usize::MAX).is_idle() {
                return;
            }
        }
        panic!("no end: {:#?}", self.plan());
    }

    fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(PodProbeMarker::RESOURCE, "game", |marker| {
            change(marker);
            let generation = marker["metadata"]["generation"].as_i64().unwrap() + 1;
            marker["metadata"]["generation"] = json!(generation);
        });
    }

    fn delete(&mut self) {
        self.edit(|marker| marker["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z"));
    }

    fn entries(&self, node: &str) -> Value {
        let list = self.cluster.get(CachedNodePodProbe::RESOURCE, node);
        list.map(|list| list["spec"]["podProbes"].clone()).unwrap_or_default()
    }

    /// `pod: probe probe` for each entry of a node.
    fn brief(&self, node: &str) -> Vec<String> {
        let entries = self.entries(node).as_array().cloned().unwrap_or_default();
        let names = |entry: &Value| -> Vec<String> {
            let probes = entry["probes"].as_array().cloned().unwrap_or_default();
            probes
                .iter()
                .map(|probe| probe["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let line = |entry: &Value| format!("{}: {}", entry["name"].as_str().unwrap(), names(entry).join(" "));
        entries.iter().map(line).collect()
    }

    fn marker(&self) -> Value {
        self.cluster
            .get(PodProbeMarker::RESOURCE, "game")
            .cloned()
            .unwrap_or_default()
    }

    fn whys(&self) -> Vec<String> {
        self.plan().why.iter().map(ToString::to_string).collect()
    }
}

#[test]
fn given_pods_on_nodes_then_their_probes_are_listed_and_counted() {
    let mut world =
        World::new(&json!([exec("idle"), tcp("web", &json!("web"))])).with(&[pod("a", "n1"), pod("b", "n2")]);
    world.run();
    let uid = world.cluster.get(Pod::RESOURCE, "a").unwrap()["metadata"]["uid"].clone();
    assert_eq!(
        world.entries("n1"),
        json!([{"name": "a", "namespace": "ns", "uid": uid, "IP": "10.0.0.1", "probes": [
            {"name": "game#idle", "containerName": "main", "probe": {"exec": {"command": ["idle"]}}},
            {"name": "game#web", "containerName": "main", "probe": {"tcpSocket": {"port": 8080}}},
        ]}])
    );
    assert_eq!(world.brief("n2"), ["b: game#idle game#web"]);
    let marker = world.marker();
    assert_eq!(marker["status"], json!({"observedGeneration": 1, "matchedPods": 2}));
    assert_eq!(
        marker["metadata"]["finalizers"],
        json!(["kruise.io/node-pod-probe-cleanup"])
    );
    assert_eq!(world.whys(), [""; 0]);
}

#[test]
fn given_pods_that_cannot_be_probed_then_they_are_not_listed_before_they_can() {
    let mut early = pod("early", "n1");
    early["status"]["conditions"][0]["status"] = json!("False");
    let mut done = pod("done", "n1");
    done["status"]["phase"] = json!("Succeeded");
    let mut other = pod("other", "n1");
    other["metadata"]["labels"]["app"] = json!("web");
    let mut unscheduled = pod("unscheduled", "n1");
    unscheduled["spec"]["nodeName"] = json!("");
    let mut world = World::new(&json!([exec("idle")])).with(&[early, done, other, unscheduled, pod("lost", "gone")]);
    world.run();
    assert_eq!(world.brief("n1"), [""; 0]);
    assert_eq!(world.marker()["status"], json!({"observedGeneration": 1}));
    assert_eq!(
        world.whys(),
        [
            "Not probed before they have a node and are initialized: early, unscheduled.",
            "Not probed, because their nodes do not exist: lost.",
        ]
    );
    world.cluster.edit(Pod::RESOURCE, "early", |pod| {
        pod["status"]["conditions"][0]["status"] = json!("True");
    });
    world.run();
    assert_eq!(world.brief("n1"), ["early: game#idle"]);
}

#[test]
fn given_a_node_without_a_list_then_it_is_said_and_listed_once_there_is_one() {
    let mut world = World::new(&json!([exec("idle")])).with(&[pod("a", "n1")]);
    world
        .cluster
        .objects
        .remove(&(CachedNodePodProbe::RESOURCE, "n1".to_owned()));
    world.run();
    let said = "Nodes without a NodePodProbe, which they get when they are ready: n1.";
    assert_eq!(world.whys(), [said]);
    world.list("n1", &json!([]));
    world.run();
    assert_eq!(world.brief("n1"), ["a: game#idle"]);
}

#[test]
fn given_ports_by_name_then_they_are_numbers_and_an_unknown_one_leaves_out_its_probe() {
    let probes = json!([
        tcp("web", &json!("web")),
        tcp("text", &json!("81")),
        tcp("other", &json!("other")),
        exec("idle")
    ]);
    let mut none = exec("none");
    none["containerName"] = json!("side");
    let mut world = World::new(&probes).with(&[pod("a", "n1")]);
    world.edit(|marker| marker["spec"]["probes"].as_array_mut().unwrap().push(none));
    world.run();
    let entries = world.entries("n1");
    let port = |place: usize| entries[0]["probes"][place]["probe"]["tcpSocket"]["port"].clone();
    assert_eq!((port(0), port(1)), (json!(8080), json!(81)));
    assert_eq!(world.brief("n1"), ["a: game#web game#text game#idle game#none"]);
    assert_eq!(
        world.whys(),
        [
            "Probe other names a port that the container of these does not have: a.",
            "Probe none is for container side, which these do not have: a.",
        ]
    );
}

#[test]
fn given_a_changed_marker_or_pod_then_the_list_follows_and_what_others_list_stays() {
    let others = json!([
        {"name": "a", "namespace": "other", "uid": "x", "IP": "", "probes": [{"name": "game#idle", "containerName": "main", "probe": {}}]},
        {"name": "z", "namespace": "ns", "uid": "z", "IP": "", "probes": [
            {"name": "mygame#idle", "containerName": "main", "probe": {}}, {"name": "game#old", "containerName": "main", "probe": {}}]},
        {"name": "y", "namespace": "ns", "uid": "y", "IP": "", "probes": [{"name": "game#idle", "containerName": "main", "probe": {}}]},
        {"name": "empty", "namespace": "ns", "uid": "e", "IP": ""},
    ]);
    let kept = ["a: game#idle", "z: mygame#idle", "empty: "];
    let mut world = World::new(&json!([exec("idle"), exec("busy")])).with(&[pod("a", "n1")]);
    world.list("n1", &others);
    world.run();
    assert_eq!(world.brief("n1"), [&kept[..], &["a: game#idle game#busy"]].concat());
    world.edit(|marker| marker["spec"]["probes"] = json!([exec("busy"), exec("new")]));
    world
        .cluster
        .edit(Pod::RESOURCE, "a", |pod| pod["status"]["podIP"] = json!("10.0.0.9"));
    world.run();
    assert_eq!(world.brief("n1"), [&kept[..], &["a: game#busy game#new"]].concat());
    assert_eq!(world.entries("n1")[3]["IP"], "10.0.0.9");
    world.edit(|marker| marker["spec"]["probes"][0]["probe"]["exec"]["command"] = json!(["other"]));
    world.run();
    assert_eq!(
        world.entries("n1")[3]["probes"][0]["probe"]["exec"]["command"],
        json!(["other"])
    );
    assert_eq!(world.marker()["status"]["observedGeneration"], 3);
    // The Pod is made anew under its name.
    world.cluster.objects.remove(&(Pod::RESOURCE, "a".to_owned()));
    let world = &mut world;
    world.cluster.put(Pod::RESOURCE, pod("a", "n1"));
    world.run();
    let uid = world.cluster.get(Pod::RESOURCE, "a").unwrap()["metadata"]["uid"].clone();
    assert_eq!((world.brief("n1").len(), &world.entries("n1")[3]["uid"]), (4, &uid));
    // It loses the label.
    world
        .cluster
        .edit(Pod::RESOURCE, "a", |pod| pod["metadata"]["labels"] = json!({}));
    world.run();
    assert_eq!(world.brief("n1"), kept);
}

#[test]
fn given_a_deleted_marker_then_it_goes_after_its_probes_also_from_nodes_where_no_pod_matches_any_more() {
    let mut world = World::new(&json!([exec("idle")])).with(&[pod("a", "n1")]);
    world.run();
    let left = json!([{"name": "b", "namespace": "ns", "uid": "b", "IP": "", "probes": [{"name": "game#idle", "containerName": "main", "probe": {}}]}]);
    world.list("n2", &left);
    world.delete();
    world.round_of(1);
    assert!(world.marker().is_object(), "not before its probes are gone");
    world.run();
    assert_eq!((world.entries("n1"), world.entries("n2")), (json!([]), json!([])));
    assert!(world.marker().is_null());
}

#[test]
fn given_a_refused_list_then_the_others_are_written_and_the_failure_is_told() {
    let mut world = World::new(&json!([exec("idle")])).with(&[pod("a", "n1"), pod("b", "n2")]);
    world.round_of(usize::MAX);
    world.list("n1", &json!([]));
    world.list("n2", &json!([]));
    world.cluster.refused = Some(world.cluster.writes + 1);
    world.round_of(usize::MAX);
    assert_eq!((world.brief("n1").len(), world.brief("n2").len()), (0, 1));
    world.run();
    assert_eq!(world.brief("n1").len(), 1);
}

#[test]
fn given_pods_on_virtual_nodes_then_only_the_gate_marks_them_and_nothing_is_ever_removed() {
    let mut marking = exec("idle");
    marking["markerPolicy"] = json!([
        {"state": "Succeeded", "labels": {"idle": "true"}, "annotations": {"example.com/idle": "yes"}},
        {"state": "Failed", "labels": {"busy": "true"}},
    ]);
    let mut virtual_ = pod("v1", "v");
    virtual_["status"]["conditions"] =
        json!([{"type": "Initialized", "status": "True"}, {"type": "x/idle", "status": "True"}]);
    let mut world = World::new(&json!([marking, exec("other")])).with(&[virtual_]);
    world.run();
    assert_eq!(world.marker()["status"]["matchedPods"], 1);
    assert_eq!(world.whys(), ["On virtual nodes, where the daemon does not probe: v1."]);
    assert_eq!(
        world.cluster.get(Pod::RESOURCE, "v1").unwrap()["metadata"]["labels"],
        json!({"app": "game"})
    );
    world.gates = world.gates.with(Gate::EnablePodProbeMarkerOnServerless, true);
    world.run();
    let metadata = |world: &World| world.cluster.get(Pod::RESOURCE, "v1").unwrap()["metadata"].clone();
    assert_eq!(metadata(&world)["labels"], json!({"app": "game", "idle": "true"}));
    assert_eq!(metadata(&world)["annotations"], json!({"example.com/idle": "yes"}));
    world.cluster.edit(Pod::RESOURCE, "v1", |pod| {
        pod["status"]["conditions"][1]["status"] = json!("False");
    });
    world.run();
    assert_eq!(
        metadata(&world)["labels"],
        json!({"app": "game", "idle": "true", "busy": "true"})
    );
    world.cluster.edit(Pod::RESOURCE, "v1", |pod| {
        pod["status"]["conditions"][1]["status"] = json!("Unknown");
    });
    assert!(world.plan().is_idle());
}

#[test]
fn given_a_change_of_a_pod_then_a_marker_is_concerned_when_it_matters_to_it() {
    let mut marking = exec("idle");
    marking["markerPolicy"] = json!([{"state": "Succeeded", "labels": {"idle": "true"}}]);
    let world = World::new(&json!([marking])).with(&[pod("a", "n1")]);
    let marker = world.observe().unwrap().marker;
    let read = |pod: &Value| -> Pod { serde_json::from_value(pod.clone()).unwrap() };
    let before = pod("a", "n1");
    let changed = |pointer: &str, value: Value| {
        let mut after = before.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        after.pointer_mut(parent).unwrap()[name] = value;
        after
    };
    let condition = |status: &str| {
        changed(
            "/status/conditions",
            json!([{"type": "Initialized", "status": "True"}, {"type": "x/idle", "status": status}]),
        )
    };
    for (after, on_machine, on_virtual) in [
        (before.clone(), false, false),
        (changed("/status/podIP", json!("10.0.0.2")), true, true),
        (changed("/metadata/labels", json!({})), true, true),
        (changed("/status/phase", json!("Failed")), true, true),
        (changed("/status/conditions", json!([])), true, true),
        (condition("True"), false, true),
        (changed("/metadata/resourceVersion", json!("9")), false, false),
    ] {
        let concerned = |is_virtual| concerns(&marker, Some(&read(&before)), Some(&read(&after)), is_virtual);
        assert_eq!(
            (concerned(false), concerned(true)),
            (on_machine, on_virtual),
            "{after:#}"
        );
    }
    assert!(concerns(&marker, None, Some(&read(&before)), false));
    assert!(concerns(&marker, Some(&read(&before)), None, false));
    let mut listed = before.clone();
    listed["metadata"]["annotations"] = json!({"kruise.io/podprobemarker-list": "a,b"});
    assert_eq!(markers_of(&read(&listed)).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(markers_of(&read(&before)).count(), 0);
}

#[test]
fn given_a_selector_without_conditions_then_it_chooses_nothing() {
    let mut world = World::new(&json!([exec("idle")])).with(&[pod("a", "n1")]);
    world.edit(|marker| marker["spec"]["selector"] = json!({}));
    world.run();
    assert_eq!(world.brief("n1"), [""; 0]);
}
