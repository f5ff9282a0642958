//! Recordings of the original: what was sent, and what came of it.

use kruise_api::gates::{Gate, Gates};
use kruise_core::admission::{Admit as _, Lookups, NamedPod, Version};
use kruise_core::cloneset::default::default;
use kruise_core::cloneset::validate::validate;
use kruise_core::cloneset::version::Submitted;
use kruise_core::field_error::FieldErrors;
use kruise_core::shared::tree::Object;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One version's recordings.
#[derive(Deserialize)]
pub(crate) struct Recorded {
    /// What creations are changes of.
    pub(crate) object: Value,
    /// What updates are changes of, as stored.
    pub(crate) stored: BTreeMap<String, Value>,
    pub(crate) cases: Vec<Case>,
}

/// One request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) operation: String,
    /// Name of the stored object.
    pub(crate) stored: Option<String>,
    /// A merge patch.
    pub(crate) change: Value,
    /// Status code of the refusal.
    pub(crate) code: Option<u16>,
    /// What the webhook found wrong.
    #[serde(default)]
    pub(crate) errors: Vec<String>,
    /// Those of the errors that the API server finds in the Pod template.
    #[serde(default)]
    pub(crate) template: Vec<String>,
    /// Fields with which the API server found something wrong by itself.
    pub(crate) api_server: Option<Vec<String>>,
    /// Message of a refusal that is not about fields.
    pub(crate) says: Option<String>,
    /// The webhook that refused, when it was not the validating one.
    pub(crate) by: Option<String>,
    /// Why we allow what the original refused.
    pub(crate) allowed_here: Option<String>,
    /// Pods that are there, and whether they belong to the stored object.
    #[serde(default)]
    pub(crate) pods: BTreeMap<String, String>,
}

pub(crate) fn recorded(version: Version) -> Recorded {
    let text = match version {
        Version::V1alpha1 => include_str!("../../fixtures/cloneset/verdicts-v1alpha1.json"),
        Version::V1beta1 => include_str!("../../fixtures/cloneset/verdicts-v1beta1.json"),
    };
    serde_json::from_str(text).unwrap()
}

pub(crate) const VERSIONS: [Version; 2] = [Version::V1alpha1, Version::V1beta1];

/// Gates as they were when the original was recorded.
pub(crate) fn gates() -> Gates {
    Gates::default()
        .with(Gate::DefaultHostNetworkHostPortsInPodTemplates, true)
        .with(Gate::ResourcesDeletionProtection, true)
}

impl Recorded {
    /// The object of a case as it was sent, and what was stored then.
    pub(crate) fn objects<'a>(&'a self, case: &Case) -> (Value, Option<&'a Value>) {
        let stored = case.stored.as_ref().map(|name| &self.stored[name]);
        let mut object = stored.unwrap_or(&self.object).clone();
        json_patch::merge(&mut object, &case.change);
        (object, stored)
    }
}

pub(crate) fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

pub(crate) fn read(value: &Value, version: Version) -> Result<Submitted, String> {
    Submitted::read(value.to_string().as_bytes(), version).map_err(|error| error.to_string())
}

/// A CloneSet, completed.
pub(crate) fn defaulted(value: &Value, old: Option<&Value>, version: Version, gates: Gates) -> Value {
    let mut completed = object(value);
    default(&mut completed, old.map(object).as_ref(), version, gates);
    Value::Object(completed)
}

/// What is wrong with a CloneSet after its defaults were written. Fails when it is not even a CloneSet.
pub(crate) fn judged(
    value: &Value,
    old: Option<&Value>,
    version: Version,
    lookups: &Lookups,
) -> Result<FieldErrors, String> {
    read(value, version)?;
    let new = read(&defaulted(value, old, version, gates()), version)?;
    let old = old.map(|old| read(old, version)).transpose()?;
    Ok(validate(&new, old.as_ref(), lookups))
}

/// The Pods of a case, as they would be found.
pub(crate) fn pods(case: &Case, stored: Option<&Value>) -> BTreeMap<String, NamedPod> {
    let uid = stored.and_then(|stored| stored["metadata"]["uid"].as_str());
    let found = |whose: &String| NamedPod::Found {
        controller: (whose == "own").then(|| uid.unwrap().to_owned()),
        is_being_deleted: false,
    };
    let mut pods: BTreeMap<_, _> = case
        .pods
        .iter()
        .map(|(name, whose)| (name.clone(), found(whose)))
        .collect();
    for missing in ["case-nope", "nope", "p1", "web-zzzzz"] {
        pods.entry(missing.to_owned()).or_insert(NamedPod::Missing);
    }
    pods
}
