//! Which containers of a Pod are sidecars, and how each of them is ended.
//!
//! | variables | on a node | on a virtual node |
//! |---|---|---|
//! | `…_WHEN_JOB_EXIT: "true"` | stopped | cannot be ended |
//! | that, and `…_WITH_IMAGE` | stopped | gets the image |
//! | `…_WITH_IMAGE` alone | cannot be ended | gets the image |
//! | `…_WHEN_JOB_EXIT: "true"` and `…_IGNORE_EXIT_CODE: "true"` | stopped after the Pod has its final phase | gets the image, if it names one |
//!
//! Only values that are given as such count, `true` in any case of its letters.

use kruise_api::names::env;
use kruise_api::pod::status::ContainerState;
use kruise_api::pod::{Container, Pod};

/// The containers of a Pod, all of which have a status.
pub(super) struct Containers<'a> {
    mains: Vec<&'a Container>,
    /// Sidecars that have not ended.
    running: Vec<Sidecar<'a>>,
}

/// A sidecar and what it says about its end.
#[derive(Clone, Copy)]
pub(super) struct Sidecar<'a> {
    pub(super) container: &'a Container,
    /// Image that ends it; empty when it names none.
    pub(super) image: &'a str,
    stops: bool,
    ignores_exit_code: bool,
}

/// Sidecars that are ended in the same way.
pub(super) type Group<'a> = Vec<Sidecar<'a>>;

/// Sidecars that have not ended, by the way to end them.
#[derive(Default)]
pub(super) struct Groups<'a> {
    /// They get another image.
    pub(super) swap: Group<'a>,
    /// They are stopped.
    pub(super) stop: Group<'a>,
    /// They are stopped when the Pod has its final phase.
    pub(super) ignore: Group<'a>,
}

impl<'a> Containers<'a> {
    /// Sorts the containers of a Pod; nothing when the status of one is missing.
    pub(super) fn of(pod: &'a Pod) -> Option<Self> {
        let all = &pod.spec.template.containers;
        if all.len() != pod.status.container_statuses.len() {
            return None;
        }
        let mut this = Self {
            mains: Vec::new(),
            running: Vec::new(),
        };
        for container in all {
            match Sidecar::of(container) {
                Some(sidecar) if exit_code(pod, container).is_none() => this.running.push(sidecar),
                Some(_) => {}
                None => this.mains.push(container),
            }
        }
        Some(this)
    }

    /// A sidecar still runs, and the main containers have ended as the restart policy asks for.
    pub(super) fn are_due(&self, pod: &Pod) -> bool {
        let ended = if pod.spec.template.restart_policy == "Never" {
            self.mains.iter().all(|container| exit_code(pod, container).is_some())
        } else {
            self.mains_succeeded(pod)
        };
        ended && !self.running.is_empty()
    }

    /// All main containers have ended well.
    pub(super) fn mains_succeeded(&self, pod: &Pod) -> bool {
        let mut codes = self.mains.iter().map(|container| exit_code(pod, container));
        codes.all(|code| code == Some(0))
    }

    pub(super) fn groups(&self, is_virtual: bool) -> Groups<'a> {
        let mut groups = Groups::default();
        for sidecar in &self.running {
            match (is_virtual, sidecar.stops) {
                (true, _) if !sidecar.image.is_empty() => groups.swap.push(*sidecar),
                (false, true) if sidecar.ignores_exit_code => groups.ignore.push(*sidecar),
                (false, true) => groups.stop.push(*sidecar),
                _ => {}
            }
        }
        groups
    }
}

impl<'a> Sidecar<'a> {
    /// Nothing when it is a main container.
    fn of(container: &'a Container) -> Option<Self> {
        let value = |name| container.env(name).map_or("", |variable| &*variable.value);
        let is_true = |name| value(name).eq_ignore_ascii_case("true");
        let image = value(env::TERMINATE_SIDECAR_WITH_IMAGE);
        let stops = is_true(env::TERMINATE_SIDECAR);
        (stops || !image.is_empty()).then(|| Self {
            container,
            image,
            stops,
            ignores_exit_code: is_true(env::TERMINATE_SIDECAR_IGNORE_EXIT_CODE),
        })
    }
}

/// How a container has ended; nothing when it has not.
fn exit_code(pod: &Pod, container: &Container) -> Option<i32> {
    let mut statuses = pod.status.container_statuses.iter();
    let status = statuses.find(|status| status.name == container.name)?;
    match status.state {
        ContainerState::Terminated { exit_code, .. } => Some(exit_code),
        _ => None,
    }
}
