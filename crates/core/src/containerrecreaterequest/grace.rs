//! Holding the Pod not ready before its containers are stopped, so that traffic drains.
//!
//! - First the request gets a finalizer, so that the Pod is let go whatever becomes of the request. Then the Pod is held, then the request says
//!   since when; the daemon waits from that moment on.
//! - A Pod without the readiness gate cannot be held; the time passes all the same.
//! - At the end the Pod is let go first, then the finalizer.

use kruise_api::containerrecreaterequest::v1beta1::{ContainerRecreateRequest, ContainerRecreateRequestStatus};
use kruise_api::names::condition::container_recreate::PRE_RECREATE_GRACE;
use kruise_api::names::condition::pod::KRUISE_POD_READY;
use kruise_api::names::finalizer;
use kruise_api::pod::Pod;
use kruise_api::resource::{Preconditions, Subresource};
use kruise_api::shared::conditions::ConditionStatus;
use serde_json::json;

use super::convert::GRACE_MESSAGE;
use super::{Observed, target};
use crate::plan::{Action, Chain, Env, OnFailure, Pace, Phase, Plan, Step};
use crate::shared::pod_change::Guard;
use crate::shared::readiness::{self, Writer, has_gate};
use crate::shared::seconds::to_the_second;

/// Plans that the Pod is held, and that the request says so.
pub(super) fn hold(
    request: &ContainerRecreateRequest,
    status: &ContainerRecreateRequestStatus,
    pod: &Pod,
    env: &Env,
    plan: &mut Plan,
) {
    let strategy = request.spec.strategy.as_ref();
    let is_wanted = strategy.is_some_and(|strategy| strategy.unready_grace_period_seconds.is_some());
    let mut conditions = status.conditions.clone();
    let is_said = conditions
        .iter()
        .any(|condition| condition.type_ == PRE_RECREATE_GRACE && condition.status == ConditionStatus::True);
    if !is_wanted || is_said {
        return;
    }
    let mut step = Step::new(Phase::Update, Pace::InOrder, OnFailure::Stop);
    if has_gate(pod, KRUISE_POD_READY) {
        let known = request.metadata.finalizers.clone().unwrap_or_default();
        if !known.iter().any(|known| known == finalizer::CRR_UNREADY_ACQUIRED) {
            let all: Vec<String> = known
                .into_iter()
                .chain([finalizer::CRR_UNREADY_ACQUIRED.to_owned()])
                .collect();
            step.push(finalizers(request, &all));
        }
        let change = readiness::hold(pod, writer(request), env.now);
        for patch in change.requests(pod, Guard::Version, env.server.pod_resize) {
            step.push(Chain::of(Action::patch_pod(pod, patch).into()));
        }
    }
    conditions.retain(|condition| condition.type_ != PRE_RECREATE_GRACE);
    let mut all = serde_json::to_value(&conditions).unwrap_or_default();
    if let Some(all) = all.as_array_mut() {
        all.push(json!({
            "type": PRE_RECREATE_GRACE, "status": "True", "reason": PRE_RECREATE_GRACE, "message": GRACE_MESSAGE,
            "lastTransitionTime": to_the_second(env.now),
        }));
    }
    let same = Preconditions::same(request);
    let patch = json!({"status": {"conditions": all}});
    step.push(Chain::of(
        Action::merge(target(request), Some(Subresource::Status), patch, same).into(),
    ));
    plan.push(step);
}

/// Plans that the Pod is let go, and then the request.
pub(super) fn release(observed: &Observed, env: &Env, plan: &mut Plan) {
    let request = &*observed.request;
    let known = request.metadata.finalizers.clone().unwrap_or_default();
    if !known.iter().any(|known| known == finalizer::CRR_UNREADY_ACQUIRED) {
        return;
    }
    let mut step = Step::new(Phase::Update, Pace::InOrder, OnFailure::Stop);
    if let Some(pod) = observed.pod.as_deref().filter(|pod| !pod.metadata.is_deleting()) {
        let change = readiness::release(pod, &writer(request), env.now);
        for patch in change.requests(pod, Guard::Version, env.server.pod_resize) {
            step.push(Chain::of(Action::patch_pod(pod, patch).into()));
        }
    }
    let rest: Vec<String> = known
        .into_iter()
        .filter(|known| known != finalizer::CRR_UNREADY_ACQUIRED)
        .collect();
    step.push(finalizers(request, &rest));
    plan.push(step);
}

fn writer(request: &ContainerRecreateRequest) -> Writer {
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    Writer::container_recreate(namespace, request.metadata.name.as_deref().unwrap_or_default())
}

fn finalizers(request: &ContainerRecreateRequest, all: &[String]) -> Chain {
    let patch = json!({"metadata": {"finalizers": all}});
    let action = Action::merge(target(request), None, patch, Preconditions::unchanged(request));
    Chain::of(action.into())
}
