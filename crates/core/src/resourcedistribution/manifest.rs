//! The resource that is distributed: what its copies look like, and whether one says what it should.
//!
//! - A copy is the manifest in another namespace, with the distribution as its controller and two annotations that say where it comes from. The hash among
//!   them is for people; nothing is decided by it.
//! - Content is everything but the metadata. It is compared as the API server stores it: `stringData` is part of `data`, a Secret without a type is
//!   `Opaque`, and the same bytes may be written in several ways.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD, STANDARD};
use kruise_api::configmap::ConfigMap;
use kruise_api::content::digest;
use kruise_api::kind::Kind as _;
use kruise_api::meta::group_of;
use kruise_api::names::annotation;
use kruise_api::raw::AnyJson;
use kruise_api::resource::Resource;
use kruise_api::resourcedistribution::v1beta1::ResourceDistribution;
use kruise_api::secret::Secret;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::shared::owner::Owner;

/// The kinds that can be distributed.
const KINDS: [&Resource; 2] = [Secret::RESOURCE, ConfigMap::RESOURCE];
/// Metadata of a manifest that a copy has as well.
const KEPT: [&str; 5] = ["name", "labels", "annotations", "finalizers", "ownerReferences"];
/// Base64 as the API server reads it: bits that are left over do not count.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));

/// A Secret or ConfigMap to distribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    resource: &'static Resource,
    name: String,
    object: Map<String, Value>,
    hash: String,
}

/// Why a manifest cannot be distributed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// There is none.
    Missing,
    /// It is no object with a kind.
    Unreadable,
    /// It is of a kind that is not distributed: `Pod`, `Deployment.apps`.
    Kind(String),
    /// It has no name.
    NoName,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no resource"),
            Self::Unreadable => f.write_str("it is no object with apiVersion, kind and metadata"),
            Self::Kind(kind) => {
                write!(
                    f,
                    "{kind}: unknown or unsupported resource GroupKind, only support [Secret ConfigMap]"
                )
            }
            Self::NoName => f.write_str("it has no name"),
        }
    }
}

/// Which object a manifest is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Identity {
    pub api_version: String,
    pub kind: String,
    pub metadata: Named,
}

/// The name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    pub name: String,
}

impl Identity {
    /// Reads which object a manifest is about, as far as it says.
    pub fn of(resource: &AnyJson) -> Self {
        serde_json::from_str(resource.json()).unwrap_or_default()
    }

    /// Returns the kind, if it can be distributed.
    pub fn resource(&self) -> Option<&'static Resource> {
        let is_it = |known: &&&Resource| known.kind == self.kind && group_of(&self.api_version) == known.group;
        KINDS.iter().find(is_it).copied()
    }
}

/// What an object says, besides its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Type of a Secret.
    type_: String,
    /// Digest of its data.
    data: u64,
    /// Digest of the binary data of a ConfigMap.
    binary: u64,
    is_immutable: bool,
}

impl Content {
    pub(super) fn of_secret(secret: &Secret) -> Self {
        Self {
            type_: secret.type_.to_string(),
            data: secret.content,
            binary: 0,
            is_immutable: secret.immutable,
        }
    }

    pub(super) fn of_config_map(map: &ConfigMap) -> Self {
        Self {
            type_: String::new(),
            data: map.data,
            binary: map.binary_data,
            is_immutable: map.immutable,
        }
    }
}

impl Manifest {
    /// Reads the resource of a distribution.
    ///
    /// # Errors
    /// When it cannot be distributed.
    pub fn read(resource: &AnyJson) -> Result<Self, Unfit> {
        if resource.is_empty() {
            return Err(Unfit::Missing);
        }
        let Value::Object(object) = resource.value() else {
            return Err(Unfit::Unreadable);
        };
        let identity = Identity::of(resource);
        if identity.kind.is_empty() {
            return Err(Unfit::Unreadable);
        }
        let Some(known) = identity.resource() else {
            let group = group_of(&identity.api_version);
            let dot = if group.is_empty() { "" } else { "." };
            return Err(Unfit::Kind(format!("{}{dot}{group}", identity.kind)));
        };
        if identity.metadata.name.is_empty() {
            return Err(Unfit::NoName);
        }
        Ok(Self {
            resource: known,
            name: identity.metadata.name,
            hash: hex(&Sha256::digest(resource.json())),
            object,
        })
    }

