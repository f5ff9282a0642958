//! Who an object is, however much of it is known.

use kube::core::Resource;

use super::{Meta, Uid};

/// An object with an identity: those of the cache, of which little is kept, and whole ones.
pub trait Object {
    /// Returns its namespace; empty for objects of the cluster.
    fn namespace(&self) -> &str;
    /// Returns its name.
    fn name(&self) -> &str;
    /// Returns its UID; empty before it is created.
    fn uid(&self) -> Uid;
    /// Returns its version, as the server counts; 0 when it is not a number.
    fn resource_version(&self) -> u64;
    /// Returns true when it is on its way out.
    fn is_deleting(&self) -> bool;
}

impl Object for Meta {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> Uid {
        self.uid.clone()
    }

    fn resource_version(&self) -> u64 {
        self.resource_version
    }

    fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// Objects with all of their metadata.
impl<K: Resource> Object for K {
    fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> Uid {
        self.meta().uid.as_deref().unwrap_or_default().into()
    }

    fn resource_version(&self) -> u64 {
        let version = self.meta().resource_version.as_deref();
        version.and_then(|version| version.parse().ok()).unwrap_or_default()
    }

    fn is_deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
}

/// Objects whose `metadata` is a [`Meta`].
macro_rules! has_meta {
    ($($object:ty)+) => {$(
        impl $crate::meta::Object for $object {
            fn namespace(&self) -> &str {
                $crate::meta::Object::namespace(&self.metadata)
            }

            fn name(&self) -> &str {
                $crate::meta::Object::name(&self.metadata)
            }

            fn uid(&self) -> $crate::meta::Uid {
                $crate::meta::Object::uid(&self.metadata)
            }

            fn resource_version(&self) -> u64 {
                $crate::meta::Object::resource_version(&self.metadata)
            }

            fn is_deleting(&self) -> bool {
                $crate::meta::Object::is_deleting(&self.metadata)
            }
        }
    )+};
}
