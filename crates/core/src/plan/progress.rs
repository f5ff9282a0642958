//! Going through a plan: which writes may be sent now, and what their answers mean for the rest.
//!
//! Whoever applies a plan, the manager or the model cluster of tests, asks for [turns](Progress::next_turn) until there are none, sends what they say, and
//! reports each [answer](Progress::answered):
//!
//! 1. Steps are done one after the other. Of a step as many chains are under way at the same time as its [`Pace`] allows; of a chain one write.
//! 2. A failure ends its chain. Whether further chains are begun is said by [`OnFailure`]; for a slow start, it is the first failure that another look at the
//!    cluster does not mend which ends the step. What is under way is waited for.
//! 3. An object that is gone need not be deleted: that is no failure, and as it was not us, nobody is told.
//! 4. After the steps comes the [`Fallback`](super::Fallback), when its phase wrote nothing, and may not have written anything, and no step has ended the plan.
//! 5. What disturbs a Pod has to be granted by its budget first. A refusal ends its chain and no other, is no failure, and is asked again after a second. In a step of
//!    which only so many chains may be begun, the next one takes its place.
//! 6. "Look again at once" is for the rest of what was begun. When nothing was written, another look would show the same: it comes after a second.
//! 7. The status is written last, whatever happened. Events of the plan itself are held back when it could not be written: the next plan sees the same again.

use std::iter::Enumerate;
use std::slice::Iter;
use std::time::Duration;

use kruise_api::resource::Resource;

use kruise_api::kind::Kind as _;
use kruise_api::pod::Pod;

use super::{Action, Chain, Event, Failure, FailureClass, Guard, OnFailure, Outcome, Pace, Phase, Plan, Step, Write};

/// Chains of one step under way at the same time. The writer has a limit of its own that follows what the server can take.
const AT_ONCE: usize = 256;
/// Chains of a step whose writes are large, as many as keep a server busy.
const FEW: usize = 64;
/// When a budget that refused is asked again, and a plan that got nothing done is made anew.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How far a plan has come.
#[derive(Debug)]
pub struct Progress<'p> {
    plan: &'p Plan,
    steps: Iter<'p, Step>,
    running: Option<Running<'p>>,
    is_fallback_due: bool,
    is_status_due: bool,
    /// No further step is begun.
    is_stopped: bool,
    /// What was written, or may have been.
    done: Vec<(Phase, &'static Resource)>,
    finished: Finished<'p>,
}

/// What came of a plan.
#[derive(Debug, Default)]
pub struct Finished<'p> {
    /// For the next plan.
    pub outcome: Outcome,
    /// Events that depend on no write.
    pub events: Vec<&'p Event>,
    /// Look again after this time, even if nothing changes.
    pub wake_after: Option<Duration>,
}

/// A write that may be sent now; its answer is owed.
#[derive(Debug)]
#[must_use]
pub struct Turn<'p> {
    /// What is written.
    pub action: &'p Action,
    /// Where in its step; nothing for the status.
    at: Option<InChain<'p>>,
}

/// What the budget of a Pod has to be asked before a write is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'p> {
    /// The name of the Pod, which is in the namespace of what is planned.
    pub pod: &'p str,
    pub disruption: Disruption,
}

/// What is to be done to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    Delete,
    Evict,
    Update,
}

impl<'p> Turn<'p> {
    /// Returns what has to be granted before this is sent.
    pub fn question(&self) -> Option<Question<'p>> {
        let at = self.at.as_ref()?;
        let object = self.action.object();
        let disruption = match self.action {
            Action::Delete { .. } if object.resource == Pod::RESOURCE => Disruption::Delete,
            Action::Evict { .. } => Disruption::Evict,
            _ => {
                let Guard::Budget { pod } = at.guard?;
                let disruption = Disruption::Update;
                return Some(Question { pod, disruption });
            }
        };
        Some(Question {
            pod: &object.name,
            disruption,
        })
    }
}

/// Where in its step a write is.
#[derive(Debug)]
struct InChain<'p> {
    chain: usize,
    /// What the chain needs, before its first write.
    guard: Option<&'p Guard>,
    write: &'p Write,
    /// The writes of the chain behind it.
    rest: &'p [Write],
}

