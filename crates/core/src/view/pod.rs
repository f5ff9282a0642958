//! Pods as cells of a grid: where, at which revision, in which state, and which hook holds them.

use super::Tone;
use crate::{
    shared::{
        availability::is_ready,
        lifecycle::{self, State},
    },
    sidecarset::records,
};
use kruise_api::{
    names::{annotation, condition, label},
    pod::{
        Pod,
        status::{ContainerState, Holds, PodPhase},
    },
};
use serde::Serialize;

/// What containers wait for as long as all goes well.
const STARTING: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// A Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its node; empty until there is one.
    pub node: String,
    /// When it was made, in seconds since 1970.
    pub created: Option<i64>,
    /// Its revision, as its label says.
    pub revision: String,
    /// Whether that is the revision that the workload asks for.
    pub updated: bool,
    /// How it is, in a word or two.
    pub state: String,
    /// Colour and shape of that.
    pub tone: Tone,
    /// What holds it between its hooks, in words; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hook: String,
    /// Restarts of all its containers.
    pub restarts: i32,
    /// Its containers.
    pub containers: Vec<ContainerView>,
}

/// A container of a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContainerView {
    /// Its name.
    pub name: String,
    /// The image it is to run.
    pub image: String,
    /// Whether it is ready.
    pub ready: bool,
}

impl PodView {
    /// The view of a Pod whose workload asks for a revision.
    pub fn new(pod: &Pod, update_revision: &str) -> Self {
        let revision = pod.metadata.label(label::REVISION).unwrap_or_default();
        // Some workloads give their Pods only the hash at the end of the revision's name.
        let rest = update_revision.strip_suffix(revision);
        let updated = !revision.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('-'));
        Self::at(pod, revision, updated)
    }

    fn at(pod: &Pod, revision: &str, updated: bool) -> Self {
        let (state, tone) = state(pod);
        let containers = pod.spec.template.containers.iter().map(|container| ContainerView {
            name: container.name.to_string(),
            image: container.image.to_string(),
            ready: pod.status.container(&container.name).is_some_and(|status| status.ready),
        });
        Self {
            namespace: pod.metadata.namespace.to_string(),
            name: pod.metadata.name.to_string(),
            node: pod.spec.node_name.to_string(),
            created: pod.metadata.creation_timestamp.map(|time| time.timestamp().as_second()),
            revision: revision.to_owned(),
            updated,
            state,
            tone,
            hook: hook(pod).to_owned(),
            restarts: pod
                .status
                .container_statuses
                .iter()
                .fold(0, |sum, status| sum.saturating_add(status.restart_count)),
            containers: containers.collect(),
        }
    }
}

/// The view of a Pod with the sidecars of a set that is at this hash.
pub fn sidecar_pod(pod: &Pod, set: &str, hash: &str) -> PodView {
    let record = records::record(pod, annotation::SIDECAR_SET_HASH, set)
        .ok()
        .flatten()
        .unwrap_or_default();
    let at = &*record.hash;
    let revision = match &*record.controller_revision {
        "" => at,
        revision => revision,
    };
    PodView::at(pod, revision, !at.is_empty() && at == hash)
}

fn state(pod: &Pod) -> (String, Tone) {
    let say = |text: &str, tone| (text.to_owned(), tone);
    if pod.metadata.is_deleting() {
        return say("Terminating", Tone::Quiet);
    }
    let reason = &*pod.status.reason;
    match pod.status.phase {
        PodPhase::Failed if reason.is_empty() => return say("Failed", Tone::Bad),
        PodPhase::Failed => return say(reason, Tone::Bad),
        PodPhase::Succeeded => return say("Completed", Tone::Good),
        _ => {}
    }
    let statuses = pod.status.init_container_statuses.iter();
    let waiting = statuses
        .chain(&pod.status.container_statuses)
        .find_map(|status| match &status.state {
            ContainerState::Waiting { reason } if !STARTING.contains(&&**reason) => Some(reason),
            _ => None,
        });
    if let Some(reason) = waiting {
        return say(reason, Tone::Bad);
    }
    let updating = pod.status.condition(condition::pod::IN_PLACE_UPDATE_READY);
    if updating.is_some_and(|updating| updating.status == Holds::False) {
        return say("Updating in place", Tone::Busy);
    }
    match pod.status.phase {
        _ if is_ready(pod) => say("Ready", Tone::Good),
        PodPhase::Running => say("Not ready", Tone::Bad),
        _ if pod.spec.node_name.is_empty() => say("Waits for a node", Tone::Busy),
        _ => say("Starting", Tone::Busy),
    }
}

fn hook(pod: &Pod) -> &'static str {
    match lifecycle::state(pod) {
        State::PreparingNormal => "waits for its hook before it counts as available",
        State::PreparingUpdate => "waits for its hook before the update",
        State::Updating => "is being updated",
        State::Updated => "waits for its hook after the update",
        State::PreparingDelete => "waits for its hook before it is deleted",
        State::Other(_) => "is in a state that this release does not know",
        State::None | State::Normal if lifecycle::is_specified_delete(pod) => "is chosen to be deleted",
        State::None | State::Normal => "",
    }
}
