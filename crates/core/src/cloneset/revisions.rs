//! The revisions of a round: the one that the spec asks for, and the one that the last finished rollout reached.
//!
//! A template that is new gets a revision, stored before anything is made from it. A template that was there before
//! gets its old revision back. A revision of that name which is not the set's own but says the same (of a set that was
//! deleted and applied again) is used as it is, until the garbage collector has it and the set makes its own. One that
//! says something else is a collision: it is counted, and the next name is tried.

use std::borrow::Cow;
use std::collections::BTreeSet;

use kruise_api::cloneset::v1beta1::CloneSet;
use kruise_api::meta::Uid;
use kruise_api::revision::ControllerRevision;
use serde_json::Value;

use super::observed::Observed;
use crate::plan::{Action, Chain, ObjectKind, OnFailure, Pace, Part, Patch, Phase, Plan, Preconditions, Step, Target};
use crate::shared::revision::{self, Candidate, Choice, NameTaken, Owner, Workload};

/// A revision, stored already or not.
#[derive(Clone, Debug)]
pub(super) struct Revision<'a>(Cow<'a, ControllerRevision>);

impl Revision<'_> {
    /// Its name.
    pub(super) fn name(&self) -> &str {
        self.0.name()
    }

    /// The Pod template in it.
    pub(super) fn template(&self) -> Value {
        revision::template(&self.0.data.value()).unwrap_or_default()
    }

    /// As an object.
    pub(super) fn object(&self) -> &ControllerRevision {
        &self.0
    }
}

/// The revisions of a round.
#[derive(Clone, Debug)]
pub(super) struct Revisions<'a> {
    /// The set's own, the oldest first.
    pub(super) known: Vec<&'a ControllerRevision>,
    /// The one that the spec asks for.
    pub(super) update: Revision<'a>,
    /// The one that the last finished rollout reached.
    pub(super) current: Revision<'a>,
    /// Times a name was already taken.
    pub(super) collisions: i32,
    /// What has to be written before anything is made from the update revision.
    pub(super) write: Option<(Action, OnFailure)>,
}

impl<'a> Revisions<'a> {
    /// Finds the revisions, or makes what is missing. Fails when the template cannot be kept.
    pub(super) fn of(observed: &'a Observed, owner: &Owner, uid: &Uid) -> Result<Self, String> {
        let set = &*observed.set;
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let all = observed.revisions.iter().map(|revision| &**revision);
        let known = revision::belonging(all, &set.spec.selector, uid);
        let candidate = Candidate::of(&Workload {
            owner,
            namespace,
            annotations: set.metadata.annotations.as_ref(),
            template: &set.spec.template,
            claims: Some(&set.spec.volume_claim_templates),
        });
        let mut collisions = collisions(set);
        let mut choice = revision::choose(&candidate, &known, collisions);
        // Each of them takes one name at most.
        for _ in &observed.revisions {
            let Choice::Create {
                name, collisions: used, ..
            } = &choice
            else {
                break;
            };
            let Some(namesake) = namesake(observed, name) else {
                break;
            };
            choice = match revision::name_taken(&candidate, namesake) {
                NameTaken::Use => Choice::Use(namesake),
                NameTaken::Collision => {
                    collisions = used.saturating_add(1);
                    revision::choose(&candidate, &known, collisions)
                }
            };
        }
        let (update, write) = match choice {
            Choice::Use(found) => (Revision(Cow::Borrowed(found)), None),
            Choice::Renumber { revision, patch } => {
                (Revision(Cow::Borrowed(revision)), Some(renumber(revision, patch)))
            }
            Choice::Create {
                name,
                collisions: used,
                object,
            } => {
                collisions = used;
                let read = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
                let target = Target::new(ObjectKind::ControllerRevision, namespace, &name);
                let write = (Action::create(target, object), OnFailure::Stop);
                (Revision(Cow::Owned(read)), Some(write))
            }
        };
        let current = current(set, &known).unwrap_or_else(|| update.clone());
        Ok(Self {
            known,
            update,
            current,
            collisions,
            write,
        })
    }

    /// Adds the write of the revision to a plan.
    pub(super) fn store(&self, plan: &mut Plan) {
        if let Some((action, on_failure)) = &self.write {
            let mut step = Step::new(Phase::Revisions, Pace::InOrder, *on_failure);
            step.push(Chain::of(action.clone().into()));
            plan.push(step);
        }
    }

    /// Both are the same: there is no rollout.
    pub(super) fn are_same(&self) -> bool {
        revision::is_same(self.update.name(), self.current.name())
    }

    /// The update revision is in the cluster.
    pub(super) fn is_stored(&self) -> bool {
        matches!(self.update.0, Cow::Borrowed(_))
    }

    /// Removes what is beyond the history limit. `in_use` are the revisions that Pods are at.
    pub(super) fn truncate<'p>(&self, in_use: impl Iterator<Item = &'p str>, limit: i32, plan: &mut Plan) {
        let mut live: BTreeSet<&str> = in_use.collect();
        live.extend([self.update.name(), self.current.name()]);
        let mut step = Step::new(Phase::Housekeeping, Pace::Bounded, OnFailure::GoOn);
        for revision in revision::superfluous(&self.known, live, limit) {
            step.push(Chain::of(
                Action::delete(ObjectKind::ControllerRevision, &revision.metadata).into(),
            ));
        }
        plan.push(step);
    }
}

fn collisions(set: &CloneSet) -> i32 {
    let status = set.status.as_ref();
    status.and_then(|status| status.collision_count).unwrap_or_default()
}

fn current<'a>(set: &CloneSet, known: &[&'a ControllerRevision]) -> Option<Revision<'a>> {
    let name = &set.status.as_ref()?.current_revision;
    let found = (!name.is_empty()).then(|| revision::find(known, name)).flatten()?;
    Some(Revision(Cow::Borrowed(found)))
}

/// The revision of this name, whoever owns it.
fn namesake<'a>(observed: &'a Observed, name: &str) -> Option<&'a ControllerRevision> {
    let mut all = observed.revisions.iter().map(|revision| &**revision);
    all.find(|revision| revision.name() == name)
}

fn renumber(revision: &ControllerRevision, mut patch: Value) -> (Action, OnFailure) {
    let preconditions = Preconditions::taken_from(&mut patch, &revision.metadata);
    let action = Action::Patch {
        object: Target::of(ObjectKind::ControllerRevision, &revision.metadata),
        part: Part::Object,
        patch: Patch::Merge(patch),
        preconditions,
    };
    (action, OnFailure::Skip)
}

#[cfg(test)]
mod tests;
