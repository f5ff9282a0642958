//! The life of one container: pull, start, run, exit, restart.
//!
//! Pure: the clock is an argument. [`ContainerLife::advance`] moves a container as far as it can get by `now` and says when it wants to be
//! looked at again; [`report`] puts it into the API's words. What a Pod's script says is read anew each time, so that a changed annotation works on a living Pod.

mod report;

use std::time::Duration;

use jiff::Timestamp;

use super::image::{image_id, sha256_hex, tagged};
use super::script::{Part, Resize};
use super::view::{Container, ContainerState, ContainerStatus, Resources, Terminated};

/// A kubelet waits 10 s, 20 s, … 5 min between restarts of a crashing container. Tests have less time.
const BACK_OFF_START: Duration = Duration::from_secs(1);
const BACK_OFF_LONGEST: Duration = Duration::from_secs(64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    Always,
    OnFailure,
    Never,
}

/// Everything that decides about a container from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe<'a> {
    pub(super) uid: &'a str,
    pub(super) container: &'a Container,
    pub(super) part: &'a Part,
    pub(super) restart: Restart,
    /// Why the container cannot be started now: a wrong annotation, a missing ConfigMap.
    pub(super) hindrance: Option<&'a str>,
    /// An init container that is no sidecar exits by itself.
    pub(super) ends_by_itself: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Created,
    Pulling {
        since: Timestamp,
    },
    PullFailed {
        since: Timestamp,
        backing_off: bool,
    },
    Hindered(String),
    Running {
        since: Timestamp,
        stop_at: Option<Timestamp>,
    },
    BackingOff {
        until: Timestamp,
        image: String,
    },
    Exited(Terminated),
}

#[derive(Clone, Debug)]
pub(super) struct ContainerLife {
    pub(super) state: State,
    restarts: i32,
    last_exit: Option<Terminated>,
    /// Image, image id and container id of the last start.
    run: Option<Run>,
    resources: Resources,
    resize_since: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Run {
    image: String,
    image_id: String,
    container_id: String,
    token: Option<String>,
}

impl ContainerLife {
    pub(super) fn new(container: &Container) -> Self {
        ContainerLife {
            state: State::Created,
            restarts: 0,
            last_exit: None,
            run: None,
            resources: container.resources.clone(),
            resize_since: None,
        }
    }

    /// Takes over a container that another simulator (or an earlier one of the same name) has started.
    pub(super) fn adopt(container: &Container, part: &Part, status: &ContainerStatus, now: Timestamp) -> Self {
        let started = |at: Option<Timestamp>| at.unwrap_or(now);
        let state = match &status.state {
            ContainerState {
                running: Some(running), ..
            } => State::Running {
                since: started(running.started_at),
                stop_at: None,
            },
            ContainerState {
                terminated: Some(exit), ..
            } => State::Exited(exit.clone()),
            ContainerState {
                waiting: Some(waiting), ..
            } if waiting.reason == "CrashLoopBackOff" => State::BackingOff {
                until: now,
                image: container.image.clone(),
            },
            _ => State::Created,
        };
        let run = (!status.container_id.is_empty()).then(|| Run {
            image: status.image.clone(),
            image_id: status.image_id.clone(),
            container_id: status.container_id.clone(),
            token: part.restart.clone(),
        });
        ContainerLife {
            state,
            restarts: status.restart_count,
            last_exit: status.last_state.terminated.clone(),
            run,
            resources: status.resources.clone().unwrap_or_else(|| container.resources.clone()),
            resize_since: None,
        }
    }

