//! What is written on a Pod about the sets that were injected: the hashes by which its containers are compared later, the list of sets, and which container of a hot
//! upgrade works. The bytes are those of the original.

use super::{InjectError, Injection, container::names_of_twins};
use crate::shared::go_json;
use crate::shared::tree::{Object, child_or_new};
use jiff::Timestamp;
use kruise_api::names::annotation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a Pod says about one set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    #[serde(default)]
    pub update_timestamp: Option<String>,
    #[serde(default)]
    pub hash: String,
    #[serde(default)]
    pub sidecar_set_name: String,
    #[serde(default)]
    pub sidecar_list: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub controller_revision: String,
}

/// The records of a Pod by set. A form of old releases, which has nothing but the hash, is understood.
///
/// # Errors
/// When the text is not such a map.
pub fn read(text: &str) -> Result<BTreeMap<String, Record>, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        Hash(String),
        Record(Record),
    }
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    let entries: BTreeMap<String, Entry> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let record = |(name, entry): (String, Entry)| match entry {
        Entry::Record(record) => (name, record),
        Entry::Hash(hash) => {
            let record = Record {
                hash,
                sidecar_set_name: name.clone(),
                ..Record::default()
            };
            (name, record)
        }
    };
    Ok(entries.into_iter().map(record).collect())
}

/// The text of records, as the original writes it.
pub fn text(records: &BTreeMap<String, Record>) -> String {
    go_json::escape(&serde_json::to_string(records).unwrap_or_default())
}

/// A time as it stands in annotations.
pub fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Writes down what is injected; `hot` are the declared names of containers of which there are two.
pub(super) fn write(
    pod: &mut Value,
    sets: &[Injection<'_>],
    hot: &[String],
    now: Timestamp,
) -> Result<(), InjectError> {
    let Some(annotations) = pod
        .as_object_mut()
        .and_then(|pod| child_or_new(pod, "metadata"))
        .and_then(|metadata| child_or_new(metadata, "annotations"))
    else {
        return Ok(());
    };
    let now = time(now);
    for (key, of_images) in [
        (annotation::SIDECAR_SET_HASH, true),
        (annotation::SIDECAR_SET_HASH_WITHOUT_IMAGE, false),
    ] {
        let there = read(value(annotations, key)).map_err(|reason| InjectError::Annotation { key, reason })?;
        let mut records = there;
        for set in sets {
            let hash = if of_images {
                &set.hashes.hash
            } else {
                &set.hashes.without_image
            };
            let revision = if of_images { &*set.revision } else { "" };
            let record = Record {
                update_timestamp: Some(now.clone()),
                hash: hash.clone(),
                sidecar_set_name: set.name.to_owned(),
                sidecar_list: Some(set.sidecars().into_iter().map(str::to_owned).collect()),
                controller_revision: revision.to_owned(),
            };
            records.insert(set.name.to_owned(), record);
        }
        put(annotations, key, text(&records));
    }
    let listed = value(annotations, annotation::SIDECAR_SET_INJECTED);
    let listed = listed.split(',').filter(|name| !name.is_empty());
    let names: BTreeSet<&str> = listed.chain(sets.iter().map(|set| set.name)).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(",");
    put(annotations, annotation::SIDECAR_SET_INJECTED, names);
    write_versions(annotations, hot)
}

fn write_versions(annotations: &mut Object, hot: &[String]) -> Result<(), InjectError> {
    if hot.is_empty() {
        return Ok(());
    }
    let key = annotation::SIDECAR_SET_WORKING_CONTAINER;
    let there = match value(annotations, key) {
        "" => Ok(BTreeMap::new()),
        text => serde_json::from_str::<BTreeMap<String, String>>(text),
    };
    let mut working = there.map_err(|error| InjectError::Annotation {
        key,
        reason: error.to_string(),
    })?;
    for declared in hot {
        let (first, second) = names_of_twins(declared);
        for (name, version, other) in [(&first, "1", "0"), (&second, "0", "1")] {
            put(
                annotations,
                &format!("{}{name}", annotation::SIDECAR_VERSION_PREFIX),
                version.to_owned(),
            );
            put(
                annotations,
                &format!("{}{name}", annotation::SIDECAR_VERSION_ALT_PREFIX),
                other.to_owned(),
            );
        }
        working.insert(declared.clone(), first);
    }
    let text = go_json::escape(&serde_json::to_string(&working).unwrap_or_default());
    put(annotations, key, text);
    Ok(())
}

fn value<'a>(annotations: &'a Object, key: &str) -> &'a str {
    annotations.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn put(annotations: &mut Object, key: &str, value: String) {
    annotations.insert(key.to_owned(), Value::String(value));
}
