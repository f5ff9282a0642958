//! Why not more is done now, as far as no other part of the planner has said it already.

use super::counts::is_on_delete;
use super::snapshot::Snapshot;
use crate::plan::Plan;
use crate::plan::why;
use crate::shared::explain::{explain_last, explain_unavailable};

/// Adds what failed last, what the partition keeps, and Pods that are simply not available yet.
pub(super) fn explain(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    explain_last(&snapshot.observed.last, plan);
    let old = snapshot.members.iter().filter(|member| !member.is_updated).count() as i64;
    if snapshot.desired.partition > 0 && old > 0 && !is_on_delete(&snapshot.set.spec) {
        plan.because(why::Rollout::Partition {
            keeps: snapshot.desired.partition.min(old) as i32,
        });
    }
    explain_unavailable(&snapshot.members, plan);
}
