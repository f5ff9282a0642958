//! What the numbers of workloads mean.

use super::{is_set, number};
use serde_json::Value;

/// Of a workload with replicas.
pub(super) fn summary(set: &Value) -> String {
    format!(
        "{} wanted, {} there, {} updated, {} ready, {} available",
        wanted(set),
        number(set, "/status/replicas"),
        number(set, "/status/updatedReplicas"),
        number(set, "/status/readyReplicas"),
        number(set, "/status/availableReplicas"),
    )
}

/// Of a workload over subsets.
pub(super) fn united_summary(united: &Value) -> String {
    let subsets = united.pointer("/spec/topology/subsets").and_then(Value::as_array);
    format!(
        "{} wanted in {} subsets, {} there, {} updated, {} ready",
        wanted(united),
        subsets.map_or(0, Vec::len),
        number(united, "/status/replicas"),
        number(united, "/status/updatedReplicas"),
        number(united, "/status/readyReplicas"),
    )
}

/// Its subsets, one by one.
pub(super) fn united(united: &Value) -> Vec<String> {
    let subsets = united.pointer("/status/subsetStatuses").and_then(Value::as_array);
    let one = |subset: &Value| {
        let count = |field: &str| number(subset, field);
        let mut sentence = format!(
            "Subset {}: {} Pods, {} ready",
            subset["name"].as_str().unwrap_or_default(),
            count("/replicas"),
            count("/readyReplicas"),
        );
        for (field, said) in [
            ("/partition", "kept at the old revision"),
            ("/reservedPods", "reserved"),
        ] {
            if count(field) > 0 {
                sentence.push_str(&format!(", {} {said}", count(field)));
            }
        }
        let conditions = subset["conditions"].as_array().into_iter().flatten();
        let mut full = conditions.filter(|known| known["type"] == "Schedulable" && known["status"] == "False");
        if full.next().is_some() {
            sentence.push_str("; it takes no Pods now");
        }
        sentence + "."
    };
    subsets.into_iter().flatten().map(one).collect()
}

