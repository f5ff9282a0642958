//! The revisions of a rollout: the one that the spec asks for, and the one that the last finished rollout reached.
//!
//! A template that is new gets a revision, stored before anything is made from it. A template that was there before
//! gets its old revision back. A revision of that name which is not the workload's own but says the same (of a workload that was
//! deleted and applied again) is used as it is, until the garbage collector has it and the workload makes its own. One that
//! says something else is a collision: it is counted, and the next name is tried.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_api::kind::Kind as _;
use kruise_api::meta::Uid;
use kruise_api::resource::Preconditions;
use kruise_api::revision::ControllerRevision;
use serde_json::Value;

use super::{Candidate, Choice, NameTaken, Workload};
use crate::plan::{Action, Chain, OnFailure, Pace, Patch, Phase, Plan, Step, Target};
use crate::shared::owner::{self, Owner};

/// A revision, stored already or not.
#[derive(Clone, Debug)]
pub struct Revision<'a>(Cow<'a, ControllerRevision>);

impl Revision<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The Pod template in it.
    pub fn template(&self) -> Value {
        super::template(&self.0.data.value()).unwrap_or_default()
    }

    /// As an object.
    pub fn object(&self) -> &ControllerRevision {
        &self.0
    }
}

/// What is there before the revisions of a rollout are found.
#[derive(Clone, Copy, Debug)]
pub struct History<'a, 's> {
    /// Revisions that the workload controls, those that nobody controls, and those named like its own.
    pub seen: &'a [Arc<ControllerRevision>],
    /// Which of them are the workload's.
    pub selector: &'s LabelSelector,
    /// The current revision, as the status names it; empty when it names none.
    pub current: &'s str,
    /// Times a name was already taken, as the status says it.
    pub collisions: i32,
}

/// The revisions of a rollout.
#[derive(Clone, Debug)]
pub struct Revisions<'a> {
    /// The workload's own, the oldest first.
    pub known: Vec<&'a ControllerRevision>,
    /// The one that the spec asks for.
    pub update: Revision<'a>,
    /// The one that the last finished rollout reached.
    pub current: Revision<'a>,
    /// Times a name was already taken.
    pub collisions: i32,
    seen: &'a [Arc<ControllerRevision>],
    /// What has to be written before anything is made from the update revision.
    write: Option<(Action, OnFailure)>,
}

impl<'a> Revisions<'a> {
    /// Finds the revisions, or makes what is missing. Fails when the template cannot be kept.
    pub fn of(workload: &Workload<'_>, history: &History<'a, '_>) -> Result<Self, String> {
        Self::with_candidate(&Candidate::of(workload), history)
    }

    /// The same, for a kind whose revisions have their hash in another label.
    pub fn hashed_in(
        hash_label: &'static str,
        workload: &Workload<'_>,
        history: &History<'a, '_>,
    ) -> Result<Self, String> {
        Self::with_candidate(&Candidate::of(workload).hashed_in(hash_label), history)
    }

    /// The same, for a kind that says itself what its revisions keep.
    pub fn with_candidate(candidate: &Candidate, history: &History<'a, '_>) -> Result<Self, String> {
        let seen = history.seen;
        let all = seen.iter().map(|revision| &**revision);
        let known = super::belonging(all, history.selector, &Uid::from(&*candidate.owner().uid));
        let mut collisions = history.collisions;
        let mut choice = super::choose(candidate, &known, collisions);
        // Each of them takes one name at most.
        for _ in seen {
            let Choice::Create {
                name, collisions: used, ..
            } = &choice
            else {
                break;
            };
            let Some(namesake) = namesake(seen, name) else {
                break;
            };
            choice = match super::name_taken(candidate, namesake) {
                NameTaken::Use => Choice::Use(namesake),
                NameTaken::Collision => {
                    collisions = used.saturating_add(1);
                    super::choose(candidate, &known, collisions)
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
                let target = Target::new(ControllerRevision::RESOURCE, candidate.namespace(), &name);
                let write = (Action::create(target, object), OnFailure::Stop);
                (Revision(Cow::Owned(read)), Some(write))
            }
        };
        let named = (!history.current.is_empty()).then(|| super::find(&known, history.current));
        let current = named.flatten().map(|found| Revision(Cow::Borrowed(found)));
        Ok(Self {
            current: current.unwrap_or_else(|| update.clone()),
            known,
            update,
            collisions,
            seen,
            write,
        })
    }

    /// Adds the write of the revision to a plan.
    pub fn store(&self, plan: &mut Plan) {
        if let Some((action, on_failure)) = &self.write {
            let mut step = Step::new(Phase::Revisions, Pace::InOrder, *on_failure);
            step.push(Chain::of(action.clone().into()));
            plan.push(step);
        }
    }

    /// Makes the workload the owner of revisions that nobody controls and that its selector chooses. For kinds that adopt; not while the workload is on
    /// its way out.
    pub fn adopt(&self, owner: &Owner, plan: &mut Plan) {
        let mut step = Step::new(Phase::Revisions, Pace::Bounded, OnFailure::Stop);
        for meta in self.known.iter().map(|revision| &revision.metadata) {
            if meta.controller().is_none() && !meta.is_deleting() {
                step.push(Chain::of(
                    owner::adopt(ControllerRevision::RESOURCE, meta, owner).into(),
                ));
            }
        }
        plan.push(step);
    }

    /// Both are the same: there is no rollout.
    pub fn are_same(&self) -> bool {
        super::is_same(self.update.name(), self.current.name())
    }

    /// The update revision is in the cluster.
    pub fn is_stored(&self) -> bool {
        matches!(self.update.0, Cow::Borrowed(_))
    }

    /// Returns the revision that a Pod says it is at: one of the workload's own, or one of the same name that is used as long as it is there.
    pub fn at(&self, name: &str) -> Option<&'a ControllerRevision> {
        if name.is_empty() {
            return None;
        }
        super::find(&self.known, name).or_else(|| namesake(self.seen, name))
    }

    /// Removes what is beyond the history limit. `in_use` are the revisions that Pods are at.
    pub fn truncate<'p>(&self, in_use: impl Iterator<Item = &'p str>, limit: i32, plan: &mut Plan) {
        let mut live: BTreeSet<&str> = in_use.collect();
        live.extend([self.update.name(), self.current.name()]);
        let mut step = Step::new(Phase::Housekeeping, Pace::Bounded, OnFailure::GoOn);
        for revision in super::superfluous(&self.known, live, limit) {
            step.push(Chain::of(
                Action::delete(Target::of(revision), Preconditions::same(revision)).into(),
            ));
        }
        plan.push(step);
    }
}

/// The revision of this name, whoever owns it.
fn namesake<'a>(seen: &'a [Arc<ControllerRevision>], name: &str) -> Option<&'a ControllerRevision> {
    let mut all = seen.iter().map(|revision| &**revision);
    all.find(|revision| revision.name() == name)
}

fn renumber(revision: &ControllerRevision, patch: Value) -> (Action, OnFailure) {
    let action = Action::Patch {
        object: Target::of(revision),
        subresource: None,
        patch: Patch::Merge(patch),
        preconditions: Preconditions::unchanged(revision),
    };
    (action, OnFailure::Skip)
}
