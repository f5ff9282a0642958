//! Quality of service: a class that Kubernetes derives from a Pod's resources when it is created, and that cannot change afterwards.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::shared::quantity;

/// The class of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Qos {
    Guaranteed,
    Burstable,
    BestEffort,
}

/// The class of a Pod with this template.
pub(super) fn class(template: &Value) -> Qos {
    let mut requests: BTreeMap<&str, i128> = BTreeMap::new();
    let mut limits = requests.clone();
    let mut all_limited = true;
    let lists = ["/spec/containers", "/spec/initContainers"];
    let containers = lists
        .iter()
        .filter_map(|path| template.pointer(path)?.as_array())
        .flatten();
    for container in containers {
        for (name, amount) in amounts(container, "/resources/requests") {
            add(&mut requests, name, amount);
        }
        let limited = amounts(container, "/resources/limits");
        all_limited &= limited.len() == 2;
        for (name, amount) in limited {
            add(&mut limits, name, amount);
        }
    }
    if requests.is_empty() && limits.is_empty() {
        Qos::BestEffort
    } else if all_limited && requests == limits {
        Qos::Guaranteed
    } else {
        Qos::Burstable
    }
}

/// Whether two Pods are of the same class.
pub fn has_same_qos(one: &Value, other: &Value) -> bool {
    class(one) == class(other)
}

/// CPU and memory of a container, as far as they are more than nothing.
fn amounts<'a>(container: &'a Value, path: &str) -> Vec<(&'a str, i128)> {
    let given = container.pointer(path).and_then(Value::as_object).into_iter().flatten();
    let counted = given.filter(|(name, _)| ["cpu", "memory"].contains(&name.as_str()));
    let amount = |(name, value): (&'a String, &Value)| {
        let nanos = quantity::of_value(value).filter(|nanos| *nanos > 0)?;
        Some((name.as_str(), nanos))
    };
    counted.filter_map(amount).collect()
}

fn add<'a>(sums: &mut BTreeMap<&'a str, i128>, name: &'a str, amount: i128) {
    let sum = sums.entry(name).or_default();
    *sum = sum.saturating_add(amount);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn classes_are_those_of_kubernetes() {
        let both = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
        for (resources, expected) in [
            (json!([{}]), Qos::BestEffort),
            (json!([{"requests": {"cpu": "0"}}]), Qos::BestEffort),
            (json!([{"requests": {"ephemeral-storage": "1Gi"}}]), Qos::BestEffort),
            (json!([{"requests": {"cpu": "1"}}]), Qos::Burstable),
            (
                json!([{"limits": both("1", "1Gi"), "requests": both("1000m", "1024Mi")}]),
                Qos::Guaranteed,
            ),
            (
                json!([{"limits": both("1", "1Gi"), "requests": both("1", "1G")}]),
                Qos::Burstable,
            ),
            (
                json!([{"limits": both("1", "1Gi"), "requests": both("1", "1Gi")}, {}]),
                Qos::Burstable,
            ),
            (
                json!([{"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}]),
                Qos::Burstable,
            ),
            // Requests that the API server fills in from limits are not in a template.
            (json!([{"limits": both("1", "1Gi")}]), Qos::Burstable),
        ] {
            let containers: Vec<_> = resources
                .as_array()
                .unwrap()
                .iter()
                .map(|r| json!({"resources": r}))
                .collect();
            assert_eq!(
                class(&json!({"spec": {"containers": containers}})),
                expected,
                "{resources}"
            );
        }
        let limited = json!({"resources": {"limits": both("1", "1Gi"), "requests": both("1", "1Gi")}});
        let with_init = json!({"spec": {"containers": [limited], "initContainers": [{}]}});
        assert_eq!(class(&with_init), Qos::Burstable);
        assert_eq!(class(&json!({"spec": {"containers": {}}})), Qos::BestEffort);
    }
}
