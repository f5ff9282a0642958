//! Every recorded request, and the answer we give.

use super::{defaulted, gates};
use crate::wording::is_same;
use kruise_core::admission::{Admit as _, Lookups, ObjectRef, Version};
use kruise_core::statefulset::Submitted;
use kruise_core::statefulset::validate::{classes_to_look_up, validate};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
struct Recorded {
    /// What creations are changes of.
    object: Value,
    /// What updates are changes of, as stored.
    stored: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

/// One request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    version: String,
    operation: String,
    stored: Option<String>,
    /// A merge patch.
    change: Value,
    /// Status code of the refusal.
    code: Option<u16>,
    /// What the webhook found wrong; see [`is_same`].
    #[serde(default)]
    errors: Vec<String>,
    /// The API server found it by itself.
    #[serde(default)]
    api_server: bool,
    /// The webhook could not read it.
    #[serde(default)]
    unreadable: bool,
    /// Storage classes that were there, besides `standard`.
    #[serde(default)]
    classes: Vec<Value>,
}

impl Case {
    fn class(&self, wanted: &ObjectRef) -> Option<Value> {
        let ObjectRef::StorageClass(name) = wanted else {
            return Some(json!({"metadata": {"name": "standard"}}));
        };
        let known = self.classes.iter().find(|class| class["metadata"]["name"] == **name);
        let standard = || (name == "standard").then(|| json!({"metadata": {"name": name}}));
        known.cloned().or_else(standard)
    }
}

/// What we decide otherwise, and why.
const OTHERWISE: &[(&str, &str)] = &[
    ("pull-policy-changed", "under InPlaceOnly it could never be updated"),
    ("strategy-to-", "the new strategy decides, not the old one"),
];

fn is_otherwise(case: &Case) -> bool {
    OTHERWISE.iter().any(|(part, _)| case.name.contains(part))
}

/// What we say in other words: a part of the recorded text, and the part of ours that stands for it.
const REWORDED: &[(&str, &str)] = &[
    // `scaleStrategy` can be changed, too.
    (
        "and 'updateStrategy' are forbidden",
        "'scaleStrategy' and 'updateStrategy' are forbidden",
    ),
    // Said once, with what is expected.
    ("getValueFromIntOrPercent error", "a valid percent string must be"),
    // The value as it was written.
    (
        "Invalid value: 0: should not be",
        "Invalid value: \"0%\": should not be",
    ),
    // Said once, without the words of a library.
    ("is not a valid range", "reserve ordinal is invalid"),
    ("reserve ordinal is invalid", "reserve ordinal is invalid"),
    // What can be changed.
    (
        "can not be modified when OnRollingUpdate",
        "only the size can be changed when OnRollingUpdate",
    ),
];

/// Field and kind of an error.
fn brief(text: &str) -> (&str, &str) {
    let (path, rest) = text.split_once(": ").unwrap();
    (path, rest.split_once(':').map_or(rest, |(kind, _)| kind))
}

/// Whether both name the same fields for the same reasons, in the same words. Notes what is said in other words.
fn is_alike(recorded: &[String], ours: &[String], reworded: &mut BTreeSet<&str>) -> bool {
    let briefs = |texts: &[String]| -> BTreeSet<(String, String)> {
        let briefs = texts.iter().map(|text| brief(text));
        briefs.map(|(path, kind)| (path.to_owned(), kind.to_owned())).collect()
    };
    let mut is_said = |text: &String| {
        if ours.iter().any(|ours| is_same(text, ours)) {
            return true;
        }
        let stands_for = |(theirs, other): &&(&'static str, &str)| {
            let same = |ours: &String| brief(ours) == brief(text) && ours.contains(other);
            text.contains(theirs) && ours.iter().any(same)
        };
        let row = REWORDED.iter().find(stands_for);
        reworded.extend(row.map(|(theirs, _)| *theirs));
        row.is_some()
    };
    briefs(recorded) == briefs(ours) && recorded.iter().all(&mut is_said)
}

/// What we find wrong.
fn judged(object: &Value, stored: Option<&Value>, version: Version, case: &Case) -> Result<Vec<String>, String> {
    let read =
        |value: &Value| Submitted::read(value.to_string().as_bytes(), version).map_err(|error| error.to_string());
    read(object)?;
    let new = read(&defaulted(object, stored, version, gates()))?;
    let old = stored.map(read).transpose()?;
    let classes = classes_to_look_up(&new, old.as_ref(), gates());
    let lookups = Lookups {
        objects: classes
            .into_iter()
            .map(|class| (class.clone(), Ok(case.class(&class))))
            .collect(),
        ..Lookups::default()
    };
    let errors = validate(&new, old.as_ref(), gates(), &lookups);
    Ok(errors.0.iter().map(ToString::to_string).collect())
}

#[test]
fn given_every_recorded_request_then_the_verdict_is_the_same() {
    let recorded: Recorded = serde_json::from_str(include_str!("../../fixtures/statefulset/verdicts.json")).unwrap();
    let mut wrong = Vec::new();
    let mut otherwise = Vec::new();
    let mut reworded = BTreeSet::new();
    for case in &recorded.cases {
        let version = Version::by_name(&case.version).unwrap();
        let stored = case.stored.as_ref().map(|name| &recorded.stored[name]);
        let mut object = stored.unwrap_or(&recorded.object).clone();
        json_patch::merge(&mut object, &case.change);
        if case.operation == "delete" {
            let set = Submitted::read(object.to_string().as_bytes(), version).unwrap();
            let code = set.refuse_deletion(gates()).map(|_| 403);
            assert_eq!(code, case.code, "{}", case.name);
            continue;
        }
        let ours = judged(&object, stored, version, case);
        let same = match &ours {
            Err(_) => case.unreadable || case.api_server,
            // Only the API server looks into Pod templates and selectors of a wrong type.
            Ok(_) if case.unreadable || case.api_server => true,
            // It says this of no field.
            Ok(errors) if case.code.is_some() && case.errors.is_empty() => errors
                .iter()
                .any(|error| brief(error) == ("spec.template", "Forbidden")),
            Ok(errors) => is_alike(&case.errors, errors, &mut reworded),
        };
        if !same && is_otherwise(case) {
            otherwise.push(case.name.clone());
        } else if !same {
            wrong.push(format!(
                "{} {} {}: {ours:?}\nrecorded: {:?} {:?}",
                case.version, case.operation, case.name, case.code, case.errors
            ));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    otherwise.sort();
    otherwise.dedup();
    assert_eq!(otherwise, DIFFERENT, "deliberate differences");
    assert_eq!(reworded.len(), REWORDED.len(), "{reworded:?}");
    let refused = recorded.cases.iter().filter(|case| case.code.is_some()).count();
    assert_eq!((recorded.cases.len(), refused), (232, 116));
}

/// The cases that [`OTHERWISE`] is about.
const DIFFERENT: &[&str] = &[
    "claims-onpodrollingupdate-g2-no-class-grow-and-strategy-to-ondelete",
    "inplaceonly-pull-policy-changed",
];
