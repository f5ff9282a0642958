//! What people are told of a Pod and its budgets.

use super::*;
use crate::podunavailablebudget::explain;

#[test]
fn given_a_pod_then_the_explanation_names_its_budget_and_the_answer() {
    let now: Timestamp = at("10:00:00");
    let text = |pod: &Pod, budget: Option<&PodUnavailableBudget>| {
        explain::pod(pod, budget, Operation::Delete, Gates::default(), now)
    };
    let web = budget(spec(), status(0, 3));
    assert_eq!(
        text(&running_pod("a").typed(), None),
        "No PodUnavailableBudget covers it."
    );
    assert!(text(&covered("a").typed(), None).contains("which does not exist"));
    assert!(text(&covered("a").typed(), Some(&web)).starts_with("PodUnavailableBudget web refuses: "));
    let never = budget(spec(), Value::Null);
    assert!(text(&covered("a").typed(), Some(&never)).contains("it was not counted yet"));
    let mut nothing = status(3, 0);
    nothing["observedGeneration"] = json!(2);
    let nothing = budget(spec(), nothing);
    assert!(text(&covered("a").typed(), Some(&nothing)).contains("no Pod has to stay available"));
    let labelled = |name: &str| {
        let mut budget = budget(json!({"selector": {"matchLabels": {"app": "x"}}}), Value::Null);
        budget.metadata.name = Some(name.to_owned());
        budget
    };
    let all = ["z", "b", "web"].map(labelled);
    let others = |pod: PodBuilder| explain::others(&pod.label("app", "x").typed(), None, &all);
    let told = others(covered("a"));
    let [one, other] = &told[..] else { panic!("{told:?}") };
    assert!(
        one.starts_with("PodUnavailableBudget b would cover it as well"),
        "{one}"
    );
    assert!(other.starts_with("PodUnavailableBudget z "), "{other}");
    assert!(others(running_pod("a"))[1].contains("web covers it as soon as"));
    assert!(explain::others(&covered("a").label("app", "y").typed(), None, &all).is_empty());
    let mut taken = status(0, 3);
    taken["disruptedPods"] = json!({"a": "2024-05-01T09:59:55Z"});
    taken["unavailablePods"] = json!({"b": "2024-05-01T09:59:57Z"});
    assert_eq!(
        explain::places(&budget(spec(), taken)),
        [
            "b: update granted at 2024-05-01T09:59:57Z",
            "a: deletion granted at 2024-05-01T09:59:55Z"
        ]
    );
}
