//! What the two webhook configurations have to be.
//!
//! The manifest says which entries there are; the manager fills in how we are reached and whom to trust. Because it also takes out entries that nobody
//! would answer (a gate is off, an unknown path), it keeps the manifest's entries in the annotation `template`, and makes the live ones from it:
//!
//! 1. Without the annotation, or with an empty one (the chart resets it on every upgrade), the live entries are the manifest.
//! 2. Otherwise the annotation counts, as long as the live entries are what we made of it, or the manifest was applied again as it was. What we made is
//!    remembered by a hash in a second annotation. The CA bundle does not count: whoever wipes it does not change the manifest.
//! 3. Anything else is a new manifest: its entries replace the template. Entries that we had taken out and that it does not mention stay in the template.
//!
//! Rule 3 is ours: the original writes its old entries back over a newer manifest.

use crate::endpoint::{Endpoint, path_of};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// How live entries have to look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// CA bundle in base64.
    pub(crate) ca_bundle: &'a str,
    /// Paths that are answered.
    pub(crate) live: &'a BTreeSet<&'static str>,
}

/// A webhook configuration, as far as we care.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entries {
    pub(crate) webhooks: Vec<Value>,
    /// Annotation with the manifest's entries.
    pub(crate) template: Option<String>,
    /// Annotation with the hash of what we made of them.
    pub(crate) hash: Option<String>,
}

impl Entries {
    /// What the configuration has to be; `None` when it is so already.
    pub(crate) fn rewritten(&self, wanted: Wanted<'_>) -> Option<Self> {
        let (template, text) = self.source(wanted);
        let webhooks: Vec<Value> = template.iter().filter_map(|entry| filled_in(entry, wanted)).collect();
        let hash = digest(&webhooks);
        let rewritten = Self {
            webhooks,
            template: Some(text),
            hash: Some(hash),
        };
        (!rewritten.is_same(self)).then_some(rewritten)
    }

    /// The manifest's entries, and how they are written into the annotation.
    fn source(&self, wanted: Wanted<'_>) -> (Vec<Value>, String) {
        let text = self.template.as_deref().unwrap_or_default();
        let template: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
        if !template.is_empty() && self.is_made_of(&template) {
            return (template, text.to_owned());
        }
        let is_live = |entry: &Value| path_of(&entry["clientConfig"]).is_some_and(|path| wanted.live.contains(path));
        let names: BTreeSet<_> = self.webhooks.iter().map(name).collect();
        let taken_out = template
            .iter()
            .filter(|entry| !is_live(entry) && !names.contains(name(entry)));
        let entries: Vec<Value> = self.webhooks.iter().chain(taken_out).map(without_bundle).collect();
        let text = Value::from(entries.clone()).to_string();
        (entries, text)
    }

    /// Whether the live entries are ours, or the template applied again.
    fn is_made_of(&self, template: &[Value]) -> bool {
        let live = by_name(&self.webhooks);
        let template = by_name(template);
        match &self.hash {
            _ if live == template => true,
            Some(hash) => *hash == digest(&self.webhooks),
            // The original leaves no hash. It only ever takes entries out.
            None => live.iter().all(|(name, entry)| template.get(name) == Some(entry)),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let all = |entries: &[Value]| entries.iter().map(completed).collect::<Vec<_>>();
        self.template == other.template && self.hash == other.hash && all(&self.webhooks) == all(&other.webhooks)
    }
}

fn name(entry: &Value) -> &str {
    entry.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn without_bundle(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Some(config) = entry.get_mut("clientConfig").and_then(Value::as_object_mut) {
        config.remove("caBundle");
    }
    entry
}

/// The live form of a manifest's entry; none when nobody would answer.
fn filled_in(entry: &Value, wanted: Wanted<'_>) -> Option<Value> {
    let config = entry.get("clientConfig")?;
    let path = path_of(config).filter(|path| wanted.live.contains(path))?;
    let port = config.pointer("/service/port");
    let config = wanted.endpoint.client_config(path, port, wanted.ca_bundle);
    let mut entry = entry.as_object()?.clone();
    entry.insert("clientConfig".into(), config);
    Some(Value::Object(entry))
}

/// Entries by name, without what we fill in.
fn by_name(entries: &[Value]) -> BTreeMap<&str, Value> {
    let meaning = |entry: &Value| {
        let mut entry = completed(entry);
        let path = entry.get("clientConfig").and_then(path_of).map(str::to_owned);
        entry.insert("clientConfig".into(), path.into());
        Value::Object(entry)
    };
    entries.iter().map(|entry| (name(entry), meaning(entry))).collect()
}

fn digest(entries: &[Value]) -> String {
    let mut hash = Sha256::new();
    feed(&mut hash, &json!(by_name(entries)));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Feeds a value to the hash with its fields in the order of their names.
fn feed(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            hash.update("{");
            for (name, value) in sorted {
                hash.update(Value::from(name.as_str()).to_string());
                feed(hash, value);
            }
            hash.update("}");
        }
        Value::Array(items) => {
            hash.update("[");
            for item in items {
                feed(hash, item);
            }
            hash.update("]");
        }
        plain => hash.update(plain.to_string()),
    }
}

/// An entry with what the API server fills in, so that a manifest and what became of it compare as equal.
fn completed(entry: &Value) -> Map<String, Value> {
    let mut entry = entry.as_object().cloned().unwrap_or_default();
    entry.retain(|_, value| !is_nothing(value));
    for (field, value) in [
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("reinvocationPolicy", json!("Never")),
        ("timeoutSeconds", json!(10)),
    ] {
        entry.entry(field).or_insert(value);
    }
    let rules = entry.get_mut("rules").and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten().filter_map(Value::as_object_mut) {
        rule.entry("scope").or_insert_with(|| "*".into());
    }
    let service = entry
        .get_mut("clientConfig")
        .and_then(|config| config.get_mut("service"));
    if let Some(service) = service.and_then(Value::as_object_mut) {
        service.entry("port").or_insert_with(|| 443.into());
    }
    entry
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests;
