//! A Pod that was there before comes back to its topology: [`inject`] says what it gets, here it is decided from which record.
//!
//! That is the first PersistentPodState of the namespace, by name, that is about the Pod's workload and not on its way out. Pods without a name of their own, without
//! a controller of such a kind or without a record get nothing.

use super::{Draft, Env, Missing, PodError};
use crate::persistentpodstate::{inject, kinds};
use crate::shared::workload::WorkloadRef;
use kruise_api::configuration::CustomWorkload;
use kruise_api::persistentpodstate::v1beta1::PersistentPodState;
use std::sync::Arc;

/// What this step has to know.
pub trait PersistentPodStates {
    /// Returns those about a workload in a namespace.
    fn states_of(&self, _namespace: &str, _workload: &WorkloadRef) -> Result<Vec<Arc<PersistentPodState>>, Missing> {
        Ok(Vec::new())
    }

    /// Returns the white list of workloads; an error in words when it cannot be read.
    fn listed_workloads(&self) -> Result<Result<Vec<CustomWorkload>, String>, Missing> {
        Ok(Ok(Vec::new()))
    }
}

pub(super) fn add(pod: &mut Draft<'_>, env: &Env<'_>) -> Result<(), PodError> {
    let (Some(name), Some(workload)) = (pod.head().name(), pod.head().controller()) else {
        return Ok(());
    };
    let name = name.to_owned();
    let namespace = pod.head().namespace().unwrap_or(env.namespace);
    let mut states = env.view.states_of(namespace, &workload)?;
    states.retain(|state| state.metadata.deletion_timestamp.is_none());
    states.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    let Some(state) = states.first() else {
        return Ok(());
    };
    // Of a kind that is not listed any more there may be one left.
    if !kinds::is_stateful_set(&workload) {
        let list = env.view.listed_workloads()?.map_err(PodError::Configuration)?;
        if !kinds::is_listed(&workload, &list) {
            return Ok(());
        }
    }
    if let Some(record) = inject::record_of(state, &name)
        && let Some(pod) = pod.whole()?.as_object_mut()
    {
        inject::inject(pod, state, record);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Budgets, Env, ProbeMarkers, SidecarSets, mutate};
    use super::*;
    use crate::json_patch;
    use kruise_api::gates::Gates;
    use serde_json::{Value, json};

    struct Known {
        states: Vec<Value>,
        list: Result<Vec<CustomWorkload>, String>,
    }

    impl SidecarSets for Known {}

    impl Budgets for Known {}

    impl ProbeMarkers for Known {}

    impl crate::pod::WorkloadSpreads for Known {}

    impl PersistentPodStates for Known {
        fn states_of(&self, _: &str, _: &WorkloadRef) -> Result<Vec<Arc<PersistentPodState>>, Missing> {
            let read = |state: &Value| Arc::new(serde_json::from_value(state.clone()).unwrap());
            Ok(self.states.iter().map(read).collect())
        }

        fn listed_workloads(&self) -> Result<Result<Vec<CustomWorkload>, String>, Missing> {
            Ok(self.list.clone())
        }
    }

    fn state(name: &str, spec: &Value) -> Value {
        json!({
            "metadata": {"name": name}, "spec": spec,
            "status": {"observedGeneration": 1, "podStates": {"web-0": {
                "nodeName": "n1", "nodeTopologyLabels": {"zone": "z1", "host": "n1"}, "annotations": {"ip": "10.0.0.1"},
            }}},
        })
    }

    fn pod(kind: &str, name: &str, spec: &Value) -> Value {
        json!({
            "metadata": {"name": name, "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": "web", "controller": true}]},
            "spec": spec,
        })
    }

    fn admitted(view: &Known, pod: &Value) -> Result<Value, PodError> {
        let env = Env {
            gates: Gates::default(),
            now: "2026-05-01T10:00:00Z".parse().unwrap(),
            chance: 0,
            view,
            namespace: "shop",
            dry_run: false,
            name_suffix: "abcde",
        };
        let mut after = pod.clone();
        for change in mutate(&pod.to_string(), &env)? {
            json_patch::apply(&mut after, &change);
        }
        Ok(after)
    }

    #[test]
    fn given_a_record_then_the_new_pod_goes_where_the_old_one_was() {
        let spec = json!({
            "requiredPersistentTopology": {"keys": ["zone", "rack"]},
            "preferredPersistentTopology": [
                {"weight": 50, "preference": {"keys": ["host", "rack"]}}, {"weight": 0, "preference": {"keys": ["zone"]}},
                {"weight": 300, "preference": {"keys": ["rack"]}},
            ],
        });
        let mut leaving = state("a", &json!({"requiredPersistentTopology": {"keys": ["host"]}}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-05-01T10:00:00Z");
        let view = Known {
            states: vec![state("c", &json!({})), state("b", &spec), leaving],
            list: Ok(Vec::new()),
        };
        let other = json!({"weight": 1, "preference": {}});
        let given = json!({
            "nodeSelector": {"zone": "z9", "x": "y"},
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [other]}},
        });
        let after = admitted(&view, &pod("StatefulSet", "web-0", &given)).unwrap();
        assert_eq!(after["spec"]["nodeSelector"], json!({"zone": "z1", "x": "y"}));
        assert_eq!(
            after["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"],
            json!([
                other,
                {"weight": 50, "preference": {"matchExpressions": [{"key": "host", "operator": "In", "values": ["n1"]}]}},
                {"weight": 100, "preference": {}},
            ])
        );
        assert_eq!(
            after["metadata"]["annotations"],
            json!({"kruise.io/injected-persistent-pod-state": "b"})
        );
    }

    #[test]
    fn given_no_record_or_another_kind_then_the_pod_stays_as_it_is() {
        let view = Known {
            states: vec![state("b", &json!({"requiredPersistentTopology": {"keys": ["zone"]}}))],
            list: Err("it is no JSON".to_owned()),
        };
        for untouched in [
            pod("StatefulSet", "web-1", &json!({})),
            pod("StatefulSet", "", &json!({})),
            json!({"metadata": {"name": "web-0"}, "spec": {}}),
        ] {
            assert_eq!(admitted(&view, &untouched).unwrap(), untouched);
        }
        let game = pod("Game", "web-0", &json!({}));
        let error = admitted(&view, &game).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().contains("it is no JSON")),
            (500, true),
            "{error}"
        );
        let unlisted = Known {
            list: Ok(Vec::new()),
            ..view
        };
        assert_eq!(admitted(&unlisted, &game).unwrap(), game);
        let mut custom = CustomWorkload::default();
        (custom.kind.group, custom.kind.kind) = ("apps".to_owned(), "Game".to_owned());
        let listed = Known {
            list: Ok(vec![custom]),
            ..unlisted
        };
        assert_eq!(
            admitted(&listed, &game).unwrap()["spec"]["nodeSelector"],
            json!({"zone": "z1"})
        );
    }
}
