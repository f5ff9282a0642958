//! How objects are defaulted and validated on their way into the cluster: what a kind gives, and what it is given.
//!
//! The way itself is the same for all kinds, and the webhook server walks it. A kind implements [`Admit`]:
//!
//! 1. An object is read in the version in which it was submitted.
//! 2. On the kind's mutating path defaults are written ([`Admit::default`]).
//! 3. On its validating path everything that is wrong is told at once ([`Admit::validate`], [`Admit::validate_update`]). A kind without such a path is
//!    validated on its mutating path, before its defaults are written.
//! 4. What is allowed and yet hardly meant is told as a warning ([`Admit::warnings`]).
//! 5. Its deletion may be refused ([`Admit::refuse_deletion`]).
//!
//! Rules are pure. What they have to know of the cluster they name beforehand ([`Needs`], [`Admit::templates`]), and get what was found ([`Lookups`]).
//! They are asked again with that until nothing is missing, so that a second object may be named by the first.

use crate::field_error::{FieldError, FieldErrors, Path};
use crate::shared::tree::Object;
use crate::shared::workload::WorkloadRef;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_api::{gates::Gates, read::ReadError, resource::Resource};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A kind whose objects are defaulted and validated.
pub trait Admit: Sized + Send + Sync + 'static {
    /// Reads an object in this version.
    ///
    /// # Errors
    /// When a field has the wrong type; the error names it.
    fn read(json: &[u8], version: Version) -> Result<Self, ReadError>;

    /// Returns what has to be looked up before defaults are written to this object; `found` is what is known so far.
    fn needs_to_default(&self, _env: &Env, _found: &Lookups) -> Needs {
        Needs::default()
    }

    /// Writes defaults into an object; `old` is the object before an update.
    ///
    /// # Errors
    /// When the object cannot be completed.
    fn default(object: &mut Object, old: Option<&Object>, env: &Env, found: &Lookups) -> Result<(), Refusal>;

    /// Returns what has to be looked up before this object is validated; `found` is what is known so far.
    fn needs_to_validate(&self, _old: Option<&Self>, _env: &Env, _found: &Lookups) -> Needs {
        Needs::default()
    }

    /// Returns the Pod templates that the API server has to check: those that are new or have changed. What has not changed is not checked again, because
    /// Kubernetes may have become stricter since.
    fn templates(&self, _old: Option<&Self>) -> Vec<Template> {
        Vec::new()
    }

    /// Whether [`Admit::templates_of_others`] has any.
    const LOOKS_UP_TEMPLATES: bool = false;

    /// Returns further Pod templates that the API server has to check: those of other objects, which were looked up, as this one changes them.
    fn templates_of_others(&self, _old: Option<&Self>, _found: &Lookups) -> Vec<Template> {
        Vec::new()
    }

    /// Validates a new object.
    ///
    /// # Errors
    /// With everything that is wrong.
    fn validate(&self, env: &Env, found: &Lookups) -> Result<(), Refusal>;

    /// Validates a changed object as a whole, its change included.
    ///
    /// # Errors
    /// With everything that is wrong.
    fn validate_update(&self, _old: &Self, env: &Env, found: &Lookups) -> Result<(), Refusal> {
        self.validate(env, found)
    }

    /// Returns what the user should know of this object, which is allowed; `found` is what was looked up to validate it.
    fn warnings(&self, _env: &Env, _found: &Lookups) -> Vec<String> {
        Vec::new()
    }

    /// Returns why the object may not be deleted. Most kinds cannot be protected.
    fn refuse_deletion(&self, _gates: Gates) -> Option<String> {
        None
    }
}

/// A version of our kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1alpha1,
    V1beta1,
}

impl Version {
    /// Returns the version of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "v1alpha1" => Some(Self::V1alpha1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }
}

/// What is done to an object that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
}

/// What a request is decided under.
#[derive(Debug, Clone, Copy)]
pub struct Env {
    pub operation: Operation,
    /// The version in which the object was submitted.
    pub version: Version,
    pub gates: Gates,
    pub now: Timestamp,
}

/// An object as it was submitted, of a kind whose versions have the same shape.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Submitted<Spec> {
    pub metadata: ObjectMeta,
    pub spec: Spec,
}

/// A Pod template, and where the user has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pub path: Path,
    pub template: Object,
}

/// Objects that rules have to know of, in the namespace of the request where they have one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Pods by name, for whose they are and whether they are being deleted.
    pub pods: BTreeSet<String>,
    /// Objects as a whole, as the API server has them at the time of the request.
    pub objects: BTreeSet<ObjectRef>,
}

