//! What kinds say about how their Pods go through hooks and updates.

use kruise_api::pod::Pod;
use kruise_api::shared::lifecycle::Lifecycle;

use crate::shared::lifecycle::{self, Progress, State};

/// How the Pods of a workload go on. Each kind brings its own rules.
pub trait PodRules {
    /// The hooks.
    fn lifecycle(&self) -> Option<&Lifecycle>;

    /// Returns the lifecycle state to which a Pod goes by itself; none when it stays. Pods of a kind without such states always stay.
    fn next_state(&self, pod: &Pod, progress: Progress) -> Option<State> {
        lifecycle::next(pod, self.lifecycle(), progress)
    }

    /// Returns the lifecycle state that a Pod gets when its update in place begins; none when it has no states.
    fn updating_state(&self, pod: &Pod) -> Option<State> {
        (lifecycle::state(pod) != State::None).then_some(State::Updating)
    }

    /// True when a new Pod is left alone until it has a node: then one request brings its conditions and its state.
    fn waits_for_node(&self, _pod: &Pod) -> bool {
        false
    }

    /// Returns a label that the Pod should have and has not, as it was made by an older release.
    fn missing_label<'p>(&self, _pod: &'p Pod) -> Option<(&'static str, &'p str)> {
        None
    }
}
