//! Writes, as data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kruise_api::kind::Kind;
use kruise_api::merge_patch::merge;
use kruise_api::meta::Object;
use kruise_api::pod::Pod;
use kruise_api::resource::{Preconditions, Resource, Subresource};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::shared::go_json;
use crate::shared::pod_change::PodPatch;

/// One write. Every kind of ours uses this same list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verb")]
pub enum Action {
    /// Make an object.
    Create {
        /// Which.
        #[serde(flatten)]
        object: Target,
        /// The whole object.
        body: Body,
    },
    /// Change an object.
    Patch {
        /// Which.
        #[serde(flatten)]
        object: Target,
        /// The part that is written by itself; nothing for the object.
        #[serde(rename = "part", serialize_with = "part")]
        subresource: Option<Subresource>,
        /// The change.
        #[serde(flatten)]
        patch: Patch,
        /// What has to be true of it.
        #[serde(rename = "when")]
        preconditions: Preconditions,
    },
    /// Write an object as a whole in place of one that is there, for kinds that may not be patched. Of its metadata stays what the new one does not name
    /// ([`Body::over`]).
    Replace {
        /// Which.
        #[serde(flatten)]
        object: Target,
        /// The whole object.
        body: Body,
        /// What has to be true of the one that is there.
        #[serde(rename = "when")]
        preconditions: Preconditions,
    },
    /// Delete an object.
    Delete {
        /// Which.
        #[serde(flatten)]
        object: Target,
        /// What has to be true of it.
        #[serde(rename = "when")]
        preconditions: Preconditions,
    },
    /// Make or change a copy of a Secret. Its content is taken from the cluster when the write is made; no plan has it.
    CopySecret {
        /// The copy.
        #[serde(flatten)]
        object: Target,
        /// The Secret whose content the copy gets; without one the copy keeps its own.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<Target>,
        /// Annotations that the copy gets.
        annotations: BTreeMap<String, String>,
        /// What has to be true of the copy; without anything it is made new.
        #[serde(rename = "when", skip_serializing_if = "Option::is_none")]
        preconditions: Option<Preconditions>,
    },
    /// Ask for a Pod to be deleted, as far as disruption budgets allow.
    Evict {
        /// Which.
        #[serde(flatten)]
        object: Target,
        /// What has to be true of it.
        #[serde(rename = "when")]
        preconditions: Preconditions,
    },
}

impl Action {
    /// Makes an object.
    pub fn create(object: Target, body: impl Into<Body>) -> Self {
        Self::Create {
            object,
            body: body.into(),
        }
    }

    /// Deletes an object.
    pub fn delete(object: Target, preconditions: Preconditions) -> Self {
        Self::Delete { object, preconditions }
    }

    /// Changes an object, or a part of it, with Kubernetes' own kind of patch, which merges lists of its own kinds by their keys.
    pub fn patch(object: Target, subresource: Option<Subresource>, patch: Value, preconditions: Preconditions) -> Self {
        Self::Patch {
            object,
            subresource,
            patch: Patch::Strategic(patch),
            preconditions,
        }
    }

    /// Changes an object of ours, or a part of it, with a JSON merge patch.
    pub fn merge(object: Target, subresource: Option<Subresource>, patch: Value, preconditions: Preconditions) -> Self {
        Self::Patch {
            object,
            subresource,
            patch: Patch::Merge(patch),
            preconditions,
        }
    }

    /// Changes a Pod as a decision about it says.
    pub fn patch_pod(pod: &Pod, request: PodPatch) -> Self {
        let PodPatch {
            subresource,
            body,
            preconditions,
        } = request;
        Self::patch(Target::of(pod), subresource, body, preconditions)
    }

    /// The object that is written.
    pub fn object(&self) -> &Target {
        match self {
            Self::Create { object, .. }
            | Self::Patch { object, .. }
            | Self::Replace { object, .. }
            | Self::Delete { object, .. }
            | Self::CopySecret { object, .. }
            | Self::Evict { object, .. } => object,
        }
    }
}

