//! How the containers of a job are in each of its Pods.
//!
//! | in a Pod | it counts as |
//! |---|---|
//! | a container ended with an error, or could not be run | failed |
//! | all containers ended well | succeeded |
//! | a container runs | running |
//! | a container waits | waiting |
//! | nothing is told of them yet | nothing |
//!
//! A Pod is *busy* when its containers run or are about to. Kubelets tell by a reason of its own when one cannot start: such a Pod waits, and is not busy.

use kruise_api::pod::Pod;
use kruise_api::pod::status::ContainerState;

use super::Observed;
use super::inject::Containers;
use super::select::Chosen;
use crate::plan::PodNames;

/// The chosen Pods of a job, counted.
#[derive(Debug, Default)]
pub(super) struct Counts<'a> {
    pub(super) matched: i32,
    pub(super) running: i32,
    pub(super) succeeded: i32,
    pub(super) waiting: i32,
    pub(super) failed: PodNames,
    /// Pods that count against `parallelism`.
    pub(super) busy: i32,
    /// Pods without the containers, in their order.
    pub(super) candidates: Vec<&'a Pod>,
    /// Pods whose containers cannot start, and why.
    pub(super) stuck: Vec<(&'a str, &'a Pod)>,
    /// Pods that are left out.
    pub(super) left_out: PodNames,
}

impl<'a> Counts<'a> {
    pub(super) fn of(observed: &'a Observed, containers: &Containers) -> Self {
        let chosen = Chosen::of(observed, containers);
        let mut counts = Self {
            matched: i32::try_from(chosen.pods.len()).unwrap_or(i32::MAX),
            left_out: chosen.left_out,
            ..Self::default()
        };
        for pod in chosen.pods {
            counts.add(pod, containers);
        }
        counts
    }

    fn add(&mut self, pod: &'a Pod, containers: &Containers) {
        let own = pod.spec.ephemeral_containers.0.iter();
        let own = own.filter(|container| *container.job == *containers.job && containers.has(&container.name));
        let states: Vec<State<'_>> = own.map(|container| state(pod, &container.name)).collect();
        let any = |wanted: fn(&State<'_>) -> bool| states.iter().any(wanted);
        if states.is_empty() {
            self.candidates.push(pod);
        } else if any(|state| *state == State::Failed) {
            self.failed.push(&pod.metadata.name);
        } else if states.iter().all(|state| *state == State::Succeeded) {
            self.succeeded += 1;
        } else if any(|state| *state == State::Running) {
            self.running += 1;
            self.busy += 1;
        } else {
            self.waiting += i32::from(any(|state| matches!(state, State::Waiting(_))));
            let reason = states.iter().find_map(|state| match state {
                State::Waiting(reason) => Some(*reason).filter(|reason| !is_about_to_start(reason)),
                _ => None,
            });
            match reason {
                Some(reason) => self.stuck.push((reason, pod)),
                None => self.busy += 1,
            }
        }
    }

    pub(super) fn failed(&self) -> i32 {
        i32::try_from(self.failed.count()).unwrap_or(i32::MAX)
    }
}

/// How one container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State<'a> {
    Unknown,
    /// For this reason.
    Waiting(&'a str),
    Running,
    Succeeded,
    Failed,
}

fn state<'a>(pod: &'a Pod, name: &str) -> State<'a> {
    let statuses = &pod.status.ephemeral_container_statuses;
    let Some(status) = statuses.iter().find(|status| status.name == name) else {
        return State::Unknown;
    };
    match &status.state {
        ContainerState::Running { .. } => State::Running,
        ContainerState::Terminated {
            exit_code: 0,
            finished_at,
            ..
        } if finished_at.is_none() => State::Unknown,
        ContainerState::Terminated { exit_code: 0, .. } => State::Succeeded,
        ContainerState::Terminated { .. } => State::Failed,
        ContainerState::Waiting { reason } if reason == "RunContainerError" => State::Failed,
        ContainerState::Waiting { reason } => State::Waiting(reason),
        ContainerState::Unknown => State::Unknown,
    }
}

/// What kubelets say of a container that nothing keeps from starting.
fn is_about_to_start(reason: &str) -> bool {
    matches!(reason, "" | "ContainerCreating" | "PodInitializing")
}
