//! Doing what a plan says, and nothing else.
//!
//! [`Progress`] says what may be sent when, and what an answer means for the rest; the writes are made here. Each goes through the writer of the
//! controller; what it did is remembered in its [`Expectations`], so that the next decision waits until the cache shows it. That holds as well for a write
//! of which nobody knows whether it happened: its answer was lost, or the whole application was cut off before it came. What failed comes back as the
//! [`Outcome`], which the next plan reads. Before a Pod is disturbed its budget is asked; a refusal concerns that Pod alone. Events are recorded after what they are about was written, and only then.

mod replace;
mod secret;
mod views;

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kruise_admission::budgets::Grant;
use kruise_core::plan::{
    self, Action, Disruption, FailureClass, Finished, Meaning, Outcome, Plan, Progress, Question, Turn, WriteError,
};
use kruise_core::podunavailablebudget::ledger::Operation;
use kruise_runtime::controller;
use kruise_runtime::error::{Class, Error};
use kruise_runtime::events::Regarding;
use kruise_runtime::expectations::Expectations;
use kruise_runtime::resource::ObjectKey;
use kruise_runtime::writer::{DeleteOptions, Patch, Target};
use parking_lot::Mutex;
use tracing::debug;

use crate::platform::ControllerContext;
use views::View;
pub(crate) use views::Views;

/// Applies the plans of one controller.
pub(crate) struct Applier {
    context: Arc<ControllerContext>,
    views: Views,
}

/// What came of applying a plan.
pub(crate) struct Applied {
    /// For the next plan.
    pub(crate) outcome: Outcome,
    /// For the queue: when to look again, and what went wrong.
    pub(crate) result: controller::Outcome,
    /// The objects that were made of kinds that nobody watches, with their UIDs: whoever needs to know of them has to remember them.
    pub(crate) unwatched: Vec<(plan::Target, String)>,
}

impl Applier {
    /// Writes of a kind are waited for until its view shows them.
    pub(crate) fn new(context: Arc<ControllerContext>, views: Views) -> Self {
        Self { context, views }
    }

    /// Applies a plan on behalf of `key`; events are recorded about `regarding`.
    pub(crate) async fn apply(&self, key: &ObjectKey, regarding: &Regarding, plan: &Plan) -> Applied {
        let execution = Execution {
            applier: self,
            key,
            regarding,
            unwatched: Mutex::default(),
        };
        let mut progress = Progress::of(plan);
        let mut under_way = FuturesUnordered::new();
        let mut errors = Vec::new();
        loop {
            while let Some(turn) = progress.next_turn() {
                under_way.push(execution.send(turn));
            }
            let Some((turn, answer)) = under_way.next().await else {
                break;
            };
            let Some(answer) = answer else {
                progress.refused(&turn);
                continue;
            };
            let meaning = progress.answered(turn, answer.as_ref().copied().map_err(describe));
            execution.record_events(&meaning, answer.as_ref().err());
            errors.extend(answer.err().filter(|_| matches!(meaning, Meaning::Failed(_))));
        }
        drop(under_way);
        let Finished {
            outcome,
            events,
            wake_after,
        } = progress.finish();
        for event in events {
            execution.record_event(event, None);
        }
        Applied {
            outcome,
            result: controller::Outcome::after(errors, wake_after),
            unwatched: execution.unwatched.into_inner(),
        }
    }
}

/// An error as far as a plan has to know it.
fn describe(error: &Error) -> WriteError {
    WriteError {
        class: class(error),
        message: error.to_string(),
        may_have_applied: error.may_have_applied(),
    }
}

fn class(error: &Error) -> FailureClass {
    match error.class() {
        Class::Conflict if error.is_already_exists() => FailureClass::Exists,
        Class::Conflict => FailureClass::Conflict,
        Class::Transient => FailureClass::Transient,
        Class::Denied => FailureClass::Denied,
        Class::Permanent => FailureClass::Permanent,
        Class::Gone => FailureClass::Gone,
    }
}

/// The application of one plan.
struct Execution<'a> {
    applier: &'a Applier,
    key: &'a ObjectKey,
    regarding: &'a Regarding,
    unwatched: Mutex<Vec<(plan::Target, String)>>,
}

