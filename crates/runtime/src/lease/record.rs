//! What stands in the Lease, and what follows from it. No network and no clock inside.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::writer::Written;

/// The parts of a Lease that matter here.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    pub(super) metadata: Written,
    pub(super) spec: Spec,
}

/// As client-go reads and writes it. Times are text: they are compared, never calculated with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<i64>,
}

/// The Lease as we know it.
#[derive(Debug)]
pub(super) struct Observed {
    identity: String,
    lease_duration: Duration,
    record: Option<Record>,
    /// When we saw the last change, by our own clock.
    changed: Option<Instant>,
}

impl Observed {
    pub(super) fn new(identity: &str, lease_duration: Duration) -> Self {
        Self {
            identity: identity.to_owned(),
            lease_duration,
            record: None,
            changed: None,
        }
    }

    /// Takes in what the server says.
    pub(super) fn see(&mut self, record: Option<Record>, now: Instant) {
        let spec = |record: &Option<Record>| record.as_ref().map(|record| record.spec.clone());
        if self.changed.is_none() || spec(&self.record) != spec(&record) {
            self.changed = Some(now);
        }
        self.record = record;
    }

    /// Takes in what we have written.
    pub(super) fn wrote(&mut self, mut record: Record, written: Written, now: Instant) {
        record.metadata = written;
        self.record = Some(record);
        self.changed = Some(now);
    }

    pub(super) fn holder(&self) -> &str {
        let holder = self
            .record
            .as_ref()
            .and_then(|record| record.spec.holder_identity.as_deref());
        holder.unwrap_or_default()
    }

    pub(super) fn is_ours(&self) -> bool {
        self.holder() == self.identity
    }

    /// Until when somebody else holds the lease, as far as we can know; `None` when it may be taken.
    pub(super) fn held_by_other_until(&self, now: Instant) -> Option<Instant> {
        let holder = self.holder();
        if holder.is_empty() || holder == self.identity {
            return None;
        }
        // The holder said for how long it wants to be waited for.
        let seconds = self
            .record
            .as_ref()
            .and_then(|record| record.spec.lease_duration_seconds);
        let duration = seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(self.lease_duration, Duration::from_secs);
        self.changed
            .map(|changed| changed + duration)
            .filter(|until| *until > now)
    }

    /// The version on which our next write is based; `None` when there is no Lease.
    pub(super) fn version(&self) -> Option<&str> {
        self.record
            .as_ref()
            .map(|record| record.metadata.resource_version.as_str())
    }

    pub(super) fn written(&self) -> Written {
        self.record
            .as_ref()
            .map(|record| record.metadata.clone())
            .unwrap_or_default()
    }

    /// What we write to take or renew the lease.
    pub(super) fn renewal(&self, now: Timestamp) -> Record {
        let old = self.record.as_ref().map(|record| record.spec.clone());
        let now = micro_time(now);
        let (acquire_time, transitions) = match old {
            Some(old) if self.is_ours() => (old.acquire_time.or(Some(now.clone())), old.lease_transitions),
            Some(old) => (
                Some(now.clone()),
                Some(old.lease_transitions.unwrap_or(0).saturating_add(1)),
            ),
            None => (Some(now.clone()), Some(0)),
        };
        Record {
            metadata: Written::default(),
            spec: Spec {
                holder_identity: Some(self.identity.clone()),
                // client-go counts in whole seconds; a lease shorter than the holder thinks would be taken too early.
                lease_duration_seconds: Some(self.lease_duration.as_millis().div_ceil(1000) as i64),
                acquire_time,
                renew_time: Some(now),
                lease_transitions: transitions,
            },
        }
    }
}

/// What is written to give the lease back, as client-go does.
pub(super) fn release(now: Timestamp) -> Value {
    let now = micro_time(now);
    json!({ "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now })
}

/// `2024-05-06T07:08:09.123456Z`.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn record(holder: &str, renewed: &str, transitions: i64) -> Record {
        let lease = json!({
            "metadata": { "name": "kruise-manager", "uid": "u", "resourceVersion": "7" },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": "2024-05-06T07:00:00.000000Z",
                      "renewTime": renewed, "leaseTransitions": transitions },
        });
        serde_json::from_value(lease).expect("a lease")
    }

    fn observed() -> (Observed, Instant) {
        (Observed::new("me", DURATION), Instant::now())
    }

    #[test]
    fn given_another_holder_then_its_lease_counts_from_the_last_change_that_we_saw() {
        let (mut observed, now) = observed();
        let after = |seconds| now + Duration::from_secs(seconds);
        // The holder's clock is years off; that does not matter.
        observed.see(Some(record("other", "1999-01-01T00:00:00.000000Z", 3)), now);
        assert_eq!(observed.held_by_other_until(now), Some(after(15)));
        observed.see(Some(record("other", "1999-01-01T00:00:00.000000Z", 3)), after(10));
        assert_eq!(
            observed.held_by_other_until(after(10)),
            Some(after(15)),
            "seen again is not renewed"
        );
        observed.see(Some(record("other", "1999-01-01T00:00:02.000000Z", 3)), after(12));
        assert_eq!(observed.held_by_other_until(after(12)), Some(after(27)));
        assert_eq!(observed.held_by_other_until(after(27)), None);
    }

    #[test]
    fn given_no_lease_or_a_released_one_then_it_may_be_taken_at_once() {
        let (mut observed, now) = observed();
        observed.see(None, now);
        assert_eq!(observed.held_by_other_until(now), None);
        assert_eq!(observed.version(), None);
        observed.see(Some(record("", "1999-01-01T00:00:00.000000Z", 3)), now);
        assert_eq!(observed.held_by_other_until(now), None);
        assert_eq!(observed.version(), Some("7"));
    }

    #[test]
    fn given_a_take_over_then_transitions_go_up_and_given_a_renewal_then_they_stay() {
        let (mut observed, now) = observed();
        let time: Timestamp = "2024-05-06T07:08:09.1234567Z".parse().expect("a time");
        assert_eq!(observed.renewal(time).spec.lease_transitions, Some(0), "the first ever");
        observed.see(Some(record("other", "x", 3)), now);
        let taken = observed.renewal(time);
        assert_eq!(
            serde_json::to_value(&taken.spec).expect("JSON"),
            json!({ "holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2024-05-06T07:08:09.123456Z",
                    "renewTime": "2024-05-06T07:08:09.123456Z", "leaseTransitions": 4 })
        );
        observed.wrote(taken, Written::default(), now);
        assert!(observed.is_ours());
        let later: Timestamp = "2024-05-06T07:08:11Z".parse().expect("a time");
        let renewed = observed.renewal(later).spec;
        assert_eq!(renewed.acquire_time.as_deref(), Some("2024-05-06T07:08:09.123456Z"));
        assert_eq!(renewed.renew_time.as_deref(), Some("2024-05-06T07:08:11.000000Z"));
        assert_eq!(renewed.lease_transitions, Some(4));
    }

    #[test]
    fn given_a_lease_with_nonsense_in_it_then_our_own_duration_counts() {
        let (mut observed, now) = observed();
        let mut odd = record("other", "x", 0);
        odd.spec.lease_duration_seconds = Some(-5);
        observed.see(Some(odd), now);
        assert_eq!(observed.held_by_other_until(now), Some(now + DURATION));
    }
}