/// Plans name the object itself as a part too, so that a reader need not know what a missing field means.
#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn part<S: Serializer>(subresource: &Option<Subresource>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(subresource.map_or("object", Subresource::as_str))
}

/// The object of a write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its kind.
    #[serde(flatten, serialize_with = "kind")]
    pub resource: &'static Resource,
    /// Its namespace; empty for objects of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Target {
    /// An object by its name.
    pub fn new(resource: &'static Resource, namespace: &str, name: &str) -> Self {
        Self {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// An object whose type says its kind.
    pub fn of<K: Kind + Object>(object: &K) -> Self {
        Self::of_kind(K::RESOURCE, object)
    }

    /// An object of which only the metadata is known.
    pub fn of_kind(resource: &'static Resource, object: &impl Object) -> Self {
        Self::new(resource, object.namespace(), object.name())
    }
}

/// `Pod web-x7k2p`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource.kind, self.name)
    }
}

/// A kind in a plan: its name, and its group when it is not the core group, as there are two kinds called StatefulSet.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
pub(super) fn kind<S: Serializer>(resource: &&'static Resource, to: S) -> Result<S::Ok, S::Error> {
    let mut fields = to.serialize_map(None)?;
    fields.serialize_entry("kind", resource.kind)?;
    if !resource.group.is_empty() {
        fields.serialize_entry("group", resource.group)?;
    }
    fields.end()
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Patch {
    /// RFC 7386: what is there replaces, `null` removes, lists are replaced as a whole. For kinds of ours.
    Merge(Value),
    /// Kubernetes' own: like merge, but lists are merged by their keys. For kinds of Kubernetes.
    Strategic(Value),
}

impl Patch {
    /// The document.
    pub fn document(&self) -> &Value {
        match self {
            Self::Merge(document) | Self::Strategic(document) => document,
        }
    }
}

/// An object to make: what many have in common, kept once, and what is its own.
///
/// A thousand Pods of one template are a thousand small parts and one template.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    common: Arc<Value>,
    own: Value,
}

impl Body {
    /// An object that takes `common` and, on top of it, `own`, which is a JSON merge patch.
    pub fn new(common: Arc<Value>, own: Value) -> Self {
        Self { common, own }
    }

    /// The whole object.
    pub fn json(&self) -> Value {
        let mut json = (*self.common).clone();
        merge(&mut json, &self.own);
        json
    }

    /// The whole object in place of one with this metadata: labels, annotations and finalizers that it does not name are kept.
    pub fn over(&self, live: &Value, preconditions: &Preconditions) -> Value {
        let mut json = self.json();
        let Some(metadata) = json.get_mut("metadata").and_then(Value::as_object_mut) else {
            return json;
        };
        for map in ["labels", "annotations"] {
            if let Some(Value::Object(known)) = live.get(map) {
                let mut all = known.clone();
                if let Some(Value::Object(own)) = metadata.remove(map) {
                    all.extend(own);
                }
                metadata.insert(map.to_owned(), Value::Object(all));
            }
        }
        if let Some(Value::Array(known)) = live.get("finalizers") {
            let mut all = known.clone();
            if let Some(Value::Array(own)) = metadata.remove("finalizers") {
                all.extend(own.into_iter().filter(|finalizer| !known.contains(finalizer)));
            }
            metadata.insert("finalizers".to_owned(), Value::Array(all));
        }
        for (field, wanted) in [
            ("uid", &preconditions.uid),
            ("resourceVersion", &preconditions.resource_version),
        ] {
            if let Some(wanted) = wanted {
                metadata.insert(field.to_owned(), Value::from(wanted.as_str()));
            }
        }
        json
    }

    /// The whole object as text, in the bytes that Go would write.
    ///
    /// The API server keeps the data of a revision as it was sent, but in its own way of writing once the object is patched. Other bytes would be a
    /// change to it, which it refuses: no label and no new number for a revision whose template has a `&&` in a command.
    pub fn text(&self) -> String {
        go_json::escape(&self.json().to_string())
    }
}

impl From<Value> for Body {
    fn from(object: Value) -> Self {
        Self {
            common: Arc::new(object),
            own: Value::Object(Map::new()),
        }
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(to)
    }
}
