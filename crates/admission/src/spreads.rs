//! Asking WorkloadSpreads where Pods go, and telling them who leaves: by the Pod webhook on every replica. The rules are those of
//! [`kruise_core::workloadspread::ledger`]; this reads and writes.
//!
//! - The newest copy of a spread counts: what this process read or wrote last, or the cache. Questions about one spread are answered one after the other.
//! - A copy may be old. What is written names the version that was looked at, so an old copy cannot give away a place twice; after a conflict everything is read
//!   and decided again. No Pod is sent past a subset that is full by an old copy: the API server is asked before, some times a second at most.
//! - Conflicts that do not end, or any other failure to write, are a failure of the request. A spread that is gone gives no subset.

use crate::LookUp;
use crate::look_up::Freshness;
use jiff::Timestamp;
use kruise_api::{
    configuration::{Configuration, CustomWorkload},
    kind::Kind as _,
    meta::PartialObject,
    resource::Preconditions,
    workloadspread::v1beta1::WorkloadSpread,
};
use kruise_core::{
    admission::{Needs, ObjectRef},
    pod::Placement,
    workloadspread::{
        ledger::{self, Answer, Ask, Entry, Leave},
        related, replicas,
        version::VersionedKinds,
    },
};
use kruise_runtime::{
    cache::{Store, Stores},
    error::{Class, Error},
    writer::{Patch, Target, Writer},
};
use kube::{Api, Client};
use serde_json::Value;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tokio::{sync::Mutex as Turns, time::timeout};

/// How long one object may take to be read.
const DEADLINE: Duration = Duration::from_secs(3);
/// How often an entry is tried to be written.
const ATTEMPTS: u32 = 8;
/// How long to wait after the first conflict; twice as long after each further one.
const PAUSE: Duration = Duration::from_millis(10);
/// How old an answer of the API server may be for a subset to be passed over because it is full.
const FRESH: Duration = Duration::from_millis(300);
/// Spreads that are remembered; those that are gone are forgotten when there are more.
const REMEMBERED: usize = 1000;

/// The spreads of a cluster. Clones are the same.
#[derive(Clone)]
pub struct Spreads(Arc<Inner>);

struct Inner {
    client: Client,
    writer: Writer,
    versioned: VersionedKinds,
    stores: OnceLock<Stores>,
    replica_sets: OnceLock<Store<PartialObject>>,
    custom: Mutex<Option<Arc<[CustomWorkload]>>>,
    slots: Mutex<Slots>,
}

/// What is known of each spread, by namespace and name.
type Slots = HashMap<(String, String), Arc<Turns<Slot>>>;

/// What this process knows of a spread besides the cache.
#[derive(Default)]
struct Slot {
    latest: Option<Arc<WorkloadSpread>>,
    read: Option<Instant>,
}

/// What came of one attempt.
enum Tried<T> {
    Done(T),
    Conflict(Error),
}

impl Spreads {
    /// Spreads that are written by this writer. Every replica has to be able to write: all of them answer webhooks.
    pub fn new(client: Client, writer: Writer, versioned: VersionedKinds) -> Self {
        Self(Arc::new(Inner {
            client,
            writer,
            versioned,
            stores: OnceLock::new(),
            replica_sets: OnceLock::new(),
            custom: Mutex::default(),
            slots: Mutex::default(),
        }))
    }

    /// Reads the cache of the process from now on.
    pub fn read_from(&self, stores: Stores, replica_sets: Store<PartialObject>) {
        // Set once, when the process starts.
        let _ = self.0.stores.set(stores);
        let _ = self.0.replica_sets.set(replica_sets);
    }

    /// Hears of the kinds that can be spread because an administrator says so; nothing when what he says cannot be read.
    pub fn set_custom(&self, custom: Option<Arc<[CustomWorkload]>>) {
        *self.0.custom.lock().unwrap_or_else(PoisonError::into_inner) = custom;
    }

