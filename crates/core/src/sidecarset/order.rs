//! Which Pod is updated first: those that do little good, then by what the user says about priorities, then Pods with certain labels are scattered.
//!
//! A scatter term for every value (`*`) stands for one term per value that managed Pods have.

use kruise_api::shared::scatter::ScatterTerm;
use kruise_api::sidecarset::UpdateStrategy;

use super::snapshot::Member;
use crate::shared::pod_rank::cmp_for_update;
use crate::shared::update_order::{by_priority, scattered};

/// The candidates in the order in which they are updated; `all` are all Pods of the set.
pub(super) fn ordered<'r, 'a>(
    mut candidates: Vec<&'r Member<'a>>,
    all: &'r [Member<'a>],
    strategy: &UpdateStrategy,
) -> Vec<&'r Member<'a>> {
    candidates.sort_by(|one, other| cmp_for_update(one.pod, other.pod));
    by_priority(&mut candidates, strategy.priority_strategy.as_ref(), label);
    if strategy.scatter_strategy.is_empty() {
        return candidates;
    }
    let all: Vec<&Member<'_>> = all.iter().collect();
    let terms = expanded(&strategy.scatter_strategy, &all);
    scattered(&candidates, &all, &terms, label)
}

fn expanded(terms: &[ScatterTerm], all: &[&Member<'_>]) -> Vec<ScatterTerm> {
    let mut expanded: Vec<ScatterTerm> = Vec::new();
    for term in terms {
        if term.value != "*" {
            expanded.push(term.clone());
            continue;
        }
        let mut values = std::collections::BTreeSet::new();
        for value in all.iter().filter_map(|member| member.pod.metadata.label(&term.key)) {
            if values.insert(value) {
                expanded.push(ScatterTerm {
                    key: term.key.clone(),
                    value: value.to_owned(),
                });
            }
        }
    }
    expanded
}

fn label<'m>(member: &'m &Member<'_>, key: &str) -> Option<&'m str> {
    member.pod.metadata.label(key)
}
