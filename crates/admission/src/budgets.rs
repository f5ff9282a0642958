//! Asking PodUnavailableBudgets: by the Pod webhook on every replica, and by controllers before they write. The rules are those of
//! [`kruise_core::podunavailablebudget::ledger`]; this reads and writes.
//!
//! - The newest copy of a budget counts: what this process read or wrote last, or the cache. Questions about one budget are answered one after the other. While one is
//!   answered others come in; the next answer is that of all who wait, with one write ([`batch`]).
//! - A copy may be old. Nobody is refused, and nobody is let go without a place, for what only a copy says: the API server is asked before. Those who ask while it
//!   is read share the next answer. A place is written with the version of the budget that was looked at, so an old copy cannot give away a place twice; after a
//!   conflict everything is read and decided again.
//! - Four conflicts in a row, or any other failure to write the place down, are a refusal. A budget that is gone protects nothing.

mod batch;
mod refusals;

use crate::audit::Audit;
use batch::{Batch, Line, Question, Tried, Waiting};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kruise_api::{
    gates::{Gate, Gates},
    kind::Kind as _,
    meta::{Object as _, Owned as _, PartialObject},
    pod::Pod,
    podunavailablebudget::v1beta1::PodUnavailableBudget,
    resource::Preconditions,
};
use kruise_core::podunavailablebudget::{
    ledger::{self, Operation},
    related,
};
use kruise_core::shared::workload::WorkloadRef;
use kruise_runtime::{
    cache::{Index, Store, Stores},
    error::{Class, Error},
    events::Recorder,
    writer::{Patch, Target, Writer},
};
use kube::{Api, Client};
use refusals::{Asker, Refusals};
use serde_json::Value;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tokio::{sync::oneshot::error::TryRecvError, time::timeout};

/// How long one object may take to be read.
const DEADLINE: Duration = Duration::from_secs(3);
/// How often a place is tried to be written down.
const ATTEMPTS: u32 = 4;
/// How long to wait after the first conflict; three times as long after each further one.
const PAUSE: Duration = Duration::from_millis(40);
/// A controller, which asks about many Pods and asks again, is refused by an answer of the API server that is no older.
const FRESH: Duration = Duration::from_millis(300);
/// Budgets that are remembered; those that are gone are forgotten when there are more.
const REMEMBERED: usize = 1000;

/// Budgets by namespace.
pub const BUDGETS_BY_NAMESPACE: Index<PodUnavailableBudget> = Index::new("namespace", |budget, key| {
    key(budget.metadata.namespace.as_deref().unwrap_or_default());
});

/// The budgets of a cluster. Clones are the same.
#[derive(Clone)]
pub struct Budgets(Arc<Inner>);

struct Inner {
    client: Client,
    writer: Writer,
    refusals: Refusals,
    gates: Gates,
    stores: OnceLock<Stores>,
    replica_sets: OnceLock<Store<PartialObject>>,
    lines: Mutex<Lines>,
}

/// Those who ask about each budget, by namespace and name.
type Lines = HashMap<(String, String), Arc<Line>>;

/// What this process knows of a budget besides the cache.
#[derive(Default)]
struct Slot {
    latest: Option<Arc<PodUnavailableBudget>>,
    /// When the question to the API server was sent that was answered last: what is known is no older.
    since: Option<Instant>,
    /// The version in which somebody else has changed it, and all before, are of no use.
    outdated: Option<u64>,
}

/// Whether a Pod may be disturbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    Yes,
    /// Yes: a Pod of this name has a place already.
    Again,
    /// No, for this reason.
    No(String),
}

impl Budgets {
    /// Budgets that are written by this writer. Every replica has to be able to write: all of them answer webhooks.
    pub fn new(client: Client, writer: Writer, recorder: Recorder, gates: Gates) -> Self {
        Self(Arc::new(Inner {
            client,
            writer,
            refusals: Refusals::new(recorder),
            gates,
            stores: OnceLock::new(),
            replica_sets: OnceLock::new(),
            lines: Mutex::default(),
        }))
    }

    /// Reads the cache of the process from now on.
    pub fn read_from(&self, stores: Stores) {
        // Set once, when the process starts.
        let _ = self.0.stores.set(stores);
    }

    /// Knows from now on which Deployments own ReplicaSets.
    pub fn know_replica_sets(&self, sets: Store<PartialObject>) {
        // Set once, when the process starts.
        let _ = self.0.replica_sets.set(sets);
    }

    /// Writes refusals there from now on.
    pub(crate) fn write_refusals_to(&self, audit: Audit) {
        self.0.refusals.write_to(audit);
    }

