//! Putting the containers into Pods.
//!
//! Each container is put there as the user wrote it, with the UID of the job in its environment. All containers of a Pod are put there with one write, which
//! holds only for the Pod as it was looked at. A Pod that refuses them is left alone for a while, and the others have their turn.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kruise_api::ephemeraljob::v1alpha1::EphemeralJob;
use kruise_api::names::{env, event};
use kruise_api::pod::Pod;
use kruise_api::resource::{Preconditions, Subresource};
use serde_json::{Value, json};

use super::Observed;
use super::counts::Counts;
use crate::plan::why;
use crate::plan::{Action, Chain, Event, OnFailure, Pace, Phase, Plan, Step, Target, Write};

/// Pods in which the containers run at the same time when a job does not say.
const PARALLELISM: i32 = 1;

/// The containers of a job, ready to be put into Pods.
#[derive(Debug)]
pub(super) struct Containers {
    /// UID of the job.
    pub(super) job: String,
    names: BTreeSet<String>,
    list: Value,
}

impl Containers {
    /// Reads those of a job.
    ///
    /// # Errors
    /// When there are none, or they cannot be understood.
    pub(super) fn of(job: &EphemeralJob) -> Result<Self, String> {
        let at = "spec.template.ephemeralContainers";
        let given = match job.spec.template.ephemeral_containers.value() {
            Value::Array(given) if !given.is_empty() => given,
            Value::Array(_) | Value::Null => return Err(format!("{at}: there are no containers")),
            _ => return Err(format!("{at}: it is no list of containers")),
        };
        let uid = job.metadata.uid.clone().unwrap_or_default();
        let mut names = BTreeSet::new();
        let mut containers = Vec::with_capacity(given.len());
        for (index, container) in given.into_iter().enumerate() {
            let name = container
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            let Some(container) = marked(container, &uid).filter(|_| !name.is_empty()) else {
                return Err(format!("{at}[{index}]: it is no container with a name"));
            };
            if !names.insert(name) {
                return Err(format!("{at}[{index}]: there is another one of its name"));
            }
            containers.push(container);
        }
        Ok(Self {
            job: uid,
            names,
            list: Value::Array(containers),
        })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// A container that says which job put it there.
fn marked(mut container: Value, uid: &str) -> Option<Value> {
    let list = container.as_object_mut()?.entry("env").or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    let list = list.as_array_mut()?;
    list.retain(|variable| variable.get("name").and_then(Value::as_str) != Some(env::EPHEMERAL_JOB_ID));
    list.push(json!({"name": env::EPHEMERAL_JOB_ID, "value": uid}));
    Some(container)
}

/// So many Pods may be busy at the same time.
fn parallelism(job: &EphemeralJob) -> i32 {
    job.spec.parallelism.unwrap_or(PARALLELISM).max(0)
}

/// Puts the containers into Pods that have none, as far as `parallelism` allows.
pub(super) fn step(observed: &Observed, containers: &Containers, counts: &Counts<'_>, now: Timestamp, plan: &mut Plan) {
    let parallelism = parallelism(&observed.job);
    if counts.busy > 0 || !counts.candidates.is_empty() {
        plan.because(why::Jobs::ContainersRunning {
            running: counts.busy,
            waiting: i32::try_from(counts.candidates.len()).unwrap_or(i32::MAX),
            parallelism,
        });
    }
    let room = usize::try_from(i64::from(parallelism) - i64::from(counts.busy)).unwrap_or_default();
    let mut injected = Step::new(Phase::Scale, Pace::SlowStart, OnFailure::GoOn);
    for &pod in &counts.candidates {
        if injected.chains.len() == room {
            break;
        }
        match observed.last.backs_off(pod, now) {
            Some(rest) => plan.wake(rest),
            None => injected.push(Chain::of(write(pod, containers))),
        }
    }
    plan.push(injected);
}

fn write(pod: &Pod, containers: &Containers) -> Write {
    let patch = json!({"spec": {"ephemeralContainers": containers.list}});
    let part = Some(Subresource::EphemeralContainers);
    let action = Action::patch(Target::of(pod), part, patch, Preconditions::unchanged(pod));
    let message = format!("Error adding ephemeral containers to pod {}", pod.metadata.name);
    Write::from(action).or_else(Event::warning(event::EPHEMERAL_CREATE_FAILED, message))
}
