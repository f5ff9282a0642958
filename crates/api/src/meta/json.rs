//! Metadata as JSON again, for models that apply patches to it. What was not kept when it was read is not there.

use serde_json::{Map, Value, json};

use super::{CompactTimestamp, Meta, Pairs};

impl Meta {
    /// Returns it as it is written; reading that gives the same again.
    pub fn to_json(&self) -> Value {
        let owners = self.owner_references.0.iter().map(|owner| {
            json!({
                "apiVersion": &*owner.api_version, "kind": &*owner.kind, "name": &*owner.name, "uid": owner.uid.to_string(),
                "controller": owner.controller, "blockOwnerDeletion": owner.block_owner_deletion,
            })
        });
        let finalizers = self.finalizers.iter().map(|finalizer| &**finalizer);
        json!({
            "name": &*self.name, "namespace": &*self.namespace, "uid": self.uid.to_string(),
            "resourceVersion": self.resource_version.to_string(), "generation": self.generation,
            "creationTimestamp": time(self.creation_timestamp), "deletionTimestamp": time(self.deletion_timestamp),
            "deletionGracePeriodSeconds": self.deletion_grace_period_seconds,
            "labels": texts(&self.labels), "annotations": texts(&self.annotations),
            "ownerReferences": owners.collect::<Vec<_>>(), "finalizers": finalizers.collect::<Vec<_>>(),
        })
    }
}

pub(crate) fn time(time: Option<CompactTimestamp>) -> Value {
    time.map(|time| time.timestamp().to_string()).into()
}

pub(crate) fn texts<V: std::ops::Deref<Target = str>>(pairs: &Pairs<V>) -> Value {
    let texts = pairs.iter().map(|(key, value)| (key.to_owned(), Value::from(&**value)));
    Value::Object(texts.collect::<Map<_, _>>())
}