impl Needs {
    /// Whether nothing is needed.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.objects.is_empty()
    }
}

/// An object by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectRef {
    Pod(String),
    Node(String),
    /// All objects of a kind in the namespace, as a list.
    AllOf(&'static Resource),
    StorageClass(String),
    /// The storage class of claims that name none.
    DefaultStorageClass,
    Namespace(String),
    SidecarSet(String),
    /// All SidecarSets, as a list.
    SidecarSets,
    /// A ControllerRevision in the manager's namespace.
    Revision(String),
    /// The ControllerRevisions of a SidecarSet, as a list.
    RevisionsOfSidecarSet(String),
    /// The ConfigMap `kruise-configuration`.
    Configuration,
    /// A dry run of creating an object in the manager's namespace. Found is the `Status` of a refusal; nothing when it could be created, or is there.
    DryRun {
        resource: &'static Resource,
        /// The object as JSON.
        object: String,
    },
    /// A workload of any kind.
    Workload(WorkloadRef),
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(name) => write!(f, "Pod {name}"),
            Self::Node(name) => write!(f, "node {name}"),
            Self::AllOf(resource) => write!(f, "the list of {resource}"),
            Self::StorageClass(name) => write!(f, "StorageClass {name}"),
            Self::DefaultStorageClass => f.write_str("the default StorageClass"),
            Self::Namespace(name) => write!(f, "namespace {name}"),
            Self::SidecarSet(name) => write!(f, "SidecarSet {name}"),
            Self::SidecarSets => f.write_str("the list of SidecarSets"),
            Self::Revision(name) => write!(f, "ControllerRevision {name}"),
            Self::RevisionsOfSidecarSet(set) => write!(f, "the list of ControllerRevisions of SidecarSet {set}"),
            Self::Configuration => f.write_str("ConfigMap kruise-configuration"),
            Self::DryRun { resource, .. } => write!(f, "the dry run of creating a {}", resource.kind),
            Self::Workload(workload) => write!(f, "{} {}", workload.kind, workload.name),
        }
    }
}

/// What was looked up.
#[derive(Debug, Clone, Default)]
pub struct Lookups {
    /// What the API server found wrong with the Pod templates of [`Admit::templates`].
    pub template: Vec<FieldError>,
    /// The Pods of [`Needs::pods`].
    pub pods: BTreeMap<String, NamedPod>,
    /// The objects of [`Needs::objects`]: nothing where there is none, or why it could not be read.
    pub objects: BTreeMap<ObjectRef, Result<Option<Value>, String>>,
}

impl Lookups {
    /// Returns what of `needs` has not been looked up.
    #[must_use]
    pub fn missing(&self, mut needs: Needs) -> Needs {
        needs.pods.retain(|name| !self.pods.contains_key(name));
        needs.objects.retain(|object| !self.objects.contains_key(object));
        needs
    }

    /// Returns the objects of a list; an error in words when it could not be read.
    pub fn items(&self, list: &ObjectRef) -> Result<impl Iterator<Item = &Value>, &str> {
        let items = self.object(list)?.and_then(|list| list.get("items")?.as_array());
        Ok(items.into_iter().flatten())
    }

    /// Returns an object; an error in words when it could not be read.
    pub fn object(&self, object: &ObjectRef) -> Result<Option<&Value>, &str> {
        match self.objects.get(object) {
            Some(Ok(found)) => Ok(found.as_ref()),
            Some(Err(reason)) => Err(reason),
            None => Err("it was not looked up"),
        }
    }
}

/// A Pod that a user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedPod {
    Missing,
    Found {
        /// UID of the controller that owns it.
        controller: Option<String>,
        is_being_deleted: bool,
    },
    /// It could not be looked up, for this reason.
    Unknown(String),
}

/// Why an object is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status code; nothing for that of the kind's invalid objects.
    pub code: Option<u16>,
    /// One word for machines, or nothing.
    pub reason: &'static str,
    pub message: String,
}

impl Refusal {
    /// A refusal with a status code of its own.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            reason: "",
            message: message.into(),
        }
    }

    /// Gives it a reason in one word.
    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }
}

/// The object is invalid.
impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        Self {
            code: None,
            reason: "",
            message: error.to_string(),
        }
    }
}

impl FieldErrors {
    /// Returns a refusal with all errors, if there are any.
    ///
    /// # Errors
    /// When there are errors.
    pub fn into_result(self) -> Result<(), Refusal> {
        if self.is_empty() {
            return Ok(());
        }
        Err(Refusal {
            code: None,
            reason: "",
            message: self.to_string(),
        })
    }
}
