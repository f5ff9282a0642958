//! What does not count as a difference between a recording and our answer.
//!
//! The original decodes into typed structures and encodes them again. That leaves traces which say nothing: empty
//! blocks for structures that are not pointers, nulls, zero-filled status, quantities in canonical form, and, the
//! other way round, fields with a zero or empty value disappear. We change nothing that a rule does not name.
//!
//! [`ARTEFACTS`] lists every such place with the value that means the same as *absent* there; it is removed on both
//! sides before comparing. Two rules need code: a status in which every field is zero is no status, and quantities of
//! containers and claims are compared by their amount. Everything else has to be equal or stand in the table of
//! differences.

use serde_json::Value;

/// (kind or `*`, path, value that equals absent). `**` stands for any number of steps, `*` for one.
const ARTEFACTS: &[(&str, &str, &str)] = &[
    // Kubernetes' own structures.
    ("*", "**.creationTimestamp", "null"),
    ("*", "**.metadata", "{}"),
    ("*", "metadata.annotations", "{}"),
    ("*", "metadata.labels", "{}"),
    ("*", "**.containers[].resources", "{}"),
    ("*", "**.initContainers[].resources", "{}"),
    ("*", "**.resourceFieldRef.divisor", "\"0\""),
    ("*", "**.grpc.service", "null"),
    ("*", "spec.volumeClaimTemplates[].status", "{}"),
    ("*", "spec.template.spec.containers", "null"),
    ("*", "spec.template.spec", "{}"),
    ("*", "status.conditions[].lastUpdateTime", "null"),
    ("*", "status.conditions[].lastTransitionTime", "null"),
    ("*", "spec.updateStrategy", "{}"),
    (
        "advancedcronjob",
        "spec.template.broadcastJobTemplate.spec.completionPolicy",
        "{}",
    ),
    (
        "advancedcronjob",
        "spec.template.broadcastJobTemplate.spec.failurePolicy",
        "{}",
    ),
    // False is the default of the v1beta1 schema, 0 that of a grace period.
    ("cloneset", "spec.scaleStrategy.enablePVCReuse", "false"),
    ("cloneset", "spec.scaleStrategy", "{}"),
    ("cloneset", "spec.updateStrategy.inPlaceUpdateStrategy", "{}"),
    (
        "cloneset",
        "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.gracePeriodSeconds",
        "0",
    ),
    (
        "cloneset",
        "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy",
        "{}",
    ),
    ("daemonset", "spec.scaleStrategy.partitionedScaling", "false"),
    ("daemonset", "spec.scaleStrategy", "{}"),
    // A required list without items: the original writes null, which the schema refuses.
    ("persistentpodstate", "spec.requiredPersistentTopology.keys", "null"),
    ("persistentpodstate", "spec.requiredPersistentTopology.keys", "[]"),
    (
        "persistentpodstate",
        "spec.requiredPersistentTopology.nodeTopologyKeys",
        "null",
    ),
    (
        "persistentpodstate",
        "spec.requiredPersistentTopology.nodeTopologyKeys",
        "[]",
    ),
    ("persistentpodstate", "spec.preferredPersistentTopology", "[]"),
    ("persistentpodstate", "spec.persistentPodAnnotations", "[]"),
    ("persistentpodstate", "status.podStates.*.annotations", "{}"),
    ("persistentpodstate", "status.podStates.*.nodeTopologyLabels", "{}"),
    ("podunavailablebudget", "status.observedGeneration", "0"),
    ("resourcedistribution", "spec.targets.includedNamespaces.list", "[]"),
    ("resourcedistribution", "spec.targets.excludedNamespaces.list", "[]"),
    ("resourcedistribution", "spec.targets.includedNamespaces", "{}"),
    ("resourcedistribution", "spec.targets.excludedNamespaces", "{}"),
    ("resourcedistribution", "spec.targets.namespaceLabelSelector", "{}"),
    ("resourcedistribution", "spec.targets.namespaceSelector", "{}"),
    ("resourcedistribution", "status.conditions[].failedNamespace", "[]"),
    ("resourcedistribution", "status.conditions[].failedNamespaces", "[]"),
    ("sidecarset", "spec.*[].shareVolumePolicy", "{}"),
    ("sidecarset", "spec.*[].upgradeStrategy", "{}"),
    ("sidecarset", "spec.imagePullSecrets[].name", "\"\""),
    ("sidecarset", "spec.injectionStrategy", "{}"),
    ("statefulset", "spec.volumeClaimUpdateStrategy", "{}"),
    ("uniteddeployment", "spec.template.*.spec.strategy", "{}"),
    ("uniteddeployment", "spec.template.*.spec.updateStrategy", "{}"),
    (
        "uniteddeployment",
        "spec.template.cloneSetTemplate.spec.scaleStrategy.enablePVCReuse",
        "false",
    ),
    ("uniteddeployment", "spec.topology.scheduleStrategy", "{}"),
    ("uniteddeployment", "spec.topology.subsets[].nodeSelectorTerm", "{}"),
    ("uniteddeployment", "spec.topology.subsets[].patch", "null"),
    ("uniteddeployment", "status.subsetStatuses[].partition", "0"),
    ("uniteddeployment", "status.subsetStatuses[].replicas", "0"),
    ("workloadspread", "spec.scheduleStrategy.type", "\"\""),
    ("workloadspread", "spec.scheduleStrategy", "{}"),
    ("workloadspread", "spec.subsets[].patch", "null"),
    ("workloadspread", "status.subsetStatuses[].conditions[].message", "\"\""),
];

