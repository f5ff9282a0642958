//! How many Pods there may be: the arithmetic of scaling and updating.
//!
//! What the user wrote becomes absolute numbers first ([`Desired`]):
//!
//! | number | rule |
//! |---|---|
//! | partition | Pods that stay old. A percentage is rounded up, but anything below `100%` lets at least one Pod be updated; more than `100%` are all |
//! | surge | Pods above `replicas` during an update, rounded up; none while paused |
//! | unavailable | Pods that may be missing during an update, 20% when not given. Rounded up without surge, down with it, and down without any `rollingUpdate` |
//! | scale limit | Pods that may be unavailable while Pods are added; no limit when not given |
//!
//! Then Pods are counted ([`PodCounts`]) in two groups: *new* are at the update revision, *old* are all others. In each
//! group a Pod is *preparing delete* (waits for its `preDelete` hook), or else *active*; of the active ones some are *specified for deletion*, and of the rest some are *unavailable*.
//!
//! From both follow the [`Diff`]: how many Pods to create, delete and update now. In words:
//!
//! - Old Pods above the partition and new Pods below their number are exchanged for each other, never more than are on
//!   both sides.
//! - With surge, replacements come first: for Pods that are specified for deletion as far as too many would be unavailable
//!   without them, for Pods to be updated as many as the surge allows.
//! - A ready Pod is deleted only as long as enough others are available.
//! - The partition goes back up only with the gate `CloneSetPartitionRollback`.

use kruise_api::cloneset::v1beta1::{CloneSetSpec, RollingUpdate, UpdateStrategyType};
use kruise_api::shared::IntOrPercent;

use crate::shared::membership::Member;
use crate::shared::scaled_value::scaled_value;

/// What the user asked for, in numbers. `i64` so that no sum can overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    /// Pods that are wanted.
    pub(super) replicas: i64,
    /// Pods that stay at an old revision.
    pub(super) partition: i64,
    /// Pods above `replicas` during an update.
    pub(super) surge: i64,
    /// Pods that may be unavailable during an update.
    pub(super) unavailable: i64,
    /// Pods that may be unavailable while Pods are added.
    pub(super) scale_limit: Option<i64>,
}

const DEFAULT_UNAVAILABLE_PERCENT: i64 = 20;

impl Desired {
    /// The numbers of a spec.
    pub(super) fn of(spec: &CloneSetSpec) -> Self {
        let replicas = spec.replicas.unwrap_or(1).max(0);
        let scale_limit = spec.scale_strategy.max_unavailable.as_ref();
        let scale_limit = scale_limit.map(|limit| scaled_value(limit, replicas, IntOrPercent::ceil_of));
        let base = Self {
            replicas: replicas.into(),
            partition: 0,
            surge: 0,
            unavailable: i64::from(replicas) * DEFAULT_UNAVAILABLE_PERCENT / 100,
            scale_limit,
        };
        match &spec.update_strategy.rolling_update {
            Some(rolling) => base.with(rolling, replicas),
            None => base,
        }
    }

    fn with(self, rolling: &RollingUpdate, replicas: i32) -> Self {
        let surge = match &rolling.max_surge {
            Some(surge) if !rolling.paused => scaled_value(surge, replicas, IntOrPercent::ceil_of),
            _ => 0,
        };
        let rounding = if surge > 0 {
            IntOrPercent::floor_of
        } else {
            IntOrPercent::ceil_of
        };
        let default = IntOrPercent::from("20%");
        let unavailable = rolling.max_unavailable.as_ref().unwrap_or(&default);
        Self {
            partition: partition(rolling.partition.as_ref(), replicas),
            surge,
            unavailable: scaled_value(unavailable, replicas, rounding),
            ..self
        }
    }
}

/// `maxUnavailable`, a percentage rounded down whatever the surge.
pub(super) fn unavailable_rounded_down(spec: &CloneSetSpec) -> i64 {
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let default = IntOrPercent::from("20%");
    let unavailable = rolling
        .and_then(|rolling| rolling.max_unavailable.as_ref())
        .unwrap_or(&default);
    scaled_value(unavailable, spec.replicas.unwrap_or(1).max(0), IntOrPercent::floor_of)
}

