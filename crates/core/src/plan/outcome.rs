//! What came of a plan. The next round's planner reads it: a refusal is a fact about the cluster like any other.
//!
//! An object whose write failed is left alone for a while by whoever asks ([`Outcome::backs_off`]): a second after the first failure, twice as long after
//! each further one, a minute at most. That is for writes that do harm when they are begun and not finished, like taking a Pod out of service for an update
//! that is then refused. What another look at the cluster mends is no such failure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kruise_api::kind::Kind;
use kruise_api::meta::Object;
use serde::{Serialize, Serializer};

use super::{Phase, Target};
use crate::shared::seconds::whole_seconds;

/// What came of the last plan; empty when all went well, or when there was none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// What failed, in the order of the plan.
    pub failures: Vec<Failure>,
    /// Pods whose PodUnavailableBudget refused an update or a deletion.
    pub refused: Vec<String>,
    /// Objects that are left alone for a while.
    #[serde(serialize_with = "listed")]
    pub back_offs: BTreeMap<Target, BackOff>,
}

/// In JSON a key is a text, and an object is more.
fn listed<S: Serializer>(back_offs: &BTreeMap<Target, BackOff>, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Listed<'a> {
        object: &'a Target,
        #[serde(flatten)]
        back_off: &'a BackOff,
    }
    to.collect_seq(back_offs.iter().map(|(object, back_off)| Listed { object, back_off }))
}

/// How long an object is left alone whose write failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackOff {
    /// Failures in a row.
    pub failures: u32,
    /// When it may be tried again.
    pub until: Timestamp,
}

impl BackOff {
    const FIRST: SignedDuration = SignedDuration::from_secs(1);
    const LONGEST: SignedDuration = SignedDuration::from_mins(1);

    fn pause(failures: u32) -> SignedDuration {
        let doublings = failures.saturating_sub(1).min(10);
        (Self::FIRST * (1 << doublings)).min(Self::LONGEST)
    }

    fn after(failures: u32, now: Timestamp) -> Self {
        let until = now.checked_add(Self::pause(failures)).unwrap_or(Timestamp::MAX);
        Self { failures, until }
    }

    /// Nothing is remembered of an object that could have been tried for as long as it was left alone.
    fn is_over(&self, now: Timestamp) -> bool {
        now.duration_since(self.until) > Self::pause(self.failures)
    }
}

impl Outcome {
    /// What the next round has to know: this outcome, and the objects that are left alone since earlier rounds.
    #[must_use]
    pub fn after(mut self, before: &Self, now: Timestamp) -> Self {
        for failure in self.failures.iter().filter(|failure| !failure.class.is_passing()) {
            let failures = before.back_offs.get(&failure.object).map_or(0, |known| known.failures);
            let back_off = BackOff::after(failures.saturating_add(1), now);
            self.back_offs.insert(failure.object.clone(), back_off);
        }
        for (object, known) in before.back_offs.iter().filter(|(_, known)| !known.is_over(now)) {
            self.back_offs.entry(object.clone()).or_insert_with(|| known.clone());
        }
        self
    }

    /// Something failed in this phase, whatever it was.
    pub fn has_failed(&self, phase: Phase) -> bool {
        self.failures.iter().any(|failure| failure.phase == phase)
    }

    /// Returns how much longer an object is left alone.
    pub fn backs_off<K: Kind + Object>(&self, object: &K, now: Timestamp) -> Option<Duration> {
        if self.back_offs.is_empty() {
            return None;
        }
        let rest = self.back_offs.get(&Target::of(object))?.until.duration_since(now);
        rest.is_positive().then(|| whole_seconds(rest))
    }

    /// The first failure in this phase that is worth a word.
    pub fn first(&self, phase: Phase) -> Option<&Failure> {
        self.failures
            .iter()
            .find(|failure| failure.phase == phase && !failure.class.is_silent())
    }
}

/// A write that did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// What the write was for.
    pub phase: Phase,
    /// The object.
    pub object: Target,
    /// What kind of failure.
    pub class: FailureClass,
    /// The server's message.
    pub message: String,
}

/// Kinds of failures, as the writer tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureClass {
    /// No answer, or the server is busy.
    Transient,
    /// The object changed meanwhile.
    Conflict,
    /// There is an object of that name already.
    Exists,
    /// No right, quota, or an admission webhook said no.
    Denied,
    /// The write itself is wrong.
    Permanent,
    /// The object is no more.
    Gone,
}

impl FailureClass {
    /// True when the picture of the cluster was old: the next one gives another plan, and other objects are not concerned.
    pub fn is_passing(self) -> bool {
        matches!(self, Self::Conflict | Self::Exists | Self::Gone)
    }

    /// True when nobody has to be told. A name that is taken need not be free the next time, so that is told.
    pub fn is_silent(self) -> bool {
        matches!(self, Self::Conflict | Self::Gone)
    }
}
