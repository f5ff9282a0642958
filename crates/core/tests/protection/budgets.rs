//! Every recorded PodUnavailableBudget that was submitted, and what was found wrong with it.

use jiff::Timestamp;
use kruise_api::gates::Gates;
use kruise_core::admission::{Admit as _, Env, Lookups, Operation, Version};
use kruise_core::podunavailablebudget::{Submitted, validate};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    version: String,
    operation: String,
    object: Value,
    old: Option<Value>,
    #[serde(default)]
    others: Vec<Value>,
    /// What was wrong, by field.
    #[serde(default)]
    fields: BTreeSet<String>,
    /// The whole text, if it is about fields.
    #[serde(default)]
    message: String,
    /// The beginning of a refusal that is not about fields.
    says: Option<String>,
    /// It was refused by the rules of names, or by the schema: nobody else was asked.
    #[serde(default)]
    api_server: bool,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../fixtures/podunavailablebudget/verdicts.json")).unwrap()
}

fn read(object: &Value) -> Submitted {
    Submitted::read(object.to_string().as_bytes(), Version::V1beta1).unwrap()
}

#[test]
fn given_every_recorded_budget_then_the_same_is_wrong_with_it() {
    let cases = cases();
    for case in &cases {
        let (new, old) = (read(&case.object), case.old.as_ref().map(read));
        let others: Vec<_> = case.others.iter().map(read).collect();
        let fault = (case.version == "v1alpha1")
            .then(|| validate::conversion_fault(&new))
            .flatten();
        assert_eq!(fault.is_some(), case.says.is_some(), "{}: {fault:?}", case.name);
        if let Some(says) = &case.says {
            assert!(fault.unwrap().starts_with(says.as_str()), "{}", case.name);
            continue;
        }
        let errors = validate::validate(&new, &others).0.into_iter();
        let changed = old.as_ref().and_then(|old| validate::forbidden(&new, old));
        let errors: Vec<_> = errors.chain(changed).collect();
        // Values are told otherwise than by the names of types.
        for error in &errors {
            let detail = error.body.rsplit(": ").next().unwrap();
            // The original only shows a selector that cannot be used; here it is told why.
            let is_only_shown = case.name == "selector-invalid" && error.path == "spec.selector";
            let detail = if is_only_shown { "" } else { detail };
            for text in [error.path.as_str(), detail] {
                assert!(
                    case.message.contains(text),
                    "{}: {text:?} is not in {}",
                    case.name,
                    case.message
                );
            }
        }
        let fields: BTreeSet<_> = errors.into_iter().map(|error| error.path).collect();
        assert_eq!(fields, case.fields, "{} {} {}", case.version, case.operation, case.name);
    }
    let refused = cases
        .iter()
        .filter(|case| !case.fields.is_empty() || case.says.is_some() || case.api_server);
    assert_eq!((cases.len(), refused.count()), (125, 74));
}

#[test]
fn given_budgets_of_the_namespace_that_cannot_be_listed_then_the_refusal_says_why() {
    let env = Env {
        operation: Operation::Create,
        version: Version::V1beta1,
        gates: Gates::default(),
        now: Timestamp::UNIX_EPOCH,
    };
    let budget = read(&serde_json::json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "maxUnavailable": 1}}));
    let mut found = Lookups::default();
    for needed in budget.needs_to_validate(None, &env, &found).objects {
        found.objects.insert(needed, Err("no right to list".to_owned()));
    }
    let refusal = budget.validate(&env, &found).unwrap_err();
    assert_eq!(refusal.code, Some(400));
    assert!(refusal.message.contains("no right to list"), "{}", refusal.message);
}