    /// The kind.
    pub fn resource(&self) -> &'static Resource {
        self.resource
    }

    /// The name, the same in all namespaces.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a copy has to say.
    pub fn content(&self) -> Content {
        let is_immutable = self
            .object
            .get("immutable")
            .and_then(Value::as_bool)
            .unwrap_or_default();
        if self.resource == ConfigMap::RESOURCE {
            return Content {
                type_: String::new(),
                data: digest_of(&self.texts("data", Cow::Borrowed)),
                binary: digest_of(&self.texts("binaryData", stored_base64)),
                is_immutable,
            };
        }
        let mut data = self.texts("data", stored_base64);
        data.extend(self.texts("stringData", |text| Cow::Owned(STANDARD.encode(text))));
        let type_ = self
            .object
            .get("type")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty());
        Content {
            type_: type_.unwrap_or("Opaque").to_owned(),
            data: digest_of(&data),
            binary: 0,
            is_immutable,
        }
    }

    /// The texts of a map; `null` is an empty one.
    fn texts<'a>(&'a self, field: &str, read: impl Fn(&'a str) -> Cow<'a, str>) -> BTreeMap<&'a str, Cow<'a, str>> {
        let map = self.object.get(field).and_then(Value::as_object);
        let texts = map.into_iter().flatten();
        texts
            .map(|(key, value)| (key.as_str(), value.as_str().map(&read).unwrap_or_default()))
            .collect()
    }

    /// A copy that belongs to a distribution; only its namespace is missing.
    pub(super) fn copy_for(&self, distribution: &ResourceDistribution) -> Value {
        let mut copy = self.object.clone();
        let given = match copy.remove("metadata") {
            Some(Value::Object(given)) => given,
            _ => Map::new(),
        };
        copy.remove("status");
        let mut metadata: Map<String, Value> = given
            .into_iter()
            .filter(|(field, value)| KEPT.contains(&field.as_str()) && !value.is_null())
            .collect();
        let owner = Owner::of::<ResourceDistribution>(&distribution.metadata);
        let mut annotations = match metadata.remove("annotations") {
            Some(Value::Object(annotations)) => annotations,
            _ => Map::new(),
        };
        annotations.insert(annotation::DISTRIBUTED_FROM.to_owned(), json!(owner.name));
        annotations.insert(annotation::DISTRIBUTED_HASH.to_owned(), json!(self.hash));
        let others = match metadata.remove("ownerReferences") {
            Some(Value::Array(owners)) => owners,
            _ => Vec::new(),
        };
        // An object has one controller, and that is the distribution.
        let mut owners: Vec<Value> = others
            .into_iter()
            .filter(|other| {
                other.get("controller") != Some(&json!(true)) && other.get("uid") != Some(&json!(owner.uid))
            })
            .collect();
        owners.push(owner.reference());
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
        metadata.insert("ownerReferences".to_owned(), Value::Array(owners));
        copy.insert("metadata".to_owned(), Value::Object(metadata));
        Value::Object(copy)
    }
}

/// Bytes as the API server writes them.
fn stored_base64(text: &str) -> Cow<'_, str> {
    let plain: Cow<'_, str> = if text.contains(['\r', '\n']) {
        Cow::Owned(text.replace(['\r', '\n'], ""))
    } else {
        Cow::Borrowed(text)
    };
    match LENIENT.decode(plain.as_bytes()) {
        Ok(bytes) => Cow::Owned(STANDARD.encode(bytes)),
        Err(_) => Cow::Borrowed(text),
    }
}