/// Pods that stay old: between none and all, and all only when the user says so.
pub(super) fn partition(partition: Option<&IntOrPercent>, replicas: i32) -> i64 {
    let Some(partition) = partition else { return 0 };
    let kept = partition.ceil_of(replicas).unwrap_or(0);
    let says_all = match partition {
        IntOrPercent::Int(_) => true,
        IntOrPercent::Text(text) => &**text == "100%",
    };
    let kept = if !says_all && replicas > 1 && kept == replicas {
        replicas - 1
    } else {
        kept
    };
    kept.clamp(0, replicas.max(0)).into()
}

/// Pods that should be at the update revision, as the status says it. Without rolling update that is all.
pub(super) fn expected_updated(spec: &CloneSetSpec) -> i64 {
    let replicas = spec.replicas.unwrap_or(1).max(0);
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let Some(given) = rolling.and_then(|rolling| rolling.partition.as_ref()) else {
        return replicas.into();
    };
    if given.ceil_of(replicas).is_err() {
        return 0;
    }
    i64::from(replicas) - partition(Some(given), replicas)
}

/// True when Pods are updated by the user, who deletes them.
pub(super) fn is_on_delete(spec: &CloneSetSpec) -> bool {
    spec.update_strategy.type_ == UpdateStrategyType::OnDelete
}

/// Pods of one group: new or old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RevisionCounts {
    /// Not preparing delete; those that are specified for deletion included.
    pub(super) active: i64,
    /// Active ones that are specified for deletion.
    pub(super) specified_delete: i64,
    /// Active ones that are neither specified for deletion nor available.
    pub(super) unavailable: i64,
    /// Waiting for their `preDelete` hook.
    pub(super) preparing_delete: i64,
}

impl RevisionCounts {
    fn count(&mut self, member: &Member<'_>) {
        if member.is_preparing_delete() {
            self.preparing_delete += 1;
            return;
        }
        self.active += 1;
        if member.is_specified_delete {
            self.specified_delete += 1;
        } else if !member.is_available() {
            self.unavailable += 1;
        }
    }
}

/// The Pods of a set, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCounts {
    /// At the update revision.
    pub(super) new: RevisionCounts,
    /// At any other.
    pub(super) old: RevisionCounts,
}

impl PodCounts {
    /// Counts Pods in two groups; `is_new` says which a Pod belongs to.
    pub(super) fn of(members: &[Member<'_>], is_new: impl Fn(&Member<'_>) -> bool) -> Self {
        let mut counts = Self::default();
        for member in members {
            let group = if is_new(member) {
                &mut counts.new
            } else {
                &mut counts.old
            };
            group.count(member);
        }
        counts
    }

    fn total(&self) -> i64 {
        self.new.active + self.new.preparing_delete + self.old.active + self.old.preparing_delete
    }

    fn specified_delete(&self) -> i64 {
        self.new.specified_delete + self.old.specified_delete
    }

    fn preparing_delete(&self) -> i64 {
        self.new.preparing_delete + self.old.preparing_delete
    }

    /// Pods that prepare their deletion are unavailable for certain; specified ones are counted when they go.
    fn unavailable(&self) -> i64 {
        self.preparing_delete() + self.new.unavailable + self.old.unavailable
    }
}

/// What else decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CountOptions {
    /// Pods may go back to the current revision: the gate is on, and the current revision is another than the update
    /// revision.
    pub(super) may_roll_back: bool,
    /// Pods that prepare their deletion do not count when scaling.
    pub(super) exclude_preparing_delete: bool,
}

/// How many Pods to create, delete and update now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Diff {
    /// Pods that are missing.
    pub(super) missing: i64,
    /// Of those, Pods that should be at the current revision.
    pub(super) missing_old: i64,
    /// Pods that may be created now.
    pub(super) create: i64,
    /// Pods that are too many.
    pub(super) surplus: i64,
    /// Of those, Pods that are not at the update revision.
    pub(super) surplus_old: i64,
    /// Ready Pods that may be deleted now.
    pub(super) delete_ready: i64,
    /// Pods to bring to the update revision; negative: to bring back to the current one.
    pub(super) update: i64,
    /// Pods that may be unavailable during the update.
    pub(super) update_unavailable: i64,
}

