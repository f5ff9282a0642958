//! Pods carry their probes with them, for whoever runs them where there is no daemon (gate `EnablePodProbeMarkerOnServerless`,
//! and `PodProbeMarkerGate`, without which there are no markers).
//!
//! - The markers of the namespace that choose the Pod count, in the order of their names. A probe is taken if it has a condition and the Pod its container; of
//!   two for the same condition, or of the same name for the same container, the first one.
//! - One annotation has the probes, without their marker policies; another one the names of the markers.
//! - It is not known yet on which node the Pod will run, so every Pod gets them.

use super::{Draft, Env, Missing, PodError};
use crate::podprobemarker::selects;
use crate::shared::tree;
use kruise_api::gates::Gate;
use kruise_api::meta::Object as _;
use kruise_api::names::annotation;
use kruise_api::podprobemarker::PodContainerProbe;
use kruise_api::podprobemarker::v1alpha1::PodProbeMarker;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What this step has to know.
pub trait ProbeMarkers {
    /// Returns the markers of a namespace.
    fn probe_markers(&self, _namespace: &str) -> Result<Vec<Arc<PodProbeMarker>>, Missing> {
        Ok(Vec::new())
    }
}

pub(super) fn announce(pod: &mut Draft<'_>, env: &Env<'_>) -> Result<(), PodError> {
    let needed = [Gate::EnablePodProbeMarkerOnServerless, Gate::PodProbeMarkerGate];
    if !needed.into_iter().all(|gate| env.gates.enabled(gate)) {
        return Ok(());
    }
    let namespace = pod.head().namespace().unwrap_or(env.namespace);
    let mut markers = env.view.probe_markers(namespace)?;
    let labels = pod.labels();
    markers.retain(|marker| !marker.is_deleting() && selects(marker, |key| labels.get(key).copied()));
    if markers.is_empty() {
        return Ok(());
    }
    markers.sort_by(|one, other| one.name().cmp(other.name()));
    let Some(whole) = pod.whole()?.as_object_mut() else {
        return Ok(());
    };
    let containers = containers(whole);
    let (mut probes, mut used) = (Vec::new(), BTreeSet::new());
    let (mut names, mut conditions) = (BTreeSet::new(), BTreeSet::new());
    for marker in &markers {
        for probe in &marker.spec.probes {
            let name = (&probe.container_name, &probe.name);
            let is_taken = names.contains(&name) || conditions.contains(&probe.pod_condition_type);
            if is_taken || probe.pod_condition_type.is_empty() || !containers.contains(&probe.container_name) {
                continue;
            }
            names.insert(name);
            conditions.insert(&probe.pod_condition_type);
            used.insert(marker.name());
            probes.push(PodContainerProbe {
                marker_policy: Vec::new(),
                ..probe.clone()
            });
        }
    }
    if !probes.is_empty() {
        let text = serde_json::to_string(&probes)?;
        tree::set_metadata(whole, "annotations", annotation::POD_PROBE, text);
        let used = used.into_iter().collect::<Vec<_>>().join(",");
        tree::set_metadata(whole, "annotations", annotation::POD_PROBE_MARKERS, used);
    }
    Ok(())
}

