//! Containers of a Pod can start one after the other.
//!
//! - Annotation `apps.kruise.io/container-launch-priority: Ordered`: in the order of the list. Otherwise the variable `KRUISE_CONTAINER_PRIORITY` of
//!   each container counts, higher numbers first, 0 when there is none; of several with this name the last.
//! - Every container gets one more variable whose value comes from a ConfigMap of the Pod's own. Kubelet does not start a container before the key
//!   is there; a controller puts the keys in, see [`crate::launch_priority`].
//! - The ConfigMap is named after the Pod, so a Pod that leaves its name to the server gets one here.
//! - Nothing happens to Pods with one container, or whose containers all have the same priority. Init containers take no part.
//! - A priority that is not a number refuses the Pod: starting in a wrong order could do harm.

use super::{Draft, Env, PodError};
use kruise_api::names::{annotation, env, pattern};
use serde_json::{Map, Value, json};

pub(super) fn add(pod: &mut Draft<'_>, env: &Env<'_>) -> Result<(), PodError> {
    if !pod.may_mention(env::CONTAINER_PRIORITY) && !pod.may_mention(annotation::LAUNCH_PRIORITY) {
        return Ok(());
    }
    let whole = pod.whole()?;
    let Some(priorities) = priorities(whole)? else {
        return Ok(());
    };
    let Some(name) = name(whole, env.name_suffix) else {
        return Ok(());
    };
    let config_map = pattern::barrier_config_map(&name);
    let containers = whole.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
    let containers = containers.into_iter().flatten().filter_map(Value::as_object_mut);
    for (container, priority) in containers.zip(priorities) {
        append(container, &config_map, priority);
    }
    Ok(())
}

/// The priority of each container; nothing when there is no order among them.
fn priorities(pod: &Value) -> Result<Option<Vec<i64>>, PodError> {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let containers = containers.map_or(&[] as &[Value], Vec::as_slice);
    if containers.len() <= 1 {
        return Ok(None);
    }
    let annotations = pod.pointer("/metadata/annotations");
    let asked = annotations.and_then(|all| all.get(annotation::LAUNCH_PRIORITY));
    if asked.and_then(Value::as_str) == Some(annotation::LAUNCH_PRIORITY_ORDERED) {
        return Ok(Some(
            (0..).map(|position: i64| -position).take(containers.len()).collect(),
        ));
    }
    let priorities: Vec<i64> = containers.iter().map(priority).collect::<Result<_, _>>()?;
    let first = priorities.first().copied();
    let differ = priorities.iter().any(|priority| Some(*priority) != first);
    Ok(differ.then_some(priorities))
}

fn priority(container: &Value) -> Result<i64, PodError> {
    let variables = container.get("env").and_then(Value::as_array).into_iter().flatten();
    let named = |variable: &&Value| variable.get("name").and_then(Value::as_str) == Some(env::CONTAINER_PRIORITY);
    let Some(variable) = variables.rev().find(named) else {
        return Ok(0);
    };
    let value = variable.get("value").and_then(Value::as_str).unwrap_or_default();
    value.parse().map_err(|_| PodError::Priority {
        container: container
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        value: value.to_owned(),
    })
}

/// Characters of a Pod's generated name that the server keeps.
const NAME_LENGTH: usize = 58;

/// The Pod's name, fixed now when the server was to choose it. `None` for a Pod that can have no name.
fn name(pod: &mut Value, suffix: &str) -> Option<String> {
    let metadata = pod.get_mut("metadata")?.as_object_mut()?;
    let text = |metadata: &Map<String, Value>, key: &str| {
        let text = metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        (!text.is_empty()).then(|| text.to_owned())
    };
    if let Some(name) = text(metadata, "name") {
        return Some(name);
    }
    let beginning: String = text(metadata, "generateName")?.chars().take(NAME_LENGTH).collect();
    let name = format!("{beginning}{suffix}");
    metadata.insert("name".to_owned(), json!(name));
    Some(name)
}

