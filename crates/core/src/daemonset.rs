//! Advanced DaemonSet: one Pod on every node that fits, updated step by step, in place or with a surge.
//!
//! [`plan`] looks at a set once and says what to do now. In this order:
//!
//! 1. Pods that no longer match the selector are let go, and Pods that match and are nobody's are taken in. A round that takes Pods in does nothing else.
//! 2. The template gets its revision ([`revisions`]). A round that gives Pods another name for the same revision does nothing else either.
//! 3. Images are pulled ahead of the update, if that is wanted ([`pre_download`]).
//! 4. Pods that are on their way somewhere get what they need to go on ([`advance`]).
//! 5. Nodes that lack a Pod get one, and Pods that should not be there go ([`scale`]). Only if there is nothing of that to do, or if it gets nothing done
//!    (a quota leaves no room, say), Pods are updated ([`update`]). New Pods are always made from the newest template.
//! 6. Revisions beyond the history limit are removed.
//! 7. The status is brought up to date ([`status`]). It names the generation only after a round that had nothing to create or delete.
//!
//! Which nodes take part in an update is said by [`order`], how many Pods may be missing or doubled by [`counts`]. A Pod that fails again and again is replaced
//! after pauses that grow ([`failed_pods`]).
//!
//! While one of its Pods cannot be read, a set only does what keeps the others going (4) and says so. A set that is being deleted does nothing at all.

pub mod admit;
mod advance;
pub mod convert;
mod counts;
mod create;
pub mod default;
mod explain;
pub mod failed_pods;
#[cfg(test)]
mod fixtures;
mod nodes;
mod observed;
mod order;
mod pre_download;
mod revisions;
mod scale;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
mod update;
pub mod validate;
#[cfg(test)]
mod world;

use std::collections::BTreeSet;

use kruise_api::daemonset::v1beta1::DaemonSet;
use kruise_api::kind::Kind as _;
use kruise_api::names::event;
use kruise_api::pod::Pod;

pub use nodes::target_node;
pub use observed::Observed;

use crate::plan::why;
use crate::plan::{Action, Env, Event, Fallback, OnFailure, Pace, Phase, Plan, Step};
use crate::shared::availability::next_available;
use crate::shared::explain::explain_last;
use crate::shared::membership;
use crate::shared::node_eligibility::NodeRequirements;
use crate::shared::selector;
use advance::advance;
use snapshot::Snapshot;

/// What to do for a DaemonSet now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let mut plan = Plan::default();
    if observed.set.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return plan;
    }
    if selector::is_empty(&observed.set.spec.selector) {
        let message = "spec.selector chooses everything";
        let text = "This daemon set is selecting all pods. A non-empty selector is required.";
        plan.events.push(Event::warning(event::SELECTING_ALL, text));
        plan.because(why::General::Invalid {
            message: message.to_owned(),
        });
        return plan;
    }
    match Snapshot::of(observed, env) {
        Ok(snapshot) => act(&snapshot, &mut plan),
        Err(message) => plan.because(why::General::Invalid { message }),
    }
    plan
}

/// What the Pods of a set ask of their nodes. Fails with a sentence when the template cannot be read.
pub fn node_requirements(set: &DaemonSet) -> Result<NodeRequirements, String> {
    let template = set.spec.template.value();
    Ok(NodeRequirements::of_template(&template)?.with_daemon_tolerations())
}

fn act(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let mut is_complete = false;
    if !snapshot.unreadable.is_empty() {
        membership::wait_for_unreadable(snapshot.unreadable.clone(), plan);
        snapshot.revisions.store(plan);
        advance(snapshot, |_| true, plan);
    } else if !claim(snapshot, plan) && !revisions::keep(snapshot, plan) {
        pre_download::pre_download(snapshot, plan);
        is_complete = !scale_or_update(snapshot, plan);
        if is_complete {
            revisions::truncate(snapshot, plan);
        }
        explain::explain(snapshot, plan);
    }
    explain_last(&snapshot.observed.last, plan);
    if let Some(rest) = next_available(snapshot.members().map(|member| member.availability)) {
        plan.wake(rest);
    }
    plan.status = status::write(snapshot, is_complete);
}

/// Lets Pods go and takes Pods in. True when Pods are taken in: what is missing is not known before they are.
fn claim(snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
    let mut step = Step::new(Phase::Claims, Pace::Bounded, OnFailure::Skip);
    for pod in &snapshot.released {
        step.push(membership::release(pod, &snapshot.uid));
    }
    for pod in &snapshot.adoptable {
        step.push(membership::adopt(pod, &snapshot.owner));
    }
    plan.push(step);
    !snapshot.adoptable.is_empty()
}

/// Advances, creates, deletes and updates Pods. True when there is something to create or delete for other reasons than an update.
fn scale_or_update(snapshot: &Snapshot<'_>, plan: &mut Plan) -> bool {
    let mut scaling = Plan::default();
    let scales = scale::scale(snapshot, &mut scaling);
    let touched: BTreeSet<&str> = scaling
        .writes()
        .map(Action::object)
        .filter(|object| object.resource == Pod::RESOURCE)
        .map(|object| object.name.as_str())
        .collect();
    let advanced = advance(snapshot, |pod| !touched.contains(pod), plan);
    if !scales {
        update::update(snapshot, &advanced.written, plan);
    } else if snapshot.observed.last.has_failed(Phase::Scale) {
        // It may get nothing done this time either. Then the other nodes go on.
        let mut instead = Plan::default();
        let mut written = advanced.written;
        written.extend(&touched);
        update::update(snapshot, &written, &mut instead);
        plan.fallback = Some(Fallback {
            phase: Phase::Scale,
            resource: Pod::RESOURCE,
            plan: Box::new(instead),
        });
    }
    plan.append(scaling);
    scales
}
