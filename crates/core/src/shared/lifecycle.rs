//! Lifecycle states and hooks: the moments at which a Pod waits for somebody else.
//!
//! | from | to | when |
//! |---|---|---|
//! | (new) | `PreparingNormal` | when the Pod is created |
//! | `PreparingNormal` | `Normal` | all of its `preNormal` hook is on it; without one at once, or when it has a node, as the kind says |
//! | none, `PreparingNormal`, `Normal` | `PreparingUpdate` | it shall be updated in place and anything of its `inPlaceUpdate` hook is on it |
//! | those, `PreparingUpdate`, `Updating` | `Updating` | it shall be updated and nothing of the hook is on it |
//! | `Updated` | `PreparingUpdate` | it shall be updated again: the whole hook is put back on it |
//! | `Updating` | `Updated`, `Normal` | the update is complete; `Normal` when there are no hooks at all, or all of its `inPlaceUpdate` hook is on the Pod |
//! | `PreparingUpdate` | `Updated`, `Normal` | the template was rolled back meanwhile; as above |
//! | `Updated` | `Normal` | there is no hook, or all of it is on the Pod |
//! | any | `PreparingDelete` | it shall be deleted and anything of its `preDelete` hook is on it |
//! | `PreparingDelete` | `PreparingNormal` | it is needed after all, and no hook makes Pods not ready |
//!
//! Where there are hooks, somebody may wait for a state: there each change of state is a write of the Pod itself, which admission of others can see
//! and refuse. Without hooks it goes along with the conditions, as part of the Pod's status.
//!
//! *Anything* of a hook on the Pod makes it wait; *all* of it lets it go on. These are two different questions: [`is_hooked`], [`is_fully_hooked`].
//!
//! A hook with `markPodNotReady` holds the Pod not ready in `PreparingUpdate` and `PreparingDelete`. It is let go in `Updated`, and (other than in
//! the original, where such a Pod stayed not ready for ever) also when it gets to `Normal` on another way.

use jiff::Timestamp;
use kruise_api::names::condition::not_ready::{PRE_DELETE_HOOK, PRE_UPDATE_HOOK};
use kruise_api::names::{annotation, label};
use kruise_api::pod::Pod;
use kruise_api::shared::lifecycle::{Lifecycle, LifecycleHook};
use kruise_api::text::Text;
use thiserror::Error;

use super::pod_change::PodChange;
use super::readiness::{self, Writer};
use crate::shared::seconds::to_the_second;

/// Where a Pod stands between its hooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// No label: a Pod of a release without lifecycle.
    #[default]
    None,
    /// Made, not yet counted as available.
    PreparingNormal,
    /// Nothing special.
    Normal,
    /// Waits for its hook before it is updated.
    PreparingUpdate,
    /// Is being updated.
    Updating,
    /// Was updated, waits for its hook.
    Updated,
    /// Waits for its hook before it is deleted.
    PreparingDelete,
    /// A state this release does not know.
    Other(Text),
}

impl State {
    /// As the label says it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::None => "",
            Self::PreparingNormal => "PreparingNormal",
            Self::Normal => "Normal",
            Self::PreparingUpdate => "PreparingUpdate",
            Self::Updating => "Updating",
            Self::Updated => "Updated",
            Self::PreparingDelete => "PreparingDelete",
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for State {
    fn from(text: &str) -> Self {
        let known = [
            Self::None,
            Self::PreparingNormal,
            Self::Normal,
            Self::PreparingUpdate,
            Self::Updating,
            Self::Updated,
            Self::PreparingDelete,
        ];
        let found = known.into_iter().find(|state| state.as_str() == text);
        found.unwrap_or_else(|| Self::Other(text.into()))
    }
}

/// The Pod's state.
pub fn state(pod: &Pod) -> State {
    pod.metadata.label(label::LIFECYCLE_STATE).unwrap_or_default().into()
}

/// Whether the Pod shall be deleted because somebody said so; the label's value does not matter.
pub fn is_specified_delete(pod: &Pod) -> bool {
    pod.metadata.label(label::SPECIFIED_DELETE).is_some()
}

/// Anything of the hook is on the Pod: it has to wait.
pub fn is_hooked(pod: &Pod, hook: Option<&LifecycleHook>) -> bool {
    hook.is_some_and(|hook| {
        hook.finalizers_handler.iter().any(|name| has_finalizer(pod, name))
            || hook
                .labels_handler
                .iter()
                .any(|(key, value)| has_label(pod, key, value))
    })
}

/// All of the hook is on the Pod: it may go on. Without a hook there is nothing that could be on it.
pub fn is_fully_hooked(pod: &Pod, hook: Option<&LifecycleHook>) -> bool {
    hook.is_some_and(|hook| {
        hook.finalizers_handler.iter().all(|name| has_finalizer(pod, name))
            && hook
                .labels_handler
                .iter()
                .all(|(key, value)| has_label(pod, key, value))
    })
}

fn has_finalizer(pod: &Pod, name: &str) -> bool {
    pod.metadata.finalizers.iter().any(|known| known == name)
}

fn has_label(pod: &Pod, key: &str, value: &str) -> bool {
    pod.metadata.label(key) == Some(value)
}

fn in_place_hook(lifecycle: Option<&Lifecycle>) -> Option<&LifecycleHook> {
    lifecycle?.in_place_update.as_ref()
}

fn pre_delete_hook(lifecycle: Option<&Lifecycle>) -> Option<&LifecycleHook> {
    lifecycle?.pre_delete.as_ref()
}

/// What decides where a Pod goes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// It is at the revision that it should be at.
    pub at_update_revision: bool,
    /// Its update in place, if there was one, is complete.
    pub update_complete: bool,
    /// It has no node, and without a `preNormal` hook it does not get normal before it has one.
    pub waits_for_node: bool,
}

