//! How many Pods a workload should have, read from the object as it is.
//!
//! In this order: the sum of what the paths of the `targetFilter` lead to, what the path of the white list leads to, `spec.replicas`; of a Job
//! `spec.parallelism`. A path has dots between its names, and numbers for places in lists. One that leads nowhere, or to something that is not a whole
//! number, is an error.

use kruise_api::workloadspread::v1beta1::WorkloadSpread;
use serde_json::Value;

/// Returns the replicas of the workload that a spread is for; `path` is the one of the white list, where it has one.
///
/// # Errors
/// When a path leads nowhere.
pub fn replicas(spread: &WorkloadSpread, workload: &Value, path: Option<&str>) -> Result<i32, String> {
    let filter = spread.spec.target_filter.as_ref();
    let paths = filter
        .map(|filter| filter.replicas_path_list.as_slice())
        .unwrap_or_default();
    if !paths.is_empty() {
        return paths
            .iter()
            .try_fold(0_i32, |sum, path| Ok(sum.saturating_add(at(workload, path)?)));
    }
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        return at(workload, path);
    }
    let target = spread.spec.target_ref.as_ref();
    let field = if target.is_some_and(|target| target.kind == "Job") {
        "/spec/parallelism"
    } else {
        "/spec/replicas"
    };
    // Not given is one, as Kubernetes has it for all its workloads.
    let count = workload.pointer(field).and_then(Value::as_i64).unwrap_or(1);
    Ok(i32::try_from(count).unwrap_or(i32::MAX))
}

/// Whether the replicas are where a user said.
pub fn has_paths(spread: &WorkloadSpread) -> bool {
    let filter = spread.spec.target_filter.as_ref();
    filter.is_some_and(|filter| !filter.replicas_path_list.is_empty())
}

fn at(workload: &Value, path: &str) -> Result<i32, String> {
    let mut value = workload;
    for name in path.split('.') {
        let next = match value {
            Value::Array(items) => name.parse::<usize>().ok().and_then(|index| items.get(index)),
            value => value.get(name),
        };
        value = next.ok_or_else(|| format!("the path {path} leads nowhere: there is no {name}"))?;
    }
    let count = value.as_i64().and_then(|count| i32::try_from(count).ok());
    count.ok_or_else(|| format!("the path {path} leads to {value}, which is not a whole number of 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_paths_then_the_first_kind_of_path_counts() {
        let job = json!({"spec": {"replicas": 2, "parallelism": 4, "text": "x",
            "groups": [{"replicas": 3}, {"replicas": 5}], "specs": {"Worker": {"replicas": 7}}}});
        let spread = |kind: &str, paths: Value| -> WorkloadSpread {
            let spec = json!({"targetRef": {"apiVersion": "a/v1", "kind": kind, "name": "n"}, "subsets": [],
                "targetFilter": {"replicasPathList": paths}});
            serde_json::from_value(json!({"spec": spec})).unwrap()
        };
        for (kind, paths, listed, expected) in [
            (
                "Foo",
                json!(["spec.groups.0.replicas", "spec.groups.1.replicas"]),
                Some("spec.replicas"),
                Ok(8),
            ),
            ("Foo", json!([]), Some("spec.specs.Worker.replicas"), Ok(7)),
            ("Foo", json!([]), Some(""), Ok(2)),
            ("Foo", json!([]), None, Ok(2)),
            ("Job", json!([]), None, Ok(4)),
            ("Foo", json!(["spec.groups.2.replicas"]), None, Err(())),
            ("Foo", json!(["spec.groups.x.replicas"]), None, Err(())),
            ("Foo", json!(["spec.text"]), None, Err(())),
            ("Foo", json!([""]), None, Err(())),
        ] {
            let found = replicas(&spread(kind, paths.clone()), &job, listed);
            assert_eq!(found.map_err(drop), expected, "{kind} {paths} {listed:?}");
        }
        assert_eq!(replicas(&spread("Foo", json!([])), &json!({}), None), Ok(1));
        assert!(has_paths(&spread("Foo", json!(["a"]))) && !has_paths(&spread("Foo", json!([]))));
    }
}
