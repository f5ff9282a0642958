//! What the numbers of a PodProbeMarker mean.

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
}