    pub(super) fn exit_code(&self) -> Option<i32> {
        match &self.state {
            State::Exited(exit) => Some(exit.exit_code),
            _ => None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// A container that waits for its very first start keeps the Pod in phase Pending.
    pub(super) fn never_started(&self) -> bool {
        self.run.is_none()
    }

    pub(super) fn is_ready(&self, recipe: &Recipe, now: Timestamp) -> bool {
        match self.state {
            State::Running { since, .. } => !recipe.part.never_ready && now >= since + recipe.part.ready_delay,
            State::Exited(ref exit) => recipe.ends_by_itself && exit.exit_code == 0,
            _ => false,
        }
    }

    /// Moves on as far as possible by `now`; returns when to look again.
    pub(super) fn advance(&mut self, recipe: &Recipe, now: Timestamp) -> Option<Timestamp> {
        // Each round ends one state. Two crashes never fit into one call because of the back-off, so this ends.
        loop {
            let next = match &self.state {
                State::Created => State::Pulling { since: now },
                State::Pulling { since } => {
                    let pulled = *since + recipe.part.pull_delay;
                    if now < pulled {
                        return Some(pulled);
                    }
                    if recipe.part.pull_error.hits(&recipe.container.image) {
                        State::PullFailed {
                            since: now,
                            backing_off: false,
                        }
                    } else if let Some(why) = recipe.hindrance {
                        State::Hindered(why.to_owned())
                    } else {
                        self.start(recipe, now)
                    }
                }
                State::PullFailed { since, backing_off } => {
                    let (since, backing_off) = (*since, *backing_off);
                    if !recipe.part.pull_error.hits(&recipe.container.image) {
                        State::Pulling { since: now }
                    } else if backing_off {
                        return None;
                    } else if now < since + BACK_OFF_START {
                        return Some(since + BACK_OFF_START);
                    } else {
                        State::PullFailed {
                            since,
                            backing_off: true,
                        }
                    }
                }
                State::Hindered(why) => match recipe.hindrance {
                    Some(still) if still == why => return None,
                    Some(other) => State::Hindered(other.to_owned()),
                    // The image is there: it was pulled before the configuration was looked at.
                    None => State::Pulling {
                        since: Timestamp::UNIX_EPOCH,
                    },
                },
                State::BackingOff { until, image } => {
                    // A new image is a new chance: the kubelet does not let it wait either.
                    if now < *until && *image == recipe.container.image {
                        return Some(*until);
                    }
                    self.restarts += 1;
                    State::Pulling { since: now }
                }
                State::Running { since, stop_at } => match self.run_on(recipe, *since, *stop_at, now) {
                    Ok(wake) => return wake,
                    Err(next) => next,
                },
                State::Exited(exit) => match (recipe.restart, exit.exit_code) {
                    (Restart::Never, _) | (Restart::OnFailure, 0) => return None,
                    // Only after a take-over: a container of ours that shall run again never rests here.
                    _ => self.back_off(exit.clone(), recipe, now),
                },
            };
            self.state = next;
        }
    }

    /// A running container goes on (`Ok` with the next interesting time) or comes to another state.
    fn run_on(
        &mut self,
        recipe: &Recipe,
        since: Timestamp,
        stop_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, State> {
        let part = recipe.part;
        if let Some(stop_at) = stop_at {
            if now < stop_at {
                return Ok(Some(stop_at));
            }
            self.last_exit = Some(self.exit(0, "Completed", since, now));
            self.restarts += 1;
            return Err(State::Pulling { since: now });
        }
        let planned_exit = if self.restarts.cast_unsigned() < part.crashes {
            Some((since + part.crash_after, 1))
        } else if recipe.ends_by_itself {
            Some((since + part.exit_after.unwrap_or_default(), part.exit_code))
        } else {
            part.exit_after.map(|after| (since + after, part.exit_code))
        };
        if let Some((at, code)) = planned_exit
            && now >= at
        {
            let exit = self.exit(code, if code == 0 { "Completed" } else { "Error" }, since, now);
            return Err(match recipe.restart {
                Restart::Always => self.back_off(exit, recipe, now),
                Restart::OnFailure if code != 0 => self.back_off(exit, recipe, now),
                _ => State::Exited(exit),
            });
        }
        let changed = self.run.as_ref().is_some_and(|run| {
            run.image != tagged(&recipe.container.image) || (part.restart.is_some() && run.token != part.restart)
        });
        if changed || self.resize(recipe, now) {
            return Err(State::Running {
                since,
                stop_at: Some(now + part.terminate_delay),
            });
        }
        let ready_at = since + part.ready_delay;
        let resized_at = self.resize_since.map(|since| since + part.resize_delay);
        let times = [
            (now < ready_at).then_some(ready_at),
            planned_exit.map(|(at, _)| at),
            resized_at,
        ];
        Ok(times.into_iter().flatten().filter(|at| *at > now).min())
    }

    fn start(&mut self, recipe: &Recipe, now: Timestamp) -> State {
        let image = &recipe.container.image;
        let id = format!("{}/{}/{}", recipe.uid, recipe.container.name, self.restarts);
        self.run = Some(Run {
            image: tagged(image),
            image_id: recipe.part.image_id.clone().unwrap_or_else(|| image_id(image)),
            container_id: format!("containerd://{}", sha256_hex(&id)),
            token: recipe.part.restart.clone(),
        });
        self.resources = recipe.container.resources.clone();
        self.resize_since = None;
        State::Running {
            since: now,
            stop_at: None,
        }
    }

    fn back_off(&mut self, exit: Terminated, recipe: &Recipe, now: Timestamp) -> State {
        self.last_exit = Some(exit);
        let doublings = self.restarts.clamp(0, 6).cast_unsigned();
        let wait = (BACK_OFF_START * 2_u32.pow(doublings)).min(BACK_OFF_LONGEST);
        State::BackingOff {
            until: now + wait,
            image: recipe.container.image.clone(),
        }
    }

    fn exit(&self, code: i32, reason: &str, since: Timestamp, now: Timestamp) -> Terminated {
        Terminated {
            exit_code: code,
            reason: reason.to_owned(),
            started_at: Some(seconds(since)),
            finished_at: Some(seconds(now)),
            container_id: self
                .run
                .as_ref()
                .map(|run| run.container_id.clone())
                .unwrap_or_default(),
        }
    }

    /// Ends the container for good: its Pod is being deleted or has come to its end.
    pub(super) fn stop(&mut self, killed: bool, now: Timestamp) {
        let (code, reason) = if killed { (137, "Error") } else { (0, "Completed") };
        let exit = match &self.state {
            State::Exited(_) => return,
            State::Running { since, .. } => self.exit(code, reason, *since, now),
            _ => self
                .last_exit
                .clone()
                .unwrap_or_else(|| self.exit(code, reason, now, now)),
        };
        self.state = State::Exited(exit);
    }

    /// Takes changed resources over in due time. True when the container has to restart for them.
    fn resize(&mut self, recipe: &Recipe, now: Timestamp) -> bool {
        let wanted = &recipe.container.resources;
        if self.resources == *wanted || recipe.part.resize != Resize::Accept {
            self.resize_since = None;
            return false;
        }
        let since = *self.resize_since.get_or_insert(now);
        if now < since + recipe.part.resize_delay {
            return false;
        }
        let before = std::mem::replace(&mut self.resources, wanted.clone());
        self.resize_since = None;
        recipe.container.resize_policy.iter().any(|policy| {
            let name = &policy.resource_name;
            policy.restart_policy == "RestartContainer"
                && (before.limits.get(name) != wanted.limits.get(name)
                    || before.requests.get(name) != wanted.requests.get(name))
        })
    }

    /// Whether the container lives with other resources than its spec asks for.
    pub(super) fn resizing(&self, container: &Container) -> bool {
        self.is_running() && self.resources != container.resources
    }
}

/// Times in a status have no fractions of a second.
pub(super) fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
