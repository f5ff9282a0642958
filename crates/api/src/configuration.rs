//! The ConfigMap `kruise-configuration`: lists by which an administrator allows more than the default.
//!
//! - Each value is JSON. The ConfigMap, and each key in it, may be absent, which is an empty list.
//! - Field names are read in any case, `group` as well as `Group`: people write both.
//! - A value that cannot be read is an error for those who need it, and only for them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value};

use crate::names::object::configuration_key::{
    PERSISTENT_POD_STATE_WORKLOADS, SIDECAR_SET_METADATA, WORKLOAD_SPREAD_WORKLOADS,
};

/// What the ConfigMap says.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Which Pod annotations SidecarSets may change; `None` when nothing is said about it.
    pub sidecar_set_metadata: Result<Option<Vec<MetadataRule>>, ConfigurationError>,
    /// Further kinds that PersistentPodState treats as StatefulSets.
    pub persistent_pod_state: Result<Vec<CustomWorkload>, ConfigurationError>,
    /// Further kinds that WorkloadSpread can spread.
    pub workload_spread: Result<Vec<CustomWorkload>, ConfigurationError>,
}

/// Annotations that some SidecarSets may change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataRule {
    /// The SidecarSets, by their labels; all when `None`.
    pub selector: Option<LabelSelector>,
    /// Regular expressions; one of them has to fit somewhere in the key.
    pub allowed_annotation_keys: Vec<String>,
}

/// A kind that is not ours and not Kubernetes'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomWorkload {
    pub kind: GroupVersionKind,
    /// Owners between the workload and its Pods.
    pub sub_resources: Vec<GroupVersionKind>,
    /// Where the number of replicas is, with dots; empty for the usual place.
    pub replicas_path: String,
}

/// A kind in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A value of the ConfigMap that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {key} of the ConfigMap kruise-configuration: {reason}")]
pub struct ConfigurationError {
    pub key: &'static str,
    /// What is wrong with its value.
    pub reason: String,
}

impl Configuration {
    /// Reads the data of the ConfigMap; empty when there is none.
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        Self {
            sidecar_set_metadata: value(data, SIDECAR_SET_METADATA, rules),
            persistent_pod_state: value(data, PERSISTENT_POD_STATE_WORKLOADS, workloads).map(Option::unwrap_or_default),
            workload_spread: value(data, WORKLOAD_SPREAD_WORKLOADS, workloads).map(Option::unwrap_or_default),
        }
    }

    /// Returns everything that cannot be read.
    pub fn errors(&self) -> Vec<&ConfigurationError> {
        let errors = [
            self.sidecar_set_metadata.as_ref().err(),
            self.persistent_pod_state.as_ref().err(),
            self.workload_spread.as_ref().err(),
        ];
        errors.into_iter().flatten().collect()
    }
}

