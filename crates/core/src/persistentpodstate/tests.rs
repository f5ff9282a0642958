//! PersistentPodStates in a model of a cluster.

mod recording;

use kruise_api::kind::Kind as _;
use kruise_api::meta::PartialObject;
use kruise_api::names::annotation;
use kruise_api::statefulset::v1beta1::ReservedOrdinals;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::plan::Observation as _;
use crate::plan::harness::Cluster;
use crate::plan::why::Why;

const SET: &str = "uid-web";

/// A namespace with a StatefulSet `web` of ours.
#[derive(Clone)]
struct World {
    cluster: Cluster,
    replicas: i32,
    reserved: Vec<ReservedOrdinals>,
    annotations: Value,
    is_there: bool,
    /// Annotations of Pods, as read.
    read: BTreeMap<String, BTreeMap<String, String>>,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            cluster: Cluster::at("2026-05-01T10:00:00Z".parse().unwrap()),
            replicas: 3,
            reserved: Vec::new(),
            annotations: json!({}),
            is_there: true,
            read: BTreeMap::new(),
        };
        for number in 1..4 {
            let labels = json!({"zone": format!("z{number}"), "host": format!("n{number}")});
            world.cluster.put(
                Node::RESOURCE,
                json!({"metadata": {"name": format!("n{number}"), "labels": labels}}),
            );
        }
        world
    }

    fn with(spec: &Value) -> Self {
        let mut world = Self::new();
        let mut full =
            json!({"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "StatefulSet", "name": "web"}});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let state = json!({"metadata": {"name": "web", "namespace": "shop", "generation": 1}, "spec": full});
        world.cluster.put(PersistentPodState::RESOURCE, state);
        world
    }

    fn pod(&mut self, ordinal: i32, node: &str, is_ready: bool) {
        let owner = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web", "uid": SET, "controller": true}]);
        let status = if is_ready { "True" } else { "False" };
        self.cluster.put(
            Pod::RESOURCE,
            json!({
                "metadata": {"name": format!("web-{ordinal}"), "namespace": "shop", "ownerReferences": owner},
                "spec": {"nodeName": node, "containers": []},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
            }),
        );
    }

    fn remove(&mut self, ordinal: i32) {
        self.cluster.objects.remove(&(Pod::RESOURCE, format!("web-{ordinal}")));
    }

    fn workload(&self) -> Option<Workload> {
        let meta: PartialObject =
            serde_json::from_value(json!({"metadata": {"annotations": self.annotations}})).unwrap();
        self.is_there.then(|| Workload {
            reference: WorkloadRef::new("apps.kruise.io/v1beta1", "StatefulSet", "web"),
            uid: SET.to_owned(),
            is_deleting: false,
            ordinals: Some(Ordinals::new(0, self.replicas, &self.reserved)),
            wish: Wish::of(&meta.metadata),
        })
    }

    fn observe(&self) -> Observed {
        let read = |object: &Value| serde_json::from_value(object.clone()).unwrap();
        let state = self.cluster.get(PersistentPodState::RESOURCE, "web");
        Observed {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            state: state.map(|state| Arc::new(serde_json::from_value(state.clone()).unwrap())),
            namesakes: self.workload().into_iter().collect(),
            target: Ok(self.workload()),
            pods: self
                .cluster
                .all(Pod::RESOURCE)
                .map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap()))
                .collect(),
            nodes: self
                .cluster
                .all(Node::RESOURCE)
                .map(|node| {
                    let node: Node = read(node);
                    (node.metadata.name.to_string(), Arc::new(node))
                })
                .collect(),
            annotations: self.read.clone(),
            last: Outcome::default(),
        }
    }

    fn plan(&self) -> Plan {
        self.observe().plan(&Env::at(self.cluster.now))
    }

    fn round(&mut self) -> Plan {
        let plan = self.plan();
        assert_eq!(self.cluster.apply(&plan, usize::MAX).failures, [], "{plan:#?}");
        plan
    }

    fn states(&self) -> Value {
        self.state()["status"]["podStates"].clone()
    }

    fn state(&self) -> &Value {
        self.cluster.get(PersistentPodState::RESOURCE, "web").unwrap()
    }

    fn names(&self) -> Vec<String> {
        self.states()
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn annotate(&mut self, changes: &Value) {
        kruise_api::merge_patch::merge(&mut self.annotations, changes);
    }
}

fn required() -> Value {
    json!({"requiredPersistentTopology": {"keys": ["zone", "rack"]}})
}

