//! On which nodes a Pod can be, for workloads that make one Pod per node.
//!
//! In this order, as the scheduler has it:
//!
//! 1. A template that names its node fits no other.
//! 2. All labels of `nodeSelector` have to be on the node, and one of the terms of the required node affinity has to hold ([`affinity`]).
//! 3. Taints with the effect `NoSchedule` or `NoExecute` have to be tolerated ([`taints`]). A Pod that is there already stays as long as it
//!    tolerates those with `NoExecute`.
//!
//! What else is on a node, whether it is ready, and whether it is cordoned does not matter here: the last two act through taints.

pub mod affinity;
pub mod taints;

use kruise_api::meta::Pairs;
use kruise_api::node::{Node, Taint};
use kruise_api::pod::{NodeRequirement, NodeTerm, Pod, Toleration};
use kruise_api::text::Text;
use serde::Deserialize;
use serde_json::Value;

/// Whether a node is one for a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit<'a> {
    /// It is.
    Fits,
    /// A Pod that is there stays, and no new one is made: this taint keeps new ones away.
    OnlyStays(&'a Taint),
    /// No Pod may be there.
    Misfit(Misfit<'a>),
}

impl Fit<'_> {
    /// A Pod should run there.
    pub fn runs(self) -> bool {
        self == Self::Fits
    }

    /// A Pod that is there stays.
    pub fn stays(self) -> bool {
        !matches!(self, Self::Misfit(_))
    }
}

/// Why no Pod may be on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit<'a> {
    /// The template names another node.
    OtherNode,
    /// A label of `nodeSelector` is missing, or has another value.
    NodeSelector,
    /// No term of the required node affinity holds.
    Affinity,
    /// This taint is not tolerated.
    Taint(&'a Taint),
}

/// What a Pod asks of its node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeRequirements {
    node_name: Option<Text>,
    node_selector: Option<Pairs<Text>>,
    tolerations: Option<Vec<Toleration>>,
    affinity: Option<Affinity>,
    host_network: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Option<Vec<NodeTerm>>,
}

impl NodeRequirements {
    /// What the Pods of a template ask for. Fails with a sentence when the template cannot be read.
    pub fn of_template(template: &Value) -> Result<Self, String> {
        let spec = template.get("spec").unwrap_or(&Value::Null);
        let read: Result<Option<Self>, _> = Deserialize::deserialize(spec);
        read.map(Option::unwrap_or_default)
            .map_err(|error| format!("spec.template.spec: {error}"))
    }

    /// What a Pod that is there asks for.
    pub fn of_pod(pod: &Pod) -> Self {
        let template = &pod.spec.template;
        let terms = &pod.spec.required_nodes.0;
        let affinity = (!terms.is_empty()).then(|| Affinity {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                    node_selector_terms: Some(terms.to_vec()),
                }),
            }),
        });
        Self {
            node_name: Some(pod.spec.node_name.clone()),
            node_selector: Some(template.node_selector.clone()),
            tolerations: Some(template.tolerations.to_vec()),
            affinity,
            host_network: None,
        }
    }

    /// Whether the Pod tolerates a taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let tolerations = self.tolerations.as_deref().unwrap_or_default();
        tolerations
            .iter()
            .any(|toleration| taints::tolerates(toleration, taint))
    }

    /// The same, with the taints that every Pod of a DaemonSet tolerates.
    #[must_use]
    pub fn with_daemon_tolerations(mut self) -> Self {
        let more = taints::daemon_tolerations(self.is_host_network());
        self.tolerations.get_or_insert_default().extend(more);
        self
    }

    /// The same for a Pod that also tolerates these taints, and for which this term has to hold beside its own.
    #[must_use]
    pub fn and(mut self, term: Option<&NodeTerm>, tolerations: impl IntoIterator<Item = Toleration>) -> Self {
        self.tolerations.get_or_insert_default().extend(tolerations);
        let Some(term) = term else { return self };
        let affinity = self
            .affinity
            .get_or_insert_default()
            .node_affinity
            .get_or_insert_default();
        let required = affinity
            .required_during_scheduling_ignored_during_execution
            .get_or_insert_default();
        let terms = required.node_selector_terms.get_or_insert_default();
        if terms.is_empty() {
            terms.push(term.clone());
            return self;
        }
        for known in terms {
            let both = |own: &[NodeRequirement], more: &[NodeRequirement]| own.iter().chain(more).cloned().collect();
            known.match_expressions = both(&known.match_expressions, &term.match_expressions);
            known.match_fields = both(&known.match_fields, &term.match_fields);
        }
        self
    }

    /// The Pod uses the network of its node.
    pub fn is_host_network(&self) -> bool {
        self.host_network == Some(true)
    }

    /// Whether a node is one for the Pod.
    pub fn fit<'n>(&self, node: &'n Node) -> Fit<'n> {
        if self.names_other(&node.metadata.name) {
            return Fit::Misfit(Misfit::OtherNode);
        }
        let mut selected = self.node_selector.iter().flat_map(Pairs::iter);
        if !selected.all(|(key, value)| node.metadata.label(key) == Some(value)) {
            return Fit::Misfit(Misfit::NodeSelector);
        }
        if !self.required_terms().is_none_or(|terms| affinity::holds(terms, node)) {
            return Fit::Misfit(Misfit::Affinity);
        }
        let tolerations = self.tolerations.as_deref().unwrap_or_default();
        if let Some(taint) = taints::untolerated(node, tolerations, &[taints::NO_EXECUTE]) {
            return Fit::Misfit(Misfit::Taint(taint));
        }
        match taints::untolerated(node, tolerations, &[taints::NO_SCHEDULE]) {
            Some(taint) => Fit::OnlyStays(taint),
            None => Fit::Fits,
        }
    }

    fn names_other(&self, node: &str) -> bool {
        self.node_name
            .as_ref()
            .is_some_and(|name| !name.is_empty() && **name != *node)
    }

    fn required_terms(&self) -> Option<&[NodeTerm]> {
        let affinity = self.affinity.as_ref()?.node_affinity.as_ref()?;
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
        Some(required.node_selector_terms.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