/// The containers that run along, by name: all but those that run before the others.
fn containers(pod: &Map<String, Value>) -> BTreeSet<String> {
    let list = |field: &str| pod.get("spec")?.get(field)?.as_array();
    let stays = |container: &&Value| container.get("restartPolicy").and_then(Value::as_str) == Some("Always");
    let sidecars = list("initContainers").into_iter().flatten().filter(stays);
    let all = list("containers").into_iter().flatten().chain(sidecars);
    let name = |container: &Value| Some(container.get("name")?.as_str()?.to_owned());
    all.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Env, Missing, PodError, mutate};
    use super::ProbeMarkers;
    use crate::admission::ObjectRef;
    use crate::json_patch;
    use crate::pod::{Budgets, PersistentPodStates, SidecarSets};
    use kruise_api::gates::{Gate, Gates};
    use kruise_api::kind::Kind as _;
    use kruise_api::podprobemarker::v1alpha1::PodProbeMarker;
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// A namespace with these markers, unless they have to be read first.
    struct Space(Option<Vec<Value>>);

    impl crate::pod::WorkloadSpreads for Space {}

    impl ProbeMarkers for Space {
        fn probe_markers(&self, _: &str) -> Result<Vec<Arc<PodProbeMarker>>, Missing> {
            let read = |marker: &Value| Arc::new(serde_json::from_value(marker.clone()).unwrap());
            let markers = self.0.as_ref().map(|markers| markers.iter().map(read).collect());
            markers.ok_or(Missing(ObjectRef::AllOf(PodProbeMarker::RESOURCE)))
        }
    }

    impl SidecarSets for Space {}

    impl Budgets for Space {}

    impl PersistentPodStates for Space {}

    fn created(space: &Space, is_on: bool) -> Result<Value, PodError> {
        let pod = json!({"metadata": {"name": "p", "labels": {"app": "game"}}, "spec": {
            "containers": [{"name": "main"}],
            "initContainers": [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}],
        }});
        let env = Env {
            gates: Gates::default().with(Gate::EnablePodProbeMarkerOnServerless, is_on),
            now: jiff::Timestamp::UNIX_EPOCH,
            chance: 0,
            view: space,
            namespace: "default",
            dry_run: false,
            name_suffix: "x7k2p",
        };
        let mut after = pod.clone();
        for operation in mutate(&pod.to_string(), &env)? {
            assert!(json_patch::apply(&mut after, &operation), "{operation:?}");
        }
        Ok(after["metadata"]["annotations"].clone())
    }

    fn probe(name: &str, container: &str, condition: &str) -> Value {
        json!({"name": name, "containerName": container, "podConditionType": condition, "probe": {"exec": {"command": [name]}},
            "markerPolicy": [{"state": "Succeeded", "labels": {"a": "b"}}]})
    }

    fn marker(name: &str, app: &str, probes: &Value) -> Value {
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": app}}, "probes": probes}})
    }

    #[test]
    fn given_markers_then_the_pod_carries_each_probe_once_and_the_markers_by_name() {
        let space = Space(Some(vec![
            marker(
                "b",
                "game",
                &json!([
                    probe("idle", "main", "x/idle"),
                    probe("taken", "main", "x/idle"),
                    probe("side", "side", "x/side")
                ]),
            ),
            marker(
                "a",
                "game",
                &json!([
                    probe("idle", "main", "x/first"),
                    probe("init", "init", "x/init"),
                    probe("marks", "main", "")
                ]),
            ),
            marker("c", "web", &json!([probe("other", "main", "x/other")])),
            marker("d", "game", &json!([probe("none", "none", "x/none")])),
        ]));
        let annotations = created(&space, true).unwrap();
        assert_eq!(annotations["kruise.io/podprobemarker-list"], "a,b");
        // "b" has a probe "idle" for the same container as well.
        assert_eq!(
            annotations["kruise.io/podprobe"],
            "[{\"name\":\"idle\",\"containerName\":\"main\",\"probe\":{\"exec\":{\"command\":[\"idle\"]}},\"podConditionType\":\"x/first\"},\
             {\"name\":\"taken\",\"containerName\":\"main\",\"probe\":{\"exec\":{\"command\":[\"taken\"]}},\"podConditionType\":\"x/idle\"},\
             {\"name\":\"side\",\"containerName\":\"side\",\"probe\":{\"exec\":{\"command\":[\"side\"]}},\"podConditionType\":\"x/side\"}]"
        );
    }

    #[test]
    fn given_no_marker_or_no_gate_then_nothing_is_added_and_an_unknown_namespace_has_to_be_read() {
        let space = Space(Some(vec![marker("m", "game", &json!([probe("a", "main", "x/a")]))]));
        assert_eq!(created(&space, false).unwrap(), Value::Null);
        assert_eq!(created(&Space(Some(Vec::new())), true).unwrap(), Value::Null);
        let unfit = Space(Some(vec![marker("m", "game", &json!([probe("a", "init", "x/a")]))]));
        assert_eq!(created(&unfit, true).unwrap(), Value::Null);
        let error = created(&Space(None), true).unwrap_err();
        assert!(
            matches!(error, PodError::Missing(Missing(ObjectRef::AllOf(_)))),
            "{error}"
        );
    }
}
