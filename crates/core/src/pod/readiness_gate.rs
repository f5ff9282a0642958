//! Pods of our workloads are ready only when we say so too: their update in place must be able to make them unready first.

use super::{Draft, Env, PodError};
use crate::json_patch::Operation;
use kruise_api::{
    gates::Gate,
    names::{condition, group},
};
use serde_json::json;

// A step may fail; this one has no reason to.
#[allow(clippy::unnecessary_wraps)]
pub(super) fn add(pod: &mut Draft<'_>, env: &Env<'_>) -> Result<(), PodError> {
    let ours = pod.head().controller_group() == Some(group::APPS);
    if !ours && !env.gates.enabled(Gate::KruisePodReadinessGate) {
        return Ok(());
    }
    let gate = json!({"conditionType": condition::pod::KRUISE_POD_READY});
    let (path, value) = match pod.head().readiness_gates() {
        Some(gates) if gates.is_empty() => ("/spec/readinessGates", json!([gate])),
        Some(gates) if !gates.contains(&condition::pod::KRUISE_POD_READY) => ("/spec/readinessGates/-", gate),
        _ => return Ok(()),
    };
    let path = path.to_owned();
    pod.change(Operation::Add { path, value });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Env, mutate};
    use kruise_api::gates::{Gate, Gates};
    use serde_json::{Value, json};

    fn pod(owner: &Value, gates: &Value) -> String {
        json!({"metadata": {"ownerReferences": owner}, "spec": {"readinessGates": gates, "containers": []}}).to_string()
    }

    fn owner(api_version: &str, controller: &Value) -> Value {
        json!([
            {"apiVersion": "v1", "kind": "ConfigMap"},
            {"apiVersion": api_version, "kind": "CloneSet", "controller": controller},
        ])
    }

    fn patch(pod: &str, everywhere: bool) -> Value {
        let gates = Gates::default().with(Gate::KruisePodReadinessGate, everywhere);
        serde_json::to_value(mutate(pod, &env(gates)).unwrap()).unwrap()
    }

    fn env(gates: Gates) -> Env<'static> {
        Env {
            gates,
            now: jiff::Timestamp::UNIX_EPOCH,
            chance: 0,
            view: &crate::pod::Empty,
            namespace: "default",
            dry_run: false,
            name_suffix: "",
        }
    }

    fn added(path: &str, value: &Value) -> Value {
        json!([{"op": "add", "path": path, "value": value}])
    }

    #[test]
    fn given_a_pod_of_ours_then_it_gets_the_gate_whatever_gates_it_has() {
        let ready = json!({"conditionType": "KruisePodReady"});
        let ours = owner("apps.kruise.io/v1alpha1", &json!(true));
        for none in [json!(null), json!([])] {
            assert_eq!(
                patch(&pod(&ours, &none), false),
                added("/spec/readinessGates", &json!([ready]))
            );
        }
        assert_eq!(
            patch(&pod(&ours, &json!([{"conditionType": "Other"}])), false),
            added("/spec/readinessGates/-", &ready)
        );
        assert_eq!(
            patch(&pod(&ours, &json!([{"conditionType": "Other"}, ready])), false),
            json!([])
        );
    }

    #[test]
    fn given_a_pod_of_others_then_it_is_left_alone_unless_the_feature_gate_asks_for_all_pods() {
        for other in [
            json!(null),
            json!([]),
            owner("apps/v1", &json!(true)),
            owner("policy.kruise.io/v1alpha1", &json!(true)),
            owner("v1", &json!(true)),
            owner("apps.kruise.io/v1beta1", &json!(false)),
            owner("apps.kruise.io/v1beta1", &json!(null)),
        ] {
            let pod = pod(&other, &json!(null));
            assert_eq!(patch(&pod, false), json!([]), "{pod}");
            assert_eq!(patch(&pod, true)[0]["path"], "/spec/readinessGates", "{pod}");
        }
    }

    #[test]
    fn given_something_else_than_a_pod_then_it_is_refused() {
        let gates = Gates::default();
        for bad in [
            "",
            "[]",
            "1",
            "{\"spec\":1}",
            "{\"metadata\":{\"ownerReferences\":{}}}",
            "{\"spec\":{}",
        ] {
            assert!(mutate(bad, &env(gates)).is_err(), "{bad}");
        }
        let everywhere = gates.with(Gate::KruisePodReadinessGate, true);
        for odd in [
            "{}",
            "{\"metadata\":null,\"spec\":null}",
            "{\"metadata\":{\"ownerReferences\":[{}]}}",
        ] {
            assert_eq!(mutate(odd, &env(everywhere)).unwrap(), [], "{odd}");
        }
    }
}
