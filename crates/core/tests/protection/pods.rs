//! Every recorded operation on a Pod of a budget, and the answer.

use jiff::Timestamp;
use kruise_api::gates::{Gate, Gates};
use kruise_api::pod::Pod;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_core::podunavailablebudget::ledger::{Answer, Asked, Operation, answer};
use kruise_core::podunavailablebudget::{operation, related};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    operation: String,
    pod: Value,
    new: Option<Value>,
    budget: Option<Value>,
    says: Option<String>,
}

#[test]
fn given_every_recorded_operation_then_the_answer_is_the_same() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../fixtures/podunavailablebudget/pods.json")).unwrap();
    for case in &cases {
        let pod: Pod = serde_json::from_value(case.pod.clone()).unwrap();
        let asked = match case.operation.as_str() {
            "delete" => Some(Operation::Delete),
            "evict" => Some(Operation::Evict),
            _ => {
                let mut old = case.pod.clone();
                // Only what changed was recorded of the new Pod.
                old["spec"] = serde_json::json!({"containers": [{"name": "main", "image": "nginx:alpine"}]});
                operation::of_update(&old, case.new.as_ref().unwrap())
            }
        };
        let budget: Option<PodUnavailableBudget> = case
            .budget
            .as_ref()
            .map(|budget| serde_json::from_value(budget.clone()).unwrap());
        let named = related::budget_of(&pod.metadata);
        let budget = budget.filter(|budget| named == budget.metadata.name.as_deref());
        let refusal = asked.zip(budget).and_then(|(operation, budget)| {
            let asked = Asked {
                operation,
                now: "2026-11-15T08:21:16Z".parse::<Timestamp>().unwrap(),
                gates: Gates::default().with(Gate::InPlacePodVerticalScaling, true),
            };
            match answer(&budget, &pod, &asked) {
                Answer::Refused(reason) => Some(reason),
                _ => None,
            }
        });
        assert_eq!(refusal, case.says, "{}", case.name);
    }
    let refused = cases.iter().filter(|case| case.says.is_some()).count();
    assert_eq!((cases.len(), refused), (28, 15));
}
