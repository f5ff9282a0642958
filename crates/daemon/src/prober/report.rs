//! What is told of probes in the status of a NodePodProbe.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kruise_api::nodepodprobe::v1alpha1::NodePodProbe;
use kruise_api::nodepodprobe::{ContainerProbeState, NodePodProbeStatus, PodProbeStatus};
use kruise_api::shared::probing::ProbeState;
use kruise_core::shared::seconds::truncate;

/// A probe: the UID of its Pod, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProbeKey {
    pub(super) pod: String,
    pub(super) probe: String,
}

impl ProbeKey {
    pub(super) fn new(pod: &str, probe: &str) -> Self {
        Self {
            pod: pod.to_owned(),
            probe: probe.to_owned(),
        }
    }
}

/// What was reported of a probe before.
pub(super) fn reported(list: &NodePodProbe, uid: &str, probe: &str) -> Option<ContainerProbeState> {
    let statuses = list.status.iter().flat_map(|status| &status.pod_probe_statuses);
    let mut states = statuses.filter(|pod| pod.uid == uid).flat_map(|pod| &pod.probe_states);
    states.find(|state| state.name == probe).cloned()
}

/// What a probe found now. The time of its transition stays as long as the state.
pub(super) fn state(
    name: &str,
    old: Option<&ContainerProbeState>,
    state: ProbeState,
    message: String,
    now: Timestamp,
) -> ContainerProbeState {
    let now = Some(Time(truncate(now)));
    let unchanged = old.filter(|old| old.state == state);
    ContainerProbeState {
        name: name.to_owned(),
        last_transition_time: unchanged
            .and_then(|old| old.last_transition_time.clone())
            .or_else(|| now.clone()),
        last_probe_time: now,
        state,
        message,
    }
}

/// The whole status: what is asked for, in that order, as far as anything is known.
pub(super) fn status(
    list: &NodePodProbe,
    known: impl Fn(&ProbeKey) -> Option<ContainerProbeState>,
) -> NodePodProbeStatus {
    let pods = list.spec.pod_probes.iter().map(|pod| {
        let states = pod
            .probes
            .iter()
            .map(|probe| known(&ProbeKey::new(&pod.uid, &probe.name)));
        PodProbeStatus {
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            uid: pod.uid.clone(),
            probe_states: states.flatten().collect(),
        }
    });
    NodePodProbeStatus {
        pod_probe_statuses: pods.filter(|pod| !pod.probe_states.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list() -> NodePodProbe {
        let state = json!({"name": "m#a", "state": "Succeeded", "lastProbeTime": "2026-05-01T10:00:00Z",
            "lastTransitionTime": "2026-05-01T09:00:00Z", "message": "x"});
        let pod = |uid: &str, probes: &[&str]| {
            let probes: Vec<_> = probes
                .iter()
                .map(|name| json!({"name": name, "containerName": "c", "probe": {}}))
                .collect();
            json!({"name": "p", "namespace": "n", "uid": uid, "IP": "", "probes": probes})
        };
        serde_json::from_value(json!({
            "metadata": {"name": "node"},
            "spec": {"podProbes": [pod("2", &["m#b", "m#a"]), pod("1", &["m#a"])]},
            "status": {"podProbeStatuses": [{"name": "p", "namespace": "n", "uid": "1", "probeStates": [state]}]},
        }))
        .expect("a list")
    }

    #[test]
    fn given_what_was_reported_then_it_is_found_by_pod_and_probe() {
        let list = list();
        assert_eq!(reported(&list, "1", "m#a").expect("reported").message, "x");
        assert_eq!(reported(&list, "2", "m#a"), None);
        assert_eq!(reported(&list, "1", "m#b"), None);
    }

    #[test]
    fn given_a_finding_then_the_transition_is_new_only_with_the_state() {
        let old = reported(&list(), "1", "m#a").expect("reported");
        let now: Timestamp = "2026-05-01T11:00:00.7Z".parse().expect("a time");
        let seconds = |state: &ContainerProbeState| {
            let text = |time: &Option<Time>| time.as_ref().expect("a time").0.to_string();
            (text(&state.last_probe_time), text(&state.last_transition_time))
        };
        let same = state("m#a", Some(&old), ProbeState::Succeeded, "y".to_owned(), now);
        let (at, since) = ("2026-05-01T11:00:00Z".to_owned(), "2026-05-01T09:00:00Z".to_owned());
        assert_eq!(seconds(&same), (at.clone(), since));
        let other = state("m#a", Some(&old), ProbeState::Failed, String::new(), now);
        assert_eq!(seconds(&other), (at.clone(), at));
    }

    #[test]
    fn given_what_is_asked_for_then_the_status_has_it_in_that_order_and_nothing_else() {
        let list = list();
        let now: Timestamp = "2026-05-01T11:00:00Z".parse().expect("a time");
        let known =
            |key: &ProbeKey| (key.pod == "2").then(|| state(&key.probe, None, ProbeState::Unknown, String::new(), now));
        let status = status(&list, known);
        let [pod] = &status.pod_probe_statuses[..] else {
            panic!("{status:?}")
        };
        let names: Vec<&str> = pod.probe_states.iter().map(|state| state.name.as_str()).collect();
        assert_eq!((pod.uid.as_str(), names), ("2", vec!["m#b", "m#a"]));
    }
}
