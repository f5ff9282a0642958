//! The life of a NodePodProbe, and what its results leave on Pods.

use super::*;
use crate::plan::Observation as _;
use crate::plan::harness::Cluster;
use proptest::prelude::*;
use serde_json::Value;

struct World {
    cluster: Cluster,
    written: Written,
    last: Outcome,
}

fn node(labels: &Value, ready: &str) -> Value {
    json!({"metadata": {"name": "n", "labels": labels}, "status": {"conditions": [
        {"type": "Ready", "status": ready, "lastTransitionTime": "2026-05-01T10:00:00Z"},
    ]}})
}

fn marker(name: &str, probes: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "probes": probes}})
}

fn probe(name: &str, condition: &str, policies: &Value) -> Value {
    json!({"name": name, "containerName": "main", "probe": {}, "podConditionType": condition, "markerPolicy": policies})
}

/// A result, seen first and last at this second.
fn state(name: &str, state: &str, message: &str, second: u8) -> Value {
    let time = format!("2026-05-01T10:00:{second:02}Z");
    json!({"name": name, "state": state, "message": message, "lastProbeTime": time, "lastTransitionTime": time})
}

impl World {
    /// A ready node with a Pod `p` that is probed by `game#idle`.
    fn new(markers: &[Value]) -> Self {
        let mut cluster = Cluster::at("2026-05-01T10:00:00Z".parse().unwrap());
        cluster.put(Node::RESOURCE, node(&json!({}), "True"));
        for marker in markers {
            cluster.put(PodProbeMarker::RESOURCE, marker.clone());
        }
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        cluster.put(Pod::RESOURCE, pod);
        let entry = json!({"name": "p", "namespace": "ns", "uid": "u", "IP": "", "probes": [
            {"name": "game#idle", "containerName": "main", "probe": {}}]});
        cluster.put(
            CachedNodePodProbe::RESOURCE,
            json!({"metadata": {"name": "n"}, "spec": {"podProbes": [entry]}}),
        );
        Self {
            cluster,
            written: Written::default(),
            last: Outcome::default(),
        }
    }

    fn observe(&self) -> Observed {
        fn read<K: serde::de::DeserializeOwned>(object: &Value) -> Arc<K> {
            Arc::new(serde_json::from_value(object.clone()).unwrap())
        }
        let list: Option<Arc<CachedNodePodProbe>> = self.cluster.get(CachedNodePodProbe::RESOURCE, "n").map(read);
        let named = list.as_deref().map(pods_named).unwrap_or_default();
        let ours = |(namespace, _): &(String, String)| namespace == "ns";
        let pods = named.into_iter().filter(ours).filter_map(|(namespace, name)| {
            let pod = self.cluster.get(Pod::RESOURCE, &name)?;
            Some(((namespace, name), read(pod)))
        });
        let named = list.as_deref().map(markers_named).unwrap_or_default();
        let markers = named.into_iter().filter(ours).filter_map(|(namespace, name)| {
            let marker = self.cluster.get(PodProbeMarker::RESOURCE, &name)?;
            Some(((namespace, name), read(marker)))
        });
        Observed {
            name: "n".to_owned(),
            node: self.cluster.get(Node::RESOURCE, "n").map(read),
            pods: pods.collect(),
            markers: markers.collect(),
            written: self.written.clone(),
            last: self.last.clone(),
            list,
        }
    }

    fn plan(&self) -> Plan {
        self.observe().plan(&Env::at(self.cluster.now))
    }

    fn round_of(&mut self, writes: usize) -> Plan {
        let plan = self.plan();
        self.last = self.cluster.apply(&plan, writes);
        if writes == usize::MAX {
            self.written.remember(&plan, &self.last.failures);
        }
        plan
    }

    fn run(&mut self) {
        for _ in 0..5 {
            if self.round_of(usize::MAX).is_idle() {
                return;
            }
        }
        panic!("no end: {:#?}", self.plan());
    }

    fn report(&mut self, states: &Value) {
        self.report_on(&json!([{"name": "p", "namespace": "ns", "uid": "u", "probeStates": states}]));
    }

    fn report_on(&mut self, statuses: &Value) {
        self.cluster.edit(CachedNodePodProbe::RESOURCE, "n", |list| {
            list["status"] = json!({ "podProbeStatuses": statuses });
        });
        self.run();
    }

    fn pod(&self) -> Value {
        self.cluster.get(Pod::RESOURCE, "p").cloned().unwrap_or_default()
    }

    fn labels(&self) -> Value {
        self.pod()["metadata"]["labels"].clone()
    }

    /// A condition without its type.
    fn condition(&self, type_: &str) -> Value {
        let pod = self.pod();
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|condition| condition["type"] == type_);
        let mut found = found.cloned().unwrap_or_default();
        if let Some(fields) = found.as_object_mut() {
            fields.remove("type");
        }
        found
    }
}