fn digest_of(texts: &BTreeMap<&str, Cow<'_, str>>) -> u64 {
    digest(texts.iter().map(|(key, text)| (*key, &**text)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(manifest: &Value) -> Result<Manifest, Unfit> {
        Manifest::read(&AnyJson::from_value(manifest))
    }

    fn content(manifest: &Value) -> Content {
        read(manifest).unwrap().content()
    }

    fn secret(fields: &Value) -> Value {
        let mut manifest = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        manifest
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        manifest
    }

    #[test]
    fn given_a_secret_in_other_words_then_its_content_is_what_the_server_stores() {
        let stored: Secret =
            serde_json::from_value(json!({"type": "Opaque", "data": {"a": "YWJj", "b": "eA==", "c": ""}})).unwrap();
        let wanted = Content::of_secret(&stored);
        for same in [
            json!({"type": "Opaque", "data": {"a": "YWJj", "b": "eA==", "c": ""}}),
            json!({"data": {"c": null, "b": "eB==", "a": "YW\r\nJj\n"}}),
            json!({"data": {"c": "", "a": "eA=="}, "stringData": {"a": "abc", "b": "x"}, "immutable": false}),
        ] {
            assert_eq!(content(&secret(&same)), wanted, "{same}");
        }
        for other in [
            json!({"data": {"a": "YWJj", "b": "eA=="}}),
            json!({"type": "x", "data": {"a": "YWJj", "b": "eA==", "c": ""}}),
            json!({"data": {"a": "YWJj", "b": "eA==", "c": ""}, "immutable": true}),
        ] {
            assert_ne!(content(&secret(&other)), wanted, "{other}");
        }
    }

    #[test]
    fn given_a_config_map_then_both_kinds_of_data_count() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "YQ=="}, "binaryData": {"b": "YQ"}});
        let stored = |data: Value| Content::of_config_map(&serde_json::from_value(data).unwrap());
        assert_eq!(
            content(&map),
            stored(json!({"data": {"k": "YQ=="}, "binaryData": {"b": "YQ"}}))
        );
        assert_ne!(content(&map), stored(json!({"data": {"k": "YQ=="}})));
        assert_ne!(content(&map), stored(json!({"binaryData": {"k": "YQ==", "b": "YQ"}})));
    }

    #[test]
    fn given_what_cannot_be_distributed_then_it_is_said_why() {
        for (manifest, unfit) in [
            (Value::Null, Unfit::Missing),
            (json!([]), Unfit::Unreadable),
            (
                json!({"apiVersion": "v1", "metadata": {"name": "a"}}),
                Unfit::Unreadable,
            ),
            (
                json!({"apiVersion": "v1", "kind": "Pod"}),
                Unfit::Kind("Pod".to_owned()),
            ),
            (
                json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
                Unfit::Kind("Deployment.apps".to_owned()),
            ),
            (
                json!({"apiVersion": "x/v1", "kind": "Secret"}),
                Unfit::Kind("Secret.x".to_owned()),
            ),
            (json!({"apiVersion": "v1", "kind": "Secret"}), Unfit::NoName),
        ] {
            assert_eq!(read(&manifest), Err(unfit), "{manifest}");
        }
    }

    #[test]
    fn given_a_manifest_that_was_read_from_a_cluster_then_a_copy_has_none_of_its_history() {
        let manifest = secret(&json!({
            "metadata": {
                "name": "a", "namespace": "x", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2024-05-01T10:00:00Z",
                "managedFields": [{}], "generateName": "a-", "labels": {"l": "1"}, "annotations": null, "finalizers": ["f/f"],
                "ownerReferences": [
                    {"kind": "Job", "name": "j", "uid": "1", "controller": true},
                    {"kind": "Job", "name": "k", "uid": "2"},
                ],
            },
            "status": {},
        }));
        let distribution = serde_json::from_value(json!({"metadata": {"name": "rd", "uid": "u-rd"}})).unwrap();
        let manifest = read(&manifest).unwrap();
        let copy = manifest.copy_for(&distribution);
        assert_eq!(
            copy,
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
                "name": "a", "labels": {"l": "1"}, "finalizers": ["f/f"],
                "annotations": {(annotation::DISTRIBUTED_FROM): "rd", (annotation::DISTRIBUTED_HASH): manifest.hash},
                "ownerReferences": [
                    {"kind": "Job", "name": "k", "uid": "2"},
                    {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ResourceDistribution", "name": "rd", "uid": "u-rd",
                     "controller": true, "blockOwnerDeletion": true},
                ],
            }})
        );
    }
}
