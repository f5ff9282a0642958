//! What stands between a Pod and its deletion, in sentences.

use jiff::Timestamp;
use kruise_api::gates::Gates;
use kruise_api::pod::Pod;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;

use super::ledger::{self, Answer, Asked, Free, Operation};
use super::related;
use crate::shared::workload::WorkloadRef;

/// Returns what would be answered to whoever wants to disturb a Pod now; `budget` is the one that it names, if that exists.
pub fn pod(
    pod: &Pod,
    budget: Option<&PodUnavailableBudget>,
    operation: Operation,
    gates: Gates,
    now: Timestamp,
) -> String {
    let Some(name) = related::budget_of(&pod.metadata) else {
        return "No PodUnavailableBudget covers it.".to_owned();
    };
    let Some(budget) = budget else {
        return format!("It names the PodUnavailableBudget {name}, which does not exist: nothing is protected.");
    };
    let answer = ledger::answer(budget, pod, &Asked { operation, now, gates });
    let counted = budget.status.as_ref().map_or(0, |status| status.observed_generation);
    let verdict = match answer {
        Answer::Free(Free::NothingDesired) if counted == 0 => "lets it go: it was not counted yet".to_owned(),
        Answer::Free(Free::Exempted) => "lets it go: an annotation of the Pod exempts it".to_owned(),
        Answer::Free(Free::Unavailable) => "lets it go: the Pod is not available anyway".to_owned(),
        Answer::Free(Free::Ignored) => "lets it go: ignoredPodSelector matches the Pod".to_owned(),
        Answer::Free(Free::NothingDesired) => "lets it go: no Pod has to stay available".to_owned(),
        Answer::Free(Free::NotProtected) => "lets it go: it does not protect against this".to_owned(),
        Answer::Granted => "has granted it a moment ago".to_owned(),
        Answer::Take(_) => "would grant it, and one place less would be left".to_owned(),
        Answer::Refused(reason) => format!("refuses: {reason}"),
    };
    format!("PodUnavailableBudget {name} {verdict}.")
}

/// Returns which other budgets of the namespace would cover a Pod of this workload; it belongs to one of them at most.
pub fn others<'a>(
    pod: &Pod,
    workload: Option<&WorkloadRef>,
    budgets: impl IntoIterator<Item = &'a PodUnavailableBudget>,
) -> Vec<String> {
    let named = related::budget_of(&pod.metadata);
    let covering = budgets.into_iter().filter(|budget| {
        let name = budget.metadata.name.as_deref();
        name != named && related::covers(budget, workload, |key| pod.metadata.label(key))
    });
    let mut names: Vec<&str> = covering.filter_map(|budget| budget.metadata.name.as_deref()).collect();
    names.sort_unstable();
    let what = match named {
        Some(_) => "would cover it as well, and is not asked: a Pod keeps the budget that it names",
        None => "covers it as soon as the manager has told the Pod",
    };
    let sentence = |name: &str| format!("PodUnavailableBudget {name} {what}.");
    names.into_iter().map(sentence).collect()
}

/// Returns who took the last places of a budget and when, the latest first.
pub fn places(budget: &PodUnavailableBudget) -> Vec<String> {
    let Some(status) = &budget.status else {
        return Vec::new();
    };
    let deletions = status.disrupted_pods.iter().map(|place| (place, "deletion"));
    let updates = status.unavailable_pods.iter().map(|place| (place, "update"));
    let mut places: Vec<_> = deletions.chain(updates).collect();
    places.sort_by_key(|((_, time), _)| std::cmp::Reverse(time.0));
    places
        .into_iter()
        .map(|((pod, time), what)| format!("{pod}: {what} granted at {}", time.0))
        .collect()
}