/// How a write failed.
#[derive(Clone, Debug)]
pub struct WriteError {
    /// What kind of failure.
    pub class: FailureClass,
    /// The server's message.
    pub message: String,
    /// The write may have happened all the same, as when its answer was lost.
    pub may_have_applied: bool,
}

/// What an answer means.
#[derive(Debug, PartialEq)]
pub enum Meaning<'p> {
    /// The write is done, and these events are recorded.
    Done(&'p [Event]),
    /// What should be deleted was gone already.
    FoundNothing,
    /// The write failed, and this event is recorded, with the server's message.
    Failed(Option<&'p Event>),
}

impl<'p> Progress<'p> {
    /// The beginning of a plan.
    pub fn of(plan: &'p Plan) -> Self {
        let mut progress = Self {
            plan,
            steps: [].iter(),
            running: None,
            is_fallback_due: plan.fallback.is_some(),
            is_status_due: plan.status.is_some(),
            is_stopped: false,
            done: Vec::new(),
            finished: Finished::default(),
        };
        progress.begin(plan);
        progress
    }

    /// Returns a write that may be sent now. Without one, an answer has to come first; when none is owed, the plan has ended.
    pub fn next_turn(&mut self) -> Option<Turn<'p>> {
        loop {
            if let Some(running) = &mut self.running {
                if let Some(turn) = running.next_turn() {
                    return Some(turn);
                }
                if running.under_way > 0 {
                    return None;
                }
                self.end_step();
            } else if let Some(step) = self.steps.next().filter(|_| !self.is_stopped) {
                self.running = Some(Running::of(step));
            } else if let Some(fallback) = self.take_fallback() {
                self.begin(fallback);
            } else {
                let mut is_due = std::mem::take(&mut self.is_status_due);
                is_due &= !self.plan.status_if_all_done || self.finished.outcome.failures.is_empty();
                let action = self.plan.status.as_ref().filter(|_| is_due)?;
                return Some(Turn { action, at: None });
            }
        }
    }

    /// Takes in the answer to a write.
    pub fn answered(&mut self, turn: Turn<'p>, answer: Result<(), WriteError>) -> Meaning<'p> {
        let Turn { action, at } = turn;
        let Some(InChain { chain, write, rest, .. }) = at else {
            return self.status_answered(action, answer);
        };
        let Some(running) = &mut self.running else {
            // Turns come from the step that is running, and it runs until all of them are answered.
            return Meaning::FoundNothing;
        };
        let phase = running.step.phase;
        match answer {
            Ok(()) => {
                running.go_on(chain, rest);
                self.wrote(phase, action);
                Meaning::Done(&write.succeeded)
            }
            Err(error) if is_deletion(action) && error.class == FailureClass::Gone => {
                running.go_on(chain, rest);
                Meaning::FoundNothing
            }
            Err(error) => {
                let event = write.failed.as_ref().filter(|_| !error.class.is_silent());
                let may_have_applied = error.may_have_applied;
                running.fail(chain, failure(phase, action, error));
                if may_have_applied {
                    self.wrote(phase, action);
                }
                Meaning::Failed(event)
            }
        }
    }

    /// Takes in that a write was not granted: its chain ends, and nothing was sent.
    pub fn refused(&mut self, turn: &Turn<'p>) {
        let (Some(question), Some(running)) = (turn.question(), &mut self.running) else {
            return;
        };
        running.begun -= 1;
        running.end_chain();
        self.finished.outcome.refused.push(question.pod.to_owned());
        self.finished.wake_after = self.finished.wake_after.into_iter().chain([ASK_AGAIN]).min();
    }

    /// Returns what came of the plan.
    pub fn finish(mut self) -> Finished<'p> {
        let at_once = &mut self.finished.wake_after;
        if self.done.is_empty() && at_once.is_some_and(|after| after.is_zero()) {
            *at_once = Some(ASK_AGAIN);
        }
        self.finished
    }

    /// Goes through the steps of the plan, or of what is done instead.
    fn begin(&mut self, plan: &'p Plan) {
        self.steps = plan.actions.iter();
        self.finished.events.extend(&plan.events);
        self.finished.wake_after = self.finished.wake_after.into_iter().chain(plan.wake_after).min();
    }

    fn take_fallback(&mut self) -> Option<&'p Plan> {
        let is_due = std::mem::take(&mut self.is_fallback_due);
        let fallback = self.plan.fallback.as_ref().filter(|_| is_due && !self.is_stopped)?;
        let has_done = self.done.contains(&(fallback.phase, fallback.resource));
        (!has_done).then_some(&*fallback.plan)
    }

    fn end_step(&mut self) {
        let Some(Running { step, failures, .. }) = self.running.take() else {
            return;
        };
        self.is_stopped |= !failures.is_empty() && step.on_failure == OnFailure::Stop;
        let failures = failures.into_iter().map(|(_, failure)| failure);
        self.finished.outcome.failures.extend(failures);
    }

    fn wrote(&mut self, phase: Phase, action: &Action) {
        let done = (phase, action.object().resource);
        if !self.done.contains(&done) {
            self.done.push(done);
        }
    }

    fn status_answered(&mut self, action: &Action, answer: Result<(), WriteError>) -> Meaning<'p> {
        let Err(error) = answer else {
            return Meaning::Done(&[]);
        };
        let failed = failure(Phase::Housekeeping, action, error);
        self.finished.outcome.failures.push(failed);
        self.finished.events.clear();
        Meaning::Failed(None)
    }
}

