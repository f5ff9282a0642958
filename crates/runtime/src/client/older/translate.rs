//! What is said to the server about older kinds, and what it says.

use bytes::Bytes;
use http::Method;
use kruise_api::names::group::{V1ALPHA1, V1BETA1};
use kruise_core::conversion::{Warning, convert};
use serde_json::{Value, json};
use tracing::{trace, warn};

type Object = serde_json::Map<String, Value>;

/// A kind that the server has as v1alpha1 only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OlderKind {
    pub(super) group: &'static str,
    pub(super) kind: String,
    pub(super) plural: String,
}

pub(super) struct OlderKinds(pub(super) Vec<OlderKind>);

/// A merge patch of an older kind, in its own version.
#[derive(Debug, PartialEq)]
pub(super) struct OlderPatch {
    /// What has to be written with the object although the patch is about its status.
    pub(super) of_object: Option<Bytes>,
    /// What is written where the patch was meant for; nothing when the object takes all of it.
    pub(super) as_asked: Option<Bytes>,
}

impl OlderKinds {
    /// The older kind that a path is about, and the path to use instead.
    pub(super) fn at(&self, path: &str) -> Option<(&OlderKind, String)> {
        let (group, rest) = path.strip_prefix("/apis/")?.split_once('/')?;
        let rest = rest.strip_prefix(V1BETA1)?.strip_prefix('/')?;
        let in_namespace = rest.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/'));
        let from_plural = in_namespace.map_or(rest, |(_, from_plural)| from_plural);
        let plural = from_plural.split('/').next();
        let known = |kind: &&OlderKind| kind.group == group && Some(kind.plural.as_str()) == plural;
        let kind = self.0.iter().find(known)?;
        Some((kind, format!("/apis/{group}/{V1ALPHA1}/{rest}")))
    }

    /// A merge patch of an older kind; `of_status` when it goes to the status.
    pub(super) fn patch(&self, kind: &OlderKind, of_status: bool, body: Bytes) -> OlderPatch {
        let Ok(Value::Object(patch)) = serde_json::from_slice(&body) else {
            return OlderPatch {
                of_object: None,
                as_asked: Some(body),
            };
        };
        let mut older = converted(kind, &patch).unwrap_or_else(|| patch.clone());
        let facts = if of_status { facts(&patch, &mut older) } else { None };
        // What the object takes is checked there; the version is another one then.
        if facts.is_some()
            && let Some(metadata) = older.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("resourceVersion");
        }
        let is_spent = facts.is_some() && older.get("status").is_none_or(|status| *status == json!({}));
        let mut older = Value::Object(older);
        self.name_older(&mut older);
        OlderPatch {
            of_object: facts.map(|facts| facts.to_string().into()),
            as_asked: (!is_spent).then(|| older.to_string().into()),
        }
    }

    /// The body to send. What is not JSON goes as it is.
    pub(super) fn request(&self, method: &Method, body: Bytes) -> Bytes {
        let Ok(mut value) = serde_json::from_slice(&body) else {
            return body;
        };
        if method != Method::PATCH {
            self.convert(&mut value, V1BETA1, V1ALPHA1);
        }
        self.name_older(&mut value);
        value.to_string().into()
    }

    /// The body of an answer to show.
    pub(super) fn answer(&self, body: Bytes) -> Bytes {
        let Ok(mut value) = serde_json::from_slice::<Value>(&body) else {
            return body;
        };
        match value.get_mut("items").and_then(Value::as_array_mut) {
            Some(items) => items.iter_mut().for_each(|item| self.convert(item, V1ALPHA1, V1BETA1)),
            None => self.convert(&mut value, V1ALPHA1, V1BETA1),
        }
        value.to_string().into()
    }

    /// The line of a watch to show.
    pub(super) fn event(&self, mut line: String) -> Bytes {
        if let Ok(mut event) = serde_json::from_str::<Value>(&line)
            && let Some(object) = event.get_mut("object")
        {
            self.convert(object, V1ALPHA1, V1BETA1);
            // The type comes first, as readers expect from the server.
            line = format!("{{\"type\":{},\"object\":{}}}", event["type"], event["object"]);
        }
        line.push('\n');
        line.into()
    }

    /// Converts an object of an older kind and leaves everything else alone. One that cannot be converted cannot be read either: its spec says why.
    fn convert(&self, value: &mut Value, from: &str, to: &str) {
        let Some(group) = self.group_of(value, from) else {
            return;
        };
        let Some(object) = value.as_object_mut() else {
            return;
        };
        match convert(object, &format!("{group}/{to}")) {
            Ok(warnings) => warn_of(warnings),
            Err(error) => {
                object.insert("spec".into(), error.to_string().into());
            }
        }
    }

    /// Every reference to an older kind names the version that is there.
    fn name_older(&self, value: &mut Value) {
        let group = self.group_of(value, V1BETA1);
        match value {
            Value::Object(fields) => {
                if let Some(group) = group {
                    fields.insert("apiVersion".into(), format!("{group}/{V1ALPHA1}").into());
                }
                fields.values_mut().for_each(|field| self.name_older(field));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.name_older(item)),
            _ => {}
        }
    }

    /// The group of an object or of a reference to one, when it is of an older kind and in this version.
    fn group_of(&self, value: &Value, version: &str) -> Option<&'static str> {
        let (group, has) = value.get("apiVersion")?.as_str()?.split_once('/')?;
        let kind = value.get("kind")?.as_str()?;
        let known = self.0.iter().find(|each| each.group == group && each.kind == kind);
        known.filter(|_| has == version).map(|each| each.group)
    }
}

/// A patch as it is in the older version; nothing when it cannot be said there.
fn converted(kind: &OlderKind, patch: &Object) -> Option<Object> {
    let mut object = patch.clone();
    let had_metadata = object.contains_key("metadata");
    object.insert("apiVersion".into(), format!("{}/{V1BETA1}", kind.group).into());
    object.insert("kind".into(), kind.kind.as_str().into());
    object.entry("metadata").or_insert_with(|| json!({}));
    warn_of(convert(&mut object, &format!("{}/{V1ALPHA1}", kind.group)).ok()?);
    for field in ["apiVersion", "kind"] {
        match patch.get(field) {
            Some(value) => object.insert(field.to_owned(), value.clone()),
            None => object.remove(field),
        };
    }
    if !had_metadata && object.get("metadata").is_some_and(|metadata| *metadata == json!({})) {
        object.remove("metadata");
    }
    Some(object)
}

/// Takes the annotations that came out of the conversion of a status into a patch of the object, with the conditions of the whole.
fn facts(patch: &Object, older: &mut Object) -> Option<Value> {
    let metadata = |object: &Object| object.get("metadata").cloned().unwrap_or_default();
    let (before, mut after) = (metadata(patch), metadata(older));
    if before["annotations"] == after["annotations"] {
        return None;
    }
    match before {
        Value::Null => older.remove("metadata"),
        before => older.insert("metadata".into(), before),
    };
    let known = patch.get("metadata").and_then(|metadata| metadata.get("annotations"));
    if let (Some(known), Some(all)) = (known, after["annotations"].as_object_mut()) {
        all.retain(|name, value| known.get(name) != Some(value));
    }
    Some(json!({ "metadata": after }))
}

fn warn_of(warnings: Vec<Warning>) {
    for Warning { field, value, reason } in warnings {
        warn!("left out of a conversion: {field}: {reason}");
        trace!("left out of a conversion: {field}: {value}");
    }
}

#[cfg(test)]
mod tests;
