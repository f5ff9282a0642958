//! A version of a kind as one line per field: `path type [format] [required] [markers]`.
//!
//! `[]` is a list's element, `{}` a map's value. Structures of Kubernetes itself are shown by name; a structure that differs
//! from the standard one in any field or marker is spelled out, so that the difference is seen.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::standard;
use super::structural::HOLDS;
use crate::registry::{KindInfo, VersionInfo};

/// The tree of one version; `schema` is its structural schema before [`strip`](super::structural::strip).
pub fn fields(kind: &KindInfo, version: &VersionInfo, schema: &Value) -> String {
    let storage = kind.storage().is_some_and(|storage| storage.name == version.name);
    let mut tree = format!(
        "# {} {}/{} plural={} scope={:?} served=true storage={storage} subresources={}\n",
        kind.kind,
        kind.group,
        version.name,
        kind.plural,
        kind.scope,
        if version.scale.is_some() {
            "scale+status"
        } else {
            "status"
        },
    );
    children("", schema, &mut tree);
    tree
}

/// The columns of all kinds, tab separated.
pub fn columns(kinds: &[&KindInfo]) -> String {
    let mut table = "# crd\tversion\torder\tname\ttype\tformat\tjsonPath\tpriority\n".to_owned();
    for kind in kinds {
        for version in kind.versions {
            let head = format!("{}.{}\t{}", kind.plural, kind.group, version.name);
            if version.columns.is_empty() {
                let _ = writeln!(table, "{head}\t0\t(none: server default NAME, AGE)\t-\t-\t-\t-");
            }
            for (index, column) in version.columns.iter().enumerate() {
                let (name, type_, path, priority) = (column.name, column.type_, column.path, column.priority);
                let _ = writeln!(table, "{head}\t{}\t{name}\t{type_}\t-\t{path}\t{priority}", index + 1);
            }
        }
    }
    table
}

fn children(path: &str, schema: &Value, tree: &mut String) {
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        node(&path, field, required.iter().any(|field| field == name), tree);
    }
}

fn node(path: &str, schema: &Value, required: bool, tree: &mut String) {
    let empty = Map::new();
    let map = schema.as_object().unwrap_or(&empty);
    let standard = standard::name_of(schema);
    let _ = write!(tree, "{path} {}", standard.unwrap_or_else(|| type_of(map)));
    if let Some(format) = map.get("format") {
        let _ = write!(tree, " {}", word(format));
    }
    if map.contains_key("x-kubernetes-preserve-unknown-fields") {
        tree.push_str(" preserve-unknown");
    }
    if required {
        tree.push_str(" required");
    }
    if map.contains_key("x-kubernetes-embedded-resource") {
        tree.push_str(" embedded-resource");
    }
    if map.contains_key("nullable") {
        tree.push_str(" nullable");
    }
    for (key, token) in MARKERS {
        if let Some(value) = map.get(*key) {
            let _ = write!(
                tree,
                " {token}={}",
                if *key == "default" {
                    value.to_string()
                } else {
                    words(value)
                }
            );
        }
    }
    tree.push('\n');
    if standard.is_some() {
        return;
    }
    children(path, schema, tree);
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(element) = map.get(key) {
            node(&format!("{path}{suffix}"), element, false, tree);
        }
    }
}

/// Keywords that are shown as `token=value`, in this order.
const MARKERS: &[(&str, &str)] = &[
    ("default", "default"),
    ("enum", "enum"),
    ("minimum", "min"),
    ("maximum", "max"),
    ("minLength", "minLength"),
    ("maxLength", "maxLength"),
    ("pattern", "pattern"),
    ("x-kubernetes-list-type", "list-type"),
    ("x-kubernetes-list-map-keys", "list-map-keys"),
    ("x-kubernetes-map-type", "map-type"),
    (HOLDS, "holds"),
];

fn type_of(schema: &Map<String, Value>) -> &str {
    if schema.contains_key("x-kubernetes-int-or-string") {
        return "int-or-string";
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") if schema.contains_key("additionalProperties") => "map",
        Some(other) => other,
        None => "any",
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::Array(list) => list.iter().map(word).collect::<Vec<_>>().join("|"),
        other => word(other),
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        other => other.to_string(),
    }
}
