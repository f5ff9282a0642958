//! Writes, as data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::meta::Meta;
use kruise_api::names::group;
use kruise_api::pod::Pod;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::shared::go_json;
use crate::shared::pod_change::{self, PodPatch};

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
        /// The object itself, or a part that is written by itself.
        part: Part,
        /// The change.
        #[serde(flatten)]
        patch: Patch,
        /// What has to be true of it.
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

    /// Deletes this very object.
    pub fn delete(kind: ObjectKind, meta: &Meta) -> Self {
        Self::Delete {
            object: Target::of(kind, meta),
            preconditions: Preconditions::same(meta),
        }
    }

    /// The same for an object with all of its metadata.
    pub fn delete_whole(kind: ObjectKind, meta: &ObjectMeta) -> Self {
        Self::Delete {
            object: Target::whole(kind, meta),
            preconditions: Preconditions {
                uid: meta.uid.clone(),
                resource_version: None,
            },
        }
    }

    /// Changes an object with Kubernetes' own kind of patch, which merges lists of its own kinds by their keys.
    pub fn patch(object: Target, patch: Value, preconditions: Preconditions) -> Self {
        Self::Patch {
            object,
            part: Part::Object,
            patch: Patch::Strategic(patch),
            preconditions,
        }
    }

    /// The same for a part that is written by itself. The status of a Pod can carry labels and annotations as well.
    pub fn patch_part(object: Target, part: Part, patch: Value, preconditions: Preconditions) -> Self {
        Self::Patch {
            object,
            part,
            patch: Patch::Strategic(patch),
            preconditions,
        }
    }

    /// Changes an object of ours, or a part of it, with a JSON merge patch.
    pub fn merge(object: Target, part: Part, patch: Value, preconditions: Preconditions) -> Self {
        Self::Patch {
            object,
            part,
            patch: Patch::Merge(patch),
            preconditions,
        }
    }

    /// Changes a Pod as a decision about it says.
    pub fn patch_pod(pod: &Pod, request: PodPatch) -> Self {
        let PodPatch { part, mut body } = request;
        let preconditions = Preconditions::taken_from(&mut body, &pod.metadata);
        let part = match part {
            pod_change::Part::Pod => Part::Object,
            pod_change::Part::Status => Part::Status,
            pod_change::Part::Resize => Part::Resize,
        };
        Self::patch_part(Target::of(ObjectKind::Pod, &pod.metadata), part, body, preconditions)
    }

    /// The object that is written.
    pub fn object(&self) -> &Target {
        match self {
            Self::Create { object, .. }
            | Self::Patch { object, .. }
            | Self::Delete { object, .. }
            | Self::CopySecret { object, .. }
            | Self::Evict { object, .. } => object,
        }
    }
}

/// The object of a write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace; empty for objects of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Target {
    /// An object by its name.
    pub fn new(kind: ObjectKind, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// An object with all of its metadata.
    pub fn whole(kind: ObjectKind, meta: &ObjectMeta) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self {
            kind,
            namespace: text(&meta.namespace),
            name: text(&meta.name),
        }
    }

    /// An object of the cache.
    pub fn of(kind: ObjectKind, meta: &Meta) -> Self {
        Self::new(kind, &meta.namespace, &meta.name)
    }
}

/// `Pod web-x7k2p`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.name)
    }
}

/// The kinds that are written. The variant's name is the kind's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ObjectKind {
    /// Pod.
    Pod,
    /// `PersistentVolumeClaim`.
    PersistentVolumeClaim,
    /// ControllerRevision.
    ControllerRevision,
    /// Secret.
    Secret,
    /// ImagePullJob, v1beta1.
    ImagePullJob,
    /// ImageListPullJob, v1beta1.
    ImageListPullJob,
    /// NodeImage, v1beta1.
    NodeImage,
    /// ContainerRecreateRequest, v1beta1.
    ContainerRecreateRequest,
    /// CloneSet, v1beta1.
    CloneSet,
}

impl ObjectKind {
    /// The `apiVersion` in which objects of the kind are written.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Pod | Self::PersistentVolumeClaim | Self::Secret => "v1",
            Self::ControllerRevision => "apps/v1",
            Self::ImagePullJob
            | Self::ImageListPullJob
            | Self::NodeImage
            | Self::ContainerRecreateRequest
            | Self::CloneSet => group::APPS_V1BETA1,
        }
    }
}

/// What is written of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// All but its status.
    Object,
    /// Its status.
    Status,
    /// The resources of a Pod's containers.
    Resize,
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

/// What has to be true of an object for a write to happen; the server checks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// It is this very object, not another of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Nobody has changed it since this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl Preconditions {
    /// It is this very object.
    pub fn same(meta: &Meta) -> Self {
        Self {
            uid: (!meta.uid.is_empty()).then(|| meta.uid.to_string()),
            resource_version: None,
        }
    }

    /// It is this very object, and nobody has changed it since; for objects with all of their metadata.
    pub fn whole(meta: &ObjectMeta) -> Self {
        Self {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
        }
    }

    /// It is this very object, and nobody has changed it since it was looked at.
    pub fn unchanged(meta: &Meta) -> Self {
        Self {
            resource_version: (meta.resource_version != 0).then(|| meta.resource_version.to_string()),
            ..Self::same(meta)
        }
    }
}

impl Preconditions {
    /// Moves the conditions out of a patch, in which they are fields of the metadata. The UID is always one.
    pub fn taken_from(patch: &mut Value, meta: &Meta) -> Self {
        let mut conditions = Self::same(meta);
        let Some(patch) = patch.as_object_mut() else {
            return conditions;
        };
        if let Some(Value::Object(metadata)) = patch.get_mut("metadata") {
            metadata.remove("uid");
            if metadata.remove("resourceVersion").is_some() {
                conditions = Self::unchanged(meta);
            }
            if metadata.is_empty() {
                patch.remove("metadata");
            }
        }
        conditions
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

/// Applies a JSON merge patch (RFC 7386).
fn merge(json: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *json = patch.clone();
        return;
    };
    if !json.is_object() {
        *json = Value::Object(Map::new());
    }
    let Value::Object(json) = json else { return };
    for (key, value) in patch {
        if value.is_null() {
            json.remove(key);
        } else {
            merge(json.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
