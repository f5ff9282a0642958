//! Structural schemas: everything in place, no references, no `null`.
//!
//! The markers that our types carry for this step, and that do not reach the CRD:
//!
//! - `x-required` on a field lists it as required in its parent.
//! - `x-default` is the default that the API server fills in. (A plain `default` is schemars' note of what a missing field
//!   reads as; it says nothing about the API and is passed over.)
//! - `x-holds` on a schemaless field names the Kubernetes type inside; it stays for the field tree and is dropped by [`strip`].

use std::fmt;

use serde_json::{Map, Value};

use super::standard;

/// Marks a field as required.
const REQUIRED: &str = "x-required";
/// The default that the API server fills in.
const DEFAULT: &str = "x-default";
/// Names the Kubernetes type in a schemaless field.
pub const HOLDS: &str = "x-holds";

/// Keywords that pass as they are.
const KEYWORDS: &[&str] = &[
    "type",
    "format",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "nullable",
    HOLDS,
];

/// A schema that cannot become structural: a fault in a type, found when the CRDs are generated.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotStructural(String);

/// Turns what schemars derived into a structural schema.
pub fn structural(root: &Value) -> Result<Value, NotStructural> {
    let empty = Map::new();
    let definitions = root.get("$defs").and_then(Value::as_object).unwrap_or(&empty);
    Inliner { definitions }.schema(root).map(Value::Object)
}

/// Drops the markers that are ours, not the API server's.
pub fn strip(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove(HOLDS);
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

struct Inliner<'a> {
    definitions: &'a Map<String, Value>,
}

impl Inliner<'_> {
    fn schema(&self, from: &Value) -> Result<Map<String, Value>, NotStructural> {
        let Some(from) = from.as_object() else {
            return Err(wrong("not an object", from));
        };
        let mut to = self.base(from)?;
        for (key, value) in from {
            match key.as_str() {
                "description" => {
                    to.insert(key.clone(), one_line(value));
                }
                "type" => {
                    to.insert(key.clone(), without_null(value));
                }
                "properties" => self.properties(value, &mut to)?,
                "items" | "additionalProperties" if value.is_object() => {
                    to.insert(key.clone(), Value::Object(self.schema(value)?));
                }
                "additionalProperties" => {}
                key if KEYWORDS.contains(&key) || key.starts_with("x-kubernetes-") => {
                    to.insert(key.to_owned(), value.clone());
                }
                DEFAULT => {
                    to.insert("default".to_owned(), value.clone());
                }
                "$ref" | "anyOf" | "allOf" | "$defs" | "$schema" | "title" | "required" | "default" | REQUIRED => {}
                other => return Err(wrong(format!("unexpected keyword {other}"), value)),
            }
        }
        Ok(to)
    }

    /// What a schema refers to; its own keywords are laid over that.
    fn base(&self, from: &Map<String, Value>) -> Result<Map<String, Value>, NotStructural> {
        if let Some(reference) = from.get("$ref").and_then(Value::as_str) {
            return self.definition(reference.trim_start_matches("#/$defs/"));
        }
        let any = from.get("anyOf").or(from.get("allOf")).and_then(Value::as_array);
        let Some(any) = any else { return Ok(Map::new()) };
        if from.contains_key("x-kubernetes-int-or-string") {
            return Ok(Map::from_iter([("anyOf".to_owned(), Value::Array(any.clone()))]));
        }
        let mut parts = any
            .iter()
            .filter(|part| part.get("type").and_then(Value::as_str) != Some("null"));
        match (parts.next(), parts.next()) {
            (Some(only), None) => self.schema(only),
            _ => Err(wrong("more than one alternative", &Value::Array(any.clone()))),
        }
    }

    fn definition(&self, name: &str) -> Result<Map<String, Value>, NotStructural> {
        if let Some(Value::Object(schema)) = standard::by_reference(name) {
            return Ok(schema);
        }
        if name.starts_with("io.k8s.") {
            return Err(NotStructural(format!(
                "{name} is missing in the table of standard structures"
            )));
        }
        let definition = self.definitions.get(name);
        self.schema(definition.ok_or_else(|| NotStructural(format!("{name} is not defined")))?)
    }

    fn properties(&self, from: &Value, to: &mut Map<String, Value>) -> Result<(), NotStructural> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, field) in from.as_object().into_iter().flatten() {
            let schema = self
                .schema(field)
                .map_err(|error| NotStructural(format!("{name}: {error}")))?;
            if field.get(REQUIRED).is_some() {
                required.push(Value::from(name.as_str()));
            }
            properties.insert(name.clone(), Value::Object(schema));
        }
        to.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            to.insert("required".to_owned(), Value::Array(required));
        }
        Ok(())
    }
}

/// A doc comment as a description: one line, without the backticks of Rust's documentation.
fn one_line(text: &Value) -> Value {
    let text = text.as_str().unwrap_or_default().replace('`', "");
    Value::from(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn without_null(types: &Value) -> Value {
    let mut words = types
        .as_array()
        .into_iter()
        .flatten()
        .filter(|word| word.as_str() != Some("null"));
    words.next().unwrap_or(types).clone()
}

fn wrong(what: impl fmt::Display, schema: &Value) -> NotStructural {
    NotStructural(format!("{what}: {schema}"))
}
