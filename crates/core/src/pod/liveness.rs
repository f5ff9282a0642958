//! Liveness probes of Pods of our workloads are set aside when the Pod asks for it (gate `EnhancedLivenessProbe`).
//!
//! - The Pod has the annotation `apps.kruise.io/using-enhanced-liveness: "true"`. The probes of its containers go into another annotation, in the order of the
//!   containers; init containers keep theirs. A Pod without any stays as it is.
//! - Nobody here runs these probes: until something outside of the cluster's own does, such Pods have no liveness probe.

use super::{Draft, Env, PodError};
use crate::shared::tree;
use kruise_api::gates::Gate;
use kruise_api::names::{annotation, group};
use serde_json::{Value, json};

pub(super) fn set_aside(pod: &mut Draft<'_>, env: &Env<'_>) -> Result<(), PodError> {
    let may_ask = env.gates.enabled(Gate::EnhancedLivenessProbe)
        && pod.head().controller_group() == Some(group::APPS)
        && pod.may_mention(annotation::ENHANCED_LIVENESS);
    if !may_ask {
        return Ok(());
    }
    let Some(whole) = pod.whole()?.as_object_mut() else {
        return Ok(());
    };
    if tree::metadata(whole, "annotations", annotation::ENHANCED_LIVENESS) != Some("true") {
        return Ok(());
    }
    let spec = tree::child(whole, "spec");
    let containers = spec
        .and_then(|spec| spec.get_mut("containers"))
        .and_then(Value::as_array_mut);
    let mut aside = Vec::new();
    for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
        let probe = container.remove("livenessProbe").filter(|probe| !probe.is_null());
        if let Some(probe) = probe {
            aside.push(json!({"name": container.get("name"), "livenessProbe": probe}));
        }
    }
    if !aside.is_empty() {
        let text = Value::Array(aside).to_string();
        tree::set_metadata(whole, "annotations", annotation::CONTAINER_PROBES, text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Empty, Env, mutate};
    use crate::json_patch;
    use kruise_api::gates::{Gate, Gates};
    use serde_json::{Value, json};

    fn created(pod: &Value, is_on: bool) -> Value {
        let env = Env {
            gates: Gates::default().with(Gate::EnhancedLivenessProbe, is_on),
            now: jiff::Timestamp::UNIX_EPOCH,
            chance: 0,
            view: &Empty,
            namespace: "default",
            dry_run: false,
            name_suffix: "x7k2p",
        };
        let mut after = pod.clone();
        for operation in mutate(&pod.to_string(), &env).unwrap() {
            assert!(json_patch::apply(&mut after, &operation), "{operation:?}");
        }
        after
    }

    /// The Pods of the recordings, made small.
    fn pod(group: &str, asks: &str) -> Value {
        json!({
            "metadata": {
                "name": "p", "annotations": {"apps.kruise.io/using-enhanced-liveness": asks},
                "ownerReferences": [{"apiVersion": group, "kind": "Any", "name": "o", "uid": "u", "controller": true}],
            },
            "spec": {
                "readinessGates": [{"conditionType": "KruisePodReady"}],
                "initContainers": [{"name": "side", "livenessProbe": {"exec": {"command": ["true"]}}}],
                "containers": [
                    {"name": "a", "livenessProbe": {"exec": {"command": ["true"]}, "timeoutSeconds": 1}},
                    {"name": "b", "livenessProbe": null},
                    {"name": "c", "livenessProbe": {"httpGet": {"port": 80}}, "readinessProbe": {"exec": {"command": ["true"]}}},
                ],
            },
        })
    }

    #[test]
    fn given_a_pod_of_ours_that_asks_then_its_liveness_probes_are_set_aside_in_order() {
        let after = created(&pod("apps.kruise.io/v1beta1", "true"), true);
        let aside = &after["metadata"]["annotations"]["apps.kruise.io/container-probe-context"];
        let aside: Value = serde_json::from_str(aside.as_str().unwrap()).unwrap();
        assert_eq!(
            aside,
            json!([
                {"name": "a", "livenessProbe": {"exec": {"command": ["true"]}, "timeoutSeconds": 1}},
                {"name": "c", "livenessProbe": {"httpGet": {"port": 80}}},
            ])
        );
        let containers = after["spec"]["containers"].as_array().unwrap();
        assert!(containers.iter().all(|container| container["livenessProbe"].is_null()));
        assert!(containers[2]["readinessProbe"].is_object());
        assert!(after["spec"]["initContainers"][0]["livenessProbe"].is_object());
    }

    #[test]
    fn given_anything_else_then_the_pod_stays_as_it_is() {
        let ours = "apps.kruise.io/v1beta1";
        for (pod, is_on) in [
            (pod(ours, "true"), false),
            (pod(ours, "True"), true),
            (pod("apps/v1", "true"), true),
        ] {
            assert_eq!(created(&pod, is_on), pod);
        }
        let mut nothing = pod(ours, "true");
        nothing["spec"]["containers"] = json!([{"name": "a"}]);
        assert_eq!(created(&nothing, true), nothing);
        for odd in [json!([1, {"livenessProbe": 3}]), json!(null), json!({})] {
            let mut pod = pod(ours, "true");
            pod["spec"]["containers"] = odd;
            created(&pod, true);
        }
    }
}
