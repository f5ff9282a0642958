//! What a Pod requests of its node, as the scheduler reckons it.
//!
//! - Containers run side by side: their requests are added. So are those of sidecars, which are init containers that are restarted always.
//! - Other init containers run one by one before them, each beside the sidecars that were started earlier: the most that one of them needs counts when it
//!   is more.
//! - The Pod's own overhead comes on top.

use std::collections::BTreeMap;

use kruise_api::meta::Pairs;
use kruise_api::node::Node;
use kruise_api::pod::{Container, Pod};
use kruise_api::text::Text;
use serde::Deserialize;
use serde_json::Value;

use crate::shared::quantity::Amount;

/// The resource that every Pod takes one of.
const PODS: &str = "pods";

/// Amounts in billionths, by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests(BTreeMap<Text, i128>);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    overhead: Option<Pairs<Text>>,
}

impl Requests {
    /// What the Pods of a template request. Fails with a sentence when the template cannot be read.
    pub(super) fn of_template(template: &Value) -> Result<Self, String> {
        let spec = template.get("spec").unwrap_or(&Value::Null);
        let read: Result<Option<Spec>, _> = Deserialize::deserialize(spec);
        let spec = read
            .map_err(|error| format!("spec.template.spec: {error}"))?
            .unwrap_or_default();
        Ok(Self::sum(
            spec.containers.as_deref().unwrap_or_default(),
            spec.init_containers.as_deref().unwrap_or_default(),
            &spec.overhead.unwrap_or_default(),
        ))
    }

    /// What a Pod requests.
    pub(super) fn of_pod(pod: &Pod) -> Self {
        let template = &pod.spec.template;
        Self::sum(&template.containers, &template.init_containers, &template.overhead)
    }

    fn sum(containers: &[Container], init_containers: &[Container], overhead: &Pairs<Text>) -> Self {
        let mut running = Self::default();
        for container in containers {
            running.add(&container.resources.requests);
        }
        let (mut sidecars, mut most) = (Self::default(), Self::default());
        for container in init_containers {
            let mut beside = sidecars.clone();
            beside.add(&container.resources.requests);
            most.raise_to(&beside);
            if &*container.restart_policy == "Always" {
                running.add(&container.resources.requests);
                sidecars = beside;
            }
        }
        running.raise_to(&most);
        running.add(overhead);
        running
    }

    fn add(&mut self, requests: &Pairs<Text>) {
        for (resource, amount) in requests.iter() {
            let sum = self.0.entry(Text::from(resource)).or_default();
            *sum = sum.saturating_add(nanos(amount));
        }
    }

    fn raise_to(&mut self, other: &Self) {
        for (resource, amount) in &other.0 {
            let known = self.0.entry(resource.clone()).or_default();
            *known = (*known).max(*amount);
        }
    }

    /// The first resource of which a node has too little, room for Pods included.
    pub(super) fn lacking(&self, node: &Node) -> Option<String> {
        let has = |resource: &str| node.status.allocatable.get(resource).map_or(0, nanos);
        if has(PODS) < nanos("1") {
            return Some(PODS.to_owned());
        }
        let mut wanted = self.0.iter();
        let lacking = wanted.find(|(resource, amount)| **amount > has(resource));
        lacking.map(|(resource, _)| resource.to_string())
    }
}

/// What is no quantity is nothing; the API server lets none of them through.
fn nanos(amount: &str) -> i128 {
    Amount::read(amount).map_or(0, Amount::nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn given_containers_then_requests_are_those_of_the_scheduler() {
        let sidecar = |cpu: &str| {
            let mut sidecar = container(cpu);
            sidecar["restartPolicy"] = json!("Always");
            sidecar
        };
        for (spec, cpu) in [
            (json!({"containers": [container("1"), container("500m")]}), "1500m"),
            (
                json!({"containers": [container("1")], "initContainers": [container("2"), container("3")]}),
                "3",
            ),
            (
                json!({"containers": [container("2")], "initContainers": [sidecar("1"), container("1500m")]}),
                "3",
            ),
            (
                json!({"containers": [container("1")], "initContainers": [sidecar("1"), container("2500m"), sidecar("1")]}),
                "3500m",
            ),
            (
                json!({"containers": [container("1")], "overhead": {"cpu": "250m"}}),
                "1250m",
            ),
            (json!({"containers": null}), "0"),
        ] {
            let template = Requests::of_template(&json!({ "spec": spec })).unwrap();
            let wanted = template.0.get(&Text::from("cpu")).copied().unwrap_or_default();
            assert_eq!(wanted, nanos(cpu), "{spec}");
            let mut pod = json!({"metadata": {"name": "a"}});
            pod["spec"] = spec;
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(Requests::of_pod(&pod), template);
        }
        assert!(Requests::of_template(&json!({"spec": {"containers": 3}})).is_err());
    }

    #[test]
    fn given_a_node_then_it_is_said_what_it_lacks() {
        let node = |allocatable: Value| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}})).unwrap()
        };
        let spec =
            json!({"containers": [{"resources": {"requests": {"cpu": "1", "example.com/gpu": "1", "memory": "0"}}}]});
        let requests = Requests::of_template(&json!({ "spec": spec })).unwrap();
        for (allocatable, lacking) in [
            (json!({}), Some("pods")),
            (json!({"pods": "0", "cpu": "8", "example.com/gpu": "1"}), Some("pods")),
            (json!({"pods": "1", "cpu": "999m", "example.com/gpu": "1"}), Some("cpu")),
            (json!({"pods": "1", "cpu": "1"}), Some("example.com/gpu")),
            (json!({"pods": "1", "cpu": "1", "example.com/gpu": "1"}), None),
        ] {
            assert_eq!(
                requests.lacking(&node(allocatable.clone())).as_deref(),
                lacking,
                "{allocatable}"
            );
        }
    }
}