/// Removes the artefacts of `kind` from `value`.
pub(crate) fn normal(kind: &str, mut value: Value) -> Value {
    let rules: Vec<(Vec<&str>, Value)> = ARTEFACTS
        .iter()
        .filter(|(of, ..)| *of == kind || *of == "*")
        .map(|(_, path, value)| {
            let steps = path.split('.').flat_map(|step| match step.strip_suffix("[]") {
                Some(name) => vec![name, "[]"],
                None => vec![step],
            });
            (steps.collect(), serde_json::from_str(value).expect(path))
        })
        .collect();
    clean(&mut value, &mut Vec::new(), &rules);
    if value.get("status").is_some_and(zero) {
        value.as_object_mut().expect("an object").remove("status");
    }
    value
}

/// Inner fields first, so that a block emptied by one rule can fall to another.
fn clean(value: &mut Value, path: &mut Vec<String>, rules: &[(Vec<&str>, Value)]) {
    match value {
        Value::Object(object) => {
            for (name, field) in object.iter_mut() {
                path.push(name.clone());
                clean(field, path, rules);
                path.pop();
            }
            object.retain(|name, field| {
                path.push(name.clone());
                let artefact = rules.iter().any(|(rule, value)| value == field && matches(rule, path));
                path.pop();
                !artefact
            });
            if let [.., parent, last] = path.as_slice()
                && parent == "resources"
                && (last == "limits" || last == "requests")
            {
                object.values_mut().for_each(|quantity| *quantity = amount(quantity));
            }
        }
        Value::Array(items) => {
            path.push("[]".to_owned());
            for item in items {
                clean(item, path, rules);
            }
            path.pop();
        }
        _ => {}
    }
}

fn matches(rule: &[&str], path: &[String]) -> bool {
    match rule {
        [] => path.is_empty(),
        ["**", rest @ ..] => (0..=path.len()).any(|skip| matches(rest, &path[skip..])),
        [step, rest @ ..] => path.first().is_some_and(|name| *step == "*" || step == name) && matches(rest, &path[1..]),
    }
}

fn zero(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(zero),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        other => *other == 0 || *other == "",
    }
}

/// A quantity in millionths, so that `0.5` equals `500m` and `1024Mi` equals `1Gi`.
fn amount(quantity: &Value) -> Value {
    let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let scale = match suffix {
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        other => panic!("unit {other:?} of {text:?}"),
    };
    let millionths = number.parse::<f64>().expect("a number") * scale * 1e6;
    format!("{millionths:.0}u").into()
}

#[test]
fn only_the_listed_values_at_the_listed_places_are_removed() {
    let object = serde_json::json!({
        "metadata": {"name": "x", "creationTimestamp": null},
        "spec": {
            "scaleStrategy": {"enablePVCReuse": false},
            "updateStrategy": {"paused": false},
            "template": {"metadata": {"creationTimestamp": null}, "spec": {"containers": [
                {"resources": {}}, {"resources": {"limits": {"cpu": "0.5"}}}]}},
        },
        "status": {"replicas": 0, "conditions": []},
    });
    let expected = serde_json::json!({
        "metadata": {"name": "x"},
        "spec": {
            "updateStrategy": {"paused": false},
            "template": {"spec": {"containers": [{}, {"resources": {"limits": {"cpu": "500000u"}}}]}},
        },
    });
    assert_eq!(normal("cloneset", object.clone()), expected);
    assert_ne!(normal("daemonset", object), expected, "reuse belongs to CloneSet");
}
