//! The object as it is to be: what a file says, put over what is there as `kubectl apply` does it for kinds of ours.
//!
//! - What the file says replaces what is there, field by field; lists as a whole, `null` removes.
//! - What was applied the last time and is not in the file any more is removed.
//! - Everything else stays.

use anyhow::{Context as _, Result};
use kruise_api::merge_patch::merge;
use serde_json::{Map, Value, json};

const LAST_APPLIED: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
/// Metadata that a write sets; the rest is the API server's.
const OWN: [&str; 5] = ["name", "namespace", "labels", "annotations", "finalizers"];

/// A field that becomes another.
#[derive(Debug, PartialEq)]
pub(super) struct Change {
    /// `spec.template.spec.containers[0].image`.
    pub(super) path: String,
    pub(super) from: Option<Value>,
    pub(super) to: Option<Value>,
}

impl Change {
    pub(super) fn json(&self) -> Value {
        json!({"path": self.path, "from": self.from, "to": self.to})
    }
}

/// All objects of a text in YAML or JSON, which may hold several, and lists of them.
pub(super) fn read(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("it is neither YAML nor JSON")?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Object(mut list) if list.get("items").is_some_and(Value::is_array) => {
                if let Some(Value::Array(items)) = list.remove("items") {
                    objects.extend(items);
                }
            }
            Value::Null => {}
            object => objects.push(object),
        }
    }
    Ok(objects)
}

/// The object as it would be after the file is applied.
pub(super) fn apply(live: Option<&Value>, file: &Value) -> Value {
    let mut file = file.clone();
    if let Some(object) = file.as_object_mut() {
        object.remove("status");
    }
    let Some(live) = live else {
        return file;
    };
    let mut proposed = live.clone();
    let metadata = proposed.get_mut("metadata").and_then(Value::as_object_mut);
    let last = live.pointer(LAST_APPLIED).and_then(Value::as_str);
    let last = last.and_then(|last| serde_json::from_str::<Value>(last).ok());
    if let Some(metadata) = metadata {
        metadata.retain(|field, _| OWN.contains(&field.as_str()));
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            // It is written anew by whoever applies.
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    if let Some(object) = proposed.as_object_mut() {
        object.remove("status");
    }
    if let Some(last) = last {
        merge(&mut proposed, &given_up(&last, &file));
    }
    merge(&mut proposed, &file);
    proposed
}

/// A patch that removes what was applied before and is not wanted any more.
fn given_up(last: &Value, file: &Value) -> Value {
    let mut patch = Map::new();
    for (field, before) in last.as_object().into_iter().flatten() {
        match file.get(field) {
            None => drop(patch.insert(field.clone(), Value::Null)),
            Some(after) if before.is_object() && after.is_object() => {
                drop(patch.insert(field.clone(), given_up(before, after)));
            }
            Some(_) => {}
        }
    }
    Value::Object(patch)
}

/// What becomes another in the spec, the labels and the annotations.
pub(super) fn changes(live: &Value, proposed: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    for path in ["/metadata/labels", "/metadata/annotations", "/spec"] {
        let name = path.trim_start_matches('/').replace('/', ".");
        compare(name, live.pointer(path), proposed.pointer(path), &mut changes);
    }
    changes.retain(|change| !change.path.contains("kubectl.kubernetes.io/last-applied-configuration"));
    changes
}

fn compare(path: String, from: Option<&Value>, to: Option<&Value>, changes: &mut Vec<Change>) {
    match (from, to) {
        (from, to) if from == to => {}
        (Some(Value::Object(from)), Some(Value::Object(to))) => {
            let fields = from.keys().chain(to.keys().filter(|field| !from.contains_key(*field)));
            for field in fields {
                let path = if field.contains(['.', '/']) {
                    format!("{path}[{field:?}]")
                } else {
                    format!("{path}.{field}")
                };
                compare(path, from.get(field), to.get(field), changes);
            }
        }
        (Some(Value::Array(from)), Some(Value::Array(to))) => {
            for place in 0..from.len().max(to.len()) {
                compare(format!("{path}[{place}]"), from.get(place), to.get(place), changes);
            }
        }
        (from, to) => changes.push(Change {
            path,
            from: from.cloned(),
            to: to.cloned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Value {
        let last =
            json!({"metadata": {"labels": {"team": "a", "old": "x"}}, "spec": {"replicas": 3, "minReadySeconds": 5}});
        json!({
            "metadata": {"name": "web", "uid": "1", "resourceVersion": "7", "labels": {"team": "a", "old": "x", "mine": "y"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": last.to_string(), "a": "b"}},
            "spec": {"replicas": 3, "minReadySeconds": 5, "revisionHistoryLimit": 10, "template": {"spec": {"containers": [{"name": "main", "image": "nginx:1", "terminationMessagePath": "/x"}]}}},
            "status": {"replicas": 3},
        })
    }

    #[test]
    fn given_a_file_then_it_is_applied_as_kubectl_does() {
        let file = json!({"metadata": {"name": "web", "labels": {"team": "b"}},
            "spec": {"replicas": 5, "template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}, "status": {"replicas": 9}});
        let expected = json!({
            "metadata": {"name": "web", "labels": {"team": "b", "mine": "y"}, "annotations": {"a": "b"}},
            "spec": {"replicas": 5, "revisionHistoryLimit": 10, "template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}},
        });
        assert_eq!(apply(Some(&live()), &file), expected);
        let new = apply(None, &file);
        assert_eq!((new.get("status"), &new["spec"]["replicas"]), (None, &json!(5)));
    }

    #[test]
    fn given_a_change_then_its_fields_are_named() {
        let mut proposed = live();
        merge(
            &mut proposed,
            &json!({"metadata": {"labels": {"old": null}, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x", "a.b/c": "d"}}}),
        );
        proposed["spec"]["template"]["spec"]["containers"] =
            json!([{"name": "main", "image": "nginx:2", "terminationMessagePath": "/x"}, {"name": "side"}]);
        let changes = changes(&live(), &proposed);
        let shown: Vec<(&str, Option<&Value>, Option<&Value>)> = changes
            .iter()
            .map(|change| (&*change.path, change.from.as_ref(), change.to.as_ref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("metadata.labels.old", Some(&json!("x")), None),
                ("metadata.annotations[\"a.b/c\"]", None, Some(&json!("d"))),
                (
                    "spec.template.spec.containers[0].image",
                    Some(&json!("nginx:1")),
                    Some(&json!("nginx:2"))
                ),
                ("spec.template.spec.containers[1]", None, Some(&json!({"name": "side"}))),
            ]
        );
    }

    #[test]
    fn given_several_documents_and_lists_then_all_objects_are_read() {
        let text = "---\nkind: A\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n---\n";
        let kinds: Vec<Value> = read(text)
            .unwrap()
            .iter()
            .map(|object| object["kind"].clone())
            .collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert!(read("a: [").is_err());
    }
}