fn value<T>(
    data: &BTreeMap<String, String>,
    key: &'static str,
    read: fn(&Fields<'_>) -> Result<T, String>,
) -> Result<Option<T>, ConfigurationError> {
    let Some(text) = data.get(key).filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let parsed: Result<Value, _> = serde_json::from_str(text);
    let read = parsed
        .map_err(|error| error.to_string())
        .and_then(|value| read(&Fields::of(&value, "the value")?));
    read.map(Some).map_err(|reason| ConfigurationError { key, reason })
}

fn rules(fields: &Fields<'_>) -> Result<Vec<MetadataRule>, String> {
    fields.list("rules", |rule| {
        let selector = match rule.get("selector") {
            None => None,
            Some(selector) => {
                let selector = serde_json::from_value(selector.clone());
                Some(selector.map_err(|error| format!("selector: {error}"))?)
            }
        };
        let keys = rule.get("allowedAnnotationKeyExprs").cloned().unwrap_or_default();
        let keys: Option<Vec<String>> =
            serde_json::from_value(keys).map_err(|error| format!("allowedAnnotationKeyExprs: {error}"))?;
        Ok(MetadataRule {
            selector,
            allowed_annotation_keys: keys.unwrap_or_default(),
        })
    })
}

fn workloads(fields: &Fields<'_>) -> Result<Vec<CustomWorkload>, String> {
    fields.list("workloads", |workload| {
        Ok(CustomWorkload {
            kind: kind(workload)?,
            sub_resources: workload.list("subResources", kind)?,
            replicas_path: workload.text("replicasPath")?,
        })
    })
}

fn kind(fields: &Fields<'_>) -> Result<GroupVersionKind, String> {
    Ok(GroupVersionKind {
        group: fields.text("group")?,
        version: fields.text("version")?,
        kind: fields.text("kind")?,
    })
}

/// The fields of an object, whose names are read in any case.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn of(value: &'a Value, what: &str) -> Result<Self, String> {
        value
            .as_object()
            .map(Fields)
            .ok_or_else(|| format!("{what} has to be an object"))
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        let found = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<String, String> {
        match self.get(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(format!("{name} has to be a text")),
        }
    }

    fn list<T>(&self, name: &str, read: impl Fn(&Fields<'_>) -> Result<T, String>) -> Result<Vec<T>, String> {
        let Some(value) = self.get(name) else {
            return Ok(Vec::new());
        };
        let items = value.as_array().ok_or_else(|| format!("{name} has to be a list"))?;
        items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let place = format!("{name}[{index}]");
                Fields::of(item, &place).and_then(|fields| read(&fields).map_err(|error| format!("{place}: {error}")))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &str, value: &str) -> Configuration {
        Configuration::read(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn given_nothing_then_the_lists_are_empty() {
        let nothing = Configuration::read(&BTreeMap::new());
        assert_eq!(nothing.sidecar_set_metadata, Ok(None));
        assert_eq!(nothing.persistent_pod_state, Ok(vec![]));
        assert_eq!(nothing, read(WORKLOAD_SPREAD_WORKLOADS, " \n"));
        assert_eq!(nothing.errors(), Vec::<&ConfigurationError>::new());
    }

    #[test]
    fn given_field_names_in_any_case_then_they_are_read() {
        let expected = CustomWorkload {
            kind: GroupVersionKind {
                group: "x.io".into(),
                version: "v1".into(),
                kind: "Foo".into(),
            },
            sub_resources: vec![GroupVersionKind {
                kind: "Part".into(),
                ..GroupVersionKind::default()
            }],
            replicas_path: "spec.replicas".into(),
        };
        for text in [
            r#"{"workloads":[{"Group":"x.io","Version":"v1","Kind":"Foo","subResources":[{"Kind":"Part"}],"replicasPath":"spec.replicas"}]}"#,
            r#"{"WORKLOADS":[{"group":"x.io","version":"v1","kind":"Foo","subresources":[{"KIND":"Part"}],"ReplicasPath":"spec.replicas","more":1}]}"#,
        ] {
            let read = read(WORKLOAD_SPREAD_WORKLOADS, text);
            assert_eq!(read.workload_spread, Ok(vec![expected.clone()]));
        }
    }

    #[test]
    fn given_rules_for_metadata_then_labels_keep_their_case() {
        let text = r#"{"rules":[{"selector":{"matchLabels":{"App":"A"}},"allowedAnnotationKeyExprs":["^a/"]},{"allowedannotationkeyexprs":null}]}"#;
        let rules = read(SIDECAR_SET_METADATA, text).sidecar_set_metadata.unwrap().unwrap();
        let selector = rules[0].selector.as_ref().unwrap();
        assert_eq!(selector.match_labels.as_ref().unwrap()["App"], "A");
        assert_eq!(rules[0].allowed_annotation_keys, ["^a/"]);
        assert_eq!(rules[1], MetadataRule::default());
    }

    #[test]
    fn given_values_that_cannot_be_read_then_only_their_key_is_wrong() {
        for (text, part) in [
            ("{", "EOF"),
            ("[]", "has to be an object"),
            (r#"{"workloads":{}}"#, "workloads has to be a list"),
            (r#"{"workloads":[7]}"#, "workloads[0] has to be an object"),
            (r#"{"workloads":[{"kind":7}]}"#, "workloads[0]: kind has to be a text"),
            (
                r#"{"workloads":[{"subResources":[{"group":[]}]}]}"#,
                "workloads[0]: subResources[0]: group",
            ),
        ] {
            let configuration = read(PERSISTENT_POD_STATE_WORKLOADS, text);
            let errors = configuration.errors();
            assert_eq!(errors.len(), 1, "{text}");
            let message = errors[0].to_string();
            assert!(
                message.contains(PERSISTENT_POD_STATE_WORKLOADS) && message.contains(part),
                "{message}"
            );
            assert_eq!(configuration.workload_spread, Ok(vec![]));
        }
        let wrong = read(SIDECAR_SET_METADATA, r#"{"rules":[{"selector":"all"}]}"#);
        assert!(wrong.sidecar_set_metadata.is_err());
    }
}
