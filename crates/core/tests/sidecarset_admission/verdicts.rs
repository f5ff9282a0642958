//! Every recorded request, and the answer we give.

use jiff::Timestamp;
use kruise_api::gates::{Gate, Gates};
use kruise_core::admission::{Admit as _, Env, Lookups, ObjectRef, Operation, Version};
use kruise_core::sidecarset::admit::Submitted;
use kruise_core::sidecarset::convert;
use kruise_core::sidecarset::default::default;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Recorded {
    minimal: BTreeMap<String, Value>,
    stored: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    version: String,
    allowed: bool,
    /// Name of the stored object that was changed.
    base: Option<String>,
    #[serde(default)]
    existing: Vec<String>,
    /// Refused for what Kubernetes says of the Pod.
    #[serde(default)]
    kubernetes: bool,
    /// A merge patch.
    change: Value,
    /// Why it was refused, and the field that we tell it of.
    says: Option<String>,
    at: Option<String>,
}

/// What we say in other words than the original, which begins with these; `docs/differences.md` has them.
const OTHER_WORDS: [(&str, &str); 10] = [
    ("The initContainer in-place upgrade is not", "type has to be NotUpdate"),
    (
        "unsupported pod inject policy",
        "supported values: \"BeforeAppContainer\"",
    ),
    ("unsupported share volume policy", "supported values: \"enabled\""),
    (
        "error converting fieldPath: field label",
        "only metadata.labels['<key>'] and",
    ),
    (
        "error converting fieldPath: unsupported pod",
        "supported values: \"v1\"",
    ),
    ("Cannot find specific ControllerRevision", "Not found"),
    ("patch annotation[g2] already exist", "Duplicate value"),
    ("fetch base sidecarSet[g2-nope] failed", "Not found"),
    (
        "RollingUpdate is not supported for canary",
        "a canary has to have the type NotUpdate",
    ),
    ("invalid expression: ", "invalid expression: "),
];

impl Case {
    /// What is missing in our reason.
    fn unlike(&self, message: &str) -> Option<String> {
        let says = self.says.as_deref()?;
        let is_added = says.starts_with("container ") && says.ends_with(" is not found");
        let mut other = OTHER_WORDS.iter().filter(|(begin, _)| says.starts_with(begin));
        let words = match other.next() {
            Some((_, ours)) => *ours,
            None if is_added => "containers cannot be added or renamed",
            None => says,
        };
        let at = format!("{}: ", self.at.as_deref().unwrap_or_default());
        let is_alike = message.trim_start_matches('[').starts_with(&at) && message.contains(words);
        (!is_alike).then(|| format!("{message}\nis not: {at}{words}"))
    }
}

/// Where we do it right, with what the original does.
const DIFFERENT: [(&str, bool); 2] = [
    ("resources-policy-unknown-suffix", true),
    ("resources-policy-lower-mi", true),
];

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let fields = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

fn completed(object: &Value) -> Map<String, Value> {
    let mut object = object.as_object().unwrap().clone();
    default(&mut object);
    object
}

/// As it is stored.
fn in_v1beta1(object: &Value) -> Value {
    let mut object = completed(object);
    if object["apiVersion"] == "apps.kruise.io/v1alpha1" {
        convert::up(&mut object, &mut Vec::new()).unwrap();
        object.insert("apiVersion".into(), json!("apps.kruise.io/v1beta1"));
    }
    Value::Object(object)
}

#[test]
fn given_every_recorded_request_then_the_verdict_is_the_same() {
    let recorded: Recorded = serde_json::from_str(include_str!("../../fixtures/sidecarset/verdicts.json")).unwrap();
    assert_eq!(recorded.cases.len(), 239);
    let gates = Gates::default().with(Gate::SidecarSetPatchPodMetadataDefaultsAllowed, true);
    let mut wrong = Vec::new();
    for case in &recorded.cases {
        let base = case.base.as_ref().map(|name| &recorded.stored[name]);
        let mut object = base.unwrap_or(&recorded.minimal[&case.version]).clone();
        merge(&mut object, &case.change);
        let object = Value::Object(completed(&object));
        let version = Version::by_name(&case.version).unwrap();
        let read = |object: &Value| Submitted::read(object.to_string().as_bytes(), version);
        let existing: Vec<Value> = case
            .existing
            .iter()
            .map(|name| in_v1beta1(&recorded.stored[name]))
            .collect();
        let mut all: Vec<Value> = existing;
        all.extend(base.map(in_v1beta1));
        // The base of a canary that is changed was there, too.
        all.extend(base.and_then(|base| {
            let named = base["metadata"]["annotations"]["apps.kruise.io/sidecarset-base"].as_str()?;
            recorded
                .stored
                .values()
                .find(|set| set["metadata"]["name"] == named)
                .map(in_v1beta1)
        }));
        let env = Env {
            operation: if base.is_some() {
                Operation::Update
            } else {
                Operation::Create
            },
            version,
            gates,
            now: Timestamp::UNIX_EPOCH,
        };
        let new = match read(&object) {
            Ok(new) => new,
            Err(error) => {
                wrong.push(format!("{} {}: cannot be read: {error}", case.version, case.name));
                continue;
            }
        };
        let mut found = Lookups::default();
        for object in new.needs_to_validate(None, &env, &found).objects {
            let there = match &object {
                ObjectRef::SidecarSets => Some(json!({"items": all})),
                ObjectRef::Revision(name) => base.filter(|base| base["status"]["latestRevision"] == **name).cloned(),
                ObjectRef::RevisionsOfSidecarSet(_) => base.map(|base| {
                    let key = "apps.kruise.io/sidecarset-custom-version";
                    let version = base["spec"]["customVersion"].clone();
                    let version = if version.is_null() {
                        base["metadata"]["labels"][key].clone()
                    } else {
                        version
                    };
                    json!({"items": [{"metadata": {"labels": {key: version}}}]})
                }),
                _ => None,
            };
            found.objects.insert(object, Ok(there));
        }
        let verdict = match base {
            Some(base) => new.validate_update(&read(base).unwrap(), &env, &found),
            None => new.validate(&env, &found),
        };
        let here = DIFFERENT.iter().find(|(name, _)| *name == case.name);
        let expected = match here {
            Some((_, original)) => {
                assert_eq!(case.allowed, *original, "{}", case.name);
                !original
            }
            None => case.allowed || case.kubernetes,
        };
        if verdict.is_ok() != expected {
            wrong.push(format!(
                "{} {}: {:?}",
                case.version,
                case.name,
                verdict.as_ref().err().map(|error| &error.message)
            ));
        }
        if let Err(refusal) = &verdict
            && let Some(unlike) = case.unlike(&refusal.message)
        {
            wrong.push(format!("{} {}: {unlike}", case.version, case.name));
        }
        if case.kubernetes && new.templates(None).is_empty() {
            wrong.push(format!(
                "{} {}: nothing is given to the API server",
                case.version, case.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