    /// Returns the budgets of a namespace, as the cache has them.
    pub(crate) fn of_namespace(&self, namespace: &str) -> Vec<Arc<PodUnavailableBudget>> {
        let budgets = self.0.stores.get().and_then(Stores::get::<PodUnavailableBudget>);
        let budgets = budgets.filter(|budgets| !budgets.is_empty());
        budgets.map_or_else(Vec::new, |budgets| budgets.by(&BUDGETS_BY_NAMESPACE, namespace))
    }

    /// Returns the workload that an owner of Pods stands for.
    pub(crate) fn workload_of(&self, namespace: &str, owner: WorkloadRef) -> WorkloadRef {
        let above = || {
            let sets = self
                .0
                .replica_sets
                .get()
                .filter(|_| owner.is_of(ReplicaSet::GROUP, ReplicaSet::KIND))?;
            let set = sets.get(namespace, &owner.name)?;
            let deployment = set.controlled_by(Deployment::GROUP, Deployment::KIND)?;
            Some(WorkloadRef::new(Deployment::API_VERSION, Deployment::KIND, deployment))
        };
        above().unwrap_or(owner)
    }

    /// Asks on behalf of a controller, which knows the Pod by its name in the cache. A Pod that is not there is not protected.
    pub async fn ask_for(&self, namespace: &str, pod: &str, operation: Operation) -> Result<Grant, Error> {
        if !self.is_asked(operation) {
            return Ok(Grant::Yes);
        }
        let cached = self.0.stores.get().and_then(Stores::get::<Pod>);
        match cached.and_then(|pods| pods.get(namespace, pod)) {
            Some(pod) => self.ask_as(Asker::Controller, &pod, operation).await,
            None => Ok(Grant::Yes),
        }
    }

    /// Whether the gates have budgets asked about this.
    pub fn is_asked(&self, operation: Operation) -> bool {
        self.0.gates.enabled(match operation {
            Operation::Delete | Operation::Evict => Gate::PodUnavailableBudgetDeleteGate,
            Operation::Update | Operation::Resize => Gate::PodUnavailableBudgetUpdateGate,
        })
    }

    /// Asks on behalf of a user whether a Pod may be disturbed, and writes down that it is.
    ///
    /// # Errors
    /// When the budget cannot be read.
    pub async fn ask(&self, pod: &Pod, operation: Operation, user: &str, dry_run: bool) -> Result<Grant, Error> {
        self.ask_as(Asker::User { name: user, dry_run }, pod, operation).await
    }

