//! Which Pods a job is for.
//!
//! | a Pod that the selector matches and that | is |
//! |---|---|
//! | has ended or is on its way out | nothing to the job |
//! | has a container of one of the job's names that the job did not put there, of whatever sort | left out |
//! | is anything else | *eligible* |
//!
//! Of the eligible Pods the oldest are chosen, as many as `replicas` says. A job without a selector is for no Pod, one with an empty selector for all of its namespace.

use kruise_api::ephemeraljob::v1alpha1::EphemeralJob;
use kruise_api::pod::Pod;

use super::Observed;
use super::inject::Containers;
use crate::plan::PodNames;
use crate::shared::availability::is_active;
use crate::shared::selector;
use crate::shared::validate::selector as well_formed;

/// Whether the selector of a job matches a Pod with these labels; `label` looks one up.
pub fn matches<'a>(job: &EphemeralJob, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let given = job.spec.selector.as_ref();
    given.is_some_and(|given| selector::matches(given, label))
}

/// Whether the selector can be used.
pub(super) fn check(job: &EphemeralJob) -> Result<(), String> {
    let fault = job.spec.selector.as_ref().and_then(well_formed::fault);
    fault.map_or(Ok(()), |fault| Err(format!("spec.selector: {fault}")))
}

/// The Pods that a job is for.
#[derive(Debug, Default)]
pub(super) struct Chosen<'a> {
    /// In the order in which they get their turn.
    pub(super) pods: Vec<&'a Pod>,
    /// Pods that are left out.
    pub(super) left_out: PodNames,
}

impl<'a> Chosen<'a> {
    pub(super) fn of(observed: &'a Observed, containers: &Containers) -> Self {
        let mut pods: Vec<&Pod> = observed
            .pods
            .iter()
            .map(|pod| &**pod)
            .filter(|pod| is_active(pod))
            .collect();
        pods.sort_by_key(|pod| (pod.metadata.creation_timestamp, &*pod.metadata.name));
        let (taken, mut pods): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| is_taken(pod, containers));
        if let Some(replicas) = observed.job.spec.replicas {
            pods.truncate(usize::try_from(replicas).unwrap_or_default());
        }
        Self {
            pods,
            left_out: taken.into_iter().map(|pod| &*pod.metadata.name).collect(),
        }
    }
}

/// Whether a Pod has a container of one of these names from elsewhere.
fn is_taken(pod: &Pod, containers: &Containers) -> bool {
    let others = pod.spec.ephemeral_containers.0.iter();
    let others = others.filter(|container| *container.job != *containers.job);
    let own = containers
        .names()
        .any(|name| pod.spec.template.container(name).is_some());
    own || others.into_iter().any(|container| containers.has(&container.name))
}
