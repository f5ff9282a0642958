//! Where a new Pod goes, and what is written down of it before it may.
//!
//! Each version of Pods has a ledger in the status: for each subset how many more Pods fit, which Pods were let in and have not been seen, and which were let
//! go and are still seen.
//!
//! A new Pod:
//! 1. One that was let in already, by its name, goes to the same subset, if that takes Pods. Its entry is renewed.
//! 2. Otherwise it goes to the first subset that takes Pods and has room. Without any it goes where it likes.
//! 3. A subset without a limit needs no entry. In one with a limit the Pod is written down, by its name or, as it has none yet, by an id that it carries.
//!
//! A Pod that goes makes room at once, so that the one in its place finds it; once. Whoever writes names the version of the object that was looked at, so that of
//! two who take the last place one has to look again. A changed `maxReplicas` counts at once: what is written down only ever lowers it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_api::workloadspread::v1beta1::{SubsetStatus, WorkloadSpread, WorkloadSpreadStatus, WorkloadSpreadSubset};
use serde_json::{Value, json};

use super::{schedulable, subsets};
use crate::shared::seconds::truncate;

/// How long a Pod that was let in may take to be seen.
pub const CREATION_IS_SEEN_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// How long a Pod that was let go may take to be seen to go.
pub const DELETION_IS_SEEN_AFTER: SignedDuration = SignedDuration::from_secs(15);
/// How long a deletion is remembered whose Pod is not seen: what is seen may be older than it.
pub const NEVER_FORGOTTEN_WITHIN: SignedDuration = SignedDuration::from_secs(5);
/// What the status says of a subset without a limit.
pub const NO_LIMIT: i32 = -1;

/// A Pod that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub namespace: String,
    /// The spread that it belongs to.
    pub spread: String,
    /// Its version.
    pub version: String,
    /// Its name; empty when the API server is to give one.
    pub pod: String,
}

/// Where it goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nowhere: no subset takes it.
    NoRoom,
    /// To this subset, and nothing has to be written down.
    Goes {
        subset: String,
        /// Not to the first that would take Pods: others were full.
        passed_others: bool,
    },
    /// To a subset, once this is written down.
    Take(Entry),
    /// The replicas of the workload have to be known first.
    NeedsReplicas,
}

/// A ledger that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    version: String,
    list: Vec<SubsetStatus>,
    /// The subset that it is about.
    pub subset: String,
    /// The id that the Pod has to carry; empty when its name is enough.
    pub uid: String,
}

impl Entry {
    /// Returns the change of the spread that writes it down.
    pub fn patch(&self) -> Value {
        json!({"status": {"versionedSubsetStatuses": {(&self.version): self.list}}})
    }

    /// Returns the status with it written down.
    #[must_use]
    pub fn written(&self, status: Option<&WorkloadSpreadStatus>) -> WorkloadSpreadStatus {
        let mut status = status.cloned().unwrap_or_default();
        let lists = &mut status.versioned_subset_statuses;
        lists.insert(self.version.clone(), self.list.clone());
        status
    }
}

/// Returns where a new Pod goes. `id` is a fresh one for a Pod without a name, `replicas` how many Pods the workload should have, where that is known.
///
/// # Errors
/// When a subset's limit cannot be read.
pub fn place(
    spread: &WorkloadSpread,
    ask: &Ask,
    id: &str,
    replicas: Option<i32>,
    now: Timestamp,
) -> Result<Answer, String> {
    let (version, pod) = (ask.version.as_str(), ask.pod.as_str());
    let Some(mut list) = ledger(spread, version, replicas)? else {
        return Ok(Answer::NeedsReplicas);
    };
    let entry = |list, subset: &WorkloadSpreadSubset, uid: &str| {
        Answer::Take(Entry {
            version: version.to_owned(),
            list,
            subset: subset.name.clone(),
            uid: uid.to_owned(),
        })
    };
    // Written again although nothing is new: who has an old copy of the ledger must not let in a second Pod for one entry.
    for (index, subset) in spread.spec.subsets.iter().enumerate().filter(|_| !pod.is_empty()) {
        let Some(status) = list.get_mut(index) else { continue };
        if status.creating_pods.remove(pod).is_some() && !schedulable::refuses(status) {
            status.creating_pods.insert(pod.to_owned(), Time(truncate(now)));
            return Ok(entry(list, subset, ""));
        }
    }
    let mut passed_others = false;
    for (index, subset) in spread.spec.subsets.iter().enumerate() {
        let Some(status) = list.get_mut(index).filter(|status| !schedulable::refuses(status)) else {
            continue;
        };
        if subset.max_replicas.is_none() {
            return Ok(Answer::Goes {
                subset: subset.name.clone(),
                passed_others,
            });
        }
        let room = room(subset, status)?;
        if room <= 0 {
            passed_others = true;
            continue;
        }
        let (key, uid) = if pod.is_empty() { (id, id) } else { (pod, "") };
        status.missing_replicas = room - 1;
        status.creating_pods.insert(key.to_owned(), Time(truncate(now)));
        return Ok(entry(list, subset, uid));
    }
    Ok(Answer::NoRoom)
}

