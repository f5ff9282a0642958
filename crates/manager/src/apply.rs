//! Doing what a plan says, and nothing else.
//!
//! [`Progress`] says what may be sent when, and what an answer means for the rest; the writes are made here. Each goes through the writer of the
//! controller; what it did is remembered in its expectations, so that the next decision waits until the cache shows it. That holds as well for a write
//! of which nobody knows whether it happened: its answer was lost, or the whole application was cut off before it came. What failed comes back as the
//! [`Outcome`], which the next plan reads. Before a Pod is disturbed its budget is asked; a refusal concerns that Pod alone. Events are recorded after what
//! they are about was written, and only then.

mod replace;
mod secret;
mod views;
mod write;

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kruise_admission::budgets::Grant;
use kruise_core::plan::{
    self, Disruption, FailureClass, Finished, Meaning, Outcome, Plan, Progress, Question, Turn, WriteError,
};
use kruise_core::podunavailablebudget::ledger::Operation;
use kruise_runtime::controller;
use kruise_runtime::error::{Class, Error};
use kruise_runtime::events::Regarding;
use kruise_runtime::resource::ObjectKey;
use parking_lot::Mutex;
use tracing::debug;

use crate::platform::ControllerContext;
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

    /// Records the events of a write.
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

#[cfg(test)]
mod tests;
