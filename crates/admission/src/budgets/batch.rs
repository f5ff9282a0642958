//! All who ask about one budget at the same time are answered together.
//!
//! Each question is decided on what the ones before it leave, as if each had its own write; then one write brings all places. If that fails, it fails for
//! everybody whose answer rests on it.

use super::{Grant, Slot};
use jiff::Timestamp;
use kruise_api::{gates::Gates, pod::Pod, podunavailablebudget::v1beta1::PodUnavailableBudget};
use kruise_core::podunavailablebudget::ledger::{self, Answer, Asked, Operation};
use kruise_runtime::error::{Class, Error};
use serde_json::{Value, json};
use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{Mutex as Turn, oneshot};

/// A question about a Pod.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) pod: Arc<Pod>,
    pub(super) operation: Operation,
    /// When it came in.
    pub(super) asked: Instant,
    /// What is known of the budget may be older by this.
    pub(super) fresh: Duration,
    /// Its place could not be written before.
    pub(super) is_again: bool,
    pub(super) is_dry_run: bool,
}

/// What came of one attempt.
pub(super) enum Tried {
    Granted(Grant),
    Conflict(Error),
}

/// Somebody who waits for an answer.
pub(super) struct Waiting {
    pub(super) question: Question,
    asker: oneshot::Sender<Result<Tried, Error>>,
}

impl Waiting {
    pub(super) fn answer(self, grant: Grant) {
        self.send(Ok(Tried::Granted(grant)));
    }

    pub(super) fn fail(self, error: &Error) {
        self.send(Err(error.clone()));
    }

    fn send(self, answer: Result<Tried, Error>) {
        // Who asked may have gone away.
        let _ = self.asker.send(answer);
    }
}

/// Those who ask about one budget.
#[derive(Default)]
pub(super) struct Line {
    /// Whoever has it answers all who wait.
    pub(super) turn: Turn<Slot>,
    waiting: Mutex<Vec<Waiting>>,
}

impl Line {
    /// Waits for an answer.
    pub(super) fn join(&self, question: Question) -> oneshot::Receiver<Result<Tried, Error>> {
        let (asker, answer) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(Waiting { question, asker });
        answer
    }

    /// All who wait now.
    pub(super) fn take(&self) -> Vec<Waiting> {
        mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The answers to some questions, and what has to be written for them.
pub(super) struct Batch {
    answers: Vec<Answer>,
    /// The budget with all their places.
    after: PodUnavailableBudget,
    patch: Value,
    /// The first that takes a place: what is answered from there on rests on the write.
    first_place: Option<usize>,
}

impl Batch {
    /// Decides one question after the other.
    pub(super) fn of(budget: &PodUnavailableBudget, waiting: &[Waiting], now: Timestamp, gates: Gates) -> Self {
        let mut batch = Self {
            answers: Vec::with_capacity(waiting.len()),
            after: budget.clone(),
            patch: json!({}),
            first_place: None,
        };
        for Waiting { question, .. } in waiting {
            let asked = Asked {
                operation: question.operation,
                now,
                gates,
            };
            let answer = ledger::answer(&batch.after, &question.pod, &asked);
            if let Answer::Take(place) = &answer
                && !question.is_dry_run
            {
                let status = batch.after.status.take().unwrap_or_default();
                batch.after.status = Some(place.written(status));
                add(&mut batch.patch, place.patch());
                batch.first_place.get_or_insert(batch.answers.len());
            }
            batch.answers.push(answer);
        }
        batch
    }

    /// The questions whose answers may be others than an old copy of the budget says.
    pub(super) fn doubtful<'w>(&self, waiting: &'w [Waiting]) -> impl Iterator<Item = &'w Question> {
        let answers = self.answers.iter().zip(waiting);
        let doubtful = answers.filter(|(answer, _)| matches!(answer, Answer::Free(_) | Answer::Refused(_)));
        doubtful.map(|(_, waiting)| &waiting.question)
    }

    /// The write that brings all places; nothing when none is taken.
    pub(super) fn patch(&self) -> Option<Value> {
        self.first_place.map(|_| self.patch.clone())
    }

    /// The budget as it is then.
    pub(super) fn budget(&self) -> &PodUnavailableBudget {
        &self.after
    }

    /// Answers everybody, after the write has gone through or failed.
    pub(super) fn answer(self, waiting: Vec<Waiting>, failed: Option<&Error>) {
        let first = self.first_place.unwrap_or(usize::MAX);
        for (number, (answer, waiting)) in self.answers.into_iter().zip(waiting).enumerate() {
            let failed = failed.filter(|_| number >= first);
            waiting.send(Ok(match (answer, failed) {
                (Answer::Free(_), _) | (Answer::Take(_), None) => Tried::Granted(Grant::Yes),
                (Answer::Granted, None) => Tried::Granted(Grant::Again),
                (Answer::Refused(reason), None) => Tried::Granted(Grant::No(reason)),
                (_, Some(error)) if error.class() == Class::Conflict => Tried::Conflict(error.clone()),
                // Whether it was written or not, the Pod stays. A place that nobody uses is forgotten after a while.
                (_, Some(error)) => Tried::Granted(Grant::No(error.to_string())),
            }));
        }
    }
}

/// Makes one merge patch of two; unlike in what they are for, `null` stays.
fn add(patch: &mut Value, more: Value) {
    match (patch, more) {
        (Value::Object(patch), Value::Object(more)) => {
            for (field, value) in more {
                add(patch.entry(field).or_insert_with(|| json!({})), value);
            }
        }
        (patch, more) => *patch = more,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_two_patches_then_both_are_in_one_and_what_is_taken_out_stays_so() {
        let mut patch = json!({});
        add(&mut patch, json!({"status": {"allowed": 2, "updated": {"a": "1"}}}));
        add(
            &mut patch,
            json!({"status": {"allowed": 1, "disrupted": {"a": "2"}, "updated": {"a": null}}}),
        );
        assert_eq!(
            patch,
            json!({"status": {"allowed": 1, "disrupted": {"a": "2"}, "updated": {"a": null}}})
        );
    }
}