fn wanted(set: &Value) -> i64 {
    set.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

/// Pods that are there, ready and available, of a workload with replicas.
fn pods(set: &Value) -> Vec<String> {
    let mut sentences = Vec::new();
    let (wanted, replicas) = (wanted(set), number(set, "/status/replicas"));
    let (ready, available) = (
        number(set, "/status/readyReplicas"),
        number(set, "/status/availableReplicas"),
    );
    if replicas != wanted {
        sentences.push(format!("There are {replicas} Pods, {wanted} are wanted."));
    }
    if ready < replicas {
        sentences.push(format!("{} of {replicas} Pods are not ready.", replicas - ready));
    } else if available < ready {
        sentences.push(format!(
            "{} ready Pods do not count as available yet.",
            ready - available
        ));
    }
    sentences
}

/// Pods that are not at the update revision.
fn outdated(set: &Value, expected: i64) -> Option<String> {
    let (wanted, updated) = (wanted(set), number(set, "/status/updatedReplicas"));
    if updated >= wanted {
        return None;
    }
    let count = wanted - updated;
    let why = if set.pointer("/spec/updateStrategy/rollingUpdate").is_none() {
        "; type OnDelete updates them when they are deleted.".to_owned()
    } else if is_set(set, "/spec/updateStrategy/rollingUpdate/paused") {
        "; the rollout is paused.".to_owned()
    } else if updated >= expected && expected < wanted {
        "; the partition keeps them.".to_owned()
    } else {
        format!(", {expected} should be.")
    };
    Some(format!("{count} Pods are not at the update revision{why}"))
}

pub(super) fn cloneset(set: &Value) -> Vec<String> {
    let mut sentences = pods(set);
    sentences.extend(outdated(set, number(set, "/status/expectedUpdatedReplicas")));
    sentences
}

pub(super) fn statefulset(set: &Value) -> Vec<String> {
    let mut sentences = pods(set);
    let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition");
    sentences.extend(outdated(set, (wanted(set) - partition).max(0)));
    sentences
}

pub(super) fn daemonset_summary(set: &Value) -> String {
    let count = |name: &str| number(set, &format!("/status/{name}"));
    format!(
        "{} nodes, {} Pods, {} updated, {} ready, {} available",
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("updatedNumberScheduled"),
        count("numberReady"),
        count("numberAvailable"),
    )
}

pub(super) fn daemonset(set: &Value) -> Vec<String> {
    let count = |name: &str| number(set, &format!("/status/{name}"));
    let mut sentences = Vec::new();
    let (desired, current) = (count("desiredNumberScheduled"), count("currentNumberScheduled"));
    if current < desired {
        sentences.push(format!("{} of {desired} nodes have no Pod.", desired - current));
    }
    if count("numberMisscheduled") > 0 {
        sentences.push(format!(
            "{} nodes have a Pod that should not be there.",
            count("numberMisscheduled")
        ));
    }
    if count("numberReady") < current {
        sentences.push(format!("{} Pods are not ready.", current - count("numberReady")));
    }
    let outdated = desired - count("updatedNumberScheduled");
    if outdated > 0 {
        let why = if set.pointer("/spec/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete") {
            "; type OnDelete updates them when they are deleted"
        } else if is_set(set, "/spec/updateStrategy/rollingUpdate/paused") {
            "; the rollout is paused"
        } else if outdated <= number(set, "/spec/updateStrategy/rollingUpdate/partition") {
            "; the partition keeps them"
        } else {
            ""
        };
        sentences.push(format!("{outdated} Pods are not updated{why}."));
    }
    sentences
}

pub(super) fn sidecarset_summary(set: &Value) -> String {
    let count = |name: &str| number(set, &format!("/status/{name}"));
    format!(
        "{} Pods, {} updated, {} ready, {} without their sidecars",
        count("matchedPods"),
        count("updatedPods"),
        count("readyPods"),
        count("podsWithoutSidecars"),
    )
}

pub(super) fn sidecarset(set: &Value) -> Vec<String> {
    let count = |name: &str| number(set, &format!("/status/{name}"));
    let mut sentences = Vec::new();
    let outdated = count("matchedPods") - count("updatedPods");
    if outdated > 0 {
        let strategy = set.pointer("/spec/updateStrategy/type").and_then(Value::as_str);
        let why = if strategy == Some("NotUpdate") {
            "; type NotUpdate leaves them alone"
        } else if is_set(set, "/spec/updateStrategy/paused") {
            "; the update is paused"
        } else {
            ""
        };
        sentences.push(format!("{outdated} Pods are not updated{why}."));
    }
    let unready = count("matchedPods") - count("readyPods");
    if unready > 0 {
        sentences.push(format!("{unready} of {} Pods are not ready.", count("matchedPods")));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_subsets_then_each_tells_its_numbers() {
        let full = json!([{"type": "Schedulable", "status": "False"}]);
        let united = json!({
            "spec": {"replicas": 5, "topology": {"subsets": [{"name": "a"}, {"name": "b"}]}},
            "status": {"replicas": 5, "readyReplicas": 4, "updatedReplicas": 3, "subsetStatuses": [
                {"name": "a", "replicas": 3, "readyReplicas": 2, "partition": 2},
                {"name": "b", "replicas": 2, "readyReplicas": 1, "reservedPods": 1, "conditions": full},
            ]},
        });
        assert_eq!(
            united_summary(&united),
            "5 wanted in 2 subsets, 5 there, 3 updated, 4 ready"
        );
        assert_eq!(
            super::united(&united),
            [
                "Subset a: 3 Pods, 2 ready, 2 kept at the old revision.",
                "Subset b: 2 Pods, 1 ready, 1 reserved; it takes no Pods now.",
            ]
        );
    }

    #[test]
    fn given_a_sidecarset_then_its_numbers_are_told() {
        let status = json!({"matchedPods": 5, "updatedPods": 3, "readyPods": 4, "podsWithoutSidecars": 1});
        let paused = json!({"spec": {"updateStrategy": {"paused": true}}, "status": status});
        assert_eq!(
            sidecarset_summary(&paused),
            "5 Pods, 3 updated, 4 ready, 1 without their sidecars"
        );
        assert_eq!(
            sidecarset(&paused),
            [
                "2 Pods are not updated; the update is paused.",
                "1 of 5 Pods are not ready."
            ]
        );
    }

    #[test]
    fn given_a_daemonset_then_nodes_and_pods_are_told_apart() {
        let status = json!({"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "updatedNumberScheduled": 2, "numberReady": 3,
            "numberMisscheduled": 1});
        let set = json!({"spec": {}, "status": status});
        assert_eq!(
            daemonset(&set),
            [
                "1 of 5 nodes have no Pod.",
                "1 nodes have a Pod that should not be there.",
                "1 Pods are not ready.",
                "3 Pods are not updated."
            ]
        );
    }

    #[test]
    fn given_a_daemonset_that_holds_its_update_back_then_it_says_by_what() {
        let status = json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": 1, "numberReady": 3});
        for (strategy, expected) in [
            (
                json!({"type": "OnDelete"}),
                "2 Pods are not updated; type OnDelete updates them when they are deleted.",
            ),
            (
                json!({"rollingUpdate": {"paused": true}}),
                "2 Pods are not updated; the rollout is paused.",
            ),
            (
                json!({"rollingUpdate": {"partition": 2}}),
                "2 Pods are not updated; the partition keeps them.",
            ),
            (json!({"rollingUpdate": {"partition": 1}}), "2 Pods are not updated."),
        ] {
            let set = json!({"spec": {"updateStrategy": strategy}, "status": status});
            assert_eq!(daemonset(&set), [expected]);
        }
    }

    #[test]
    fn given_a_partition_then_ordinals_below_it_stay() {
        let set = |partition: i32| {
            json!({"spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}}},
                "status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 1}})
        };
        assert_eq!(
            statefulset(&set(2)),
            ["2 Pods are not at the update revision; the partition keeps them."]
        );
        assert_eq!(
            statefulset(&set(0)),
            ["2 Pods are not at the update revision, 3 should be."]
        );
    }
}
