//! What PodProbeMarkers and NodePodProbes say of themselves.

use super::number;
use serde_json::Value;

pub(super) fn summary(marker: &Value) -> String {
    let probes = marker
        .pointer("/spec/probes")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    format!("{probes} probes for {} Pods", number(marker, "/status/matchedPods"))
}

pub(super) fn describe(marker: &Value) -> Vec<String> {
    if number(marker, "/status/matchedPods") == 0 {
        vec!["No Pod is probed: none that the selector chooses is active, initialized and on a node.".to_owned()]
    } else {
        Vec::new()
    }
}

/// The items of a list, which need not be there.
fn items<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn node_summary(list: &Value) -> String {
    let asked: usize = items(list, "/spec/podProbes")
        .map(|pod| items(pod, "/probes").count())
        .sum();
    let states = items(list, "/status/podProbeStatuses").flat_map(|pod| items(pod, "/probeStates"));
    let succeeded = states.filter(|state| state["state"] == "Succeeded").count();
    format!("{asked} probes, {succeeded} have succeeded")
}

/// Each probe that has not succeeded.
pub(super) fn node_describe(list: &Value) -> Vec<String> {
    let mut sentences = Vec::new();
    for pod in items(list, "/status/podProbeStatuses") {
        for state in items(pod, "/probeStates").filter(|state| state["state"] != "Succeeded") {
            let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text(pod, "namespace"), text(pod, "name"));
            let mut sentence = format!(
                "{namespace}/{name}: {} is {}",
                text(state, "name"),
                text(state, "state")
            );
            let message = text(state, "message");
            if !message.is_empty() {
                sentence.push_str(&format!(": {message}"));
            }
            sentences.push(sentence);
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_a_marker_then_it_is_told_how_many_pods_it_probes() {
        let marker = |pods: u8| json!({"spec": {"probes": [{}, {}]}, "status": {"matchedPods": pods}});
        assert_eq!(summary(&marker(3)), "2 probes for 3 Pods");
        assert_eq!(describe(&marker(3)), [""; 0]);
        assert_eq!(describe(&marker(0)).len(), 1);
    }

    #[test]
    fn given_a_node_then_it_is_told_which_probes_have_not_succeeded() {
        let state = |name: &str, state: &str, message: &str| json!({"name": name, "state": state, "message": message});
        let list = json!({
            "spec": {"podProbes": [{"probes": [{}, {}]}, {"probes": [{}]}]},
            "status": {"podProbeStatuses": [{"namespace": "shop", "name": "web-0", "probeStates": [
                state("game#idle", "Failed", "no such file"), state("game#full", "Succeeded", ""), state("game#new", "Unknown", ""),
            ]}]},
        });
        assert_eq!(node_summary(&list), "3 probes, 1 have succeeded");
        assert_eq!(
            node_describe(&list),
            [
                "shop/web-0: game#idle is Failed: no such file",
                "shop/web-0: game#new is Unknown"
            ]
        );
        assert_eq!(node_summary(&json!({})), "0 probes, 0 have succeeded");
    }
}
