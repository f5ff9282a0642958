//! What a Pod carries about its SidecarSets: which ones it has, at which hash, and which images ran before an update.
//!
//! Each of these annotations is a JSON map with an entry per set, and a set changes only its own. The oldest releases wrote nothing but the hash; that is read,
//! and becomes a whole entry when the map is written the next time.

use std::collections::BTreeMap;

use kruise_api::names::annotation;
use kruise_api::pod::Pod;
use serde::{Deserialize, Deserializer, Serialize};

use crate::shared::go_json;

/// What a Pod says about one set. Fields are in the order in which the original writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// When the containers got there.
    pub update_timestamp: Option<String>,
    /// Hash of the set that the containers are at.
    pub hash: String,
    /// Name of the set.
    pub sidecar_set_name: String,
    /// Containers of the set.
    pub sidecar_list: Option<Vec<String>>,
    /// Revision of the set that the containers are at.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub controller_revision: String,
}

/// What ran before an update of a set's containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateState {
    /// Hash of the set at the first update.
    pub revision: String,
    /// Time of the first update.
    pub update_timestamp: Option<String>,
    /// The images that were replaced, by container.
    #[serde(deserialize_with = "or_default")]
    pub last_container_statuses: BTreeMap<String, LastStatus>,
}

/// What a container ran before an update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastStatus {
    /// Its image, by ID; empty when that was not known.
    #[serde(rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
}

/// Records by set, as one annotation has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// By set.
    pub by_set: BTreeMap<String, Record>,
    /// One of them is in the form of the oldest releases.
    pub has_old_form: bool,
}

impl Records {
    /// Reads an annotation of a Pod; nothing is in it when the Pod does not have it.
    pub fn read(pod: &Pod, key: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Hash(String),
            #[serde(rename_all = "camelCase")]
            Record {
                #[serde(default)]
                update_timestamp: Option<String>,
                #[serde(default)]
                hash: String,
                #[serde(default)]
                sidecar_set_name: String,
                #[serde(default)]
                sidecar_list: Option<Vec<String>>,
                #[serde(default)]
                controller_revision: String,
            },
        }
        let forms: BTreeMap<String, Form> = read_map(pod, key)?;
        let mut records = Self::default();
        for (set, form) in forms {
            let record = match form {
                Form::Hash(hash) => {
                    records.has_old_form = true;
                    Record {
                        hash,
                        sidecar_set_name: set.clone(),
                        ..Record::default()
                    }
                }
                Form::Record {
                    update_timestamp,
                    hash,
                    sidecar_set_name,
                    sidecar_list,
                    controller_revision,
                } => Record {
                    update_timestamp,
                    hash,
                    sidecar_set_name,
                    sidecar_list,
                    controller_revision,
                },
            };
            records.by_set.insert(set, record);
        }
        Ok(records)
    }

    /// Returns the hash that a set's containers are at; empty when the Pod does not say.
    pub fn hash(&self, set: &str) -> &str {
        self.by_set.get(set).map_or("", |record| &record.hash)
    }

    /// Returns the annotation.
    pub fn text(&self) -> String {
        written(&self.by_set)
    }
}

/// Returns the names of the sets that a Pod says were injected into it.
pub fn injected(pod: &Pod) -> impl Iterator<Item = &str> {
    let list = pod
        .metadata
        .annotation(annotation::SIDECAR_SET_INJECTED)
        .unwrap_or_default();
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Returns what ran before the last updates, by set.
pub fn update_states(pod: &Pod) -> Result<BTreeMap<String, UpdateState>, String> {
    read_map(pod, annotation::SIDECAR_SET_IN_PLACE_STATE)
}

/// Returns which container works now, by sidecar that is updated hot.
pub fn working_containers(pod: &Pod) -> Result<BTreeMap<String, String>, String> {
    read_map(pod, annotation::SIDECAR_SET_WORKING_CONTAINER)
}

/// Returns a map as the text of an annotation.
pub fn written<T: Serialize>(map: &BTreeMap<String, T>) -> String {
    let text = serde_json::to_string(map).unwrap_or_else(|_| "{}".to_owned());
    go_json::escape(&text)
}

fn read_map<T: serde::de::DeserializeOwned>(pod: &Pod, key: &str) -> Result<BTreeMap<String, T>, String> {
    let Some(text) = pod.metadata.annotation(key).filter(|text| !text.is_empty()) else {
        return Ok(BTreeMap::new());
    };
    let map: Option<BTreeMap<String, T>> =
        serde_json::from_str(text).map_err(|error| format!("annotation {key}: {error}"))?;
    Ok(map.unwrap_or_default())
}

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::fixture::{Fixture as _, running_pod};

    fn pod(value: &str) -> Pod {
        running_pod("p").annotation(annotation::SIDECAR_SET_HASH, value).typed()
    }

    #[test]
    fn records_are_written_as_they_were_read() {
        let text = r#"{"log":{"updateTimestamp":"2024-05-01T08:00:00Z","hash":"bzv6","sidecarSetName":"log","sidecarList":["log"],"controllerRevision":"log-78d6bc76b8"},"z":{"updateTimestamp":null,"hash":"a","sidecarSetName":"z","sidecarList":null}}"#;
        let records = Records::read(&pod(text), annotation::SIDECAR_SET_HASH).unwrap();
        assert_eq!((records.text(), records.has_old_form), (text.to_owned(), false));
        assert_eq!((records.hash("log"), records.hash("none")), ("bzv6", ""));
    }

    #[test]
    fn the_oldest_form_is_read_and_becomes_a_whole_entry() {
        let records = Records::read(&pod(r#"{"log":"abc"}"#), annotation::SIDECAR_SET_HASH).unwrap();
        assert!(records.has_old_form);
        assert_eq!(
            records.text(),
            r#"{"log":{"updateTimestamp":null,"hash":"abc","sidecarSetName":"log","sidecarList":null}}"#
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for text in ["{", "[]", "1", r#"{"log":1}"#] {
            let error = Records::read(&pod(text), annotation::SIDECAR_SET_HASH).unwrap_err();
            assert!(error.contains("kruise.io/sidecarset-hash"), "{error}");
        }
        assert_eq!(
            Records::read(&pod("null"), annotation::SIDECAR_SET_HASH),
            Ok(Records::default())
        );
        assert_eq!(
            injected(
                &running_pod("p")
                    .annotation(annotation::SIDECAR_SET_INJECTED, "a, b,,")
                    .typed()
            )
            .collect::<Vec<_>>(),
            ["a", "b"]
        );
    }
}
