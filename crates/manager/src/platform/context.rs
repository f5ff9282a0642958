//! What one controller works with, under its own name.

use jiff::Timestamp;
use kruise_admission::Budgets;
use kruise_core::plan::{Env, IdSource, Plan};
use kruise_runtime::{
    controller::{Controller, ControllerMetrics},
    events::Recorder,
    expectations::{Expectations, Visible},
    queue::Queue,
    resource::ObjectKey,
    writer::Writer,
};
use kube::Client;
use std::{
    fmt,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::Arc,
};

/// What one controller works with.
pub struct ControllerContext {
    pub(super) name: &'static str,
    pub(super) client: Client,
    pub(super) workers: usize,
    pub(super) queue: Queue<ObjectKey>,
    pub(super) writer: Writer,
    pub(super) recorder: Recorder,
    pub(super) expectations: Arc<Expectations>,
    pub(super) budgets: Budgets,
    pub(super) metrics: ControllerMetrics,
    /// The same for every decision, but for the time and the source of names.
    pub(super) env: Env,
}

impl fmt::Debug for ControllerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerContext")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl ControllerContext {
    /// For what is read in the moment it is written: the content of Secrets is never kept.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The keys that it has to look at.
    pub fn queue(&self) -> &Queue<ObjectKey> {
        &self.queue
    }

    /// Its door for writes; shut while this replica does not lead.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Tells people what happened.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The writes that the cache does not show yet.
    pub fn expectations(&self) -> &Expectations {
        &self.expectations
    }

    /// The budgets that are asked before a Pod is disturbed.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// The loop that works off the queue. A key waits until the cache shows what was written on its behalf.
    pub fn controller(&self) -> Controller {
        Controller::new(self.name, self.queue.clone(), self.workers, &self.metrics)
            .after_own_writes(self.expectations.clone())
    }

    /// Returns what a decision that is made now depends on besides the objects.
    pub fn env_now(&self) -> Env {
        Env {
            now: Timestamp::now(),
            ids: IdSource::seeded(RandomState::new().build_hasher().finish()),
            ..self.env.clone()
        }
    }

    /// Returns the plan to wait, while the cache does not show what was written on behalf of a key.
    pub fn waiting_for_cache(&self, key: &ObjectKey) -> Option<Plan> {
        match self.expectations.check(key) {
            Visible::All => None,
            Visible::NotYet {
                object,
                count,
                ask_after,
                ..
            } => Some(Plan::waiting_for_cache(&object.to_string(), count, ask_after)),
        }
    }
}