#[test]
fn given_a_node_then_its_list_comes_when_it_is_ready_and_goes_with_it() {
    let mut world = World::new(&[]);
    world
        .cluster
        .objects
        .remove(&(CachedNodePodProbe::RESOURCE, "n".to_owned()));
    for (labels, ready) in [(json!({}), "False"), (json!({"type": "virtual-kubelet"}), "True")] {
        world.cluster.put(Node::RESOURCE, node(&labels, ready));
        assert!(world.plan().is_idle(), "{labels} {ready}");
    }
    world.cluster.put(Node::RESOURCE, node(&json!({}), "True"));
    world.run();
    assert_eq!(
        world.cluster.get(CachedNodePodProbe::RESOURCE, "n").unwrap()["spec"],
        json!({})
    );
    // A node that is not ready for a while keeps it.
    world.cluster.put(Node::RESOURCE, node(&json!({}), "False"));
    assert!(world.plan().is_idle());
    world.cluster.edit(Node::RESOURCE, "n", |node| {
        node["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
    });
    world.run();
    assert!(world.cluster.get(CachedNodePodProbe::RESOURCE, "n").is_none());
}

#[test]
fn given_pods_that_are_gone_have_ended_or_were_made_anew_then_their_entries_go() {
    for change in ["gone", "ended", "leaving", "anew"] {
        let mut world = World::new(&[]);
        world.run();
        match change {
            "gone" => drop(world.cluster.objects.remove(&(Pod::RESOURCE, "p".to_owned()))),
            "ended" => world
                .cluster
                .edit(Pod::RESOURCE, "p", |pod| pod["status"]["phase"] = json!("Failed")),
            "leaving" => world.cluster.delete(Pod::RESOURCE, "p"),
            _ => world
                .cluster
                .edit(Pod::RESOURCE, "p", |pod| pod["metadata"]["uid"] = json!("other")),
        }
        world.run();
        let list = world.cluster.get(CachedNodePodProbe::RESOURCE, "n").unwrap();
        assert_eq!(list["spec"]["podProbes"], json!([]), "{change}");
    }
}

#[test]
fn given_results_then_conditions_and_labels_follow_in_one_write() {
    let policies = json!([{"state": "Succeeded", "labels": {"idle": "true"}}]);
    let mut world = World::new(&[marker("game", &json!([probe("idle", "x/idle", &policies)]))]);
    assert_eq!(
        world.plan().why.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["The daemon of the node has not reported on all probes of p."]
    );
    let before = world.cluster.writes;
    world.report(&json!([state("game#idle", "Succeeded", "yes", 1)]));
    assert_eq!(world.cluster.writes, before + 1);
    assert_eq!(world.labels(), json!({"idle": "true"}));
    let time = |second: u8| format!("2026-05-01T10:00:{second:02}Z");
    assert_eq!(
        world.condition("x/idle"),
        json!({"status": "True", "message": "yes", "lastProbeTime": time(1), "lastTransitionTime": time(1)})
    );
    assert_eq!(world.plan().why, []);
    // Only the time is new.
    world.report(&json!([state("game#idle", "Succeeded", "yes", 2)]));
    assert_eq!(world.cluster.writes, before + 1);
    // Only the message is new.
    let mut later = state("game#idle", "Succeeded", "still", 3);
    later["lastTransitionTime"] = json!(time(1));
    world.report(&json!([later]));
    let condition = world.condition("x/idle");
    assert_eq!(
        (&condition["message"], &condition["lastTransitionTime"]),
        (&json!("still"), &json!(time(1)))
    );
    world.report(&json!([state("game#idle", "Failed", "", 4)]));
    assert_eq!(
        world.condition("x/idle"),
        json!({"status": "False", "lastProbeTime": time(4), "lastTransitionTime": time(4)})
    );
    assert_eq!(world.labels(), json!({}));
    world.report(&json!([state("game#idle", "Unknown", "", 5)]));
    assert_eq!(world.condition("x/idle")["status"], "False");
}

#[test]
fn given_two_policies_with_one_key_then_it_flips_and_never_goes_before_the_outcome_is_unknown() {
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    let policies = json!([
        {"state": "Succeeded", "annotations": {cost: "-10"}, "labels": {"idle": "true"}},
        {"state": "Failed", "annotations": {cost: "10"}, "labels": {"idle": "false"}},
    ]);
    let mut world = World::new(&[marker("game", &json!([probe("idle", "", &policies)]))]);
    for (found, shown, label) in [
        ("Failed", "10", "false"),
        ("Succeeded", "-10", "true"),
        ("Failed", "10", "false"),
    ] {
        world.report(&json!([state("game#idle", found, "", 1)]));
        assert_eq!(world.pod()["metadata"]["annotations"][cost], shown);
        assert_eq!(world.labels()["idle"], label);
    }
    world.report(&json!([state("game#idle", "Unknown", "", 2)]));
    assert_eq!(
        (world.labels(), world.pod()["metadata"]["annotations"].clone()),
        (json!({}), json!({}))
    );
    assert!(world.condition("").is_null(), "a probe without a condition sets none");
}

#[test]
fn given_two_probes_with_one_condition_then_the_first_counts() {
    let mut world = World::new(&[
        marker("game", &json!([probe("idle", "x/same", &json!([]))])),
        marker("other", &json!([probe("idle", "x/same", &json!([]))])),
    ]);
    world.report(&json!([
        state("game#idle", "Failed", "", 1),
        state("other#idle", "Succeeded", "", 1),
    ]));
    assert_eq!(world.condition("x/same")["status"], "False");
}

#[test]
fn given_results_that_are_nobodys_then_they_are_passed_over() {
    let mut leaving = marker("leaving", &json!([probe("idle", "x/leaving", &json!([]))]));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
    let mut world = World::new(&[marker("game", &json!([probe("idle", "x/idle", &json!([]))])), leaving]);
    let before = world.cluster.writes;
    world.report(&json!([
        state("game#idle", "", "", 1),
        state("game#dropped", "Failed", "", 1),
        state("gone#idle", "Failed", "", 1),
        state("leaving#idle", "Failed", "", 1),
        state("odd", "Failed", "", 1),
    ]));
    world.report_on(&json!([
        {"name": "p", "namespace": "ns", "uid": "earlier", "probeStates": [state("game#idle", "Failed", "", 1)]},
        {"name": "q", "namespace": "ns", "uid": "q", "probeStates": [state("game#idle", "Failed", "", 1)]},
        {"name": "p", "namespace": "elsewhere", "uid": "u", "probeStates": [state("game#idle", "Failed", "", 1)]},
    ]));
    assert_eq!(world.cluster.writes, before);
}

#[test]
fn given_an_annotation_that_the_cache_does_not_keep_then_it_is_written_once_and_once_more_after_a_restart() {
    let policies = json!([{"state": "Succeeded", "annotations": {"example.com/idle": "yes"}}]);
    let mut world = World::new(&[marker("game", &json!([probe("idle", "", &policies)]))]);
    let before = world.cluster.writes;
    world.report(&json!([state("game#idle", "Succeeded", "", 1)]));
    world.report(&json!([state("game#idle", "Succeeded", "", 2)]));
    assert_eq!(world.cluster.writes, before + 1);
    world.written = Written::default();
    world.run();
    assert_eq!(world.cluster.writes, before + 2);
    world.report(&json!([state("game#idle", "Failed", "", 3)]));
    assert_eq!(world.pod()["metadata"]["annotations"], json!({}));
}

#[test]
fn given_a_list_then_what_it_names_is_found() {
    let world = World::new(&[]);
    let list = world.observe().list.unwrap();
    let pair = |name: &str| ("ns".to_owned(), name.to_owned());
    assert_eq!(pods_named(&list), BTreeSet::from([pair("p")]));
    assert_eq!(markers_named(&list), BTreeSet::from([pair("game")]));
    let pod: Pod = serde_json::from_value(world.pod()).unwrap();
    assert!(lists(&list, &pod));
    assert!(!lists(&list, &Pod::default()));
}

fn any_states() -> impl Strategy<Value = Vec<(usize, &'static str, &'static str)>> {
    let found = prop::sample::select(vec!["Succeeded", "Failed", "Unknown", "", "Odd"]);
    let message = prop::sample::select(vec!["", "a", "b"]);
    proptest::collection::vec((0..4_usize, found, message), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_reported_there_is_an_end_and_a_crash_changes_nothing(
        reports in proptest::collection::vec(any_states(), 1..5), crash in 0..3_usize,
    ) {
        let names = ["game#idle", "game#busy", "other#idle", "gone#x"];
        let policies = json!([
            {"state": "Succeeded", "labels": {"a": "1"}, "annotations": {"example.com/a": "1"}}, {"state": "Failed", "labels": {"b": "1"}},
        ]);
        let new = || World::new(&[
            marker("game", &json!([probe("idle", "x/idle", &policies), probe("busy", "x/same", &json!([]))])),
            marker("other", &json!([probe("idle", "x/same", &policies)])),
        ]);
        let (mut straight, mut crashing) = (new(), new());
        for report in &reports {
            let states: Vec<Value> = report.iter().map(|(place, found, message)| state(names[*place], found, message, 1)).collect();
            straight.report(&json!(states));
            crashing.cluster.edit(CachedNodePodProbe::RESOURCE, "n", |list| {
                list["status"] = json!({"podProbeStatuses": [{"name": "p", "namespace": "ns", "uid": "u", "probeStates": states}]});
            });
            crashing.round_of(crash);
            // What was remembered is lost as well.
            crashing.written = Written::default();
            crashing.last = Outcome::default();
            crashing.run();
        }
        let shown = |world: &World| {
            let mut pod = world.pod();
            pod["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            pod
        };
        prop_assert_eq!(shown(&straight), shown(&crashing));
        prop_assert_eq!(straight.plan(), straight.plan());
        prop_assert!(straight.plan().is_idle());
    }
}