    /// Returns these kinds, if they are known.
    pub fn custom(&self) -> Option<Arc<[CustomWorkload]>> {
        self.0.custom.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the kinds whose Pods are counted by version.
    pub fn versioned(&self) -> &VersionedKinds {
        &self.0.versioned
    }

    /// Returns a ReplicaSet as far as the cache knows it.
    pub(crate) fn replica_set(&self, namespace: &str, name: &str) -> Option<Arc<PartialObject>> {
        self.0.replica_sets.get()?.get(namespace, name)
    }

    /// Returns where a Pod goes, which is written down then.
    ///
    /// # Errors
    /// When the spread or its workload cannot be read, or the Pod cannot be written down.
    pub async fn place(&self, ask: &Ask, lookup: &dyn LookUp) -> Result<Placement, Error> {
        let id = fresh_id();
        let mut pause = PAUSE;
        let mut last = Error::new(Class::Conflict, "the WorkloadSpread changes too often");
        for attempt in 0..ATTEMPTS {
            match self.try_place(ask, &id, lookup, attempt > 0).await? {
                Tried::Done(placement) => return Ok(placement),
                Tried::Conflict(conflict) => last = conflict,
            }
            rest(&mut pause).await;
        }
        Err(last)
    }

    async fn try_place(
        &self,
        ask: &Ask,
        id: &str,
        lookup: &dyn LookUp,
        is_again: bool,
    ) -> Result<Tried<Placement>, Error> {
        let (namespace, name) = (&*ask.namespace, &*ask.spread);
        let slot = self.slot(namespace, name);
        // Held while the spread is read and written: each has to see what the one before wrote.
        let mut slot = slot.lock().await;
        let mut known = if is_again {
            None
        } else {
            self.newest(&slot, namespace, name)
        };
        let mut is_live = known.is_some() && slot.read.is_some_and(|read| read.elapsed() < FRESH);
        let mut wanted = None;
        loop {
            let spread = if let Some(spread) = known.take() {
                spread
            } else {
                is_live = true;
                match self.read(&mut slot, namespace, name).await? {
                    Some(spread) => spread,
                    None => return Ok(Tried::Done(placement(Arc::default(), None, ""))),
                }
            };
            let answer = ledger::place(&spread, ask, id, wanted, Timestamp::now());
            match answer.map_err(|reason| Error::new(Class::Permanent, reason))? {
                Answer::NeedsReplicas => {
                    wanted = Some(self.replicas(&spread, namespace, lookup).await?);
                    known = Some(spread);
                }
                Answer::NoRoom
                | Answer::Goes {
                    passed_others: true, ..
                } if !is_live => {}
                Answer::NoRoom => return Ok(Tried::Done(placement(spread, None, ""))),
                Answer::Goes { subset, .. } => return Ok(Tried::Done(placement(spread, Some(subset), ""))),
                Answer::Take(entry) => {
                    return Ok(match self.write(&spread, &entry, &mut slot).await? {
                        Tried::Done(Some(spread)) => Tried::Done(placement(spread, Some(entry.subset), &entry.uid)),
                        Tried::Done(None) => Tried::Done(placement(spread, None, "")),
                        Tried::Conflict(conflict) => Tried::Conflict(conflict),
                    });
                }
            }
        }
    }

    /// Notes that a Pod leaves.
    ///
    /// # Errors
    /// When that cannot be written down.
    pub async fn leave(&self, namespace: &str, name: &str, pod: &Leave) -> Result<(), Error> {
        let mut pause = PAUSE;
        let mut last = Error::new(Class::Conflict, "the WorkloadSpread changes too often");
        for attempt in 0..ATTEMPTS {
            match self.try_leave(namespace, name, pod, attempt > 0).await? {
                Tried::Done(()) => return Ok(()),
                Tried::Conflict(conflict) => last = conflict,
            }
            rest(&mut pause).await;
        }
        Err(last)
    }

    async fn try_leave(&self, namespace: &str, name: &str, pod: &Leave, is_again: bool) -> Result<Tried<()>, Error> {
        let slot = self.slot(namespace, name);
        let mut slot = slot.lock().await;
        let known = if is_again {
            None
        } else {
            self.newest(&slot, namespace, name)
        };
        let noted = |spread: &WorkloadSpread| ledger::leave(spread, pod, Timestamp::now());
        let copy = known.filter(|copy| noted(copy).is_some() || !ledger::is_counted(copy, &pod.subset));
        let spread = match copy {
            Some(spread) => spread,
            // Nobody is let go without a note for what only a copy says.
            None => match self.read(&mut slot, namespace, name).await? {
                Some(spread) => spread,
                None => return Ok(Tried::Done(())),
            },
        };
        let Some(entry) = noted(&spread) else {
            return Ok(Tried::Done(()));
        };
        Ok(match self.write(&spread, &entry, &mut slot).await? {
            Tried::Done(_) => Tried::Done(()),
            Tried::Conflict(conflict) => Tried::Conflict(conflict),
        })
    }

    /// Writes an entry down. Returns the spread with it; nothing when the spread is gone.
    async fn write(
        &self,
        spread: &Arc<WorkloadSpread>,
        entry: &Entry,
        slot: &mut Slot,
    ) -> Result<Tried<Option<Arc<WorkloadSpread>>>, Error> {
        let namespace = spread.metadata.namespace.as_deref().unwrap_or_default();
        let name = spread.metadata.name.as_deref().unwrap_or_default();
        let target = Target::new(WorkloadSpread::RESOURCE, namespace, name).status();
        let same = Preconditions::unchanged(&**spread);
        match self.0.writer.patch(&target, Patch::Merge(entry.patch()), &same).await {
            Ok(written) => {
                let mut new = WorkloadSpread::clone(spread);
                new.status = Some(entry.written(spread.status.as_ref()));
                new.metadata.resource_version = Some(written.resource_version);
                let new = Arc::new(new);
                slot.latest = Some(new.clone());
                slot.read = Some(Instant::now());
                Ok(Tried::Done(Some(new)))
            }
            Err(error) => {
                slot.latest = None;
                slot.read = None;
                match error.class() {
                    Class::Gone => Ok(Tried::Done(None)),
                    Class::Conflict => Ok(Tried::Conflict(error)),
                    // Whether it was written or not: an entry of which nothing comes is forgotten after a while.
                    _ => Err(error),
                }
            }
        }
    }

    /// The newest copy that this process has.
    fn newest(&self, slot: &Slot, namespace: &str, name: &str) -> Option<Arc<WorkloadSpread>> {
        let cached = self.0.stores.get().and_then(Stores::get::<WorkloadSpread>);
        let cached = cached.and_then(|spreads| spreads.get(namespace, name));
        let version = |spread: &Arc<WorkloadSpread>| kruise_api::meta::Object::resource_version(&**spread);
        cached.into_iter().chain(slot.latest.clone()).max_by_key(version)
    }

    async fn read(&self, slot: &mut Slot, namespace: &str, name: &str) -> Result<Option<Arc<WorkloadSpread>>, Error> {
        let api: Api<WorkloadSpread> = Api::namespaced(self.0.client.clone(), namespace);
        let late = |_| {
            Error::new(
                Class::Transient,
                format!("WorkloadSpread {name} could not be read in time"),
            )
        };
        let read = timeout(DEADLINE, api.get_opt(name)).await.map_err(late)??.map(Arc::new);
        slot.latest.clone_from(&read);
        slot.read = read.is_some().then(Instant::now);
        Ok(read)
    }

    /// How many Pods the workload of a spread should have; none of one that is not there.
    async fn replicas(&self, spread: &WorkloadSpread, namespace: &str, lookup: &dyn LookUp) -> Result<i32, Error> {
        let unknown = |reason: String| Error::new(Class::Transient, reason);
        let Some(target) = related::target(spread) else {
            return Ok(0);
        };
        let workload = ObjectRef::Workload(target.clone());
        let has_path = !related::is_known(&target);
        let custom = self.custom().filter(|_| has_path);
        let needs_list = has_path && custom.is_none();
        let list = needs_list.then_some(ObjectRef::Configuration);
        let needs = Needs {
            objects: [workload.clone()].into_iter().chain(list).collect(),
            ..Needs::default()
        };
        let found = lookup.look_up(namespace, needs, Freshness::Live).await.lookups;
        let read = found.object(&workload).map_err(|reason| unknown(reason.to_owned()))?;
        let Some(read) = read else { return Ok(0) };
        let custom = match custom {
            Some(custom) => custom,
            None if needs_list => {
                let map = found.object(&ObjectRef::Configuration);
                listed(map.map_err(|reason| unknown(reason.to_owned()))?).map_err(unknown)?
            }
            None => Arc::default(),
        };
        let path = related::custom(&target, &custom).map(|custom| &*custom.replicas_path);
        replicas::replicas(spread, read, path).map_err(|reason| Error::new(Class::Permanent, reason))
    }

    fn slot(&self, namespace: &str, name: &str) -> Arc<Turns<Slot>> {
        let mut slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() > REMEMBERED {
            let spreads = self.0.stores.get().and_then(Stores::get::<WorkloadSpread>);
            let is_known = |namespace: &str, name: &str| {
                spreads
                    .as_ref()
                    .is_some_and(|spreads| spreads.contains(namespace, name))
            };
            slots.retain(|(namespace, name), slot| Arc::strong_count(slot) > 1 || is_known(namespace, name));
        }
        let key = (namespace.to_owned(), name.to_owned());
        slots.entry(key).or_default().clone()
    }
}

/// Reads the white list from the ConfigMap, if that is there.
pub(crate) fn listed(map: Option<&Value>) -> Result<Arc<[CustomWorkload]>, String> {
    let data = map.and_then(|map| serde_json::from_value(map.get("data")?.clone()).ok());
    let read = Configuration::read(&data.unwrap_or_default()).workload_spread;
    read.map(Arc::from).map_err(|error| error.to_string())
}

fn placement(spread: Arc<WorkloadSpread>, subset: Option<String>, uid: &str) -> Placement {
    Placement {
        spread,
        subset,
        uid: uid.to_owned(),
    }
}

async fn rest(pause: &mut Duration) {
    tokio::time::sleep(pause.mul_f64(1.0 + fastrand::f64())).await;
    *pause *= 2;
}

/// A random UUID.
fn fresh_id() -> String {
    let (high, low) = (fastrand::u64(..), fastrand::u64(..));
    // Version 4, variant 1.
    let high = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
    let low = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

impl fmt::Debug for Spreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spreads").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