impl Diff {
    /// The numbers that follow from what is wanted and what is there.
    pub(super) fn of(desired: &Desired, counts: &PodCounts, options: CountOptions) -> Self {
        let revision_diff = RevisionDiff::of(desired, counts, options);
        let surge = Surge::of(desired, counts, &revision_diff);
        let excluded = |preparing_delete: i64| {
            if options.exclude_preparing_delete {
                preparing_delete
            } else {
                0
            }
        };
        let total = counts.total();
        let counted = total - excluded(counts.preparing_delete());
        let counted_old = counts.old.active + counts.old.preparing_delete - excluded(counts.old.preparing_delete);
        let wanted = desired.replicas + surge.all;
        let wanted_old = desired.partition + surge.old;

        let missing = (wanted - counted).max(0);
        let room = desired
            .scale_limit
            .map_or(i64::MAX, |limit| (limit - counts.unavailable()).max(0));
        let surplus = (counted - counts.specified_delete() - wanted).max(0);
        let above = total - desired.replicas;
        let delete_ready = if counts.specified_delete() > 0 || surplus > 0 {
            (desired.unavailable + above - counts.unavailable()).max(0)
        } else {
            0
        };
        let update = revision_diff.updates();
        Self {
            missing,
            missing_old: (wanted_old - counted_old).max(0),
            create: missing.min(room),
            surplus,
            surplus_old: (counted_old - counts.old.specified_delete - wanted_old).max(0),
            delete_ready,
            update,
            update_unavailable: if update == 0 { 0 } else { desired.unavailable + above },
        }
    }
}

/// How far both groups are from what they should be: positive is too many.
struct RevisionDiff {
    old: i64,
    new: i64,
}

impl RevisionDiff {
    fn of(desired: &Desired, counts: &PodCounts, options: CountOptions) -> Self {
        let old = counts.old.active - desired.partition;
        let new = counts.new.active - (desired.replicas - desired.partition);
        if options.may_roll_back {
            Self { old, new }
        } else {
            Self {
                old: old.max(0),
                new: new.min(0),
            }
        }
    }

    /// Pods to update: what is on both sides. When both groups are too small, or too large, that is for scaling to
    /// mend.
    fn updates(&self) -> i64 {
        if self.old.signum() * self.new.signum() >= 0 {
            0
        } else if self.old.abs() <= self.new.abs() {
            self.old
        } else {
            -self.new
        }
    }

    /// Pods of one group that stand in for the other, and how many of them are old ones.
    fn surge(&self) -> Surge {
        if self.old.signum() * self.new.signum() >= 0 {
            return Surge::default();
        }
        let (all, are_old) = if self.old.abs() <= self.new.abs() {
            (self.old.abs(), self.old < 0)
        } else {
            (self.new.abs(), self.new > 0)
        };
        Surge {
            all,
            old: if are_old { all } else { 0 },
        }
    }
}

/// Pods above `replicas`.
#[derive(Clone, Copy, Default)]
struct Surge {
    all: i64,
    old: i64,
}

impl Surge {
    fn of(desired: &Desired, counts: &PodCounts, revision_diff: &RevisionDiff) -> Self {
        if desired.surge <= 0 {
            return Self::default();
        }
        let for_specified_delete = Self::for_specified_delete(desired, counts);
        let for_update = revision_diff.surge();
        let picked = if for_specified_delete.all >= for_update.all {
            for_specified_delete
        } else {
            for_update
        };
        let all = picked.all.min(desired.surge);
        Self {
            all,
            old: picked.old.min(all),
        }
    }

    /// Stand-ins for Pods that are specified for deletion, as far as too many would be unavailable without them.
    fn for_specified_delete(desired: &Desired, counts: &PodCounts) -> Self {
        let specified_delete = counts.specified_delete();
        let all = (counts.unavailable() + specified_delete - desired.unavailable).clamp(0, specified_delete);
        Self {
            all,
            old: (all - counts.new.specified_delete).max(0),
        }
    }
}

#[cfg(test)]
mod tests;