/// The state to which a Pod goes by itself; `None` when it stays.
pub fn next(pod: &Pod, lifecycle: Option<&Lifecycle>, progress: Progress) -> Option<State> {
    let hook = in_place_hook(lifecycle);
    let hooked = is_fully_hooked(pod, hook);
    let after_update = if lifecycle.is_none() || hooked {
        State::Normal
    } else {
        State::Updated
    };
    match state(pod) {
        State::PreparingNormal => {
            let ready = match lifecycle.and_then(|lifecycle| lifecycle.pre_normal.as_ref()) {
                Some(hook) => is_fully_hooked(pod, Some(hook)),
                None => !progress.waits_for_node,
            };
            ready.then_some(State::Normal)
        }
        State::PreparingUpdate if progress.at_update_revision => Some(after_update),
        State::Updating if progress.update_complete => Some(after_update),
        State::Updated if hook.is_none() || hooked => Some(State::Normal),
        _ => None,
    }
}

/// What to change so that the Pod gets to a state; nothing when it is there already and held as it should be.
pub fn enter(pod: &Pod, to: &State, lifecycle: Option<&Lifecycle>, now: Timestamp) -> PodChange {
    let marks = |hook: Option<&LifecycleHook>| hook.is_some_and(|hook| hook.mark_pod_not_ready);
    let update = Writer::lifecycle(PRE_UPDATE_HOOK);
    let delete = Writer::lifecycle(PRE_DELETE_HOOK);
    let mut change = match to {
        State::PreparingDelete if marks(pre_delete_hook(lifecycle)) => readiness::hold(pod, delete, now),
        State::PreparingUpdate if marks(in_place_hook(lifecycle)) => readiness::hold(pod, update, now),
        State::Updated | State::Normal => readiness::release(pod, &update, now),
        State::PreparingNormal => readiness::release(pod, &delete, now),
        _ => PodChange::default(),
    };
    if state(pod) != *to {
        write_state(&mut change, to, now);
        change.seen_by_admission |= lifecycle.is_some();
    }
    change
}

/// Puts a state and its time into a change.
pub fn write_state(change: &mut PodChange, to: &State, now: Timestamp) {
    change.set_label(label::LIFECYCLE_STATE, to.as_str());
    change.set_annotation(annotation::LIFECYCLE_TIMESTAMP, to_the_second(now));
}

/// What comes before an update in place.
#[derive(Clone, Debug, PartialEq)]
pub enum BeforeUpdate {
    /// The Pod can be updated now.
    Go,
    /// The Pod waits for its hook; the change (perhaps none) brings it there.
    Hold(PodChange),
}

/// A Pod cannot be updated from the state it is in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot be updated in place in lifecycle state {:?}", .0.as_str())]
pub struct UnexpectedState(pub State);

/// Whether a Pod that was chosen for an update in place has to wait for its hook first.
pub fn before_update(
    pod: &Pod,
    lifecycle: Option<&Lifecycle>,
    now: Timestamp,
) -> Result<BeforeUpdate, UnexpectedState> {
    let hook = in_place_hook(lifecycle);
    let to = State::PreparingUpdate;
    match (state(pod), hook) {
        (State::Updated, Some(hook)) => {
            // Whoever released the Pod for the last update has to be asked again.
            let mut change = enter(pod, &to, lifecycle, now);
            for (key, value) in &hook.labels_handler {
                change.set_label(key, value);
            }
            let missing = hook.finalizers_handler.iter().filter(|name| !has_finalizer(pod, name));
            change.finalizers.extend(missing.cloned());
            Ok(BeforeUpdate::Hold(change))
        }
        (State::Updated | State::Updating, _) => Ok(BeforeUpdate::Go),
        (State::None | State::PreparingNormal | State::Normal | State::PreparingUpdate, hook) => {
            if is_hooked(pod, hook) {
                Ok(BeforeUpdate::Hold(enter(pod, &to, lifecycle, now)))
            } else {
                Ok(BeforeUpdate::Go)
            }
        }
        (other, _) => Err(UnexpectedState(other)),
    }
}

/// What comes before a deletion: `None` when the Pod can go, otherwise it waits for its hook and the change (perhaps none) brings it there.
pub fn before_delete(pod: &Pod, lifecycle: Option<&Lifecycle>, now: Timestamp) -> Option<PodChange> {
    is_hooked(pod, pre_delete_hook(lifecycle)).then(|| enter(pod, &State::PreparingDelete, lifecycle, now))
}

/// What brings a Pod back that waits for its deletion. `None` when it cannot come back: it was specified for deletion, or a hook makes
/// Pods not ready, so that somebody has already acted on its leaving.
pub fn cancel_preparing_delete(pod: &Pod, lifecycle: Option<&Lifecycle>, now: Timestamp) -> Option<PodChange> {
    let marked = [pre_delete_hook(lifecycle), in_place_hook(lifecycle)]
        .into_iter()
        .flatten()
        .any(|hook| hook.mark_pod_not_ready);
    let can = state(pod) == State::PreparingDelete && !is_specified_delete(pod) && !marked;
    can.then(|| enter(pod, &State::PreparingNormal, lifecycle, now))
}

#[cfg(test)]
mod tests;
