//! Doing what a plan says, and nothing else.
//!
//! Every write goes through the writer of the controller; what it did is remembered in its [`Expectations`], so that the next
//! decision waits until the cache shows it. That holds as well for a write of which nobody knows whether it happened: its answer
//! was lost, or the whole application was cut off before it came. What failed comes back as the [`Outcome`], which the next plan
//! reads. Events are recorded after what they are about was written, and only then.

mod secret;
mod views;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kruise_api::resource::Resource;
use kruise_core::plan::{self, Action, Chain, Failure, FailureClass, OnFailure, Outcome, Pace, Phase, Plan, Step};
use kruise_runtime::controller;
use kruise_runtime::error::{Class, Error};
use kruise_runtime::events::Regarding;
use kruise_runtime::expectations::Expectations;
use kruise_runtime::resource::ObjectKey;
use kruise_runtime::writer::{DeleteOptions, Patch, Target, slow_start};
use parking_lot::Mutex;

use crate::platform::ControllerContext;
use views::View;
pub(crate) use views::Views;

/// Chains of one step under way at the same time. The writer has a limit of its own that follows what the server can take.
const AT_ONCE: usize = 256;

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
        let mut progress = Progress::default();
        execution.run(plan, &mut progress).await;
        if let Some(fallback) = &plan.fallback
            && !progress.stopped
            && !progress.has_done(fallback.phase, fallback.resource)
        {
            execution.run(&fallback.plan, &mut progress).await;
        }
        let mut is_noted = true;
        if let Some(status) = &plan.status
            && let Err(error) = execution.write(status).await
        {
            is_noted = false;
            progress.failed.push(Failed {
                phase: Phase::Housekeeping,
                object: status.object().clone(),
                error,
            });
        }
        let Progress {
            failed,
            events,
            wake_after,
            ..
        } = progress;
        // What could not be noted is seen again by the next plan, which records it then.
        for event in events.into_iter().filter(|_| is_noted) {
            execution.record_event(event, None);
        }
        let outcome = Outcome {
            failures: failed.iter().map(Failed::describe).collect(),
            ..Outcome::default()
        };
        let errors = failed.into_iter().map(|failed| failed.error);
        let result = controller::Outcome::after(errors, wake_after);
        Applied {
            outcome,
            result,
            unwatched: execution.unwatched.into_inner(),
        }
    }
}

/// How far a plan has come.
#[derive(Default)]
struct Progress<'p> {
    failed: Vec<Failed>,
    /// Events that depend on no write.
    events: Vec<&'p plan::Event>,
    /// What was written, or may have been.
    done: Vec<(Phase, &'static Resource)>,
    /// No further step is begun.
    stopped: bool,
    wake_after: Option<Duration>,
}

impl Progress<'_> {
    fn has_done(&self, phase: Phase, resource: &'static Resource) -> bool {
        self.done.contains(&(phase, resource))
    }

    fn wake(&mut self, after: Option<Duration>) {
        self.wake_after = self.wake_after.into_iter().chain(after).min();
    }

    /// Takes in what became of a step.
    fn take(&mut self, step: &Step, ended: Vec<Ended>) {
        for Ended { done, failed } in ended {
            for resource in done {
                if !self.has_done(step.phase, resource) {
                    self.done.push((step.phase, resource));
                }
            }
            self.stopped |= failed.is_some() && step.on_failure == OnFailure::Stop;
            self.failed.extend(failed);
        }
    }
}

/// What became of a chain.
#[derive(Default)]
struct Ended {
    /// Kinds of objects that were written, or may have been.
    done: Vec<&'static Resource>,
    failed: Option<Failed>,
}

impl Ended {
    /// No further chain of the step is begun.
    fn ends(&self, step: &Step) -> bool {
        let failed = self.failed.as_ref();
        failed.is_some_and(|failed| step.on_failure.ends_step(class(&failed.error)))
    }

    /// What was refused here would be refused for the others as well.
    fn ends_slow_start(&self) -> bool {
        let failed = self.failed.as_ref();
        failed.is_some_and(|failed| !class(&failed.error).is_passing())
    }
}

/// A write that failed.
struct Failed {
    phase: Phase,
    object: plan::Target,
    error: Error,
}

impl Failed {
    fn describe(&self) -> Failure {
        Failure {
            phase: self.phase,
            object: self.object.clone(),
            class: class(&self.error),
            message: self.error.to_string(),
        }
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

/// A deletion of what is gone already: all is as it was wanted, but it was not us, so nothing is recorded.
fn found_nothing(action: &Action, error: &Error) -> bool {
    matches!(action, Action::Delete { .. } | Action::Evict { .. }) && error.class() == Class::Gone
}

/// The application of one plan.
struct Execution<'a> {
    applier: &'a Applier,
    key: &'a ObjectKey,
    regarding: &'a Regarding,
    unwatched: Mutex<Vec<(plan::Target, String)>>,
}

impl Execution<'_> {
    async fn run<'p>(&self, plan: &'p Plan, progress: &mut Progress<'p>) {
        progress.events.extend(&plan.events);
        progress.wake(plan.wake_after);
        for step in &plan.actions {
            progress.take(step, self.step(step).await);
            if progress.stopped {
                break;
            }
        }
    }

    async fn step(&self, step: &Step) -> Vec<Ended> {
        match step.pace {
            Pace::InOrder => {
                let mut all = Vec::new();
                for chain in &step.chains {
                    let ended = self.chain(step.phase, chain).await;
                    let stop = ended.ends(step);
                    all.push(ended);
                    if stop {
                        break;
                    }
                }
                all
            }
            Pace::Bounded => {
                let stopped = AtomicBool::new(false);
                let chains: Vec<_> = step
                    .chains
                    .iter()
                    .map(|chain| self.unless(&stopped, step, chain))
                    .collect();
                stream::iter(chains).buffer_unordered(AT_ONCE).collect().await
            }
            Pace::SlowStart => {
                let chains = step.chains.iter().map(|chain| async {
                    let ended = self.chain(step.phase, chain).await;
                    if ended.ends_slow_start() { Err(ended) } else { Ok(ended) }
                });
                let tried = slow_start(chains.collect(), |chain| chain).await.tried;
                let ended = tried.into_iter().map(|chain| chain.unwrap_or_else(|failed| failed));
                ended.collect()
            }
        }
    }

    /// One of several chains that are under way at the same time; not begun once another has ended the step.
    async fn unless(&self, stopped: &AtomicBool, step: &Step, chain: &Chain) -> Ended {
        if stopped.load(Ordering::Relaxed) {
            return Ended::default();
        }
        let ended = self.chain(step.phase, chain).await;
        if ended.ends(step) {
            stopped.store(true, Ordering::Relaxed);
        }
        ended
    }

    async fn chain(&self, phase: Phase, chain: &Chain) -> Ended {
        let mut ended = Ended::default();
        for write in &chain.writes {
            let object = write.action.object();
            match self.write(&write.action).await {
                Ok(()) => {
                    ended.done.push(object.resource);
                    for event in &write.succeeded {
                        self.record_event(event, None);
                    }
                }
                Err(error) if found_nothing(&write.action, &error) => {}
                Err(error) => {
                    if error.may_have_applied() {
                        ended.done.push(object.resource);
                    }
                    if let Some(event) = &write.failed
                        && !class(&error).is_silent()
                    {
                        self.record_event(event, Some(&error));
                    }
                    ended.failed = Some(Failed {
                        phase,
                        object: object.clone(),
                        error,
                    });
                    break;
                }
            }
        }
        ended
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
                let options = DeleteOptions {
                    preconditions: preconditions.clone(),
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
