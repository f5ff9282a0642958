//! Why a job is not further.

use super::Observed;
use super::counts::Counts;
use super::inject::Containers;
use crate::plan::why;
use crate::plan::{Plan, PodNames};
use crate::shared::explain::explain_last;

/// Adds what failed last.
pub(super) fn last(observed: &Observed, plan: &mut Plan) {
    explain_last(&observed.last, plan);
}

/// Adds what a job waits for.
pub(super) fn running(observed: &Observed, containers: &Containers, counts: &Counts<'_>, plan: &mut Plan) {
    if counts.matched == 0 {
        plan.because(why::Jobs::NoPodChosen);
    }
    if let Some(replicas) = observed.job.spec.replicas.filter(|replicas| *replicas > counts.matched) {
        plan.because(why::Jobs::TooFewPods {
            matched: counts.matched,
            replicas,
        });
    }
    if !counts.left_out.is_empty() {
        plan.because(why::Jobs::NameTaken {
            containers: containers.names().map(str::to_owned).collect(),
            pods: counts.left_out.clone(),
        });
    }
    let mut stuck: Vec<(&str, PodNames)> = Vec::new();
    for (reason, pod) in &counts.stuck {
        match stuck.iter_mut().find(|(known, _)| known == reason) {
            Some((_, pods)) => pods.push(&pod.metadata.name),
            None => stuck.push((reason, PodNames::from_iter([&*pod.metadata.name]))),
        }
    }
    for (cause, pods) in stuck {
        let cause = cause.to_owned();
        plan.because(why::Jobs::CannotStart { cause, pods });
    }
    if !counts.failed.is_empty() {
        let pods = counts.failed.clone();
        plan.because(why::Jobs::ContainersFailed { pods });
    }
    if !observed.unreadable.is_empty() {
        let pods = observed.unreadable.iter().map(|head| &*head.metadata.name).collect();
        plan.because(why::Pods::PodsUnreadable { pods });
    }
}
