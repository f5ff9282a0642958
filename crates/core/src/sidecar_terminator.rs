//! Ends the sidecars of a Pod whose main containers have ended, so that the Pod, and the Job it belongs to, can finish.
//!
//! A container says by its environment that it is a sidecar, and how it is ended ([`sidecars`]). All others are main containers. Init containers do not count.
//!
//! 1. A Pod is looked at when it is neither pending nor on its way out, is not restarted always, and every container has a status.
//! 2. With `restartPolicy: Never` all main containers have to have ended, with `OnFailure` all of them successfully. The Pod need not belong to a Job.
//! 3. On a virtual node, where no daemon is, a sidecar gets the image that it names, which should end at once. On other nodes it is stopped by a
//!    ContainerRecreateRequest; there is one for each Pod at most, whatever came of it.
//! 4. A sidecar whose exit code is to be ignored waits for the other sidecars. Then the Pod gets its final phase by what its main containers said, and only
//!    then the sidecar is stopped: kubelet never takes a final phase back.
//!
//! What has ended already is left alone.

mod sidecars;

use std::sync::Arc;
use std::time::Duration;

use kruise_api::containerrecreaterequest::v1beta1::ContainerRecreateRequest;
use kruise_api::kind::Kind as _;
use kruise_api::names::condition::pod::{SIDECAR_TERMINATED, SIDECAR_TERMINATED_MESSAGE};
use kruise_api::names::{event, pattern};
use kruise_api::node::Node;
use kruise_api::pod::Pod;
use kruise_api::pod::status::PodPhase;
use kruise_api::resource::{Preconditions, Subresource};
use serde_json::{Value, json};

use crate::plan::why;
use crate::plan::{Action, Chain, Env, Event, Observation, OnFailure, Pace, Phase, Plan, Step, Target, Write};
use crate::shared::owner::Owner;
use crate::shared::pod_change::{Guard, PodChange};
use crate::shared::seconds::to_the_second;
use sidecars::{Containers, Group};

/// When to look again for a node that is not there.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A Pod, its node, and whether its request is there.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The Pod.
    pub pod: Arc<Pod>,
    /// Its node; nothing when that is not known.
    pub node: Option<Arc<Node>>,
    /// There is a ContainerRecreateRequest of the [name](request_name) that its own would have.
    pub is_requested: bool,
}

impl Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// Returns the name of the request that ends the sidecars of a Pod.
pub fn request_name(pod: &Pod) -> String {
    pattern::sidecar_termination_request(&pod.metadata.uid.to_string())
}

/// Returns true when sidecars of a Pod have to be ended.
pub fn is_due(pod: &Pod) -> bool {
    let is_settled = !pod.metadata.is_deleting()
        && pod.status.phase != PodPhase::Pending
        && pod.spec.template.restart_policy != "Always";
    is_settled && Containers::of(pod).is_some_and(|containers| containers.are_due(pod))
}

/// What to do for a Pod now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let mut plan = Plan::default();
    let pod = &*observed.pod;
    let Some(containers) = Containers::of(pod).filter(|_| is_due(pod)) else {
        return plan;
    };
    let Some(node) = &observed.node else {
        let message = format!("its node {} is not known", pod.spec.node_name);
        plan.because(why::General::Invalid { message });
        plan.wake(LOOK_AGAIN);
        return plan;
    };
    let groups = containers.groups(node.is_virtual());
    let mut step = Step::new(Phase::Update, Pace::InOrder, OnFailure::Stop);
    step.push(swap_images(pod, &groups.swap).into_iter().collect());
    step.push(stop(observed, &groups.stop).into_iter().collect());
    let waits = !groups.swap.is_empty() || !groups.stop.is_empty();
    if !groups.ignore.is_empty() && !waits {
        let mut writes: Vec<Write> = Vec::new();
        writes.extend(final_phase(pod, &containers, env));
        writes.extend(stop(observed, &groups.ignore));
        step.push(writes.into_iter().collect::<Chain>());
    }
    plan.push(step);
    plan
}

/// Gives sidecars the image that ends them.
fn swap_images(pod: &Pod, group: &Group<'_>) -> Option<Write> {
    let mut change = PodChange::default();
    for sidecar in group.iter().filter(|sidecar| sidecar.container.image != *sidecar.image) {
        change
            .images
            .insert(sidecar.container.name.to_string(), sidecar.image.to_owned());
    }
    let names: Vec<&str> = group.iter().map(|sidecar| &*sidecar.container.name).collect();
    let request = change.requests(pod, Guard::Version, true).into_iter().next()?;
    let event = event_of(&names, "in-place update");
    Some(Write::from(Action::patch_pod(pod, request)).then(event))
}

/// Has the daemon of the node stop sidecars, unless it was asked before.
fn stop(observed: &Observed, group: &Group<'_>) -> Option<Write> {
    if group.is_empty() || observed.is_requested {
        return None;
    }
    let pod = &*observed.pod;
    let names: Vec<&str> = group.iter().map(|sidecar| &*sidecar.container.name).collect();
    let name = request_name(pod);
    let namespace = &*pod.metadata.namespace;
    let target = Target::new(ContainerRecreateRequest::RESOURCE, namespace, &name);
    let body = request(pod, &name, &names);
    Some(Write::from(Action::create(target, body)).then(event_of(&names, "crr")))
}

fn request(pod: &Pod, name: &str, containers: &[&str]) -> Value {
    let containers: Vec<Value> = containers.iter().map(|name| json!({ "name": name })).collect();
    json!({
        "apiVersion": ContainerRecreateRequest::API_VERSION,
        "kind": ContainerRecreateRequest::KIND,
        "metadata": {
            "name": name,
            "namespace": &*pod.metadata.namespace,
            "ownerReferences": [Owner::of_pod(pod).reference()],
        },
        "spec": {
            "podName": &*pod.metadata.name,
            "containers": containers,
            "strategy": { "forceRecreate": true, "failurePolicy": "Ignore" },
        },
    })
}

/// The phase that the main containers say, and the condition by which admission knows why the Pod has ended.
fn final_phase(pod: &Pod, containers: &Containers<'_>, env: &Env) -> Option<Write> {
    if matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed) {
        return None;
    }
    let phase = if containers.mains_succeeded(pod) {
        "Succeeded"
    } else {
        "Failed"
    };
    let patch = json!({"status": {"phase": phase, "conditions": [{
        "type": SIDECAR_TERMINATED,
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": to_the_second(env.now),
        "message": SIDECAR_TERMINATED_MESSAGE,
    }]}});
    let status = Some(Subresource::Status);
    Some(Action::patch(Target::of(pod), status, patch, Preconditions::unchanged(pod)).into())
}

fn event_of(sidecars: &[&str], way: &str) -> Event {
    let sidecars = sidecars.join(" ");
    let message = format!("Kruise SidecarTerminator is trying to terminate sidecar [{sidecars}] using {way}");
    Event::normal(event::SIDECAR_TERMINATOR, message)
}

#[cfg(test)]
mod tests;
