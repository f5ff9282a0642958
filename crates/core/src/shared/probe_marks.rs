//! Labels and annotations that a Pod carries by the outcome of a probe.
//!
//! - The policy of the outcome is followed: its labels and annotations are set. Those of the other policy go first, so that a key of both survives.
//! - Without a policy for the outcome those of the policy that is listed last go.
//! - What the Pod has already is not written again. The cache keeps few annotations; others are compared with what was written last ([`Written`]).

use std::collections::BTreeMap;

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;
use kruise_api::podprobemarker::MarkerPolicy;
use kruise_api::shared::probing::ProbeState;
use serde_json::{Map, Value, json};

use crate::plan::{Action, Failure, Plan};

/// Labels or annotations to set, or to remove.
type Pairs = BTreeMap<String, Option<String>>;

/// Labels and annotations to set on a Pod, or to remove from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    labels: Pairs,
    annotations: Pairs,
}

impl Marks {
    /// Follows the policies of a probe with this outcome.
    pub fn follow(&mut self, policies: &[MarkerPolicy], state: &ProbeState) {
        let (met, others): (Vec<_>, Vec<_>) = policies.iter().partition(|policy| policy.state == *state);
        if let Some(other) = others.last() {
            self.labels.extend(other.labels.keys().map(|key| (key.clone(), None)));
            self.annotations
                .extend(other.annotations.keys().map(|key| (key.clone(), None)));
        }
        for policy in met {
            self.set(policy);
        }
    }

    /// Sets what a policy asks for, and removes nothing.
    pub fn set(&mut self, policy: &MarkerPolicy) {
        let some = |(key, value): (&String, &String)| (key.clone(), Some(value.clone()));
        self.labels.extend(policy.labels.iter().map(some));
        self.annotations.extend(policy.annotations.iter().map(some));
    }

    /// Leaves out what the Pod has already.
    pub fn only_changes(&mut self, pod: &Pod, written: &Written) {
        self.labels
            .retain(|key, value| pod.metadata.label(key) != value.as_deref());
        let uid = pod.metadata.uid.to_string();
        let last = written.0.get(&uid);
        self.annotations.retain(|key, value| {
            if pod.keeps_annotation(key) {
                pod.metadata.annotation(key) != value.as_deref()
            } else {
                last.and_then(|last| last.get(key)) != Some(value)
            }
        });
    }

    /// The metadata of a patch; nothing when there is nothing to write.
    pub fn metadata(self) -> Option<Value> {
        let mut metadata = Map::new();
        for (name, pairs) in [("labels", self.labels), (ANNOTATIONS, self.annotations)] {
            if !pairs.is_empty() {
                metadata.insert(name.to_owned(), json!(pairs));
            }
        }
        (!metadata.is_empty()).then_some(Value::Object(metadata))
    }
}

const ANNOTATIONS: &str = "annotations";

/// The annotations that were written to Pods last, by UID. What is not known is written once more, which changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written(BTreeMap<String, Pairs>);

impl Written {
    /// Remembers what a plan wrote; what failed is left out.
    pub fn remember(&mut self, plan: &Plan, failures: &[Failure]) {
        for action in plan.writes() {
            let Action::Patch {
                object,
                patch,
                preconditions,
                ..
            } = action
            else {
                continue;
            };
            let has_failed = failures.iter().any(|failure| failure.object == *object);
            let annotations = patch.document().pointer("/metadata/annotations");
            if object.resource == Pod::RESOURCE
                && !has_failed
                && let (Some(uid), Some(Value::Object(annotations))) = (&preconditions.uid, annotations)
            {
                let pairs = annotations
                    .iter()
                    .map(|(key, value)| (key.clone(), value.as_str().map(str::to_owned)));
                self.0.entry(uid.clone()).or_default().extend(pairs);
            }
        }
    }

    /// Forgets all Pods but these.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| is_there(uid));
    }

    /// True when nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Chain, OnFailure, Pace, Phase, Step, Target};
    use crate::shared::fixture::{Fixture as _, running_pod};
    use kruise_api::resource::Preconditions;

    fn policies(json: Value) -> Vec<MarkerPolicy> {
        serde_json::from_value(json).unwrap()
    }

    fn followed(policies: &[MarkerPolicy], state: &str) -> Option<Value> {
        let mut marks = Marks::default();
        marks.follow(policies, &ProbeState::from(state));
        marks.metadata()
    }

    #[test]
    fn given_policies_then_the_one_of_the_outcome_counts_and_the_keys_of_the_other_go() {
        let one = policies(json!([{"state": "Succeeded", "labels": {"a": "1"}}]));
        assert_eq!(followed(&one, "Succeeded"), Some(json!({"labels": {"a": "1"}})));
        for other in ["Failed", "Unknown", "Odd"] {
            assert_eq!(followed(&one, other), Some(json!({"labels": {"a": null}})), "{other}");
        }
        let both = policies(json!([
            {"state": "Succeeded", "labels": {"a": "1", "s": "x"}, "annotations": {"c": "2"}},
            {"state": "Failed", "labels": {"a": "0", "f": "y"}},
        ]));
        assert_eq!(
            followed(&both, "Succeeded"),
            Some(json!({"labels": {"a": "1", "s": "x", "f": null}, "annotations": {"c": "2"}}))
        );
        assert_eq!(
            followed(&both, "Failed"),
            Some(json!({"labels": {"a": "0", "s": null, "f": "y"}, "annotations": {"c": null}}))
        );
        assert_eq!(
            followed(&both, "Unknown"),
            Some(json!({"labels": {"a": null, "f": null}}))
        );
        assert_eq!(followed(&[], "Succeeded"), None);
    }

    #[test]
    fn given_what_the_pod_has_then_only_the_rest_is_written_and_what_the_cache_does_not_keep_is_remembered() {
        let pod = running_pod("p")
            .label("a", "1")
            .annotation("controller.kubernetes.io/pod-deletion-cost", "5")
            .typed();
        let cost = "controller.kubernetes.io/pod-deletion-cost";
        let wanted = policies(json!([
            {"state": "Succeeded", "labels": {"a": "1", "b": "2"}, "annotations": {cost: "5", "example.com/x": "y"}},
        ]));
        let left = |written: &Written, state: &str| {
            let mut marks = Marks::default();
            marks.follow(&wanted, &ProbeState::from(state));
            marks.only_changes(&pod, written);
            marks.metadata()
        };
        let mut written = Written::default();
        assert_eq!(
            left(&written, "Succeeded"),
            Some(json!({"labels": {"b": "2"}, "annotations": {"example.com/x": "y"}}))
        );
        let mut step = Step::new(Phase::Update, Pace::Bounded, OnFailure::GoOn);
        let patch = json!({"metadata": {"annotations": {"example.com/x": "y"}}});
        let action = Action::patch(Target::of(&pod), None, patch, Preconditions::same(&pod));
        step.push(Chain::of(action.into()));
        let plan = Plan {
            actions: vec![step],
            ..Plan::default()
        };
        let failure = Failure {
            phase: Phase::Update,
            object: Target::of(&pod),
            class: crate::plan::FailureClass::Denied,
            message: String::new(),
        };
        written.remember(&plan, &[failure]);
        assert!(written.is_empty());
        written.remember(&plan, &[]);
        assert_eq!(left(&written, "Succeeded"), Some(json!({"labels": {"b": "2"}})));
        assert_eq!(
            left(&written, "Failed"),
            Some(json!({"labels": {"a": null}, "annotations": {cost: null, "example.com/x": null}}))
        );
        written.retain(|_| false);
        assert!(written.is_empty());
    }
}
