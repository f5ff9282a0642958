//! Which budget covers a Pod.
//!
//! A budget with a `targetRef` covers the Pods of that workload, one with a selector the Pods with those labels. Of several the first by name covers a new Pod.
//! A Pod that names a budget belongs to it for good, even if that budget is gone or the Pod's labels have changed.

use kruise_api::meta::Meta;
use kruise_api::names::annotation;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;

use crate::shared::selector;
use crate::shared::workload::WorkloadRef;

/// Returns the name of the budget that a Pod belongs to.
pub fn budget_of(pod: &Meta) -> Option<&str> {
    let named = |key| pod.annotation(key).filter(|name| !name.is_empty());
    named(annotation::RELATED_BUDGET).or_else(|| named(annotation::RELATED_BUDGET_OLD))
}

/// Whether a budget covers a Pod with these labels, of this workload.
pub fn covers<'a>(
    budget: &PodUnavailableBudget,
    workload: Option<&WorkloadRef>,
    label: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    if let (Some(target), Some(workload)) = (&budget.spec.target_ref, workload) {
        return WorkloadRef::from(target).is_same(workload);
    }
    let by_labels = budget.spec.selector.as_ref();
    by_labels.is_some_and(|by_labels| !selector::is_empty(by_labels) && selector::matches(by_labels, label))
}

/// Returns the name of the budget that a new Pod belongs to: the first of those that cover it.
pub fn choose<'a, 'b>(
    budgets: impl IntoIterator<Item = &'b PodUnavailableBudget>,
    workload: Option<&WorkloadRef>,
    label: impl Fn(&str) -> Option<&'a str>,
) -> Option<&'b str> {
    let covering = budgets.into_iter().filter(|budget| covers(budget, workload, &label));
    covering.filter_map(|budget| budget.metadata.name.as_deref()).min()
}
