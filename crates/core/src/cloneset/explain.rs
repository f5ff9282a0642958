//! Why not more is done now, as far as no other part of the planner has said it already.

use super::counts::is_on_delete;
use super::snapshot::Snapshot;
use crate::plan::{Phase, Plan, PodNames, Why};

/// Adds what failed last, what the partition keeps, and Pods that are simply not available yet.
pub(super) fn explain(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let last = &snapshot.observed.last;
    for phase in [Phase::Claims, Phase::Revisions, Phase::Scale, Phase::Update] {
        plan.why.extend(last.first(phase).map(|failure| Why::Failed {
            phase,
            object: failure.object.to_string(),
            message: failure.message.clone(),
        }));
    }
    if !last.refused.is_empty() {
        let pods = last.refused.iter().map(String::as_str).collect();
        plan.why.push(Why::BudgetRefused { pods });
    }
    let old = snapshot.members.iter().filter(|member| !member.is_updated).count() as i64;
    if snapshot.desired.partition > 0 && old > 0 && !is_on_delete(&snapshot.set.spec) {
        plan.why.push(Why::Partition {
            keeps: snapshot.desired.partition.min(old) as i32,
        });
    }
    let unavailable = snapshot.members.iter().filter(|member| !member.is_available());
    let pods: PodNames = unavailable.map(super::member::Member::name).collect();
    if !pods.is_empty() {
        plan.why.push(Why::NotAvailable { pods });
    }
}
