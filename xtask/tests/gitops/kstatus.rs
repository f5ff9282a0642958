//! What kstatus makes of our objects, by its rules for kinds that it does not know:
//!
//! 1. An object that is being deleted is `Terminating`.
//! 2. `status.observedGeneration` that is not the generation: `InProgress`.
//! 3. A condition `Reconciling` that is True: `InProgress`; `Stalled` that is True: `Failed`.
//! 4. A condition `Ready`: True is `Current`, anything else `InProgress`.
//! 5. Otherwise `Current`.
//!
//! These are the rules as its documentation tells them; docs/gitops.md says what they mean for each kind.

use std::collections::BTreeSet;

use serde_json::Value;

use super::objects::all;

fn kstatus(object: &Value) -> &'static str {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating";
    }
    let status = &object["status"];
    if let Some(observed) = status["observedGeneration"].as_i64()
        && object["metadata"]["generation"].as_i64() != Some(observed)
    {
        return "InProgress";
    }
    let condition = |wanted: &str| {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut found = conditions.filter(|condition| condition["type"] == wanted);
        found.next().and_then(|condition| condition["status"].as_str())
    };
    if condition("Reconciling") == Some("True") {
        return "InProgress";
    }
    if condition("Stalled") == Some("True") {
        return "Failed";
    }
    match condition("Ready") {
        None | Some("True") => "Current",
        Some(_) => "InProgress",
    }
}

#[test]
fn given_recorded_objects_then_kstatus_says_what_the_docs_say() {
    for recorded in all() {
        assert_eq!(kstatus(&recorded.object), recorded.kstatus, "{}", recorded.name());
    }
}

/// Conditions of these names would mean to kstatus what they may not mean here.
#[test]
fn given_our_kinds_then_none_has_a_condition_that_kstatus_would_read_otherwise() {
    let mut known = BTreeSet::new();
    for recorded in all() {
        let conditions = recorded.object["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        known.extend(
            conditions
                .iter()
                .filter_map(|condition| condition["type"].as_str().map(str::to_owned)),
        );
    }
    for reserved in ["Ready", "Reconciling", "Stalled"] {
        assert!(!known.contains(reserved), "{known:?}");
    }
}

/// Kinds that tell which generation they have seen are those that docs/gitops.md lists.
#[test]
fn given_the_docs_then_they_list_the_kinds_that_flux_waits_for() {
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/gitops.md")).unwrap();
    let row = docs
        .lines()
        .find(|line| line.ends_with("`status.observedGeneration` to be the generation |"));
    let listed: BTreeSet<&str> = row
        .unwrap()
        .split('|')
        .nth(1)
        .unwrap()
        .split(',')
        .map(str::trim)
        .collect();
    let mut found = BTreeSet::new();
    for recorded in all() {
        if recorded.object["status"]["observedGeneration"].is_i64() {
            found.insert(recorded.kind().to_owned());
        }
    }
    assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), listed);
}