/// A step that is under way.
#[derive(Debug)]
struct Running<'p> {
    step: &'p Step,
    /// Chains that are not begun.
    chains: Enumerate<Iter<'p, Chain>>,
    /// Chains that are begun, and whose next write may be sent.
    ready: Vec<(usize, Option<&'p Guard>, &'p [Write])>,
    /// Chains that are begun and have not ended.
    under_way: usize,
    /// Chains that were begun, without those that a budget refused.
    begun: usize,
    /// So many may be under way.
    allowed: usize,
    /// What failed, with the number of its chain, in the order of the plan.
    failures: Vec<(usize, Failure)>,
}

impl<'p> Running<'p> {
    fn of(step: &'p Step) -> Self {
        Self {
            step,
            chains: step.chains.iter().enumerate(),
            ready: Vec::new(),
            under_way: 0,
            begun: 0,
            allowed: match step.pace {
                Pace::InOrder | Pace::SlowStart => 1,
                Pace::Bounded => AT_ONCE,
                Pace::Few => FEW,
            },
            failures: Vec::new(),
        }
    }

    fn next_turn(&mut self) -> Option<Turn<'p>> {
        loop {
            let (chain, guard, writes) = match self.ready.pop() {
                Some(ready) => ready,
                None if self.under_way < self.allowed && self.step.most.is_none_or(|most| self.begun < most) => {
                    let (number, chain) = self.chains.next()?;
                    self.under_way += 1;
                    self.begun += 1;
                    (number, chain.guard.as_ref(), &*chain.writes)
                }
                None => return None,
            };
            if let Some((write, rest)) = writes.split_first() {
                let at = Some(InChain {
                    chain,
                    guard,
                    write,
                    rest,
                });
                let action = &write.action;
                return Some(Turn { action, at });
            }
            self.end_chain();
        }
    }

    /// A write is done: the next one of its chain may go.
    fn go_on(&mut self, chain: usize, rest: &'p [Write]) {
        if rest.is_empty() {
            self.end_chain();
        } else {
            self.ready.push((chain, None, rest));
        }
    }

    fn end_chain(&mut self) {
        self.under_way -= 1;
        // One more may be under way for each that went well: one, two, four, … in the time of one, two, three.
        if self.step.pace == Pace::SlowStart && self.allowed > 0 {
            self.allowed += 1;
        }
    }

    fn fail(&mut self, chain: usize, failure: Failure) {
        let ends_step = match self.step.pace {
            // What was refused here would be refused for the others as well.
            Pace::SlowStart => !failure.class.is_passing(),
            Pace::InOrder | Pace::Bounded | Pace::Few => self.step.on_failure.ends_step(failure.class),
        };
        if ends_step {
            self.allowed = 0;
        }
        self.end_chain();
        let before = self.failures.partition_point(|(number, _)| *number < chain);
        self.failures.insert(before, (chain, failure));
    }
}

fn failure(phase: Phase, action: &Action, error: WriteError) -> Failure {
    Failure {
        phase,
        object: action.object().clone(),
        class: error.class,
        message: error.message,
    }
}

fn is_deletion(action: &Action) -> bool {
    matches!(action, Action::Delete { .. } | Action::Evict { .. })
}

#[cfg(test)]
mod tests;
