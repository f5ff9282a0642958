//! The list of kinds.
//!
//! Everything that has to know all kinds (the CRDs, the conversion webhook, the tests over every kind) reads [`KINDS`].
//! A kind's entry sits beside its types, as `KIND`.

use crate::kind::{Kind, WholeKind};
use crate::read::{self, ReadError};
use crate::resource::Scope;

/// Every kind of the API, by group and plural.
pub static KINDS: &[&KindInfo] = &[
    &crate::advancedcronjob::KIND,
    &crate::broadcastjob::KIND,
    &crate::cloneset::KIND,
    &crate::containerrecreaterequest::KIND,
    &crate::daemonset::KIND,
    &crate::ephemeraljob::KIND,
    &crate::imagelistpulljob::KIND,
    &crate::imagepulljob::KIND,
    &crate::nodeimage::KIND,
    &crate::nodepodprobe::KIND,
    &crate::persistentpodstate::KIND,
    &crate::podprobemarker::KIND,
    &crate::resourcedistribution::KIND,
    &crate::sidecarset::KIND,
    &crate::statefulset::KIND,
    &crate::uniteddeployment::KIND,
    &crate::workloadspread::KIND,
    &crate::podunavailablebudget::KIND,
];

/// What the API server has to know of a kind.
#[derive(Clone, Copy, Debug)]
pub struct KindInfo {
    /// API group.
    pub group: &'static str,
    /// Kind; singular name and list kind follow from it.
    pub kind: &'static str,
    /// Resource name in URLs.
    pub plural: &'static str,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// Where objects live.
    pub scope: Scope,
    /// How the API server turns one version into another.
    pub conversion: Conversion,
    /// Served versions, oldest first; the last one is stored.
    pub versions: &'static [VersionInfo],
}

impl KindInfo {
    /// The entry of a kind without short names and conversion; `K` is its stored version.
    pub const fn of<K: Kind>(versions: &'static [VersionInfo]) -> Self {
        Self {
            group: K::GROUP,
            kind: K::KIND,
            plural: K::PLURAL,
            short_names: &[],
            scope: K::SCOPE,
            conversion: Conversion::None,
            versions,
        }
    }

    /// Singular name, for kubectl.
    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// Kind of a list of these objects.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// The version in which the API server stores objects: the newest.
    pub fn storage(&self) -> Option<&'static VersionInfo> {
        self.versions.last()
    }
}

/// How the API server turns one version of an object into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// It rewrites `apiVersion` and drops what the other version does not have.
    None,
    /// It asks the manager.
    Webhook,
}

/// One version of a kind.
#[derive(Clone, Copy, Debug)]
pub struct VersionInfo {
    /// `v1alpha1` or `v1beta1`.
    pub name: &'static str,
    /// Columns of `kubectl get` after the name; without any the server shows the age.
    pub columns: &'static [Column],
    /// Paths of the scale subresource, where there is one. All kinds have a status subresource.
    pub scale: Option<Scale>,
    /// Says whether an object can be read as this version.
    pub read: fn(&[u8]) -> Result<(), ReadError>,
    /// Reads an object of this version and writes back what was understood.
    pub rewrite: fn(&[u8]) -> Result<String, ReadError>,
    /// The schema of this version, as schemars sees it.
    #[cfg(feature = "schema")]
    pub schema: fn() -> schemars::Schema,
}

impl VersionInfo {
    /// The entry of version `K`, without a scale subresource.
    #[cfg(not(feature = "schema"))]
    pub const fn of<K: WholeKind>(columns: &'static [Column]) -> Self {
        Self {
            name: K::VERSION,
            columns,
            scale: None,
            read: read::check::<K>,
            rewrite: read::rewrite::<K>,
        }
    }

    /// The entry of version `K`, without a scale subresource.
    #[cfg(feature = "schema")]
    pub const fn of<K: WholeKind + schemars::JsonSchema>(columns: &'static [Column]) -> Self {
        Self {
            name: K::VERSION,
            columns,
            scale: None,
            read: read::check::<K>,
            rewrite: read::rewrite::<K>,
            schema: crate::schema::root::<K>,
        }
    }

    /// The same, with the scale subresource that all scalable kinds share.
    #[must_use]
    pub const fn scalable(self) -> Self {
        Self {
            scale: Some(SCALE),
            ..self
        }
    }
}

/// Paths of a scale subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Wanted number of Pods.
    pub spec_replicas: &'static str,
    /// Number of Pods there are.
    pub status_replicas: &'static str,
    /// Label selector of these Pods as a string; autoscalers need it.
    pub label_selector: &'static str,
}

const SCALE: Scale = Scale {
    spec_replicas: ".spec.replicas",
    status_replicas: ".status.replicas",
    label_selector: ".status.labelSelector",
};

/// A column of `kubectl get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Head of the column.
    pub name: &'static str,
    /// `integer`, `string`, `date` or `boolean`.
    pub type_: &'static str,
    /// Where the value is.
    pub path: &'static str,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i32,
}

impl Column {
    /// The age of the object.
    pub const AGE: Self = Self::date("AGE", ".metadata.creationTimestamp");
    /// Names of the containers in the Pod template.
    pub const CONTAINERS: Self = Self::string("CONTAINERS", ".spec.template.spec.containers[*].name").wide();
    /// Images of the containers in the Pod template.
    pub const IMAGES: Self = Self::string("IMAGES", ".spec.template.spec.containers[*].image").wide();

    /// A count.
    pub const fn integer(name: &'static str, path: &'static str) -> Self {
        Self {
            name,
            type_: "integer",
            path,
            priority: 0,
        }
    }

    /// A text.
    pub const fn string(name: &'static str, path: &'static str) -> Self {
        Self {
            name,
            type_: "string",
            path,
            priority: 0,
        }
    }

    /// A point in time, shown as an age.
    pub const fn date(name: &'static str, path: &'static str) -> Self {
        Self {
            name,
            type_: "date",
            path,
            priority: 0,
        }
    }

    /// Yes or no.
    pub const fn boolean(name: &'static str, path: &'static str) -> Self {
        Self {
            name,
            type_: "boolean",
            path,
            priority: 0,
        }
    }

    /// The same column, shown only with `-o wide`.
    #[must_use]
    pub const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }
}
