//! A container in the words of the API.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::image::tagged;
use super::super::view::{ContainerState, ContainerStatus, Running, Terminated, Waiting};
use super::{ContainerLife, Recipe, State, seconds};

impl ContainerLife {
    pub(in super::super) fn status(&self, recipe: &Recipe, now: Timestamp) -> ContainerStatus {
        let waiting = |reason: &str, message: String| ContainerState {
            waiting: Some(Waiting {
                reason: reason.to_owned(),
                message,
            }),
            ..ContainerState::default()
        };
        let terminated = |exit: &Terminated| ContainerState {
            terminated: Some(exit.clone()),
            ..ContainerState::default()
        };
        let image = &recipe.container.image;
        let state = match &self.state {
            State::Created => waiting("ContainerCreating", String::new()),
            State::Pulling { .. } => match &self.last_exit {
                // A kubelet shows how the old container ended until the new one runs.
                Some(exit) => terminated(exit),
                None => waiting("ContainerCreating", format!("pulling image \"{image}\"")),
            },
            State::PullFailed { backing_off: false, .. } => {
                waiting("ErrImagePull", format!("failed to pull image \"{image}\": not found"))
            }
            State::PullFailed { .. } => waiting("ImagePullBackOff", format!("Back-off pulling image \"{image}\"")),
            State::Hindered(why) => waiting("CreateContainerConfigError", why.clone()),
            State::BackingOff { .. } => waiting(
                "CrashLoopBackOff",
                format!("back-off restarting failed container={}", recipe.container.name),
            ),
            State::Running { since, .. } => ContainerState {
                running: Some(Running {
                    started_at: Some(seconds(*since)),
                }),
                ..ContainerState::default()
            },
            State::Exited(exit) => terminated(exit),
        };
        let last_state = self.last_exit.as_ref().map(terminated).unwrap_or_default();
        let run = self.run.as_ref();
        ContainerStatus {
            name: recipe.container.name.clone(),
            state,
            last_state,
            ready: self.is_ready(recipe, now),
            started: Some(self.is_running()),
            restart_count: self.restarts,
            image: run.map_or_else(|| tagged(image), |run| run.image.clone()),
            image_id: run.map(|run| run.image_id.clone()).unwrap_or_default(),
            container_id: run.map(|run| run.container_id.clone()).unwrap_or_default(),
            resources: self.is_running().then(|| self.resources.clone()),
            allocated_resources: if self.is_running() {
                self.resources.requests.clone()
            } else {
                BTreeMap::new()
            },
        }
    }
}
