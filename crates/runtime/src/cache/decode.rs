//! Reading objects one by one, so that one that cannot be read spoils no list.
//!
//! What the server tells is first read as [`RawObject`], which takes any JSON: the metadata that is needed to go on, and the text of the object.
//! As it is one type for all kinds, listing and watching are in the program only once.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use kruise_api::meta::{Meta, PartialObject};
use kube::core::ObjectMeta;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

/// One object as the server tells it. `meta` has only name, namespace, UID and resourceVersion.
#[derive(Clone, Debug)]
pub(crate) struct RawObject {
    pub(super) meta: ObjectMeta,
    json: Bytes,
}

impl RawObject {
    /// An object that nobody has looked at yet.
    pub(super) fn new(json: Bytes) -> Self {
        let meta = identity(&json);
        Self { meta, json }
    }

    /// The object, or the reason why it cannot be read.
    pub(crate) fn read<K: DeserializeOwned>(&self) -> serde_json::Result<K> {
        serde_json::from_slice(&self.json)
    }

    /// The object's metadata; if that cannot be read either, what identifies it.
    pub(super) fn partial(&self) -> PartialObject {
        self.read().unwrap_or_else(|_| PartialObject {
            metadata: Meta {
                name: self.meta.name.as_deref().unwrap_or_default().into(),
                namespace: self.meta.namespace.as_deref().unwrap_or_default().into(),
                uid: self.meta.uid.as_deref().unwrap_or_default().into(),
                resource_version: self
                    .meta
                    .resource_version
                    .as_deref()
                    .map_or(0, |version| version.parse().unwrap_or(0)),
                ..Meta::default()
            },
        })
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let json = <&'de RawValue>::deserialize(from)?;
        Ok(Self::new(Bytes::copy_from_slice(json.get().as_bytes())))
    }
}

/// Reads what identifies an object, and stops as soon as that is complete: most of an object comes later.
fn identity(json: &[u8]) -> ObjectMeta {
    let mut meta = ObjectMeta::default();
    // Stopping early is an error to the parser and none to us.
    let _ = Field("metadata", &mut meta).deserialize(&mut serde_json::Deserializer::from_slice(json));
    meta
}

/// Reads the metadata out of the field of this name.
struct Field<'a>(&'static str, &'a mut ObjectMeta);

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key == self.0 {
                map.next_value_seed(Names(&mut *self.1))?;
                return Err(A::Error::custom("the rest is not needed"));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

struct Names<'a>(&'a mut ObjectMeta);

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let meta = self.0;
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let wanted = match &*key {
                "name" => &mut meta.name,
                "namespace" => &mut meta.namespace,
                "uid" => &mut meta.uid,
                "resourceVersion" => &mut meta.resource_version,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *wanted = map.next_value()?;
            if meta.name.is_some() && meta.namespace.is_some() && meta.uid.is_some() && meta.resource_version.is_some()
            {
                return Err(de::Error::custom("the rest is not needed"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Numbered {
        number: u32,
    }

    fn good() -> serde_json::Value {
        json!({ "kind": "A", "metadata": { "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {} },
                "number": 5 })
    }

    fn bad() -> serde_json::Value {
        json!({ "apiVersion": "x", "number": "five", "metadata": { "annotations": { "metadata": "no" }, "name": "b", "uid": "v",
                "resourceVersion": "8" } })
    }

    fn names(meta: &ObjectMeta) -> [&str; 4] {
        [&meta.namespace, &meta.name, &meta.uid, &meta.resource_version].map(|each| each.as_deref().unwrap_or_default())
    }

    #[test]
    fn given_a_list_with_an_unreadable_object_then_the_others_are_read() {
        let list = json!({ "kind": "AList", "apiVersion": "v1", "metadata": { "resourceVersion": "9" },
                           "items": [good(), bad(), good()] });
        let list: ObjectList<RawObject> = serde_json::from_str(&list.to_string()).expect("a list");
        assert_eq!(list.items.len(), 3);
        assert_eq!(list.items[0].read::<Numbered>().expect("readable").number, 5);
        assert_eq!(names(&list.items[0].meta), ["n", "a", "u", "7"]);
        let reason = list.items[1].read::<Numbered>().expect_err("not readable").to_string();
        assert!(reason.contains("invalid type: string \"five\""), "{reason}");
        assert_eq!(names(&list.items[1].meta), ["", "b", "v", "8"]);
    }

    #[test]
    fn given_an_unreadable_object_then_its_metadata_is_read_as_far_as_possible() {
        let metadata = |labels: serde_json::Value| {
            let object = json!({ "number": "five", "metadata": { "name": "b", "namespace": "n", "uid": "v", "resourceVersion": "8",
                                 "labels": labels, "ownerReferences": [{ "uid": "o", "controller": true }] } });
            let object: RawObject = serde_json::from_str(&object.to_string()).expect("any JSON");
            assert!(object.read::<Numbered>().is_err());
            object.partial().metadata
        };
        let good = metadata(json!({ "app": "web" }));
        assert_eq!((good.label("app"), good.resource_version), (Some("web"), 8));
        assert_eq!(
            good.controller().map(|owner| owner.uid.to_string()).as_deref(),
            Some("o")
        );
        let bad = metadata(json!(7));
        assert_eq!(
            (&*bad.name, &*bad.namespace, bad.uid.to_string().as_str()),
            ("b", "n", "v")
        );
    }

    #[test]
    fn given_watch_events_as_the_server_writes_them_then_they_are_read() {
        for (event, readable) in [
            (json!({ "type": "MODIFIED", "object": good() }), true),
            (json!({ "type": "DELETED", "object": bad() }), false),
        ] {
            // The server writes the type first.
            let text = format!("{{\"type\":{},\"object\":{}}}", event["type"], event["object"]);
            match serde_json::from_str::<WatchEvent<RawObject>>(&text).expect("an event") {
                WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    assert_eq!(object.read::<Numbered>().is_ok(), readable);
                }
                other => panic!("{other:?}"),
            }
        }
        let bookmark = "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"A\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"3\"}}}";
        assert!(matches!(
            serde_json::from_str::<WatchEvent<RawObject>>(bookmark).expect("an event"),
            WatchEvent::Bookmark(_)
        ));
    }

    proptest! {
        #[test]
        fn given_any_json_then_reading_never_fails_as_a_whole(text in "\\PC{0,40}", number in any::<i64>()) {
            for object in [json!(text), json!(number), json!([number]), json!(null), json!({ "metadata": text }),
                           json!({ "metadata": { "name": number, "uid": [text] } }), json!({ text.clone(): number })] {
                let list = json!({ "metadata": {}, "items": [object, good()] }).to_string();
                let list: ObjectList<RawObject> = serde_json::from_str(&list).expect("a list");
                prop_assert!(list.items[1].read::<Numbered>().is_ok());
            }
        }
    }
}