    async fn ask_as(&self, asker: Asker<'_>, pod: &Pod, operation: Operation) -> Result<Grant, Error> {
        let Some(name) = related::budget_of(&pod.metadata) else {
            return Ok(Grant::Yes);
        };
        if ledger::free(pod, self.0.gates).is_some() {
            return Ok(Grant::Yes);
        }
        let mut pause = PAUSE;
        let mut last = Error::new(Class::Conflict, "the budget changes too often");
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(pause.mul_f64(1.0 + fastrand::f64())).await;
                pause *= 3;
            }
            match self.try_once(asker, pod, name, operation, attempt > 0).await? {
                Tried::Granted(grant) => {
                    if let Grant::No(_) = grant {
                        self.0.refusals.record(pod, asker).await;
                    }
                    return Ok(grant);
                }
                Tried::Conflict(conflict) => last = conflict,
            }
        }
        self.0.refusals.record(pod, asker).await;
        Ok(Grant::No(last.to_string()))
    }

    async fn try_once(
        &self,
        asker: Asker<'_>,
        pod: &Pod,
        name: &str,
        operation: Operation,
        is_again: bool,
    ) -> Result<Tried, Error> {
        let namespace = &*pod.metadata.namespace;
        // An answer to a question that was sent after this one came in is as good as one of its own.
        let fresh = match asker {
            Asker::User { .. } => Duration::ZERO,
            Asker::Controller => FRESH,
        };
        let question = Question {
            pod: Arc::new(pod.clone()),
            operation,
            asked: Instant::now(),
            fresh,
            is_again,
            is_dry_run: matches!(asker, Asker::User { dry_run: true, .. }),
        };
        let line = self.line(namespace, name);
        loop {
            let mut answered = line.join(question.clone());
            // Held while the budget is read and written: of those who ask about one budget each has to see what the one before wrote.
            let mut slot = line.turn.lock().await;
            match answered.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Empty) => {}
                // Whoever was to answer has gone away in the middle of it.
                Err(TryRecvError::Closed) => continue,
            }
            self.answer_all(line.take(), namespace, name, &mut slot).await;
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
        }
    }

    /// Answers all who wait, from one copy of the budget and with one write.
    async fn answer_all(&self, waiting: Vec<Waiting>, namespace: &str, name: &str, slot: &mut Slot) {
        let since = slot.since;
        let is_live = |question: &Question| since.is_some_and(|since| since + question.fresh >= question.asked);
        let is_enough = |question: &Question| !question.is_again || is_live(question);
        let known = self.newest(slot, namespace, name);
        let mut known = known.filter(|_| waiting.iter().all(|waiting| is_enough(&waiting.question)));
        let (batch, budget) = loop {
            let (budget, is_read) = if let Some(budget) = known.take() {
                (budget, false)
            } else {
                match self.read(namespace, name, slot).await {
                    Ok(Some(budget)) => (budget, true),
                    Ok(None) => return waiting.into_iter().for_each(|waiting| waiting.answer(Grant::Yes)),
                    Err(error) => return waiting.into_iter().for_each(|waiting| waiting.fail(&error)),
                }
            };
            let batch = Batch::of(&budget, &waiting, Timestamp::now(), self.0.gates);
            if is_read || !batch.doubtful(&waiting).any(|question| !is_live(question)) {
                break (batch, budget);
            }
        };
        let written = match batch.patch() {
            Some(patch) => self.write(&budget, patch, batch.budget(), slot).await,
            None => Ok(()),
        };
        batch.answer(waiting, written.as_ref().err());
    }

    /// Writes down the places of a batch; a budget that is gone protects nothing.
    async fn write(
        &self,
        budget: &PodUnavailableBudget,
        patch: Value,
        after: &PodUnavailableBudget,
        slot: &mut Slot,
    ) -> Result<(), Error> {
        let (namespace, name) = (budget.namespace(), budget.name());
        let target = Target::new(PodUnavailableBudget::RESOURCE, namespace, name).status();
        let same = Preconditions::unchanged(budget);
        let sent = Instant::now();
        match self.0.writer.patch(&target, Patch::Merge(patch), &same).await {
            Ok(written) => {
                let mut after = after.clone();
                after.metadata.resource_version = Some(written.resource_version);
                slot.latest = Some(Arc::new(after));
                slot.since = Some(sent);
                Ok(())
            }
            Err(error) => {
                *slot = Slot {
                    outdated: (error.class() == Class::Conflict).then(|| budget.resource_version()),
                    ..Slot::default()
                };
                if error.class() == Class::Gone {
                    Ok(())
                } else {
                    Err(error)
                }
            }
        }
    }

    /// The newest copy that this process has.
    fn newest(&self, slot: &Slot, namespace: &str, name: &str) -> Option<Arc<PodUnavailableBudget>> {
        let stores = self.0.stores.get();
        let cached = stores.and_then(Stores::get::<PodUnavailableBudget>);
        let cached = cached.and_then(|budgets| budgets.get(namespace, name));
        let all = cached.into_iter().chain(slot.latest.clone());
        let useful = all.filter(|budget| Some(budget.resource_version()) > slot.outdated);
        useful.max_by_key(|budget| budget.resource_version())
    }

    async fn read(
        &self,
        namespace: &str,
        name: &str,
        slot: &mut Slot,
    ) -> Result<Option<Arc<PodUnavailableBudget>>, Error> {
        let sent = Instant::now();
        let api: Api<PodUnavailableBudget> = Api::namespaced(self.0.client.clone(), namespace);
        let late = |_| {
            Error::new(
                Class::Transient,
                format!("PodUnavailableBudget {name} could not be read in time"),
            )
        };
        let read = timeout(DEADLINE, api.get_opt(name)).await.map_err(late)??.map(Arc::new);
        *slot = Slot {
            latest: read.clone(),
            since: read.as_ref().map(|_| sent),
            outdated: None,
        };
        Ok(read)
    }

    fn line(&self, namespace: &str, name: &str) -> Arc<Line> {
        let mut lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() > REMEMBERED {
            let budgets = self.0.stores.get().and_then(Stores::get::<PodUnavailableBudget>);
            let is_known = |namespace: &str, name: &str| {
                budgets
                    .as_ref()
                    .is_some_and(|budgets| budgets.contains(namespace, name))
            };
            lines.retain(|(namespace, name), line| Arc::strong_count(line) > 1 || is_known(namespace, name));
        }
        let key = (namespace.to_owned(), name.to_owned());
        lines.entry(key).or_default().clone()
    }
}

impl fmt::Debug for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budgets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
