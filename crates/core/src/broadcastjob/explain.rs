//! Why a job is not further.

use super::Observed;
use super::counts::{Counts, has_ended};
use crate::plan::why;
use crate::plan::{Plan, PodNames};
use crate::shared::explain::explain_last;

/// Adds what failed last.
pub(super) fn last(observed: &Observed, plan: &mut Plan) {
    explain_last(&observed.last, plan);
}

/// Adds what a job that goes on waits for, and where it does not run.
pub(super) fn running(counts: &Counts<'_>, plan: &mut Plan) {
    if counts.desired == 0 {
        plan.because(why::Jobs::NoNodeFits);
    }
    let counted = counts.failed.iter().filter(|pod| !has_ended(pod));
    let pods: PodNames = counted.map(|pod| &*pod.metadata.name).collect();
    if !pods.is_empty() {
        plan.because(why::Jobs::FailedNotEnded { pods });
    }
    for (cause, nodes) in &counts.unfit {
        plan.because(why::Jobs::NodesUnfit {
            cause: cause.text(),
            nodes: nodes.clone(),
        });
    }
}

/// Adds the Pods because of which the job pauses.
pub(super) fn paused_by_failure(counts: &Counts<'_>, plan: &mut Plan) {
    let pods = counts.failed.iter().map(|pod| &*pod.metadata.name).collect();
    plan.because(why::Jobs::PausedByFailure { pods });
}
