//! Which jobs that have ended are kept: the latest, by when they began; those that never did go first.

use kruise_api::advancedcronjob::v1beta1::AdvancedCronJob;

use super::child::{Child, End};
use crate::plan::{OnFailure, Pace, Phase, Step};

/// Deletes jobs that are too many.
pub(super) fn step(cron: &AdvancedCronJob, children: &[Child]) -> Step {
    let mut step = Step::new(Phase::Housekeeping, Pace::Bounded, OnFailure::GoOn);
    for (end, limit) in [
        (End::Failed, cron.spec.failed_jobs_history_limit),
        (End::Complete, cron.spec.successful_jobs_history_limit),
    ] {
        let Some(limit) = limit else { continue };
        let mut ended: Vec<&Child> = children.iter().filter(|child| child.end == Some(end)).collect();
        ended.sort_by_key(|child| (child.started_at, &*child.object.name));
        let surplus = ended.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        for child in ended.into_iter().take(surplus) {
            step.push(child.deletion());
        }
    }
    step
}
