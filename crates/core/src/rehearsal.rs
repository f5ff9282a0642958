//! What a change of a workload would come to, played through before anybody makes it.
//!
//! The kind's own planner decides, round for round, as it would in the cluster; a [model](stage) stands for everybody else:
//!
//! 1. Every write goes through, Pods run what they should and are ready in the next round, and what is deleted is gone. Time passes as the plan wants it.
//! 2. A Pod that is not ready at the beginning stays so until it is written, or until nothing goes on without it. Then it is assumed to become ready, and
//!    hooks are assumed to answer; both are told ([`Wave::assumed_ready`], [`Wave::hooks_answered`]).
//! 3. It ends when nothing is left to do, or what is left waits for a person, as a partition does; then the plan's own reasons say for what. What takes more rounds than
//!    is decent to think about is [cut short](Rehearsal::is_cut_short).
//!
//! Quotas, budgets of other objects (`PodUnavailableBudget`) and rooms on nodes are not in the model. The answer has names and numbers, and nothing of what users wrote.

mod stage;

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kruise_api::kind::WholeKind;
use kruise_api::meta::Object;
use kruise_api::pod::Pod;
use kruise_api::read::from_slice;
use kruise_api::revision::ControllerRevision;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::{Env, IdSource, Observation, Outcome, Why};
use crate::shared::availability::is_active;
use crate::shared::revision;
use stage::Stage;

/// Pods that are looked at in all rounds together: a thousand Pods are followed for 200 rounds, ten for 2000.
const WORK: usize = 200_000;
/// Most rounds.
const ROUNDS: usize = 2_000;
/// How often it is waited for time alone, before somebody else has to do something.
const PATIENCE: usize = 4;
/// A round takes so long in the model.
const STEP: SignedDuration = SignedDuration::from_secs(1);
/// Time that nobody waits for.
const LONGEST: Duration = Duration::from_hours(24);

/// An observation with a proposed object in the place of the one that is there.
pub trait Proposal {
    /// The kind that is proposed.
    type Object: WholeKind;

    /// Returns what the proposal would come to.
    fn rehearse(self, env: &Env) -> Rehearsal;
}

impl<R: Rehearsed> Proposal for R {
    type Object = R::Workload;

    fn rehearse(self, env: &Env) -> Rehearsal {
        rehearse(self, env)
    }
}

/// An observation whose objects can be played with.
pub trait Rehearsed: Observation {
    /// The kind that is planned for.
    type Workload: WholeKind;

    /// What the model changes.
    fn parts(&mut self) -> Parts<'_, Self::Workload>;

    /// What a Pod is called that is there.
    fn name_of(pod: &Pod) -> String {
        pod.metadata.name.to_string()
    }

    /// Whether a write brings a Pod to what is wanted, in place.
    fn is_update(before: &Pod, after: &Pod) -> bool {
        revision::of_pod(before) != revision::of_pod(after)
    }

    /// How many Pods are as the object wants them, by what its status says.
    fn updated(&mut self) -> usize {
        let parts = self.parts();
        let workload = serde_json::to_value(&**parts.workload).unwrap_or_default();
        let named = ["/status/updateRevision", "/status/daemonSetHash"].map(|path| workload.pointer(path));
        let Some(target) = named.into_iter().flatten().find_map(Value::as_str) else {
            return 0;
        };
        let pods = parts.pods.iter();
        pods.filter(|pod| is_active(pod) && revision::is_at(pod, target))
            .count()
    }

    /// What a Pod that would be made is called; nothing when its name is chance.
    fn place_of(_pod: &Pod) -> Option<String> {
        None
    }

    /// An object of another kind is made. Returns whether the planner looks at such objects.
    fn put(&mut self, _kind: &str, _object: &Value) -> bool {
        false
    }

    /// An object of another kind is deleted. Returns whether there was one.
    fn remove(&mut self, _kind: &str, _name: &str) -> bool {
        false
    }
}

/// Adds an object to what is observed of its kind.
pub(crate) fn put<T: DeserializeOwned>(list: &mut Vec<Arc<T>>, object: &Value) -> bool {
    let read = from_slice(object.to_string().as_bytes());
    let read: Option<T> = read.ok();
    let is_read = read.is_some();
    list.extend(read.map(Arc::new));
    is_read
}

/// Takes an object out of what is observed of its kind.
pub(crate) fn remove<T: Object>(list: &mut Vec<Arc<T>>, name: &str) -> bool {
    let before = list.len();
    list.retain(|object| object.name() != name);
    list.len() < before
}

/// The objects that a model changes.
#[derive(Debug)]
pub struct Parts<'a, W> {
    pub workload: &'a mut Arc<W>,
    pub pods: &'a mut Vec<Arc<Pod>>,
    pub revisions: &'a mut Vec<Arc<ControllerRevision>>,
    pub last: &'a mut Outcome,
}