/// A Pod that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Its name.
    pub pod: String,
    /// The id that it carries; empty when it has none.
    pub uid: String,
    /// Its subset.
    pub subset: String,
    /// Its version.
    pub version: String,
    /// When it was made.
    pub made: Option<Timestamp>,
}

/// Whether Pods of a subset are written down at all.
pub fn is_counted(spread: &WorkloadSpread, subset: &str) -> bool {
    let named = spread.spec.subsets.iter().find(|known| known.name == subset);
    !super::related::has_ordinals(spread) && named.is_some_and(|named| named.max_replicas.is_some())
}

/// Returns what is to be written down of a Pod that goes; nothing when there is nothing to count.
pub fn leave(spread: &WorkloadSpread, leave: &Leave, now: Timestamp) -> Option<Entry> {
    if !is_counted(spread, &leave.subset) {
        return None;
    }
    let stored = spread.status.as_ref()?.versioned_subset_statuses.get(&leave.version)?;
    let subset = spread.spec.subsets.iter().find(|subset| subset.name == leave.subset)?;
    let mut list = stored.clone();
    let is_recorded = list.iter().any(|status| {
        let noted = status.deleting_pods.get(&leave.pod);
        noted.is_some_and(|noted| relation(noted, leave.made, !leave.uid.is_empty()) == Relation::Same)
    });
    let status = list.iter_mut().find(|status| status.name == leave.subset)?;
    if is_recorded || status.missing_replicas == NO_LIMIT {
        return None;
    }
    // It need not have been seen yet.
    let id = if leave.uid.is_empty() { &leave.pod } else { &leave.uid };
    status.creating_pods.remove(id);
    status.deleting_pods.insert(leave.pod.clone(), Time(truncate(now)));
    status.missing_replicas = status.missing_replicas.saturating_add(1);
    status.missing_replicas = room(subset, status).unwrap_or_default().max(0);
    Some(Entry {
        version: leave.version.clone(),
        list,
        subset: leave.subset.clone(),
        uid: String::new(),
    })
}

/// A Pod, and the one of its name whose deletion was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// They are the same.
    Same,
    /// Times are in whole seconds: it may be the same, or the one after.
    Unclear,
    /// It was made later, under the same name.
    Later,
}

/// Returns whether a deletion that was noted is that of a Pod which was made then. A Pod with an id of its own has a name that no other gets.
pub fn relation(noted: &Time, made: Option<Timestamp>, has_id: bool) -> Relation {
    match made {
        Some(made) if made > noted.0 && !has_id => Relation::Later,
        Some(made) if made == noted.0 && !has_id => Relation::Unclear,
        _ => Relation::Same,
    }
}

/// Returns the ledger of a version, in the order of the spec: the stored one, with what the spec has in addition. Nothing when the replicas have to be known.
fn ledger(spread: &WorkloadSpread, version: &str, replicas: Option<i32>) -> Result<Option<Vec<SubsetStatus>>, String> {
    let status = spread.status.as_ref();
    let stored = status.and_then(|status| status.versioned_subset_statuses.get(version));
    let all = status
        .map(|status| status.subset_statuses.as_slice())
        .unwrap_or_default();
    let mut list = Vec::with_capacity(spread.spec.subsets.len());
    for subset in &spread.spec.subsets {
        let known = stored.and_then(|stored| stored.iter().find(|status| status.name == subset.name));
        let has_limit = subset.max_replicas.is_some();
        if let Some(known) = known.filter(|known| known.missing_replicas != NO_LIMIT || !has_limit) {
            list.push(known.clone());
            continue;
        }
        if replicas.is_none() && subsets::is_share(subset) {
            return Ok(None);
        }
        // One that had no limit and has one now keeps its Pods. For a new version of the Pods holds what is known of the subset.
        let of_all = all.iter().find(|status| status.name == subset.name);
        let mut status = known.cloned().unwrap_or_else(|| SubsetStatus {
            name: subset.name.clone(),
            conditions: of_all.map(|status| status.conditions.clone()).unwrap_or_default(),
            ..SubsetStatus::default()
        });
        let most = subsets::limit(subset, replicas.unwrap_or_default())?;
        status.missing_replicas = most.map_or(NO_LIMIT, |most| most.saturating_sub(taken(&status)).max(0));
        list.push(status);
    }
    Ok(Some(list))
}

/// How many more Pods fit. A number in the spec holds as it is now, whatever was written down when it was another one.
fn room(subset: &WorkloadSpreadSubset, status: &SubsetStatus) -> Result<i32, String> {
    if subsets::is_share(subset) {
        return Ok(status.missing_replicas);
    }
    let most = subsets::limit(subset, 0)?.unwrap_or(i32::MAX);
    Ok(status.missing_replicas.min(most.saturating_sub(taken(status))))
}

/// Places that are taken: by Pods that are there and by those that were let in, but not by those that go.
fn taken(status: &SubsetStatus) -> i32 {
    let count = |pods: &BTreeMap<String, Time>| i32::try_from(pods.len()).unwrap_or(i32::MAX);
    let coming = status.replicas.saturating_add(count(&status.creating_pods));
    coming.saturating_sub(count(&status.deleting_pods))
}
