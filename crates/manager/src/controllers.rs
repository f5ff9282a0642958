//! Which controllers run, and how each is put together.
//!
//! [`BUILT`] is the list: the name of a controller, as its descriptor has it, and the function that builds it. A controller that is not in it does not run yet;
//! one whose feature gates are off does not run either, and what only it would look at is not watched.
//!
//! To add one, write a module beside [`cloneset`] with an [`Observer`] and add it to [`BUILT`]. How it is reconciled is the same for all:
//! [`crate::reconcile`].

mod advancedcronjob;
mod broadcastjob;
mod cloneset;
mod containerrecreaterequest;
mod daemonset;
mod ephemeraljob;
mod imagelistpulljob;
mod imagepulljob;
mod launch_priority;
mod nodeimage;
mod nodepodprobe;
mod owned;
mod persistentpodstate;
mod pod_marks;
mod pod_readiness;
mod podprobemarker;
mod pods;
mod podunavailablebudget;
mod resourcedistribution;
mod sidecar_terminator;
mod sidecarset;
mod statefulset;
mod uniteddeployment;
mod workloadspread;

use crate::{
    platform::Platform,
    reconcile::{Observer, Reconciler, Rehearser},
};
use futures::future::BoxFuture;
use kruise_admission::descriptor::{self, Controller};
use kruise_api::{gates::Gates, names::component::controller};
use kruise_runtime::{resource::ObjectKey, shutdown::CancellationToken};
use serde_json::Value;
use std::{fmt, sync::Arc};