#[test]
fn given_ready_pods_then_their_topology_is_remembered_beyond_them() {
    let mut world = World::with(&json!({
        "requiredPersistentTopology": {"keys": ["zone", "rack"]},
        "preferredPersistentTopology": [{"weight": 50, "preference": {"keys": ["host"]}}],
    }));
    world.pod(0, "n1", true);
    world.pod(1, "n2", false);
    let plan = world.round();
    assert!(plan.why.contains(&Why::Topology(why::Topology::NotReady {
        pods: ["web-1"].into_iter().collect()
    })));
    let one = json!({"nodeName": "n1", "nodeTopologyLabels": {"host": "n1", "zone": "z1"}});
    assert_eq!(world.states(), json!({"web-0": one}));
    assert_eq!(world.state()["status"]["observedGeneration"], 1);
    assert!(world.round().is_idle());

    world.remove(0);
    assert!(world.round().is_idle(), "a Pod that is gone keeps its record");
    world.pod(0, "n2", false);
    assert!(world.round().is_idle());
    world.pod(0, "n2", true);
    world.round();
    assert_eq!(world.states()["web-0"]["nodeTopologyLabels"]["zone"], "z2");
    world.cluster.objects.remove(&(Node::RESOURCE, "n3".to_owned()));
    world.pod(0, "n3", true);
    let plan = world.round();
    assert_eq!(plan.wake_after, Some(AGAIN));
    assert_eq!(
        world.states()["web-0"]["nodeName"],
        "n2",
        "a node that is not known is no reason to forget"
    );
}

#[test]
fn given_scaling_then_records_go_with_their_pods_unless_they_are_kept() {
    for (policy, after) in [
        ("WhenScaled", vec!["web-0", "web-1"]),
        ("WhenDeleted", vec!["web-0", "web-1", "web-2"]),
    ] {
        let mut spec = required();
        spec["persistentPodStateRetentionPolicy"] = json!(policy);
        let mut world = World::with(&spec);
        for ordinal in 0..3 {
            world.pod(ordinal, "n1", true);
        }
        world.round();
        world.replicas = 2;
        assert!(world.round().is_idle(), "{policy}: the Pod is still there");
        world.cluster.edit(Pod::RESOURCE, "web-2", |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
        });
        world.round();
        assert_eq!(world.names(), after, "{policy}");
        world.replicas = 0;
        world.round();
        assert_eq!(world.names().len(), if policy == "WhenDeleted" { 3 } else { 0 });
        world.is_there = false;
        let plan = world.round();
        assert_eq!(plan.why, [why::Topology::TargetMissing.into()]);
        assert_eq!(world.names(), Vec::<String>::new());
        assert!(world.round().is_idle());
    }
}

#[test]
fn given_reserved_ordinals_then_those_behind_them_count() {
    let mut world = World::with(&required());
    world.reserved = vec![ReservedOrdinals::from(1)];
    for ordinal in [0, 1, 2, 3] {
        world.pod(ordinal, "n1", true);
    }
    world.round();
    for ordinal in [0, 1, 2, 3] {
        world.remove(ordinal);
    }
    world.round();
    assert_eq!(world.names(), ["web-0", "web-2", "web-3"]);
}

