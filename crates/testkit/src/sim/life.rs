//! The life of a Pod on its node: sandbox, init containers in order, containers, end.
//!
//! Pure, like [`super::container`]: no clock, no client. The order is the kubelet's: nothing before the start delay; init containers one after
//! the other (a sidecar has only to run, another one has to exit with 0); then all containers at once; a Pod whose containers have all
//! exited for good is Succeeded or Failed; a Pod told to go stops its containers within its grace period.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::container::{ContainerLife, Recipe, Restart};
use super::script::Script;
use super::view::{ConfigMapKey, Container, ContainerStatus, PodView};

#[derive(Clone, Debug)]
pub(super) struct Life {
    seen: Timestamp,
    pub(super) started: Option<Timestamp>,
    pub(super) initialized: bool,
    pub(super) inits: Vec<ContainerLife>,
    pub(super) containers: Vec<ContainerLife>,
    pub(super) ephemerals: Vec<ContainerLife>,
    /// Set for good once all containers have exited.
    pub(super) outcome: Option<Outcome>,
    stop_ordered: Option<Timestamp>,
    /// All containers have stopped because the Pod is being deleted.
    pub(super) stopped: bool,
    /// What is known of ConfigMaps that containers need: the keys of each, `None` when it does not exist.
    pub(super) config_maps: BTreeMap<String, Option<BTreeSet<String>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeded,
    Failed,
}

/// The script, or why it cannot be followed.
pub(super) type Reading<'a> = Result<&'a Script, &'a str>;

impl Life {
    pub(super) fn begin(pod: &PodView, script: &Script, now: Timestamp) -> Self {
        let status = &pod.status;
        let each = |containers: &[Container], statuses: &[ContainerStatus]| -> Vec<ContainerLife> {
            let one = |container: &Container| match statuses.iter().find(|known| known.name == container.name) {
                Some(known) => ContainerLife::adopt(container, script.part(&container.name), known, now),
                None => ContainerLife::new(container),
            };
            containers.iter().map(one).collect()
        };
        Life {
            seen: now,
            started: status.start_time,
            initialized: status
                .condition("Initialized")
                .is_some_and(|condition| condition.status == "True"),
            inits: each(&pod.spec.init_containers, &status.init_container_statuses),
            containers: each(&pod.spec.containers, &status.container_statuses),
            ephemerals: each(&pod.spec.ephemeral_containers, &status.ephemeral_container_statuses),
            outcome: match status.phase.as_str() {
                "Succeeded" => Some(Outcome::Succeeded),
                "Failed" => Some(Outcome::Failed),
                _ => None,
            },
            stop_ordered: None,
            stopped: false,
            config_maps: BTreeMap::new(),
        }
    }

    /// Moves the Pod on as far as possible by `now`; returns when to look again.
    pub(super) fn advance(&mut self, pod: &PodView, reading: Reading, now: Timestamp) -> Option<Timestamp> {
        let fallback = Script::default();
        let (script, wrong) = match reading {
            Ok(script) => (script, None),
            Err(why) => (&fallback, Some(why)),
        };
        if pod.deleting() {
            return self.advance_to_stop(pod, script, now);
        }
        if self.outcome.is_some() || script.phase.is_some() {
            return None;
        }
        if self.started.is_none() {
            let start = self.seen + script.start_delay;
            if now < start {
                return Some(start);
            }
            self.started = Some(now);
        }
        // Ephemeral containers join a Pod that lives already.
        for container in pod.spec.ephemeral_containers.iter().skip(self.ephemerals.len()) {
            self.ephemerals.push(ContainerLife::new(container));
        }

        let mut wakes = Vec::new();
        let pod_restart = restart_policy(pod);
        let missing = |life: &Life, container: &Container| -> Option<String> {
            wrong.map(str::to_owned).or_else(|| life.missing_config(container))
        };
        let mut open = true;
        for (index, container) in pod.spec.init_containers.iter().enumerate() {
            if !open {
                break;
            }
            let hindrance = missing(self, container);
            let recipe = init_recipe(pod, container, script, hindrance.as_deref());
            let Some(life) = self.inits.get_mut(index) else { break };
            if self.initialized && !container.is_sidecar() {
                continue;
            }
            wakes.extend(life.advance(&recipe, now));
            open = if container.is_sidecar() {
                life.is_running()
            } else {
                life.exit_code() == Some(0)
            };
            if !container.is_sidecar()
                && pod_restart == Restart::Never
                && life.exit_code().is_some_and(|code| code != 0)
            {
                self.finish(Outcome::Failed, now);
                return None;
            }
        }
        self.initialized |= open;
        if !self.initialized {
            return wakes.into_iter().min();
        }
        for (index, container) in pod.spec.containers.iter().enumerate() {
            let hindrance = missing(self, container);
            let recipe = main_recipe(pod, container, script, hindrance.as_deref());
            if let Some(life) = self.containers.get_mut(index) {
                wakes.extend(life.advance(&recipe, now));
            }
        }
        for (index, container) in pod.spec.ephemeral_containers.iter().enumerate() {
            let recipe = ephemeral_recipe(pod, container, script);
            if let Some(life) = self.ephemerals.get_mut(index) {
                wakes.extend(life.advance(&recipe, now));
            }
        }
        let codes: Option<Vec<i32>> = self.containers.iter().map(ContainerLife::exit_code).collect();
        if let Some(codes) = codes
            && pod_restart != Restart::Always
        {
            let failed = codes.iter().any(|code| *code != 0);
            self.finish(if failed { Outcome::Failed } else { Outcome::Succeeded }, now);
            return None;
        }
        wakes.into_iter().min()
    }

