//! What is said to the server about older kinds, and what it says.

use bytes::Bytes;
use http::Method;
use kruise_api::names::group::{V1ALPHA1, V1BETA1};
use kruise_core::conversion::convert;
use serde_json::Value;
use tracing::warn;

/// A kind that the server has as v1alpha1 only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OlderKind {
    pub(super) group: &'static str,
    pub(super) kind: String,
    pub(super) plural: String,
}

pub(super) struct OlderKinds(pub(super) Vec<OlderKind>);

impl OlderKinds {
    /// The path to use instead, when this one is about an older kind.
    pub(super) fn older_path(&self, path: &str) -> Option<String> {
        let (group, rest) = path.strip_prefix("/apis/")?.split_once('/')?;
        let rest = rest.strip_prefix(V1BETA1)?.strip_prefix('/')?;
        let in_namespace = rest.strip_prefix("namespaces/").and_then(|rest| rest.split_once('/'));
        let from_plural = in_namespace.map_or(rest, |(_, from_plural)| from_plural);
        let plural = from_plural.split('/').next();
        let known = |kind: &OlderKind| kind.group == group && Some(kind.plural.as_str()) == plural;
        self.0
            .iter()
            .any(known)
            .then(|| format!("/apis/{group}/{V1ALPHA1}/{rest}"))
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
            Ok(warnings) => {
                for warning in warnings {
                    warn!("left out of a conversion: {warning}");
                }
            }
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

#[cfg(test)]
mod tests;
