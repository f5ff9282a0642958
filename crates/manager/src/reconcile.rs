//! Observe, plan, apply: the same for every kind.
//!
//! A kind gives an [`Observer`]: what it watches, and what its planner looks at. The rest is written once, here:
//!
//! 1. Nothing is decided before the cache shows what we wrote ourselves. That is asked before looking: what is seen is then at least as new as what was
//!    asked for.
//! 2. The planner gets what came of the last plan. That is about one generation of the object: whoever changes the spec has everything tried at once.
//! 3. The plan is [applied](crate::apply), and its writes are waited for in the stores that the kind watches.
//! 4. What is remembered of an object goes when the object does.
//!
//! A [`Rehearser`] can also say what a change of an object would come to.
//!
//! `/debug/plan`, and with it `kubectl kruise explain`, shows the plan that would be made now. Asking changes nothing.

mod adoption;
mod last;
mod watches;

use crate::{
    apply::{Applied, Applier},
    platform::{ControllerContext, Platform},
};
pub(crate) use adoption::Adoption;
use kruise_api::read::from_slice;
use kruise_core::{
    plan::{Observation, Outcome, Plan},
    rehearsal::{Proposal, Rehearsal},
};
use kruise_runtime::{controller, error::Error, events::Regarding, resource::ObjectKey};
use last::LastOutcomes;
pub(crate) use last::LastWrites;
use serde_json::Value;
use std::{future::Future, sync::Arc, time::Duration};
pub(crate) use watches::{Enqueue, LateEnqueue, Watches};
use watches::{Primary, Subscription};

/// What a kind watches, and what its planner looks at.
pub(crate) trait Observer: Send + Sync + Sized + 'static {
    /// What its planner looks at.
    type Observed: Observation;

    /// Asks for the stores that it reads, which is what makes a kind watched.
    fn new(platform: &mut Platform) -> Self;

    /// Says whose changes put which keys into the queue.
    fn watches(self: &Arc<Self>) -> Watches;

    /// Reads from the API server what no store shows, before anything is decided.
    fn read_ahead(&self, _key: &ObjectKey) -> impl Future<Output = Result<(), Error>> + Send {
        async { Ok(()) }
    }

    /// Looks at the stores and at what was read ahead; nothing when there is nothing to plan for. `last` is what came of the last plan.
    fn observe(&self, key: &ObjectKey, last: Outcome) -> Option<Self::Observed>;

    /// Takes on a plan that is to be applied, or says after which time to look again instead, because another key is at the same thing.
    fn begin(&self, _plan: &Plan) -> Result<(), Duration> {
        Ok(())
    }

    /// Hears what came of a plan.
    fn applied(&self, _key: &ObjectKey, _plan: &Plan, _applied: &Applied) {}

    /// Lets go of what it remembers of an object that is no more.
    fn forget(&self, _key: &ObjectKey) {}
}

/// An observer of a kind whose changes can be played through before they are made.
pub(crate) trait Rehearser: Observer<Observed: Proposal> {
    /// The same as [`Observer::observe`], with this object in the place of the one that is there.
    fn observe_as(
        &self,
        object: Arc<<Self::Observed as Proposal>::Object>,
        key: &ObjectKey,
        last: Outcome,
    ) -> Option<Self::Observed>;
}

/// Reconciles the objects of one kind.
pub(crate) struct Reconciler<O> {
    observer: Arc<O>,
    context: Arc<ControllerContext>,
    primary: Primary,
    applier: Applier,
    last: LastOutcomes,
}

/// What is to be done for an object.
struct Decision {
    regarding: Regarding,
    /// The generation that it was made for.
    generation: i64,
    plan: Plan,
}

impl<O: Observer> Reconciler<O> {
    /// A reconciler, and the subscriptions to make when it starts.
    pub(crate) fn new(observer: O, context: Arc<ControllerContext>) -> (Self, Vec<Subscription>) {
        let observer = Arc::new(observer);
        let Watches {
            primary,
            views,
            subscriptions,
        } = observer.watches();
        let this = Self {
            observer,
            applier: Applier::new(context.clone(), views),
            context,
            primary,
            last: LastOutcomes::default(),
        };
        (this, subscriptions)
    }

    /// The kind that it plans for.
    pub(crate) fn kind(&self) -> &'static str {
        self.primary.resource.kind
    }

    /// Does what is to be done for an object now.
    pub(crate) async fn reconcile(&self, key: &ObjectKey) -> Result<controller::Outcome, Error> {
        self.observer.read_ahead(key).await?;
        let Some(Decision {
            regarding,
            generation,
            plan,
        }) = self.decide(key)
        else {
            self.context.expectations().forget(key);
            self.last.forget(key);
            self.observer.forget(key);
            return Ok(controller::Outcome::done());
        };
        if let Err(again) = self.observer.begin(&plan) {
            return Ok(controller::Outcome::wake_after(again));
        }
        let applied = self.applier.apply(key, &regarding, &plan).await;
        self.observer.applied(key, &plan, &applied);
        self.last.remember(key, generation, applied.outcome);
        Ok(applied.result)
    }

    /// Returns what would be done for an object now.
    pub(crate) fn plan(&self, key: &ObjectKey) -> Option<Plan> {
        Some(self.decide(key)?.plan)
    }

    /// Returns what an object would come to if it were as proposed.
    pub(crate) fn rehearse(&self, key: &ObjectKey, proposed: &Value) -> Result<Rehearsal, String>
    where
        O: Rehearser,
    {
        // Through text, because raw parts keep what was written.
        let object = from_slice(proposed.to_string().as_bytes()).map_err(|error| error.to_string())?;
        let observed = self.observer.observe_as(Arc::new(object), key, Outcome::default());
        let observed = observed.ok_or("the proposed object has no UID")?;
        Ok(observed.rehearse(&self.context.env_now()))
    }

    fn decide(&self, key: &ObjectKey) -> Option<Decision> {
        let waiting = self.context.waiting_for_cache(key);
        // Before looking: should the object change in between, what comes of the plan is about the older one.
        let (uid, generation) = self.primary.identity(key);
        let observed = self.observer.observe(key, self.last.of(key, generation))?;
        Some(Decision {
            regarding: Regarding::new(self.primary.resource, &key.namespace, &key.name, &uid),
            generation,
            plan: waiting.unwrap_or_else(|| observed.plan(&self.context.env_now())),
        })
    }
}