    fn advance_to_stop(&mut self, pod: &PodView, script: &Script, now: Timestamp) -> Option<Timestamp> {
        let ordered = *self.stop_ordered.get_or_insert(now);
        let grace = u64::try_from(pod.metadata.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0);
        let grace = Duration::from_secs(grace);
        let wanted = script.terminate_delay();
        let lives = self.containers.iter().chain(&self.inits).any(ContainerLife::is_running);
        let stop = ordered + if lives { wanted.min(grace) } else { Duration::ZERO };
        if now < stop {
            return Some(stop);
        }
        if !self.stopped {
            self.stop_all(wanted > grace, now);
            self.stopped = true;
        }
        None
    }

    fn finish(&mut self, outcome: Outcome, now: Timestamp) {
        self.outcome = Some(outcome);
        self.stop_all(false, now);
    }

    fn stop_all(&mut self, killed: bool, now: Timestamp) {
        for life in self
            .inits
            .iter_mut()
            .chain(&mut self.containers)
            .chain(&mut self.ephemerals)
        {
            life.stop(killed, now);
        }
    }

    /// The ConfigMaps this Pod's containers still wait for, or were never looked up.
    pub(super) fn wanted_config_maps(&self, pod: &PodView) -> BTreeSet<String> {
        let pairs = pod.spec.init_containers.iter().zip(&self.inits);
        let pairs = pairs.chain(pod.spec.containers.iter().zip(&self.containers));
        let waiting = pairs.filter(|(_, life)| !life.is_running() && life.exit_code().is_none());
        let keys = waiting.flat_map(|(container, _)| &container.env);
        keys.filter(|key| !self.knows(key))
            .map(|key| key.name.clone())
            .collect()
    }

    fn knows(&self, key: &ConfigMapKey) -> bool {
        matches!(self.config_maps.get(&key.name), Some(Some(keys)) if keys.contains(&key.key))
    }

    fn missing_config(&self, container: &Container) -> Option<String> {
        let key = container.env.iter().find(|key| !self.knows(key))?;
        Some(match self.config_maps.get(&key.name) {
            Some(Some(_)) => format!("couldn't find key {} in ConfigMap {}", key.key, key.name),
            _ => format!("configmap \"{}\" not found", key.name),
        })
    }
}

pub(super) fn restart_policy(pod: &PodView) -> Restart {
    match pod.spec.restart_policy.as_str() {
        "Never" => Restart::Never,
        "OnFailure" => Restart::OnFailure,
        _ => Restart::Always,
    }
}

pub(super) fn init_recipe<'a>(
    pod: &'a PodView,
    container: &'a Container,
    script: &'a Script,
    hindrance: Option<&'a str>,
) -> Recipe<'a> {
    let restart = match restart_policy(pod) {
        _ if container.is_sidecar() => Restart::Always,
        Restart::Never => Restart::Never,
        // An init container that exited with 0 is done, whatever the Pod's policy.
        _ => Restart::OnFailure,
    };
    Recipe {
        restart,
        ends_by_itself: !container.is_sidecar(),
        ..main_recipe(pod, container, script, hindrance)
    }
}

pub(super) fn main_recipe<'a>(
    pod: &'a PodView,
    container: &'a Container,
    script: &'a Script,
    hindrance: Option<&'a str>,
) -> Recipe<'a> {
    Recipe {
        uid: pod.uid(),
        container,
        part: script.part(&container.name),
        restart: restart_policy(pod),
        hindrance,
        ends_by_itself: false,
    }
}

pub(super) fn ephemeral_recipe<'a>(pod: &'a PodView, container: &'a Container, script: &'a Script) -> Recipe<'a> {
    Recipe {
        restart: Restart::Never,
        ..main_recipe(pod, container, script, None)
    }
}

#[cfg(test)]
mod tests;
