//! What a decision is: a list of writes, the reasons for them, and when to look again.
//!
//! A planner reads a picture of the cluster and answers with a [`Plan`]. The plan is plain data; whoever applies it
//! decides nothing more, and goes through it by [`Progress`]:
//!
//! 1. The [steps](Step) are done one after the other. A step has chains of writes; a chain is done in its order and
//!    ends with its first failure, and how many chains are under way at the same time is the step's [`Pace`].
//! 2. Steps do not depend on each other: when a chain fails, the others of its step and the steps behind go on, unless
//!    the step says otherwise ([`OnFailure`]). What is under way is waited for.
//! 3. A write may have to be granted first: a chain by its [`Guard`], and the deletion of a Pod always ([`Turn::question`]). A refusal ends the chain and is
//!    no failure; the others go on.
//! 4. When a phase got nothing done, there may be something to do instead ([`Fallback`]).
//! 5. Then, whatever happened, the status is written, if there is one to write. Only one that counts on every write is left out after a failure
//!    ([`Plan::status_if_all_done`]).
//! 6. Events that depend on a write are told after it ([`Write::succeeded`], [`Write::failed`]); those of the plan
//!    itself at once.
//! 7. What failed goes into the [`Outcome`], which the planner of the next round reads; it also says which objects are
//!    left alone for a while. The key is put back into the queue as the class of the error says, and after
//!    [`Plan::wake_after`] at the latest.
//!
//! Every write carries what has to be true of the object for the write to be right ([`Preconditions`](kruise_api::resource::Preconditions)). So a plan made
//! from an old picture is refused by the server, not harmful.

mod action;
mod env;
#[cfg(test)]
pub(crate) mod harness;
mod outcome;
mod progress;
pub mod why;
pub mod words;

use std::time::Duration;

use kruise_api::resource::Resource;
use serde::{Deserialize, Serialize, Serializer};

pub use action::{Action, Body, Patch, Target};
pub use env::{Env, IdSource, Server, Settings};
pub use outcome::{BackOff, Failure, FailureClass, Outcome};
pub use progress::{Disruption, Finished, Meaning, Progress, Question, Turn, WriteError};
pub use why::{Hook, PodNames, Why};

/// What the planner of one kind looks at: an object and what belongs to it, as the cache shows them at one time.
pub trait Observation {
    /// Returns what to do now. Equal observations in equal surroundings give equal plans.
    fn plan(&self, env: &Env) -> Plan;
}

/// What to do now, and why not more.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Writes, step by step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Step>,
    /// What is done after the steps if one of their phases got nothing done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// The write of the status, done last and whatever came of the steps; none when the status is right already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Action>,
    /// The status says what is true when every write went through. When one failed it is not written: the next plan follows at once, and knows what failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub status_if_all_done: bool,
    /// Events that depend on no write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Look again after this time, even if nothing changes.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "readable")]
    pub wake_after: Option<Duration>,
    /// What holds the object back now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<Why>,
}

impl Plan {
    /// Nothing is decided, because the cache does not show our own writes yet.
    pub fn waiting_for_cache(object: &str, writes: usize, look_again: Duration) -> Self {
        Self {
            wake_after: Some(look_again),
            why: vec![Why::General(why::General::CacheBehind {
                object: object.to_owned(),
                writes,
            })],
            ..Self::default()
        }
    }

    /// Every write but the status and what is done instead of others, in order.
    pub fn writes(&self) -> impl Iterator<Item = &Action> {
        let chains = self.actions.iter().flat_map(|step| &step.chains);
        chains.flat_map(|chain| &chain.writes).map(|write| &write.action)
    }

    /// True when the plan writes nothing at all.
    pub fn is_idle(&self) -> bool {
        self.status.is_none() && self.writes().next().is_none()
    }

    /// Adds a step, unless there is nothing in it.
    pub fn push(&mut self, step: Step) {
        if !step.chains.is_empty() {
            self.actions.push(step);
        }
    }

    /// Adds a step before all others, unless there is nothing in it.
    pub fn push_first(&mut self, step: Step) {
        if !step.chains.is_empty() {
            self.actions.insert(0, step);
        }
    }

    /// Does what another plan says after what this one says. The other one's status and fallback are not taken.
    pub fn append(&mut self, other: Self) {
        self.actions.extend(other.actions);
        self.events.extend(other.events);
        self.why.extend(other.why);
        if let Some(after) = other.wake_after {
            self.wake(after);
        }
    }

    /// Says what holds the object back.
    pub fn because(&mut self, why: impl Into<Why>) {
        self.why.push(why.into());
    }

    /// Looks again after this time at the latest.
    pub fn wake(&mut self, after: Duration) {
        self.wake_after = Some(self.wake_after.map_or(after, |earlier| earlier.min(after)));
    }
}

#[expect(clippy::ref_option, reason = "serde wants it so")]
fn readable<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| format!("{time:?}")).serialize(to)
}