/// Builds a controller: declares its watches and starts nothing.
type Build = fn(&mut Platform, &'static Controller) -> ControllerHandle;

/// The controllers that exist.
const BUILT: &[(&str, Build)] = &[
    (
        controller::ADVANCED_CRON_JOB,
        build_one::<advancedcronjob::AdvancedCronJobs>,
    ),
    (controller::BROADCAST_JOB, build_one::<broadcastjob::BroadcastJobs>),
    (controller::CLONE_SET, build_rehearsed::<cloneset::CloneSets>),
    (
        controller::CONTAINER_LAUNCH_PRIORITY,
        build_one::<launch_priority::LaunchPriority>,
    ),
    (
        controller::CONTAINER_RECREATE_REQUEST,
        build_one::<containerrecreaterequest::ContainerRecreateRequests>,
    ),
    (controller::DAEMON_SET, build_rehearsed::<daemonset::DaemonSets>),
    (controller::EPHEMERAL_JOB, build_one::<ephemeraljob::EphemeralJobs>),
    (
        controller::IMAGE_LIST_PULL_JOB,
        build_one::<imagelistpulljob::ImageListPullJobs>,
    ),
    (controller::IMAGE_PULL_JOB, build_one::<imagepulljob::ImagePullJobs>),
    (controller::NODE_IMAGE, build_one::<nodeimage::NodeImages>),
    (
        controller::PERSISTENT_POD_STATE,
        build_one::<persistentpodstate::PersistentPodStates>,
    ),
    (controller::NODE_POD_PROBE, build_one::<nodepodprobe::NodePodProbes>),
    (
        controller::POD_PROBE_MARKER,
        build_one::<podprobemarker::PodProbeMarkers>,
    ),
    (controller::POD_READINESS, build_one::<pod_readiness::PodReadiness>),
    (
        controller::RESOURCE_DISTRIBUTION,
        build_one::<resourcedistribution::ResourceDistributions>,
    ),
    (controller::SIDECAR_SET, build_rehearsed::<sidecarset::SidecarSets>),
    (
        controller::POD_UNAVAILABLE_BUDGET,
        build_one::<podunavailablebudget::PodUnavailableBudgets>,
    ),
    (
        controller::SIDECAR_TERMINATOR,
        build_one::<sidecar_terminator::SidecarTerminator>,
    ),
    (controller::STATEFUL_SET, build_rehearsed::<statefulset::StatefulSets>),
    (
        controller::UNITED_DEPLOYMENT,
        build_rehearsed::<uniteddeployment::UnitedDeployments>,
    ),
    (
        controller::WORKLOAD_SPREAD,
        build_one::<workloadspread::WorkloadSpreads>,
    ),
];

/// A controller, ready to be started when this replica leads.
pub struct ControllerHandle {
    name: &'static str,
    on_start: Box<dyn FnOnce() + Send>,
    run: Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ()> + Send>,
}

impl ControllerHandle {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Subscribes to its stores, which shows it everything that is there, and works until `stop`. Then it finishes what is in flight.
    pub async fn run(self, stop: CancellationToken) {
        (self.on_start)();
        (self.run)(stop).await;
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ControllerHandle({})", self.name)
    }
}

/// Builds the controller of one kind.
fn build_one<O: Observer>(platform: &mut Platform, described: &'static Controller) -> ControllerHandle {
    build_reconciler::<O>(platform, described).1
}

/// Builds the controller of a kind whose changes can be played through.
fn build_rehearsed<O: Rehearser>(platform: &mut Platform, described: &'static Controller) -> ControllerHandle {
    let (reconciler, handle) = build_reconciler::<O>(platform, described);
    let kind = reconciler.kind();
    let rehearse = move |key: &ObjectKey, proposed: &Value| {
        let rehearsal = reconciler.rehearse(key, proposed)?;
        serde_json::to_value(rehearsal).map_err(|error| error.to_string())
    };
    platform.plans().add_rehearsal(kind, Arc::new(rehearse));
    handle
}

fn build_reconciler<O: Observer>(
    platform: &mut Platform,
    described: &'static Controller,
) -> (Arc<Reconciler<O>>, ControllerHandle) {
    let observer = O::new(platform);
    let context = Arc::new(platform.context(described));
    let controller = context.controller();
    let (reconciler, subscriptions) = Reconciler::new(observer, context.clone());
    let reconciler = Arc::new(reconciler);
    let explained = reconciler.clone();
    let explain = move |key: &ObjectKey| serde_json::to_value(explained.plan(key)?).ok();
    platform
        .plans()
        .add(reconciler.kind(), described.name, Arc::new(explain));
    let reconciles = reconciler.clone();
    let reconcile = move |key| {
        let reconciler = reconciles.clone();
        async move { reconciler.reconcile(&key).await }
    };
    let handle = ControllerHandle {
        name: described.name,
        on_start: Box::new(move || {
            for subscribe in subscriptions {
                subscribe(&context);
            }
        }),
        run: Box::new(|stop| Box::pin(controller.run(stop, reconcile))),
    };
    (reconciler, handle)
}

/// Builds every controller that exists and whose gates are on.
pub fn build(platform: &mut Platform) -> Vec<ControllerHandle> {
    let gates = platform.settings().gates;
    let mut handles = Vec::new();
    for controller in descriptor::controllers().filter(|controller| is_on(controller, gates)) {
        if let Some((_, build)) = BUILT.iter().find(|(name, _)| *name == controller.name) {
            handles.push(build(platform, controller));
        }
    }
    handles
}

/// Whether there is a controller of this name.
pub fn is_built(name: &str) -> bool {
    BUILT.iter().any(|(known, _)| *known == name)
}

fn is_on(controller: &Controller, gates: Gates) -> bool {
    controller
        .gates
        .iter()
        .all(|one_of| one_of.iter().any(|gate| gates.enabled(*gate)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruise_api::gates::Gate;

    #[test]
    fn given_the_controllers_that_exist_then_descriptors_say_the_same() {
        let built = descriptor::controllers().filter(|controller| controller.built);
        let mut built: Vec<_> = built.map(|controller| controller.name).collect();
        built.sort_unstable();
        let mut here: Vec<_> = BUILT.iter().map(|(name, _)| *name).collect();
        here.sort_unstable();
        assert_eq!(
            here, built,
            "the manager has the rights of those that descriptors call built"
        );
    }

    #[test]
    fn given_gates_then_a_controller_needs_one_of_each_group() {
        let budgets = descriptor::controllers()
            .find(|known| known.name == controller::POD_UNAVAILABLE_BUDGET)
            .expect("known");
        let gates = Gates::default()
            .with(Gate::PodUnavailableBudgetDeleteGate, false)
            .with(Gate::PodUnavailableBudgetUpdateGate, false);
        assert!(!is_on(budgets, gates));
        assert!(is_on(budgets, gates.with(Gate::PodUnavailableBudgetUpdateGate, true)));
        let pods = descriptor::controllers()
            .find(|known| known.name == controller::POD_READINESS)
            .expect("known");
        assert!(is_on(pods, gates));
    }
}