impl Execution<'_> {
    /// Sends a write, and returns the answer; none when the budget of the Pod that it disturbs refuses.
    async fn send<'p>(&self, turn: Turn<'p>) -> (Turn<'p>, Option<Result<(), Error>>) {
        let answer = match self.ask(&turn).await {
            Ok(Grant::Yes | Grant::Again) => Some(self.write(turn.action).await),
            Ok(Grant::No(reason)) => {
                debug!(
                    pod = turn.question().map(|question| question.pod),
                    "not granted: {reason}"
                );
                None
            }
            Err(error) => Some(Err(error)),
        };
        (turn, answer)
    }

    /// Asks the budget of the Pod that a write disturbs.
    async fn ask(&self, turn: &Turn<'_>) -> Result<Grant, Error> {
        let Some(Question { pod, disruption }) = turn.question() else {
            return Ok(Grant::Yes);
        };
        let operation = match disruption {
            Disruption::Delete => Operation::Delete,
            Disruption::Evict => Operation::Evict,
            Disruption::Update => Operation::Update,
        };
        let namespace = &turn.action.object().namespace;
        let budgets = self.applier.context.budgets();
        budgets.ask_for(namespace, pod, operation).await
    }

    async fn write(&self, action: &Action) -> Result<(), Error> {
        let writer = self.applier.context.writer();
        let object = action.object();
        let target = Target::new(object.resource, &object.namespace, &object.name);
        match action {
            Action::Create { body, .. } => {
                let unanswered = Unanswered::new(|| {
                    self.expect(object, |expectations, view, key| {
                        expectations.maybe_created(self.key, view, key);
                    });
                });
                let created = writer.create(target.resource, target.namespace, body.text()).await;
                unanswered.answered();
                self.expect(object, |expectations, view, key| match &created {
                    Ok(written) => expectations.created(self.key, view, &object.namespace, written),
                    Err(error) if error.may_have_applied() || error.is_already_exists() => {
                        expectations.maybe_created(self.key, view, key);
                    }
                    Err(_) => {}
                });
                let created = created?;
                if self.applier.views.of(object.resource).is_none() {
                    self.unwatched.lock().push((object.clone(), created.uid));
                }
                Ok(())
            }
            Action::Patch {
                subresource,
                patch,
                preconditions,
                ..
            } => {
                let target = target.part(*subresource);
                let patch = match patch.clone() {
                    plan::Patch::Merge(document) => Patch::Merge(document),
                    plan::Patch::Strategic(document) => Patch::Strategic(document),
                };
                let written = writer.patch(&target, patch, preconditions).await?;
                self.expect(object, |expectations, view, _| {
                    expectations.changed(self.key, view, &object.namespace, &written);
                });
                Ok(())
            }
            Action::Replace {
                body, preconditions, ..
            } => {
                let written = replace::replace(&self.applier.context, object, body, preconditions).await?;
                self.expect(object, |expectations, view, _| {
                    expectations.changed(self.key, view, &object.namespace, &written);
                });
                Ok(())
            }
            Action::CopySecret {
                from,
                annotations,
                preconditions,
                ..
            } => {
                let copy = secret::Copy {
                    object,
                    from: from.as_ref(),
                    annotations,
                    preconditions: preconditions.as_ref(),
                };
                if let Some(written) = copy.write(&self.applier.context).await? {
                    self.expect(object, |expectations, view, _| {
                        expectations.changed(self.key, view, &object.namespace, &written);
                    });
                }
                Ok(())
            }
            Action::Delete { preconditions, .. } | Action::Evict { preconditions, .. } => {
                // What belongs to the object follows. It is the default, but for Jobs of Kubernetes.
                let options = DeleteOptions {
                    preconditions: preconditions.clone(),
                    propagation: Some("Background"),
                    ..DeleteOptions::default()
                };
                let uid = preconditions.uid.as_deref().unwrap_or_default();
                let unanswered = Unanswered::new(|| {
                    self.expect(object, |expectations, view, key| {
                        expectations.maybe_deleted(self.key, view, key, uid);
                    });
                });
                let deleted = if matches!(action, Action::Evict { .. }) {
                    writer.evict(&target, &options).await
                } else {
                    writer.delete(&target, &options).await
                };
                unanswered.answered();
                self.expect(object, |expectations, view, key| match &deleted {
                    Ok(_) => expectations.deleted(self.key, view, key, uid),
                    Err(error) if error.may_have_applied() => expectations.maybe_deleted(self.key, view, key, uid),
                    Err(_) => {}
                });
                deleted.map(drop)
            }
        }
    }

    fn expect(&self, object: &plan::Target, remember: impl FnOnce(&Expectations, &View, &ObjectKey)) {
        if let Some(view) = self.applier.views.of(object.resource) {
            let key = ObjectKey::new(&object.namespace, &object.name);
            remember(self.applier.context.expectations(), view, &key);
        }
    }

    /// Records what is to be told of a write.
    fn record_events(&self, meaning: &Meaning<'_>, error: Option<&Error>) {
        let events = match meaning {
            Meaning::Done(events) => *events,
            Meaning::Failed(event) => event.map_or(&[][..], std::slice::from_ref),
            Meaning::FoundNothing => &[],
        };
        for event in events {
            self.record_event(event, error);
        }
    }

    fn record_event(&self, event: &plan::Event, error: Option<&Error>) {
        let message = match error {
            Some(error) => format!("{}: {error}", event.message),
            None => event.message.clone(),
        };
        let other = event.about.as_ref().map(|about| Regarding {
            api_version: about.api_version.clone(),
            kind: about.kind.clone(),
            namespace: about.namespace.clone(),
            name: about.name.clone(),
            uid: about.uid.clone(),
            resource_version: String::new(),
            field_path: String::new(),
        });
        let regarding = other.as_ref().unwrap_or(self.regarding);
        self.applier
            .context
            .recorder()
            .record(regarding, event.event_type, event.reason, message);
    }
}

/// A write that is on its way. If it is dropped before the answer is there, because the application was cut off, the write is remembered as one that may
/// have happened.
struct Unanswered<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Unanswered<F> {
    fn new(remember: F) -> Self {
        Self(Some(remember))
    }

    fn answered(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for Unanswered<F> {
    fn drop(&mut self) {
        if let Some(remember) = self.0.take() {
            remember();
        }
    }
}

#[cfg(test)]
mod tests;
