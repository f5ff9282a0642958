//! What is written on a Pod about the sets that were injected: the hashes by which its containers are compared later, the list of sets, and which container of a hot
//! upgrade works. The bytes are those of the original.
//!
//! A set is written down with the containers that it brought. One whose name another set had before is not among them: it is not updated by the wrong set.

use super::{Declared, InjectError, Injection, lasting_of};
use crate::shared::seconds::to_the_second;
use crate::shared::tree::{Object, child_or_new};
use crate::sidecarset::records::{Record, Records, written};
use jiff::Timestamp;
use kruise_api::names::{annotation, pattern};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Writes down what is injected: what each set brings.
pub(super) fn write(
    pod: &mut Value,
    sets: &[Injection<'_>],
    brought: &[Vec<Declared<'_>>],
    now: Timestamp,
) -> Result<(), InjectError> {
    let Some(annotations) = pod
        .as_object_mut()
        .and_then(|pod| child_or_new(pod, "metadata"))
        .and_then(|metadata| child_or_new(metadata, "annotations"))
    else {
        return Ok(());
    };
    let now = to_the_second(now);
    for (key, of_images) in [
        (annotation::SIDECAR_SET_HASH, true),
        (annotation::SIDECAR_SET_HASH_WITHOUT_IMAGE, false),
    ] {
        let unreadable = |error: serde_json::Error| InjectError::Annotation {
            key,
            reason: error.to_string(),
        };
        let mut records = Records::parse(value(annotations, key)).map_err(unreadable)?;
        for (set, brought) in sets.iter().zip(brought) {
            let (hash, revision) = if of_images {
                (&set.hashes.hash, &*set.revision)
            } else {
                (&set.hashes.without_image, "")
            };
            let record = Record {
                update_timestamp: Some(now.clone()),
                hash: hash.clone(),
                sidecar_set_name: set.name.to_owned(),
                sidecar_list: Some(lasting_of(brought)),
                controller_revision: revision.to_owned(),
            };
            records.by_set.insert(set.name.to_owned(), record);
        }
        put(annotations, key, records.text());
    }
    let listed = value(annotations, annotation::SIDECAR_SET_INJECTED);
    let listed = listed.split(',').filter(|name| !name.is_empty());
    let names: BTreeSet<&str> = listed.chain(sets.iter().map(|set| set.name)).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(",");
    put(annotations, annotation::SIDECAR_SET_INJECTED, names);
    let twice = brought.iter().flatten().filter(|each| each.is_twice());
    write_versions(
        annotations,
        &twice.map(|each| each.container.name()).collect::<Vec<_>>(),
    )
}

fn write_versions(annotations: &mut Object, hot: &[&str]) -> Result<(), InjectError> {
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
        let [first, second] = pattern::hot_upgrade_containers(declared);
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
        working.insert((*declared).to_owned(), first);
    }
    put(annotations, key, written(&working));
    Ok(())
}

fn value<'a>(annotations: &'a Object, key: &str) -> &'a str {
    annotations.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn put(annotations: &mut Object, key: &str, value: String) {
    annotations.insert(key.to_owned(), Value::String(value));
}
