//! Which controllers run, and how each is put together.
//!
//! [`BUILT`] is the list: the name of a controller, as its descriptor has it, and the function that builds it. A controller that is not in it does not run yet;
//! one whose feature gates are off does not run either, and what only it would look at is not watched.
//!
//! To add one, write a module beside [`pod_readiness`]:
//!
//! 1. `build` asks [`Platform`] for the stores it reads, which is what makes a kind watched, and for its [`ControllerContext`].
//! 2. It returns a [`ControllerHandle`]: what wakes it up ([`ControllerHandle::on_start`]), and what it does with a key ([`ControllerHandle::new`]).
//! 3. It may say what it would do with an object: [`Platform::plans`].
//!
//! One that observes, plans and applies is [`Planned`], and [`planned`] does the rest.

mod cloneset;
mod containerrecreaterequest;
mod imagelistpulljob;
mod imagepulljob;
mod launch_priority;
mod nodeimage;
mod pod_readiness;

use crate::platform::{ControllerContext, Platform};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kruise_admission::descriptor::{self, Controller};
use kruise_api::{gates::Gates, names::component::controller};
use kruise_core::plan::{self, Env, IdSource, Plan, Server};
use kruise_runtime::{
    controller::{self as runtime, Outcome},
    error::Error,
    events::Regarding,
    expectations::Visible,
    resource::ObjectKey,
    shutdown::CancellationToken,
};
use std::{
    fmt,
    future::Future,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::Arc,
};

/// Builds a controller: declares its watches and starts nothing.
type Build = fn(&mut Platform, &'static Controller) -> ControllerHandle;

/// The controllers that exist.
const BUILT: &[(&str, Build)] = &[
    (controller::CLONE_SET, cloneset::build),
    (controller::CONTAINER_LAUNCH_PRIORITY, launch_priority::build),
    (controller::CONTAINER_RECREATE_REQUEST, containerrecreaterequest::build),
    (controller::IMAGE_LIST_PULL_JOB, imagelistpulljob::build),
    (controller::IMAGE_PULL_JOB, imagepulljob::build),
    (controller::NODE_IMAGE, nodeimage::build),
    (controller::POD_READINESS, pod_readiness::build),
];

/// A controller, ready to be started when this replica leads.
pub struct ControllerHandle {
    name: &'static str,
    on_start: Vec<Box<dyn FnOnce() + Send>>,
    run: Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ()> + Send>,
}

impl ControllerHandle {
    /// A controller that does this with each key.
    pub fn new<F, Fut>(name: &'static str, controller: runtime::Controller, reconcile: F) -> Self
    where
        F: Fn(ObjectKey) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, Error>> + Send + 'static,
    {
        Self {
            name,
            on_start: Vec::new(),
            run: Box::new(|stop| Box::pin(controller.run(stop, reconcile))),
        }
    }

    /// Adds a subscription to a store. It is made when the controller starts, and then sees everything that is there.
    #[must_use]
    pub fn on_start(mut self, subscribe: impl FnOnce() + Send + 'static) -> Self {
        self.on_start.push(Box::new(subscribe));
        self
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Works until `stop`, then finishes what is in flight.
    pub async fn run(self, stop: CancellationToken) {
        for subscribe in self.on_start {
            subscribe();
        }
        (self.run)(stop).await;
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ControllerHandle({})", self.name)
    }
}

/// A controller that observes, plans and applies: it can say what it would do, and does that.
trait Planned: Send + Sync + 'static {
    /// What it works with.
    fn context(&self) -> &ControllerContext;

    /// Has the stores wake it up.
    fn subscribe(self: &Arc<Self>);

    /// Does what is to be done for an object now. The controller's loop has waited for what was written before.
    fn reconcile(&self, key: &ObjectKey) -> impl Future<Output = Result<Outcome, Error>> + Send;

    /// What to do for an object now. Asking changes nothing.
    fn plan(&self, key: &ObjectKey) -> Option<(Regarding, Plan)>;
}

/// Puts a controller together that plans for a kind.
fn planned<C: Planned>(
    platform: &Platform,
    controller: &'static Controller,
    kind: &'static str,
    this: Arc<C>,
) -> ControllerHandle {
    let explained = this.clone();
    let explain = move |key: &ObjectKey| serde_json::to_value(explained.plan(key)?.1).ok();
    platform.plans().add(kind, controller.name, Arc::new(explain));
    let woken = this.clone();
    ControllerHandle::new(controller.name, this.context().controller(), move |key| {
        let this = this.clone();
        async move { this.reconcile(&key).await }
    })
    .on_start(move || woken.subscribe())
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

/// What a decision that is made now depends on besides the objects.
fn env_now(gates: Gates, server: Server) -> Env {
    Env {
        now: Timestamp::now(),
        gates,
        settings: plan::Settings::default(),
        server,
        ids: IdSource::seeded(RandomState::new().build_hasher().finish()),
    }
}

/// The plan to wait, while the cache does not show what we wrote ourselves.
fn waiting_for_cache(context: &ControllerContext, key: &ObjectKey) -> Option<Plan> {
    match context.expectations().check(key) {
        Visible::All => None,
        Visible::NotYet {
            object,
            count,
            ask_after,
            ..
        } => Some(Plan::waiting_for_cache(&object.to_string(), count, ask_after)),
    }
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
