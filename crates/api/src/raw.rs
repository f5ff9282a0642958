//! Parts of an object that are kept as the JSON they came as.
//!
//! A Pod template is Kubernetes' own and grows with each of its releases. A typed copy would drop the fields this build does
//! not know, so we keep the text, and look at it through a type only where a decision needs to.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Blank;
use crate::read::{self, ReadError};

/// JSON that holds a `T`, kept as it was written. Missing and `null` are the same: empty. Clones share the text.
///
/// Read objects with such parts from JSON text or a JSON value; other formats cannot carry them.
pub struct Raw<T>(Option<Arc<RawValue>>, PhantomData<fn() -> T>);

impl<T> Raw<T> {
    /// Returns the text; `null` when there is none.
    pub fn json(&self) -> &str {
        self.0.as_ref().map_or("null", |raw| raw.get())
    }

    /// True when there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the text as a JSON value.
    pub fn value(&self) -> Value {
        // A raw value is valid JSON by construction.
        serde_json::from_str(self.json()).unwrap_or_default()
    }

    /// Keeps a JSON value.
    pub fn from_value(value: &Value) -> Self {
        let raw = if value.is_null() {
            None
        } else {
            serde_json::value::to_raw_value(value).ok()
        };
        Self(raw.map(Arc::from), PhantomData)
    }
}

impl<T: DeserializeOwned> Raw<T> {
    /// Returns a typed look at the text. What the type does not know is not in the view, but stays in the text.
    pub fn view(&self) -> Result<T, ReadError> {
        read::from_slice(self.json().as_bytes())
    }
}

impl<T> From<Box<RawValue>> for Raw<T> {
    fn from(raw: Box<RawValue>) -> Self {
        Self((raw.get() != "null").then(|| Arc::from(raw)), PhantomData)
    }
}

impl<T> Default for Raw<T> {
    fn default() -> Self {
        Self(None, PhantomData)
    }
}

impl<T> Clone for Raw<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<T> fmt::Debug for Raw<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.json())
    }
}

/// Equal when they say the same: the order of keys and white space do not count.
impl<T> PartialEq for Raw<T> {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json() || self.value() == other.value()
    }
}

impl<T> Blank for Raw<T> {
    fn is_blank(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Serialize for Raw<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.as_deref().serialize(to)
    }
}

impl<'de, T> Deserialize<'de> for Raw<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Box::<RawValue>::deserialize(from)?.into())
    }
}

/// Something that is kept as raw JSON, and the name by which Kubernetes knows it.
pub trait Holds {
    /// The Kubernetes type, `PodTemplateSpec` or `[]PersistentVolumeClaim`.
    const NAME: &'static str;
}

macro_rules! holds {
    ($($type:ty = $name:literal),+ $(,)?) => {$(
        impl Holds for $type {
            const NAME: &'static str = $name;
        }
    )+};
}

holds! {
    k8s_openapi::api::core::v1::PodTemplateSpec = "PodTemplateSpec",
    Vec<k8s_openapi::api::core::v1::PersistentVolumeClaim> = "[]PersistentVolumeClaim",
    Vec<k8s_openapi::api::core::v1::Volume> = "[]Volume",
    Vec<k8s_openapi::api::core::v1::EphemeralContainer> = "[]EphemeralContainer",
    k8s_openapi::api::apps::v1::DeploymentSpec = "apps/v1.DeploymentSpec",
    k8s_openapi::api::apps::v1::StatefulSetSpec = "apps/v1.StatefulSetSpec",
    k8s_openapi::api::batch::v1::JobTemplateSpec = "batch/v1.JobTemplateSpec",
    k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta = "ObjectMeta",
    // An object or a patch of any shape.
    Value = "RawExtension",
}

/// A Pod template, kept as it was written.
pub type PodTemplate = Raw<k8s_openapi::api::core::v1::PodTemplateSpec>;
/// Claims to make for each Pod, kept as they were written.
pub type VolumeClaimTemplates = Raw<Vec<k8s_openapi::api::core::v1::PersistentVolumeClaim>>;
/// Metadata of objects to make, kept as it was written.
pub type RawObjectMeta = Raw<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>;
/// A patch or a whole object of any shape, kept as it was written.
pub type AnyJson = Raw<Value>;

#[cfg(feature = "schema")]
impl<T: Holds> schemars::JsonSchema for Raw<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::NAME.into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "x-kubernetes-preserve-unknown-fields": true, "x-holds": (T::NAME) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn given_a_template_then_every_byte_is_kept_and_the_view_has_what_is_known() {
        let json = r#"{ "spec":{"containers":[{"name":"a","new":0.1005}]},  "tomorrow":[1,null] }"#;
        let template: PodTemplate = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&template).unwrap(), json);
        assert_eq!(template.view().unwrap().spec.unwrap().containers[0].name, "a");
        let wrong: PodTemplate = serde_json::from_str(r#"{"spec":{"containers":[{"name":1}]}}"#).unwrap();
        assert_eq!(wrong.view().unwrap_err().path, "spec.containers[0].name");
    }

    #[test]
    fn given_the_same_in_another_order_then_they_are_equal() {
        let one: AnyJson = serde_json::from_str(r#"{"a":1,"b":[2]}"#).unwrap();
        assert_eq!(one, Raw::from_value(&json!({ "b": [2], "a": 1 })));
        assert_ne!(one, Raw::from_value(&json!({ "b": [2], "a": "1" })));
    }

    #[test]
    fn null_is_nothing() {
        let nothing: AnyJson = serde_json::from_str("null").unwrap();
        assert!(nothing.is_empty() && nothing.is_blank() && nothing == AnyJson::default());
        assert!(Raw::<Value>::from_value(&Value::Null).is_empty());
        assert_eq!(serde_json::to_string(&nothing).unwrap(), "null");
    }
}
