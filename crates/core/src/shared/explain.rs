//! Why a workload does not do more now, as far as it follows from its Pods and from what came of the last plan.

use super::membership::Member;
use crate::plan::why;
use crate::plan::{Outcome, Phase, Plan, PodNames, Why};

/// Adds what failed last, and Pods whose budget refused an update.
pub fn explain_last(last: &Outcome, plan: &mut Plan) {
    for phase in [Phase::Claims, Phase::Revisions, Phase::Scale, Phase::Update] {
        plan.why.extend(last.first(phase).map(|failure| {
            Why::General(why::General::Failed {
                phase,
                object: failure.object.to_string(),
                message: failure.message.clone(),
            })
        }));
    }
    if !last.refused.is_empty() {
        let pods = last.refused.iter().map(String::as_str).collect();
        plan.because(why::Rollout::BudgetRefused { pods });
    }
}

/// Adds Pods that are not available.
pub fn explain_unavailable(members: &[Member<'_>], plan: &mut Plan) {
    let unavailable = members.iter().filter(|member| !member.is_available());
    let pods: PodNames = unavailable.map(Member::name).collect();
    if !pods.is_empty() {
        plan.because(why::Pods::NotAvailable { pods });
    }
}
