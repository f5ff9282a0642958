//! Pods that nobody is to forget: they should have the containers of a set and do not. No manager answered when they were made, or the set did not apply to them then: its
//! injection was paused, or labels have changed since.
//!
//! A Pod lacks its sidecars when
//!
//! - it lives, and was made after the set;
//! - the set applies to it, and no canary does in its place;
//! - it does not say that the set was injected, and a container of the set is not in it;
//! - its namespace is one in which Pods are injected at all.
//!
//! The set tells how many there are and which. With the annotation [`SIDECAR_SET_EVICT`] they are evicted, so that whoever owns them makes them again: only Pods that
//! have a controller, only as far as disruption budgets allow, and never so many that more than `maxUnavailable` of all Pods of the set are not ready.

use kruise_api::meta::{CompactTimestamp, Object as _};
use kruise_api::names::annotation::SIDECAR_SET_EVICT;
use kruise_api::names::label;
use kruise_api::namespace::Namespace;
use kruise_api::pod::Pod;
use kruise_api::pod::status::PodPhase;
use kruise_api::resource::Preconditions;
use kruise_api::shared::IntOrPercent;
use kruise_api::sidecarset::v1beta1::SidecarSet;

use super::observed::Observed;
use super::records::injected;
use super::select;
use super::snapshot::{Sidecar, Snapshot, full_name, is_running_and_ready};
use crate::plan::why;
use crate::plan::{Action, Chain, OnFailure, Pace, Phase, Plan, PodNames, Step, Target};
use crate::shared::scaled_value::scaled_value;

/// Where nobody is injected, because admission does not ask us.
const EXCLUDED: &str = "kube-system";

/// Whether a Pod lacks the containers of a set, canaries aside. Nothing about its namespace is known when it is not given.
pub fn lacks(set: &SidecarSet, pod: &Pod, namespace: Option<&Namespace>, system: &str) -> bool {
    let name = &*pod.metadata.namespace;
    let has_ended = matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed);
    if has_ended || name == EXCLUDED || name == system || !is_younger(pod, set) || has_all(set, pod) {
        return false;
    }
    let is_ours = namespace
        .is_some_and(|known| known.metadata.label(label::CONTROL_PLANE) == Some(label::CONTROL_PLANE_NAMESPACE));
    let label = |key: &str| namespace.and_then(|known| known.metadata.label(key));
    let label: Option<&dyn Fn(&str) -> Option<_>> = namespace.is_some().then_some(&label);
    !is_ours
        && injected(pod).all(|injected| injected != set.name())
        && select::check(set, name, |key| pod.metadata.label(key), label).is_ok()
}

fn is_younger(pod: &Pod, set: &SidecarSet) -> bool {
    let set = set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let pod = pod.metadata.creation_timestamp.map(CompactTimestamp::timestamp);
    pod.zip(set).is_some_and(|(pod, set)| pod > set)
}

/// Every container of the set is in the Pod, by name.
fn has_all(set: &SidecarSet, pod: &Pod) -> bool {
    let template = &pod.spec.template;
    let mut sidecars = set.spec.containers.iter().chain(&set.spec.init_containers);
    sidecars.all(|container| {
        let sidecar = Sidecar::of(container);
        sidecar.container_names().all(|name| template.container(name).is_some())
    })
}

/// The Pods that lack the containers of the set.
pub(super) fn missing(observed: &Observed) -> Vec<&Pod> {
    let is_missing = |pod: &Pod| {
        let namespace = observed.namespaces.get(&*pod.metadata.namespace);
        let lacks = |set: &SidecarSet| lacks(set, pod, namespace.map(|known| &**known), &observed.system);
        let applies = |canary: &SidecarSet| {
            let label = |key: &str| namespace.and_then(|known| known.metadata.label(key));
            let label: Option<&dyn Fn(&str) -> Option<_>> = namespace.is_some().then_some(&label);
            select::check(canary, &pod.metadata.namespace, |key| pod.metadata.label(key), label).is_ok()
        };
        lacks(&observed.set) && !observed.canaries.iter().any(|canary| applies(canary))
    };
    let pods = observed.maybe_missing.iter().map(|pod| &**pod);
    let mut missing: Vec<&Pod> = pods.filter(|pod| is_missing(pod)).collect();
    missing.sort_by_key(|pod| (pod.metadata.namespace.to_string(), pod.metadata.name.clone()));
    missing
}

/// The names of Pods, the first few.
pub(super) fn names(pods: &[&Pod]) -> PodNames {
    let mut names = PodNames::default();
    for pod in pods {
        names.push(&full_name(pod));
    }
    names
}

/// Evicts Pods that lack their sidecars, where the set asks for it.
pub(super) fn evict(snapshot: &Snapshot<'_>, missing: &[&Pod], plan: &mut Plan) {
    if missing.is_empty() {
        return;
    }
    plan.because(why::Pods::WithoutSidecars { pods: names(missing) });
    let annotations = snapshot.set.metadata.annotations.as_ref();
    let asks = annotations
        .and_then(|all| all.get(SIDECAR_SET_EVICT))
        .map(String::as_str)
        == Some("true");
    if !asks {
        return;
    }
    let total = i32::try_from(missing.len() + snapshot.members.len()).unwrap_or(i32::MAX);
    let one = IntOrPercent::Int(1);
    let most = snapshot
        .set
        .spec
        .update_strategy
        .max_unavailable
        .as_ref()
        .unwrap_or(&one);
    let allowed = scaled_value(most, total, IntOrPercent::ceil_of);
    let unready = snapshot
        .members
        .iter()
        .filter(|member| !is_running_and_ready(member.pod));
    // Those that are evicted already are on their way out.
    let leaving = missing.iter().filter(|pod| pod.metadata.is_deleting());
    let mut left = allowed - unready.count() as i64 - leaving.count() as i64;
    let mut step = Step::new(Phase::Scale, Pace::Bounded, OnFailure::Skip);
    let comes_back = |pod: &&&Pod| {
        let owner = pod.metadata.controller();
        !pod.metadata.is_deleting() && owner.is_some_and(|owner| &*owner.kind != "Node")
    };
    for pod in missing.iter().filter(comes_back) {
        if let Some(rest) = snapshot.observed.last.backs_off(*pod, snapshot.env.now) {
            plan.wake(rest);
            continue;
        }
        let is_ready = is_running_and_ready(pod);
        if is_ready && left <= 0 {
            break;
        }
        left -= i64::from(is_ready);
        let evict = Action::Evict {
            object: Target::of(*pod),
            preconditions: Preconditions::same(*pod),
        };
        step.push(Chain::of(evict.into()));
    }
    plan.push(step);
}