fn append(container: &mut Map<String, Value>, config_map: &str, priority: i64) {
    let key = pattern::barrier_key(priority);
    let variable = json!({
        "name": env::CONTAINER_BARRIER,
        "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}},
    });
    match container.get_mut("env") {
        Some(Value::Array(variables)) => variables.push(variable),
        _ => {
            container.insert("env".to_owned(), json!([variable]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Env, PodError, mutate};
    use crate::json_patch;
    use kruise_api::gates::Gates;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn created(pod: &Value) -> Result<Value, PodError> {
        let env = Env {
            gates: Gates::default(),
            now: jiff::Timestamp::UNIX_EPOCH,
            chance: 0,
            view: &crate::pod::Empty,
            namespace: "default",
            dry_run: false,
            name_suffix: "x7k2p",
        };
        let mut after = pod.clone();
        for operation in mutate(&pod.to_string(), &env)? {
            assert!(json_patch::apply(&mut after, &operation), "{operation:?}");
        }
        Ok(after)
    }

    fn pod(priorities: &[Option<&str>]) -> Value {
        let container = |(index, priority): (usize, Option<&str>)| {
            let env = priority.map(|value| json!([{"name": "KRUISE_CONTAINER_PRIORITY", "value": value}]));
            json!({"name": format!("c{index}"), "env": env})
        };
        let containers: Vec<_> = priorities.iter().copied().enumerate().map(container).collect();
        json!({"metadata": {"name": "web-0"}, "spec": {"containers": containers, "initContainers": [
            {"name": "init", "env": [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "nonsense"}]}]}})
    }

    fn keys(pod: &Value) -> Vec<&str> {
        let containers = pod["spec"]["containers"].as_array().unwrap();
        let barrier = |container: &'_ Value| container["env"].as_array().and_then(|env| env.last().cloned());
        let keys = containers.iter().map(|container| match barrier(container) {
            Some(last) if last["name"] == "KRUISE_CONTAINER_BARRIER" => {
                let env = container["env"].as_array().unwrap();
                let source = &env[env.len() - 1]["valueFrom"]["configMapKeyRef"];
                assert_eq!(source["name"], "web-0-barrier");
                source["key"].as_str().unwrap()
            }
            _ => "",
        });
        keys.collect()
    }

    #[test]
    fn given_priorities_then_every_container_waits_for_its_key() {
        for (priorities, expected) in [
            (vec![Some("1"), None], vec!["p_1", "p_0"]),
            (vec![Some("-1"), Some("+2"), None], vec!["p_-1", "p_2", "p_0"]),
            (vec![Some("0"), None], vec!["", ""]),
            (vec![Some("5"), Some("5")], vec!["", ""]),
            (vec![Some("5")], vec![""]),
            (vec![], vec![]),
        ] {
            let after = created(&pod(&priorities)).unwrap();
            assert_eq!(keys(&after), expected, "{priorities:?}");
            assert_eq!(
                after["spec"]["initContainers"],
                pod(&priorities)["spec"]["initContainers"]
            );
        }
    }

    #[test]
    fn given_the_annotation_then_the_order_of_the_list_counts_and_not_the_variables() {
        let mut asked = pod(&[Some("abc"), None, Some("7")]);
        asked["metadata"]["annotations"] = json!({"apps.kruise.io/container-launch-priority": "Ordered"});
        assert_eq!(keys(&created(&asked).unwrap()), ["p_0", "p_-1", "p_-2"]);
        asked["metadata"]["annotations"] = json!({"apps.kruise.io/container-launch-priority": "ordered"});
        assert!(created(&asked).is_err());
    }

    #[test]
    fn given_a_priority_that_is_no_number_then_the_pod_is_refused_as_an_internal_error() {
        for bad in ["abc", "", "1.5", "9223372036854775808", " 1"] {
            let error = created(&pod(&[Some(bad), Some("1")])).unwrap_err();
            assert_eq!(error.code(), 500, "{bad}");
            assert!(error.to_string().contains("c0"), "{error}");
        }
        let mut from_elsewhere = pod(&[Some("1"), None]);
        from_elsewhere["spec"]["containers"][0]["env"][0] =
            json!({"name": "KRUISE_CONTAINER_PRIORITY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
        assert_eq!(created(&from_elsewhere).unwrap_err().code(), 500);
        // One container has no order: its priority is not even read.
        assert!(created(&pod(&[Some("abc")])).is_ok());
    }

    #[test]
    fn given_a_name_twice_then_the_last_counts_and_a_users_barrier_stays_in_front() {
        let mut twice = pod(&[Some("abc"), None]);
        twice["spec"]["containers"][0]["env"] = json!([
            {"name": "KRUISE_CONTAINER_PRIORITY", "value": "abc"},
            {"name": "KRUISE_CONTAINER_BARRIER", "value": "mine"},
            {"name": "KRUISE_CONTAINER_PRIORITY", "value": "3"},
        ]);
        let after = created(&twice).unwrap();
        assert_eq!(keys(&after), ["p_3", "p_0"]);
        assert_eq!(after["spec"]["containers"][0]["env"][1]["value"], "mine");
    }

    #[test]
    fn given_only_a_generated_name_then_it_is_fixed_now() {
        let mut generated = pod(&[Some("1"), None]);
        generated["metadata"] = json!({"generateName": format!("{}-", "a".repeat(70))});
        let name = format!("{}x7k2p", "a".repeat(58));
        let after = created(&generated).unwrap();
        assert_eq!(after["metadata"]["name"], json!(name));
        let source = &after["spec"]["containers"][0]["env"][1]["valueFrom"]["configMapKeyRef"];
        assert_eq!(source["name"], json!(format!("{name}-barrier")));
        generated["metadata"] = json!({});
        assert_eq!(created(&generated).unwrap(), generated);
    }

    proptest! {
        #[test]
        fn given_anything_as_environment_then_no_panic(value in "[ -~]{0,30}", name in "KRUISE_CONTAINER_(PRIORITY|BARRIER)") {
            for env in [json!(value), json!([value]), json!([{"name": name, "value": value}]), json!({"name": name})] {
                let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"env": env}, {}, 1]}});
                let _ = created(&pod);
            }
        }
    }
}