/// What a change would come to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rehearsal {
    /// The Pods before.
    pub before: Counts,
    /// The Pods at the end.
    pub after: Counts,
    /// Of those at the end, at the new revision.
    pub updated: usize,
    /// At no time fewer Pods are ready, as far as those go that were ready before.
    pub least_ready: usize,
    /// At no time there are more Pods.
    pub most_pods: usize,
    /// What happens to Pods, in order. Each begins when the Pods of the one before are ready.
    pub waves: Vec<Wave>,
    /// What is written besides: claims, and jobs that pull images.
    pub also: Vec<Also>,
    /// What the workload of each subset is to be. Its own controller then sees to the Pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subsets: Vec<SubsetChange>,
    /// What holds it back at first.
    pub at_first: Vec<Why>,
    /// What holds it back at the end.
    pub at_last: Vec<Why>,
    /// It goes on like this; what comes at the end is not known.
    pub is_cut_short: bool,
}

/// Pods of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Not on their way out.
    pub pods: usize,
    /// Of those, ready and between no hooks.
    pub ready: usize,
}

/// What happens at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Wave {
    /// Pods that are assumed to become ready, which they were not before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed_ready: Vec<String>,
    /// Pods whose hooks are assumed to answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks_answered: Vec<String>,
    /// Pods that are brought to the revision in place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_place: Vec<String>,
    /// Pods that are deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// Pods that are let go, and live on without the workload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<String>,
    /// Pods that are made.
    #[serde(skip_serializing_if = "is_zero")]
    pub created: usize,
    /// Of those, what is known beforehand: names, or nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Writes of other objects than Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Also {
    /// `create` or `delete`.
    pub verb: String,
    /// Kind of the objects.
    pub kind: String,
    /// How many.
    pub count: usize,
}

/// What becomes of the workload of a subset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetChange {
    /// The subset.
    pub subset: String,
    /// Its workload as it is; nothing when it would be made.
    pub before: Option<SubsetShare>,
    /// Its workload as it is to be; nothing when it would be deleted, with its Pods.
    pub after: Option<SubsetShare>,
    /// It gets another template.
    pub template_changes: bool,
}

/// What the workload of a subset is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetShare {
    /// How many Pods.
    pub replicas: i32,
    /// How many of them stay at the old revision; nothing when its kind has no partition.
    pub partition: Option<i32>,
}

/// Plays through what follows from what is observed.
pub fn rehearse<R: Rehearsed>(observed: R, env: &Env) -> Rehearsal {
    rehearse_within(WORK, observed, env)
}

/// The same, for at most so many looks at a Pod.
pub(crate) fn rehearse_within<R: Rehearsed>(most: usize, observed: R, env: &Env) -> Rehearsal {
    let mut env = env.clone();
    let mut stage = Stage::new(observed);
    let before = stage.counts(env.now);
    let mut rehearsal = Rehearsal {
        before,
        least_ready: before.ready,
        most_pods: before.pods,
        ..Rehearsal::default()
    };
    let (mut work, mut quiet) = (0, 0);
    for round in 0.. {
        work += before.pods.max(stage.pods().len()).max(1);
        if round > ROUNDS || work > most {
            rehearsal.is_cut_short = true;
            break;
        }
        env.ids = IdSource::seeded(round as u64);
        let plan = stage.plan(&env);
        if round == 0 {
            rehearsal.at_first.clone_from(&plan.why);
        }
        let mut wave = Wave::default();
        let has_changed = stage.play(&plan, env.now, &mut wave, &mut rehearsal.also);
        let counts = stage.counts(env.now);
        rehearsal.least_ready = rehearsal.least_ready.min(counts.ready);
        rehearsal.most_pods = rehearsal.most_pods.max(counts.pods);
        stage.settle(env.now);
        let mut pause = STEP;
        if has_changed {
            quiet = 0;
        } else {
            quiet += 1;
            let wake = plan.wake_after.filter(|wake| quiet <= PATIENCE && *wake <= LONGEST);
            match wake {
                Some(wake) => pause = SignedDuration::try_from(wake).unwrap_or(STEP).max(STEP),
                None if stage.assume(env.now, &mut wave) => quiet = 0,
                None => {
                    rehearsal.at_last = plan.why;
                    break;
                }
            }
        }
        if wave != Wave::default() {
            rehearsal.waves.push(wave);
        }
        env.now = env.now.checked_add(pause).unwrap_or(env.now);
    }
    rehearsal.after = stage.counts(env.now);
    rehearsal.updated = stage.updated();
    rehearsal
}