#[test]
fn given_annotations_to_remember_then_they_are_read_once() {
    let mut spec = required();
    spec["persistentPodAnnotations"] = json!([{"key": "ip"}, {"key": "missing"}]);
    let mut world = World::with(&spec);
    world.pod(0, "n1", true);
    world.pod(1, "n1", false);
    let to_read = |world: &World| {
        let observed = world.observe();
        let state = observed.state.clone().unwrap();
        record::to_read(&state, &observed.pods)
            .map(|pod| pod.metadata.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(to_read(&world), ["web-0"]);
    let plan = world.round();
    assert!(plan.why.contains(&Why::Topology(why::Topology::NodesUnknown {
        pods: ["web-0"].into_iter().collect()
    })));
    assert_eq!(world.names(), Vec::<String>::new());
    world.read = [(
        "web-0".to_owned(),
        [
            ("ip".to_owned(), "10.0.0.1".to_owned()),
            ("x".to_owned(), String::new()),
        ]
        .into(),
    )]
    .into();
    world.round();
    assert_eq!(world.states()["web-0"]["annotations"], json!({"ip": "10.0.0.1"}));
    assert!(world.round().is_idle());
    let plan = {
        let mut observed = world.observe();
        observed.target = Err("no right".to_owned());
        observed.plan(&Env::at(world.cluster.now))
    };
    assert!(plan.is_idle());
    assert_eq!(
        plan.why,
        [why::Topology::TargetUnknown {
            message: "no right".to_owned()
        }
        .into()]
    );
}

#[test]
fn given_annotations_of_the_workload_then_one_is_made_follows_and_goes() {
    let mut world = World::new();
    world.annotate(&json!({(annotation::AUTO_PERSISTENT_POD_STATE): "true"}));
    assert!(world.round().is_idle(), "there is nothing to remember");
    world.annotate(&json!({
        (annotation::REQUIRED_TOPOLOGY): "zone", (annotation::PREFERRED_TOPOLOGY): "host, rack", (annotation::PERSISTENT_POD_ANNOTATIONS): "ip",
    }));
    world.round();
    let made = world.state().clone();
    assert_eq!(
        made["spec"],
        json!({
            "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"},
            "persistentPodAnnotations": [{"key": "ip"}], "requiredPersistentTopology": {"keys": ["zone"]},
            "preferredPersistentTopology": [{"weight": 100, "preference": {"keys": ["host", "rack"]}}],
        })
    );
    assert_eq!(
        made["metadata"]["ownerReferences"],
        json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web", "uid": SET, "controller": true}])
    );
    world.round();
    assert!(world.round().is_idle());

    world.annotate(&json!({(annotation::PREFERRED_TOPOLOGY): null, (annotation::PERSISTENT_POD_ANNOTATIONS): null}));
    world.round();
    assert_eq!(world.state()["spec"].get("preferredPersistentTopology"), None);
    assert_eq!(world.state()["spec"].get("persistentPodAnnotations"), None);
    world.round();
    // As an older release wrote it.
    world.cluster.edit(PersistentPodState::RESOURCE, "web", |state| {
        state["spec"]["targetRef"]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    });
    assert!(
        world.round().is_idle(),
        "the version does not matter, and cannot be changed"
    );

    world.annotate(&json!({(annotation::AUTO_PERSISTENT_POD_STATE): "false"}));
    world.round();
    assert!(world.cluster.get(PersistentPodState::RESOURCE, "web").is_none());
    assert!(world.round().is_idle());
}

#[test]
fn given_one_made_by_hand_then_it_is_not_deleted_nor_turned_to_another_workload() {
    let mut world = World::with(&required());
    world.round();
    assert!(world.round().is_idle(), "no annotation, and not the workload's own");
    world.cluster.edit(PersistentPodState::RESOURCE, "web", |state| {
        state["spec"]["targetRef"]["name"] = json!("db");
    });
    world.annotate(&json!({(annotation::AUTO_PERSISTENT_POD_STATE): "true", (annotation::REQUIRED_TOPOLOGY): "zone"}));
    let plan = world.plan();
    assert!(plan.why.contains(&Why::Topology(why::Topology::NameTaken)), "{plan:?}");
    assert_eq!(plan.writes().count(), 0);
}

#[test]
fn given_what_the_original_wrote_then_it_is_taken_over_as_it_is() {
    let mut world = World::new();
    world.replicas = 2;
    world.annotate(&json!({
        (annotation::AUTO_PERSISTENT_POD_STATE): "true", (annotation::REQUIRED_TOPOLOGY): "kubernetes.io/os",
        (annotation::PREFERRED_TOPOLOGY): "kubernetes.io/hostname,kubernetes.io/arch",
        (annotation::PERSISTENT_POD_ANNOTATIONS): "example.com/mark",
    }));
    let labels = json!({"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux"});
    let record = json!({"annotations": {"example.com/mark": "m1"}, "nodeName": "n1", "nodeTopologyLabels": labels});
    let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "controller": true, "kind": "StatefulSet", "name": "web", "uid": SET});
    let stored = json!({
        "metadata": {"name": "web", "namespace": "shop", "generation": 1, "ownerReferences": [owner]},
        "spec": {
            "persistentPodAnnotations": [{"key": "example.com/mark"}],
            "preferredPersistentTopology": [{"preference": {"keys": ["kubernetes.io/hostname", "kubernetes.io/arch"]}, "weight": 100}],
            "requiredPersistentTopology": {"keys": ["kubernetes.io/os"]},
            "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"},
        },
        "status": {"observedGeneration": 1, "podStates": {"web-0": record, "web-1": record}},
    });
    world.cluster.put(PersistentPodState::RESOURCE, stored.clone());
    world.pod(0, "n1", true);
    world.pod(1, "n1", true);
    assert!(world.round().is_idle());
    // And made anew it would be the same.
    world
        .cluster
        .objects
        .remove(&(PersistentPodState::RESOURCE, "web".to_owned()));
    world.round();
    assert_eq!(world.state()["spec"], stored["spec"]);
    assert_eq!(
        world.state()["metadata"]["ownerReferences"],
        stored["metadata"]["ownerReferences"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn given_anything_that_happens_then_records_are_about_ready_pods_and_there_is_an_end(
        changes in prop::collection::vec((0..7_u8, 0..5_i32, 1..4_usize), 0..16)
    ) {
        let mut world = World::with(&json!({"requiredPersistentTopology": {"keys": ["zone"]}}));
        let mut was_ready: Vec<(String, String)> = Vec::new();
        for (what, ordinal, number) in changes {
            let node = format!("n{number}");
            match what {
                0 => {
                    world.pod(ordinal, &node, true);
                    was_ready.push((format!("web-{ordinal}"), node));
                }
                1 => world.pod(ordinal, &node, false),
                2 => world.remove(ordinal),
                3 => world.replicas = ordinal,
                4 => drop(world.round()),
                5 => {
                    // A crash before or after the only write.
                    let plan = world.plan();
                    world.cluster.apply(&plan, number % 2);
                }
                _ => world.is_there = number > 1,
            }
            prop_assert_eq!(world.plan(), world.plan());
        }
        world.round();
        prop_assert!(world.round().is_idle());
        for (name, record) in world.states().as_object().into_iter().flatten() {
            let node = record["nodeName"].as_str().unwrap().to_owned();
            prop_assert!(was_ready.contains(&(name.clone(), node)), "{} was never ready there", name);
        }
        if !world.is_there {
            prop_assert_eq!(world.names(), Vec::<String>::new());
        }
    }
}
