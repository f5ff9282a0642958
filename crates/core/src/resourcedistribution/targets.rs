//! Which namespaces get a copy.

use std::collections::BTreeSet;
use std::sync::Arc;

use kruise_api::namespace::Namespace;
use kruise_api::resourcedistribution::NamespaceList;
use kruise_api::resourcedistribution::v1beta1::DistributionTargets;

use crate::shared::selector;

/// Namespaces of the system, which never get a copy.
const FORBIDDEN: [&str; 2] = ["kube-public", "kube-system"];

/// Returns the namespaces that are to have a copy, listed ones that do not exist included.
pub fn matched<'a>(targets: &'a DistributionTargets, namespaces: &'a [Arc<Namespace>]) -> BTreeSet<&'a str> {
    let existing = namespaces.iter().filter(|namespace| is_chosen(targets, namespace));
    let mut matched: BTreeSet<&str> = existing.map(|namespace| &*namespace.metadata.name).collect();
    if !targets.all_namespaces {
        matched.extend(names(&targets.included_namespaces));
    }
    matched.retain(|name| !is_left_out(targets, name));
    matched
}

/// Whether a namespace that exists is to have a copy.
pub fn is_target(targets: &DistributionTargets, namespace: &Namespace) -> bool {
    let name = &*namespace.metadata.name;
    let is_listed = names(&targets.included_namespaces).any(|listed| listed == name);
    (is_chosen(targets, namespace) || is_listed) && !is_left_out(targets, name)
}

/// Whether a change of a namespace, from one state to another, concerns a distribution.
pub fn is_concerned(targets: &DistributionTargets, old: Option<&Namespace>, new: Option<&Namespace>) -> bool {
    // A target that is missing or terminating is told of in the status, and no other is.
    let state = |namespace: Option<&Namespace>| {
        let namespace = namespace.filter(|namespace| is_target(targets, namespace))?;
        Some(namespace.metadata.is_deleting())
    };
    state(old) != state(new)
}

/// A selector without conditions chooses nothing here; `allNamespaces` is there for that.
fn is_chosen(targets: &DistributionTargets, namespace: &Namespace) -> bool {
    targets.all_namespaces
        || targets.namespace_selector.as_ref().is_some_and(|selector| {
            !selector::is_empty(selector) && selector::matches(selector, |key| namespace.metadata.label(key))
        })
}

fn is_left_out(targets: &DistributionTargets, name: &str) -> bool {
    FORBIDDEN.contains(&name) || names(&targets.excluded_namespaces).any(|excluded| excluded == name)
}

fn names(list: &NamespaceList) -> impl Iterator<Item = &str> {
    list.list.iter().map(|namespace| namespace.name.as_str())
}