/// What is done instead, when a phase got nothing done: none of its writes to this kind of object went through, or may
/// have gone through.
///
/// It is planned from the same picture, which is still true then.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fallback {
    /// The phase.
    pub phase: Phase,
    /// The kind of object.
    #[serde(flatten, serialize_with = "action::kind")]
    pub resource: &'static Resource,
    /// What to do; its status is not written.
    pub plan: Box<Plan>,
}

/// Writes that serve one purpose.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// What the step is for; a failure is remembered under it.
    pub phase: Phase,
    /// How many chains are under way at the same time.
    pub pace: Pace,
    /// What happens when a chain fails.
    pub on_failure: OnFailure,
    /// No more chains are begun than this; those that a budget refuses do not count. Only in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
    /// Chains of writes.
    pub chains: Vec<Chain>,
}

impl Step {
    /// A step with no chains yet.
    pub fn new(phase: Phase, pace: Pace, on_failure: OnFailure) -> Self {
        Self {
            phase,
            pace,
            on_failure,
            most: None,
            chains: Vec::new(),
        }
    }

    /// Adds a chain, unless it is empty.
    pub fn push(&mut self, chain: Chain) {
        if !chain.writes.is_empty() {
            self.chains.push(chain);
        }
    }
}

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Objects are given up that no longer belong to the workload, or whose time has come.
    Claims,
    /// The revision of the template is stored.
    Revisions,
    /// Images are pulled ahead of an update.
    PreDownload,
    /// Secrets are handed out, or taken back.
    Secrets,
    /// Nodes or namespaces get what is for them.
    Distribute,
    /// Objects are created and deleted.
    Scale,
    /// Objects are brought to another revision.
    Update,
    /// What is no longer needed is tidied up.
    Housekeeping,
}

/// How many chains of a step are under way at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Pace {
    /// One after the other, in their order.
    InOrder,
    /// Many at a time; the writer has a limit of its own that follows what the server can take.
    Bounded,
    /// A few at a time: what is written is large, and in memory while it is under way.
    Few,
    /// One, and one more for each that goes well: 1, 2, 4, … in the time of one, two, three. None is begun after a failure, unless another look at the
    /// cluster mends it: when a quota or an admission rule refuses what we make, it refuses all of it, and one or two refusals tell as much as a thousand.
    SlowStart,
}

/// What happens when a chain fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum OnFailure {
    /// No further chain of this step is begun, and no further step: what follows depends on it.
    Stop,
    /// The failure costs only what the chain is about; the others go on, and the steps behind. Only when the server is
    /// in trouble no further chain of this step is begun.
    Skip,
    /// The others go on, and the steps behind.
    GoOn,
}

impl OnFailure {
    /// No further chain of the step is begun after a failure of this class.
    pub fn ends_step(self, class: FailureClass) -> bool {
        match self {
            Self::Stop => true,
            Self::Skip => class == FailureClass::Transient,
            Self::GoOn => false,
        }
    }
}

/// Writes that follow one another; the first that fails ends the chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// Has to be granted before the first write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// The writes.
    pub writes: Vec<Write>,
}

impl Chain {
    /// A chain of one write.
    pub fn of(write: Write) -> Self {
        Self {
            guard: None,
            writes: vec![write],
        }
    }
}

impl FromIterator<Write> for Chain {
    fn from_iter<I: IntoIterator<Item = Write>>(writes: I) -> Self {
        Self {
            guard: None,
            writes: writes.into_iter().collect(),
        }
    }
}

/// A grant that a chain needs before it is begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "ask")]
pub enum Guard {
    /// The PodUnavailableBudget of this Pod has to allow an update. A refusal concerns this Pod only; the object is looked at
    /// again after a second.
    #[serde(rename_all = "camelCase")]
    Budget {
        /// Name of the Pod.
        pod: String,
    },
}

/// One write, and what users are told about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Write {
    /// The write.
    pub action: Action,
    /// Told when it is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<Event>,
    /// Told when it failed; `: ` and the server's message follow the text. An object that changed meanwhile or is gone is
    /// no news.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Event>,
}

impl From<Action> for Write {
    fn from(action: Action) -> Self {
        Self {
            action,
            succeeded: Vec::new(),
            failed: None,
        }
    }
}

impl Write {
    /// What is told when it is done, after what was said before.
    #[must_use]
    pub fn then(mut self, event: Event) -> Self {
        self.succeeded.push(event);
        self
    }

    /// What is told when it fails.
    #[must_use]
    pub fn or_else(self, event: Event) -> Self {
        Self {
            failed: Some(event),
            ..self
        }
    }
}

/// What users see in `kubectl describe` of the planned object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Whether it is good or bad news.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Reason, in one word.
    pub reason: &'static str,
    /// Text.
    pub message: String,
    /// The object it is about, when it is not the planned one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
}

/// Another object than the planned one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

impl Event {
    /// Good news.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            event_type: EventType::Normal,
            reason,
            message: message.into(),
            about: None,
        }
    }

    /// Bad news.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            event_type: EventType::Warning,
            reason,
            message: message.into(),
            about: None,
        }
    }
}

/// Whether an event is good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl EventType {
    /// Returns it as Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

#[cfg(test)]
mod tests;
