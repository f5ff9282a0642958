//! Which object of a kind is meant. The kind itself is a [`kruise_api::resource::Resource`].

use std::fmt;
use std::sync::Arc;

/// Namespace and name of an object; the namespace is empty for objects of the cluster. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace, or empty.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of an object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// `namespace/name`, or just the name.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_keys_then_they_read_as_kubectl_writes_them() {
        assert_eq!(ObjectKey::new("a", "b").to_string(), "a/b");
        assert_eq!(ObjectKey::new("", "node").to_string(), "node");
    }
}
