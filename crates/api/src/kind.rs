//! What all kinds have in common: `apiVersion`, `kind`, `metadata`, and kube's [`Resource`](kube::core::Resource).

use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::resource::{Resource, Scope};

/// One version of one kind, as a type. Several types can stand for the same kind: Kubernetes' own, and the slice of it that controllers look at.
pub trait Kind {
    /// What the API server has to know of the kind. The other constants follow from it.
    const RESOURCE: &'static Resource;
    /// API group, `apps.kruise.io`.
    const GROUP: &'static str = Self::RESOURCE.group;
    /// Version, `v1beta1`.
    const VERSION: &'static str = Self::RESOURCE.version;
    /// Group and version, as in `apiVersion`.
    const API_VERSION: &'static str = Self::RESOURCE.api_version;
    /// Kind, `CloneSet`.
    const KIND: &'static str = Self::RESOURCE.kind;
    /// Resource name in URLs, `clonesets`.
    const PLURAL: &'static str = Self::RESOURCE.plural;
    /// Where objects live.
    const SCOPE: Scope = Self::RESOURCE.scope;
}

/// A kind whose objects are read and written as a whole, as those of ours are.
pub trait WholeKind: Kind + Serialize + DeserializeOwned {}

impl<K: Kind + Serialize + DeserializeOwned> WholeKind for K {}

/// Kubernetes' own kinds.
impl<K> Kind for K
where
    K: k8s_openapi::Resource,
    K::Scope: HasScope,
{
    const RESOURCE: &'static Resource = &Resource::new(
        K::API_VERSION,
        K::KIND,
        K::URL_PATH_SEGMENT,
        <K::Scope as HasScope>::SCOPE,
    );
}

/// Scopes that are stated as types.
pub trait HasScope {
    /// The same as a value.
    const SCOPE: Scope;
}

impl HasScope for NamespaceResourceScope {
    const SCOPE: Scope = Scope::Namespaced;
}

impl HasScope for ClusterResourceScope {
    const SCOPE: Scope = Scope::Cluster;
}

/// The `apiVersion` of a kind: takes no memory, writes the right text, refuses another one.
pub struct ApiVersion<K>(PhantomData<fn() -> K>);

/// The `kind` of a kind: takes no memory, writes the right text, refuses another one.
pub struct KindName<K>(PhantomData<fn() -> K>);

/// A text that is fixed by the type.
trait Fixed: Default {
    const TEXT: &'static str;
}

impl<K: Kind> Fixed for ApiVersion<K> {
    const TEXT: &'static str = K::API_VERSION;
}

impl<K: Kind> Fixed for KindName<K> {
    const TEXT: &'static str = K::KIND;
}

macro_rules! fixed {
    ($($name:ident)+) => {$(
        impl<K> Default for $name<K> {
            fn default() -> Self {
                Self(PhantomData)
            }
        }

        impl<K> Clone for $name<K> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<K> Copy for $name<K> {}

        impl<K> PartialEq for $name<K> {
            fn eq(&self, _: &Self) -> bool {
                true
            }
        }

        impl<K: Kind> fmt::Debug for $name<K> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Self::TEXT)
            }
        }

        impl<K: Kind> Serialize for $name<K> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(Self::TEXT)
            }
        }

        impl<'de, K: Kind> Deserialize<'de> for $name<K> {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_str(Same(PhantomData))
            }
        }

        #[cfg(feature = "schema")]
        impl<K> schemars::JsonSchema for $name<K> {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }
    )+};
}

fixed!(ApiVersion KindName);

struct Same<T>(PhantomData<T>);

impl<T: Fixed> Visitor<'_> for Same<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", T::TEXT)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        if text == T::TEXT {
            Ok(T::default())
        } else {
            Err(E::custom(format_args!("{text:?} is not {:?}", T::TEXT)))
        }
    }
}

/// Declares one version of a kind.
///
/// ```text
/// kind! {
///     /// What the kind is for; becomes the description in the CRD.
///     pub struct CloneSet {
///         group: apps, version: v1beta1, plural: "clonesets", scope: Namespaced,
///         spec: CloneSetSpec, status: CloneSetStatus,
///     }
/// }
/// ```
macro_rules! kind {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            group: $group:ident, version: $version:ident, plural: $plural:literal, scope: $scope:ident,
            spec: $spec:ty, status: $status:ty,
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(!remote))]
        #[serde(rename_all = "camelCase", remote = "Self", expecting = "an object")]
        pub struct $name {
            /// Group and version of this object's shape.
            #[serde(default)]
            pub api_version: $crate::kind::ApiVersion<$name>,
            /// What this object is.
            #[serde(default)]
            pub kind: $crate::kind::KindName<$name>,
            /// Name, namespace, labels, annotations and the server's own book-keeping.
            #[serde(default)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            // Without a line of their own these two are explained by their types, in words that fit the kind.
            #[serde(default, deserialize_with = "crate::wire::or_empty")]
            pub spec: $spec,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub status: Option<$status>,
        }

        only_from_objects!($name);

        impl $crate::kind::Kind for $name {
            const RESOURCE: &'static $crate::resource::Resource = &$crate::resource::Resource::new(
                kind!(@api_version $group $version),
                stringify!($name),
                $plural,
                $crate::resource::Scope::$scope,
            );
        }

        impl kube::core::Resource for $name {
            type DynamicType = ();
            type Scope = kind!(@scope $scope);

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::kind::Kind>::KIND.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::kind::Kind>::GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::kind::Kind>::VERSION.into()
            }

            fn api_version((): &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::kind::Kind>::API_VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::kind::Kind>::PLURAL.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
    (@api_version apps v1alpha1) => { $crate::names::group::APPS_V1ALPHA1 };
    (@api_version apps v1beta1) => { $crate::names::group::APPS_V1BETA1 };
    (@api_version policy v1alpha1) => { $crate::names::group::POLICY_V1ALPHA1 };
    (@api_version policy v1beta1) => { $crate::names::group::POLICY_V1BETA1 };
    (@scope Namespaced) => { kube::core::NamespaceResourceScope };
    (@scope Cluster) => { kube::core::ClusterResourceScope };
}

/// Declares the slice of a kind that controllers look at: the same kind as `of`, with metadata for a cache.
macro_rules! projection {
    ($name:ty, of: $of:ty) => {
        impl $crate::kind::Kind for $name {
            const RESOURCE: &'static $crate::resource::Resource = <$of as $crate::kind::Kind>::RESOURCE;
        }

        has_meta!($name);
    };
}
