//! What came of the last plan for each object, and when its status was written, for the next one.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use kruise_core::plan::{Outcome, Plan};
use kruise_runtime::resource::ObjectKey;

/// The last outcomes of a controller. Each is about one generation of its object: whoever changes the spec has it tried at once.
#[derive(Default)]
pub(crate) struct LastOutcomes(Mutex<HashMap<ObjectKey, (i64, Outcome)>>);

impl LastOutcomes {
    /// What the next plan for this generation has to know.
    pub(crate) fn of(&self, key: &ObjectKey, generation: i64) -> Outcome {
        let all = self.all();
        let last = all.get(key).filter(|(about, _)| *about == generation);
        last.map(|(_, outcome)| outcome.clone()).unwrap_or_default()
    }

    /// Remembers what came of a plan for this generation.
    pub(crate) fn remember(&self, key: &ObjectKey, generation: i64, outcome: Outcome) {
        let outcome = outcome.after(&self.of(key, generation), Timestamp::now());
        if outcome == Outcome::default() {
            self.forget(key);
        } else {
            self.all().insert(key.clone(), (generation, outcome));
        }
    }

    /// The object is no more.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.all().remove(key);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, (i64, Outcome)>> {
        // What is in it is replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When the statuses of a controller's objects were last written.
#[derive(Default)]
pub(crate) struct LastWrites(Mutex<HashMap<ObjectKey, Timestamp>>);

impl LastWrites {
    pub(crate) fn of(&self, key: &ObjectKey) -> Option<Timestamp> {
        self.all().get(key).copied()
    }

    /// A plan was applied.
    pub(crate) fn remember(&self, key: &ObjectKey, plan: &Plan) {
        if plan.status.is_some() {
            self.all().insert(key.clone(), Timestamp::now());
        }
    }

    /// The object is no more.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.all().remove(key);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, Timestamp>> {
        // What is in it is replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
