//! A Secret as controllers read it: never its content, only whether two have the same.

use serde::Deserialize;

use crate::content::read_digest;
use crate::meta::Meta;
use crate::text::Text;
use crate::wire::or_empty;

/// What controllers read of a Secret. For reading only.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Secret {
    /// Name, labels and so on.
    #[serde(deserialize_with = "or_empty")]
    pub metadata: Meta,
    /// What it is for.
    #[serde(rename = "type", deserialize_with = "or_empty")]
    pub type_: Text,
    /// A number that is the same for the same content, within one process.
    #[serde(rename = "data", deserialize_with = "read_digest")]
    pub content: u64,
    /// Its content cannot be changed.
    #[serde(deserialize_with = "or_empty")]
    pub immutable: bool,
}

projection!(Secret, of: k8s_openapi::api::core::v1::Secret);

/// The types of Secrets that hold credentials for a registry, the older one last.
const FOR_REGISTRY: [&str; 2] = ["kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"];

impl Secret {
    /// Whether it holds credentials for a registry.
    pub fn is_for_registry(&self) -> bool {
        is_for_registry(&self.type_)
    }
}

/// Whether Secrets of this type hold credentials for a registry.
pub fn is_for_registry(secret_type: &str) -> bool {
    FOR_REGISTRY.contains(&secret_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn given_secrets_then_only_their_likeness_is_known() {
        let read = |data| serde_json::from_value::<Secret>(json!({"metadata": {"name": "a"}, "data": data})).unwrap();
        let one = read(json!({"a": "MQ==", "b": ""}));
        assert_eq!(one, read(json!({"b": "", "a": "MQ=="})));
        assert_ne!(one, read(json!({"a": "Mg==", "b": ""})));
        assert_eq!(read(json!({})), read(json!(null)));
        assert!(!format!("{one:?}").contains("MQ=="));
    }
}
