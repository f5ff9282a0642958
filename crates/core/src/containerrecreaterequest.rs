//! ContainerRecreateRequest: restart chosen containers of a running pod. The daemon of the node stops them; the manager sees to the rest:
//!
//! 1. The request ends when its Pod is gone, when the daemon does not take it up within a minute, and at its deadline.
//! 2. While containers are being recreated, the request is told what the kubelet says about them: the daemon cannot see whether they are ready.
//! 3. With `unreadyGracePeriodSeconds` the Pod is first held not ready ([`grace`]); the daemon waits for that. It is let go at the end.
//! 4. A request that has ended loses the label by which the daemon finds it, and goes after `ttlSecondsAfterFinished`.

pub mod admit;
pub mod convert;
mod grace;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kruise_api::containerrecreaterequest::RecreatePhase;
use kruise_api::containerrecreaterequest::v1beta1::{ContainerRecreateRequest, ContainerRecreateRequestStatus};
use kruise_api::names::label;
use kruise_api::pod::Pod;
use kruise_api::resource::{Preconditions, Subresource};
use serde_json::{Value, json};

use crate::plan::why;
use crate::plan::{Action, Chain, Env, OnFailure, Pace, Phase, Plan, Step, Target};
use crate::shared::seconds::{to_the_second, whole_seconds};
use crate::shared::time_to_live::{self, after};

/// A request and its Pod.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The request.
    pub request: Arc<ContainerRecreateRequest>,
    /// The Pod of the name that it has.
    pub pod: Option<Arc<Pod>>,
}

/// How long the daemon may take to take a request up.
const PATIENCE_SECONDS: i64 = 60;
/// How often a request is looked at while containers are being recreated.
const EVERY: Duration = Duration::from_secs(3);

impl crate::plan::Observation for Observed {
    fn plan(&self, env: &Env) -> Plan {
        plan(self, env)
    }
}

/// What to do for a request now.
pub fn plan(observed: &Observed, env: &Env) -> Plan {
    let request = &*observed.request;
    let none = ContainerRecreateRequestStatus::default();
    let status = request.status.as_ref().unwrap_or(&none);
    let mut plan = Plan::default();
    if request.metadata.deletion_timestamp.is_some() || status.completion_time.is_some() {
        finish(observed, status, env, &mut plan);
        return plan;
    }
    let wanted = label_of(request, label::CRR_POD_UID).unwrap_or_default();
    let pod = observed.pod.as_deref().filter(|pod| !pod.metadata.is_deleting());
    let Some(pod) = pod.filter(|pod| pod.metadata.uid.to_string() == wanted) else {
        plan.status = Some(ended(request, "pod has gone", env.now));
        return plan;
    };
    let made = request
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(env.now, |time| time.0);
    if status.phase.is_unset() {
        let until = after(made, PATIENCE_SECONDS);
        if until <= env.now {
            plan.status = Some(ended(request, "daemon has not responded for a long time", env.now));
            return plan;
        }
        plan.because(why::Images::DaemonSilent { until });
        plan.wake(whole_seconds(until.duration_since(env.now)));
    }
    if let Some(seconds) = request.spec.active_deadline_seconds {
        let end = after(made, seconds);
        if end <= env.now {
            plan.status = Some(ended(
                request,
                "recreating has exceeded the activeDeadlineSeconds",
                env.now,
            ));
            return plan;
        }
        plan.wake(whole_seconds(end.duration_since(env.now)));
    }
    if status.phase == RecreatePhase::Recreating {
        plan.wake(EVERY);
        snapshot::plan(request, status, pod, made, &mut plan);
        grace::hold(request, status, pod, env, &mut plan);
    }
    plan
}

/// Ends what the request holds, then takes it out of the daemon's sight, then away.
fn finish(observed: &Observed, status: &ContainerRecreateRequestStatus, env: &Env, plan: &mut Plan) {
    let request = &*observed.request;
    grace::release(observed, env, plan);
    if request.metadata.deletion_timestamp.is_some() {
        plan.because(why::General::Deleting);
        return;
    }
    if label_of(request, label::CRR_ACTIVE).is_some() {
        let patch = json!({"metadata": {"labels": {(label::CRR_ACTIVE): null}}});
        let same = Preconditions::same(request);
        plan.push(single(Action::merge(target(request), None, patch, same)));
        return;
    }
    time_to_live::delete_after_ttl(
        request,
        status.completion_time.as_ref(),
        request.spec.ttl_seconds_after_finished,
        env,
        plan,
    );
}

/// The end of a request. The daemon may end it at the same moment; whoever comes second is refused and looks again.
fn ended(request: &ContainerRecreateRequest, message: &str, now: Timestamp) -> Action {
    let status = json!({"phase": RecreatePhase::Completed, "completionTime": to_the_second(now), "message": message});
    status_patch(request, status)
}

fn status_patch(request: &ContainerRecreateRequest, status: Value) -> Action {
    let patch = Value::Object([("status".to_owned(), status)].into_iter().collect());
    Action::merge(
        target(request),
        Some(Subresource::Status),
        patch,
        Preconditions::unchanged(request),
    )
}

fn target(request: &ContainerRecreateRequest) -> Target {
    Target::of(request)
}

fn label_of<'a>(request: &'a ContainerRecreateRequest, key: &str) -> Option<&'a str> {
    request.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn single(action: Action) -> Step {
    let mut step = Step::new(Phase::Housekeeping, Pace::InOrder, OnFailure::Stop);
    step.push(Chain::of(action.into()));
    step
}
