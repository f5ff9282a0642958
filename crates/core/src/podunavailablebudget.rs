//! PodUnavailableBudget: how many Pods may be unavailable at a time, whoever asks.
//!
//! 1. A budget covers the Pods of a workload, or those with certain labels. Each covered Pod is told so by an annotation; a Pod that names another budget
//!    keeps it ([`related`]).
//! 2. Percentages are of the replicas that the workloads should have, and are rounded up ([`counts`]). A kind that does not say how many those are needs
//!    `protectTotalReplicas`.
//! 3. A Pod is available when it is active, ready, runs what its spec says ([`availability`]), and nobody was granted to disturb it a moment ago.
//! 4. Whoever deletes, evicts or updates an available Pod is charged one place of the budget, which is written down before it is granted ([`ledger`]).
//!    What is written down is forgotten when the Pod is seen to go, or 20 seconds later, 10 for an update.
//! 5. The status says what is left ([`status`]). It is written at most four times a second: whoever asks for a place writes the same status, and many ask at the
//!    same time.

mod admit;
pub mod availability;
pub mod convert;
pub mod counts;
pub mod explain;
pub mod ledger;
#[cfg(test)]
mod model;
pub mod operation;
pub mod related;
pub mod status;
#[cfg(test)]
mod tests;
pub mod validate;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kruise_api::names::{annotation, event};
use kruise_api::pod::Pod;
use kruise_api::podunavailablebudget::v1beta1::PodUnavailableBudget;
use kruise_api::resource::Preconditions;
use serde_json::json;

pub use validate::Submitted;

use crate::plan::why::{self, PodNames};
use crate::plan::{About, Action, Chain, Env, Event, Observation, OnFailure, Pace, Phase, Plan, Step, Target};
use crate::shared::status as write_status;
use kruise_api::kind::Kind as _;

/// The shortest time between two writes of a status, so that those who ask for places get theirs written in between.
const PACE: SignedDuration = SignedDuration::from_millis(250);

/// A budget and what it covers.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The budget.
    pub budget: Arc<PodUnavailableBudget>,
    /// The Pods of its workload, or those with its labels.
    pub pods: Vec<Arc<Pod>>,
    /// How many Pods its workloads should have, or why that is not known.
    pub expected: Result<i32, String>,
    /// Pods that are seen as if they stayed, and are on their way out or gone: the API server was asked about places that are to be forgotten.
    pub leaving: BTreeSet<String>,
    /// When its status was last written.
    pub last_written: Option<Timestamp>,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// Returns what to do for a budget now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let budget = &*observed.budget;
    let mut plan = Plan::default();
    if budget.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return plan;
    }
    let counts = observed
        .expected
        .clone()
        .and_then(|expected| counts::of(budget, expected));
    let counts = match counts {
        Ok(counts) => counts,
        Err(message) => {
            // What was allowed before holds until more is known: a budget that cannot be counted allows no more than it did.
            plan.events.push(Event::warning(
                event::CALCULATE_EXPECTED_POD_COUNT_FAILED,
                message.clone(),
            ));
            plan.because(why::General::Invalid { message });
            plan.wake(std::time::Duration::from_secs(10));
            return plan;
        }
    };
    let pods = status::active(&observed.pods);
    if pods.is_empty() {
        plan.events
            .push(Event::normal(event::NO_PODS, "No matching pods found"));
    }
    plan.push(mark(budget, &pods));
    let rebuilt = status::rebuild(budget, &pods, &observed.leaving, counts, env);
    for pod in &rebuilt.not_deleted {
        plan.events.push(not_deleted(pod));
    }
    if rebuilt.status.unavailable_allowed == 0 && rebuilt.status.desired_available > 0 {
        let taken = rebuilt.status.disrupted_pods.keys();
        let taken = taken.chain(rebuilt.status.unavailable_pods.keys()).map(String::as_str);
        plan.because(why::Budgets::Exhausted {
            desired: rebuilt.status.desired_available,
            available: rebuilt.status.current_available,
            granted: taken.collect(),
        });
    }
    let others: PodNames = pods
        .iter()
        .filter(|pod| {
            related::budget_of(&pod.metadata).is_some_and(|name| Some(name) != budget.metadata.name.as_deref())
        })
        .map(|pod| &*pod.metadata.name)
        .collect();
    if !others.is_empty() {
        plan.because(why::Budgets::OfOthers { pods: others });
    }
    if let Some(after) = rebuilt.look_again {
        plan.wake(after);
    }
    if budget.status.as_ref() != Some(&rebuilt.status)
        && let Some(write) = write_status::patch(budget, budget.status.as_ref(), &rebuilt.status)
    {
        write_status::write_in_turn(write, observed.last_written, PACE, env.now, &mut plan);
        if plan.status.is_none() {
            // The same is found again when it is written, and told then.
            plan.events.clear();
        }
    }
    plan
}

/// Tells Pods which budget covers them. Those that name one keep it.
fn mark(budget: &PodUnavailableBudget, pods: &[&Pod]) -> Step {
    let name = budget.metadata.name.as_deref().unwrap_or_default();
    let mut step = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Skip);
    for pod in pods.iter().filter(|pod| related::budget_of(&pod.metadata).is_none()) {
        let patch = json!({"metadata": {"annotations": {
            (annotation::RELATED_BUDGET): name, (annotation::RELATED_BUDGET_OLD): name,
        }}});
        let action = Action::patch(Target::of(*pod), None, patch, Preconditions::same(*pod));
        step.push(Chain::of(action.into()));
    }
    step
}

fn not_deleted(pod: &Pod) -> Event {
    let mut event = Event::warning(
        event::NOT_DELETED,
        "Pod was expected by PUB to be deleted but it wasn't",
    );
    event.about = Some(About {
        api_version: Pod::API_VERSION.to_owned(),
        kind: Pod::KIND.to_owned(),
        namespace: pod.metadata.namespace.to_string(),
        name: pod.metadata.name.to_string(),
        uid: pod.metadata.uid.to_string(),
    });
    event
}
