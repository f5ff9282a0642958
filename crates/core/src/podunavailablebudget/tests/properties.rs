//! Whatever Pods and status there are: no panic, the same plan twice, an end wherever it is cut off, and no place lost to an old picture.

use std::collections::BTreeMap;

use kruise_api::kind::Kind as _;
use proptest::prelude::*;

use super::*;
use crate::plan::harness::{Cluster, name_of};

fn ago(seconds: i64) -> Value {
    json!((at("10:00:00") - jiff::SignedDuration::from_secs(seconds)).to_string())
}

fn any_pod() -> impl Strategy<Value = PodBuilder> {
    let budget = prop_oneof![Just("web"), Just("other"), Just("")];
    let phase = prop_oneof![Just("Running"), Just("Running"), Just("Pending"), Just("Succeeded")];
    (0..6_u8, budget, phase, any::<bool>(), any::<bool>(), 0..40_i64).prop_map(
        |(number, budget, phase, is_ready, is_going, age)| {
            let mut pod = running_pod(&format!("p{number}"))
                .set("/status/phase", json!(phase))
                .set("/metadata/creationTimestamp", ago(age));
            if is_ready {
                pod = pod.ready();
            }
            if !budget.is_empty() {
                pod = pod.annotation(annotation::RELATED_BUDGET, budget);
            }
            if is_going {
                pod = pod.set("/metadata/deletionTimestamp", ago(0));
            }
            pod
        },
    )
}

fn any_status() -> impl Strategy<Value = Value> {
    let places = || {
        prop::collection::btree_map("p[0-7]", 0..40_i64, 0..4).prop_map(|ages| {
            ages.into_iter()
                .map(|(name, age)| (name, ago(age)))
                .collect::<BTreeMap<_, _>>()
        })
    };
    (places(), places(), -1..4_i32, 0..4_i32).prop_map(|(disrupted, updated, allowed, desired)| {
        let mut all = status(allowed, desired);
        all["disruptedPods"] = json!(disrupted);
        all["unavailablePods"] = json!(updated);
        all
    })
}

fn any_spec() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..4_i32).prop_map(|max| json!({"maxUnavailable": max})),
        (0..=100_u8).prop_map(|share| json!({"maxUnavailable": format!("{share}%")})),
        (0..4_i32).prop_map(|min| json!({"minAvailable": min})),
        (1..9_i32).prop_map(|total| json!({"minAvailable": "50%", "protectTotalReplicas": total})),
    ]
}

/// A budget and its Pods, kept as an API server would.
struct World {
    cluster: Cluster,
    expected: i32,
}

impl World {
    fn new(pods: &[PodBuilder], spec: &Value, status: &Value, expected: i32) -> Self {
        let mut cluster = Cluster::at(at("10:00:00"));
        let budget = budget(spec.clone(), status.clone());
        cluster.put(PodUnavailableBudget::RESOURCE, json!(budget));
        for pod in pods {
            cluster.put(Pod::RESOURCE, pod.clone().json());
        }
        Self { cluster, expected }
    }

    fn observe(&self) -> Observed {
        let budget = self.cluster.get(PodUnavailableBudget::RESOURCE, "web").unwrap();
        let pods = self.cluster.all(Pod::RESOURCE);
        Observed {
            budget: Arc::new(serde_json::from_value(budget.clone()).unwrap()),
            pods: pods
                .map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap()))
                .collect(),
            expected: Ok(self.expected),
            leaving: BTreeSet::new(),
            last_written: None,
        }
    }

    fn plan(&self) -> Plan {
        let env = Env::at(self.cluster.now);
        let plan = plan(&self.observe(), &env);
        assert_eq!(plan, super::plan(&self.observe(), &env), "the same twice");
        plan
    }

    /// Runs until nothing is written, over all that time alone changes.
    fn settle(&mut self) -> Result<Value, TestCaseError> {
        for _ in 0..60 {
            let plan = self.plan();
            self.cluster.apply(&plan, usize::MAX);
            let going = |pod: &&Value| pod["metadata"].get("deletionTimestamp").is_some();
            let names: Vec<String> = self.cluster.all(Pod::RESOURCE).filter(going).map(name_of).collect();
            for name in names {
                self.cluster.objects.remove(&(Pod::RESOURCE, name));
            }
            if plan.is_idle() {
                match plan.wake_after {
                    None => return Ok(self.state()),
                    Some(after) => self.cluster.pass(i64::try_from(after.as_secs()).unwrap().max(1)),
                }
            }
        }
        Err(TestCaseError::fail(format!("no end: {:?}", self.plan())))
    }

    /// What has to be the same in the end, whatever happened on the way.
    fn state(&self) -> Value {
        let pods = self.cluster.all(Pod::RESOURCE);
        let pods: Vec<Value> = pods
            .map(|pod| json!([pod["metadata"]["name"], pod["metadata"]["annotations"]]))
            .collect();
        let budget = self.cluster.get(PodUnavailableBudget::RESOURCE, "web").unwrap();
        json!([pods, budget["status"]])
    }
}

proptest! {
    #[test]
    fn given_any_state_then_it_comes_to_the_same_end_wherever_it_is_cut_off(
        pods in prop::collection::vec(any_pod(), 0..8), spec in any_spec(), status in any_status(), expected in -1..9_i32,
    ) {
        let world = || World::new(&pods, &spec, &status, expected);
        let end = world().settle()?;
        let counted = &end[1];
        prop_assert!(counted.get("disruptedPods").is_none_or(|places| places == &json!({})), "{counted}");
        let number = |field: &str| counted[field].as_i64().unwrap_or_default();
        let left = (number("currentAvailable") - number("desiredAvailable")).max(0);
        prop_assert_eq!(number("unavailableAllowed"), left);
        for writes in 0..8 {
            let mut world = world();
            let plan = world.plan();
            world.cluster.apply(&plan, writes);
            prop_assert_eq!(&world.settle()?, &end, "after {} writes", writes);
        }
    }

    #[test]
    fn given_a_place_that_was_taken_meanwhile_then_an_old_picture_does_not_lose_it(
        pods in prop::collection::vec(any_pod(), 1..8), spec in any_spec(), status in any_status(), expected in 0..9_i32,
    ) {
        let mut world = World::new(&pods, &spec, &status, expected);
        let old = world.plan();
        let now = json!(world.cluster.now.to_string());
        world.cluster.edit(PodUnavailableBudget::RESOURCE, "web", |budget| {
            budget["status"]["disruptedPods"]["late"] = now.clone();
        });
        world.cluster.apply(&old, usize::MAX);
        let kept = world.cluster.get(PodUnavailableBudget::RESOURCE, "web").unwrap();
        prop_assert_eq!(&kept["status"]["disruptedPods"]["late"], &now);
        // Nor does a new one before it may be forgotten.
        let new = world.plan();
        world.cluster.apply(&new, usize::MAX);
        let kept = world.cluster.get(PodUnavailableBudget::RESOURCE, "web").unwrap();
        prop_assert_eq!(&kept["status"]["disruptedPods"]["late"], &now);
    }
}
