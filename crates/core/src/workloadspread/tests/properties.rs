//! Whatever Pods and status there are: no panic, the same plan twice, and an end, wherever it is cut off.

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use proptest::prelude::*;

use super::*;
use crate::plan::harness::{Cluster, name_of};

fn any_pod() -> impl Strategy<Value = PodBuilder> {
    let subset = prop_oneof![Just("a"), Just("b"), Just("gone"), Just("")];
    let node = prop_oneof![Just("node1"), Just("node2"), Just("node3"), Just("")];
    let phase = prop_oneof![Just("Running"), Just("Pending"), Just("Failed")];
    (0..40_u8, subset, node, phase, any::<bool>(), 0..3600_i64).prop_map(
        |(number, subset, node, phase, is_going, age)| {
            let made = at("10:00:00") - jiff::SignedDuration::from_secs(age);
            let mut pod = in_subset(&format!("p{number}"), subset)
                .set("/spec/nodeName", json!(node))
                .set("/status/phase", json!(phase))
                .set("/metadata/creationTimestamp", json!(made.to_string()));
            if subset.is_empty() {
                pod = pod.set("/metadata/annotations", json!({}));
            }
            if node.is_empty() {
                let condition = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
                pod = pod.set("/status/conditions", condition);
            }
            if is_going {
                pod = pod.set("/metadata/deletionTimestamp", json!("2024-05-01T10:00:00Z"));
            }
            pod
        },
    )
}

fn any_status() -> impl Strategy<Value = Value> {
    let times = || {
        prop::collection::btree_map("p[0-9]{1,2}", 0..60_i64, 0..4).prop_map(|ages| {
            let time = |age: i64| (at("10:00:00") - jiff::SignedDuration::from_secs(age)).to_string();
            json!(
                ages.into_iter()
                    .map(|(name, age)| (name, time(age)))
                    .collect::<BTreeMap<_, _>>()
            )
        })
    };
    let refused = prop_oneof![
        Just(json!([])),
        Just(
            json!([{"type": "Schedulable", "status": "False", "reason": "PodUnschedulable", "message": "", "lastTransitionTime": "2024-05-01T09:57:00Z"}])
        ),
    ];
    (times(), times(), -1..4_i32, refused).prop_map(|(creating, deleting, missing, refused)| {
        let first = json!({"name": "a", "replicas": 1, "missingReplicas": missing, "creatingPods": creating, "deletingPods": deleting, "conditions": refused});
        json!({"subsetStatuses": [first], "versionedSubsetStatuses": {"versionIgnored": [first], "old": [first, first]}})
    })
}

/// The world: a spread and Pods, kept as an API server would.
struct World {
    cluster: Cluster,
    is_adaptive: bool,
}

impl World {
    fn new(pods: &[PodBuilder], status: &Value, is_adaptive: bool) -> Self {
        let mut cluster = Cluster::at(at("10:00:00"));
        let spread = if is_adaptive {
            adaptive(status.clone())
        } else {
            spread("CloneSet", two_subsets(), status.clone())
        };
        cluster.put(WorkloadSpread::RESOURCE, serde_json::to_value(&spread).unwrap());
        for (number, pod) in pods.iter().enumerate() {
            let pod = pod.clone().set("/metadata/uid", json!(format!("u{number}")));
            cluster.put(Pod::RESOURCE, pod.json());
        }
        Self { cluster, is_adaptive }
    }

    fn observe(&self) -> Observed {
        let spread = self.cluster.get(WorkloadSpread::RESOURCE, "spread").unwrap();
        let spread = serde_json::from_value(spread.clone()).unwrap();
        let mut seen = observed(spread, &[]);
        let pods = self.cluster.all(Pod::RESOURCE);
        seen.pods = pods
            .map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap()))
            .collect();
        seen
    }

    fn round(&mut self, writes: usize) -> Plan {
        let env = Env::at(self.cluster.now);
        let plan = self.observe().plan(&env);
        assert_eq!(plan, self.observe().plan(&env), "the same twice");
        self.cluster.apply(&plan, writes);
        let status = &plan.status;
        if let Some(Action::Patch { patch, .. }) = status.as_ref().filter(|_| writes == usize::MAX) {
            let written = self.cluster.get(WorkloadSpread::RESOURCE, "spread").unwrap();
            assert!(written["status"].is_object(), "{patch:?}");
        }
        plan
    }

    /// Lets go what is on its way out.
    fn clear(&mut self) {
        let going = self
            .cluster
            .all(Pod::RESOURCE)
            .filter(|pod| pod["metadata"].get("deletionTimestamp").is_some());
        let names: Vec<String> = going.map(name_of).collect();
        for name in names {
            self.cluster.objects.remove(&(Pod::RESOURCE, name));
        }
    }

    /// Runs until nothing is written, over all that time alone changes.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..60 {
            let plan = self.round(usize::MAX);
            self.clear();
            if plan.is_idle() {
                match plan.wake_after {
                    None => return Ok(()),
                    Some(after) => self.cluster.pass(i64::try_from(after.as_secs()).unwrap().max(1)),
                }
            }
        }
        Err(TestCaseError::fail(format!(
            "no end: {:?}",
            self.observe().plan(&Env::at(self.cluster.now))
        )))
    }

    fn state(&self) -> Value {
        let pods: Vec<Value> = self
            .cluster
            .all(Pod::RESOURCE)
            .map(|pod| {
                json!([
                    pod["metadata"]["name"],
                    pod["metadata"]["annotations"],
                    pod["metadata"]["labels"]
                ])
            })
            .collect();
        let spread = self.cluster.get(WorkloadSpread::RESOURCE, "spread").unwrap();
        let rooms: Vec<_> = spread["status"]["subsetStatuses"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|status| (status["replicas"].clone(), status["missingReplicas"].clone()))
            .collect();
        json!([pods, rooms])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn given_anything_then_there_is_an_end_and_it_is_the_same_after_a_crash(
        pods in prop::collection::vec(any_pod(), 0..8), status in any_status(), is_adaptive in any::<bool>(), cut in 0..6_usize,
    ) {
        let mut world = World::new(&pods, &status, is_adaptive);
        prop_assert_eq!(world.is_adaptive, is_adaptive);
        world.settle()?;
        let mut crashed = World::new(&pods, &status, is_adaptive);
        crashed.round(cut);
        crashed.clear();
        crashed.settle()?;
        prop_assert_eq!(world.state(), crashed.state());
    }

    #[test]
    fn given_anything_then_a_pod_is_placed_without_a_panic_and_never_beyond_the_limit(status in any_status(), name in "p[0-9]{0,2}|") {
        let known = spread("CloneSet", two_subsets(), status);
        if let Answer::Take(entry) = place(&known, &ask(&name), "uuid", None, at("10:00:00")).unwrap() {
            let list = &entry.written(None).versioned_subset_statuses[VERSION_IGNORED];
            prop_assert!(list[0].missing_replicas >= 0);
            let key = if name.is_empty() { "uuid" } else { &name };
            prop_assert!(list[0].creating_pods.contains_key(key));
        }
    }
}
