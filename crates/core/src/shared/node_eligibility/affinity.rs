//! Terms of a required node affinity.
//!
//! One term has to hold; of a term all requirements, on labels and on fields. A term without any holds nowhere, and so does one that is not well formed:
//!
//! | operator | holds when |
//! |---|---|
//! | `In` | the label is one of the values |
//! | `NotIn` | the label is none of the values, or missing |
//! | `Exists`, `DoesNotExist` | the label is there, or is not; there are no values |
//! | `Gt`, `Lt` | both the label and the one value are whole numbers, and the label is the greater, or the smaller |
//!
//! The only field is `metadata.name`, with `In` or `NotIn` and one value.

use kruise_api::node::Node;
use kruise_api::pod::{NodeRequirement, NodeTerm};

/// The one field by which nodes are told apart.
pub const NAME_FIELD: &str = "metadata.name";

/// Whether one of the terms holds on a node.
pub fn holds(terms: &[NodeTerm], node: &Node) -> bool {
    terms.iter().any(|term| term_holds(term, node))
}

/// The node that terms name as the only one; this is how Pods of a DaemonSet say theirs before they are on it.
pub fn only_node(terms: &[NodeTerm]) -> Option<&str> {
    let fields = terms.iter().flat_map(|term| &term.match_fields);
    let mut named = fields.filter(|field| &*field.key == NAME_FIELD && &*field.operator == "In");
    match &*named.next()?.values {
        [name] => Some(name),
        _ => None,
    }
}

fn term_holds(term: &NodeTerm, node: &Node) -> bool {
    let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    let label = |requirement: &NodeRequirement| label_holds(requirement, node.metadata.label(&requirement.key));
    !is_empty
        && term.match_expressions.iter().all(label)
        && term
            .match_fields
            .iter()
            .all(|field| field_holds(field, &node.metadata.name))
}

fn label_holds(requirement: &NodeRequirement, found: Option<&str>) -> bool {
    let values = &requirement.values;
    let is_listed = found.is_some_and(|found| values.iter().any(|value| **value == *found));
    match &*requirement.operator {
        "In" => is_listed,
        "NotIn" => !is_listed && !values.is_empty(),
        "Exists" => found.is_some() && values.is_empty(),
        "DoesNotExist" => found.is_none() && values.is_empty(),
        "Gt" => numbers(found, requirement).is_some_and(|(found, bound)| found > bound),
        "Lt" => numbers(found, requirement).is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

fn numbers(found: Option<&str>, requirement: &NodeRequirement) -> Option<(i64, i64)> {
    match &*requirement.values {
        [bound] => Some((found?.parse().ok()?, bound.parse().ok()?)),
        _ => None,
    }
}

fn field_holds(requirement: &NodeRequirement, name: &str) -> bool {
    let [value] = &*requirement.values else {
        return false;
    };
    let is_it = **value == *name;
    &*requirement.key == NAME_FIELD
        && match &*requirement.operator {
            "In" => is_it,
            "NotIn" => !is_it,
            _ => false,
        }
}
